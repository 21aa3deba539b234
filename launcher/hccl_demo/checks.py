"""Whether a request can be run, before anything starts. Each failure is a UserError."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from device.errors import ConfigurationError
from device.modules import visible_modules

from ..free_memory import available_memory
from ..messages import UserError
from ..ports import holder
from .catalogue import SCALE_VALIDATION, SEND_RECV, TESTS
from .settings import Settings
from .sizes import parse_size

WORKING_SHARE = 2.3
"""Memory that a checked test was seen to take at most, over what its tensors hold."""


@dataclass(frozen=True)
class Request:
    """The command line, option by option; None and empty where one was not given."""

    clean: bool
    list_tests: bool
    timeout: int
    doc: bool
    nranks: int | None
    ranks_per_node: int | None
    scaleup_group_size: int | None
    node_id: int | None
    mpi: bool
    test: str
    measure: str
    size: str
    size_range: tuple[str, str] | None
    size_range_inc: int
    loop: int
    test_root: int
    ranks_list: str
    data_type: str
    custom_comm: str
    same_buffers: bool
    no_correctness: bool
    reduction_op: str
    scaleout_bw: str
    result_csv: str
    ignore_mpi_errors: bool
    no_color: bool
    data_csv: str
    model: bool
    card: str
    fabric: str
    algorithm: str
    links: str
    mpi_arguments: tuple[str, ...] = ()


def settings_of(request: Request, environ: Mapping[str, str], box_cards: int) -> Settings:
    """What the ranks are told. Under MPI the number of ranks is known to mpirun only; what needs it is checked again
    by the ranks.
    """
    low, high = _sizes(request)
    nranks, per_node = _ranks(request, environ, box_cards)
    settings = Settings(
        test=request.test,
        measure=request.measure,
        data_type=request.data_type,
        size_min=low,
        size_max=high,
        size_inc=request.size_range_inc,
        loop=request.loop,
        root=request.test_root,
        reduction_op=request.reduction_op,
        ranks_list=_pairs(request.ranks_list),
        custom_comm=tuple(sorted(set(_numbers("--custom_comm", request.custom_comm)))),
        same_buffers=request.same_buffers,
        check_correctness=not request.no_correctness,
        scaleout_bw=_size("--scaleout_bw", request.scaleout_bw, 1000) if request.scaleout_bw else 0,
        result_csv=os.path.abspath(request.result_csv) if request.result_csv else "",
        data_csv=os.path.abspath(request.data_csv) if request.data_csv else "",
        mpi=request.mpi,
        nranks=nranks,
        ranks_per_node=per_node,
        scaleup_group_size=request.scaleup_group_size or per_node,
    )
    _check_files(request)
    if not request.mpi:
        check_members(settings)
    return settings


def check_members(settings: Settings) -> None:
    """What depends on the number of ranks."""
    last = settings.nranks - 1
    named: dict[str, Sequence[int]] = {
        "--test_root": [settings.root],
        "--custom_comm": settings.custom_comm,
        "--ranks_list": [rank for pair in settings.ranks_list for rank in pair],
    }
    for option, listed in named.items():
        for rank in listed:
            if not 0 <= rank <= last:
                raise UserError(f"{option}: there is no rank {rank}; ranks go from 0 to {last}")
    ranks = len(settings.members)
    if ranks < 2:
        what = f"--custom_comm {settings.members[0]}" if settings.custom_comm else f"--nranks {settings.nranks}"
        raise UserError(f"{what}: one rank has nobody to talk to; use two or more")
    if settings.custom_comm and settings.test in (SEND_RECV, SCALE_VALIDATION):
        raise UserError(f"--custom_comm: not for --test {settings.test}; use a collective, or leave it out")
    if settings.ranks_list and settings.test != SEND_RECV:
        raise UserError(f"--ranks_list: only for --test {SEND_RECV}, not for {settings.test}")
    if not 1 <= settings.scaleup_group_size <= settings.ranks_per_node:
        raise UserError(f"--scaleup_group_size {settings.scaleup_group_size}: use 1 to {settings.ranks_per_node}")
    if settings.test == SCALE_VALIDATION and settings.nranks > settings.ranks_per_node and not settings.scaleout_bw:
        raise UserError("--test scale_validation over several nodes needs --scaleout_bw, such as 37.5G")
    smallest = settings.item_bytes * (ranks if TESTS[settings.test].has_blocks else 1)
    if settings.size_min < smallest:
        raise UserError(
            f"{settings.size_min} bytes are less than --test {settings.test} needs: {smallest}, an element"
            f"{f' for each of {ranks} ranks' if smallest > settings.item_bytes else ''}"
        )


def check_node(request: Request, settings: Settings, address: str | None) -> int:
    """Which node this is, where ranks are started without MPI; whether they can meet at HCCL_COMM_ID."""
    nodes = -(-settings.nranks // settings.ranks_per_node)
    node = request.node_id
    if node is None:
        if nodes > 1:
            raise UserError(
                f"--node_id is missing: {settings.nranks} ranks at {settings.ranks_per_node} per node are {nodes}"
                f" nodes; say which one this is, 0 to {nodes - 1}"
            )
        node = 0
    if not 0 <= node < nodes:
        raise UserError(f"--node_id {node}: {settings.nranks} ranks need {nodes} nodes, 0 to {nodes - 1}")
    if address is None:
        if nodes > 1:
            raise UserError(
                "HCCL_COMM_ID is not set, so the nodes cannot meet; set it on all of them to the address of node 0"
                " and a free port there: HCCL_COMM_ID=10.0.0.1:5555"
            )
        return node
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"HCCL_COMM_ID={address}: is not <IP:PORT>; for example 127.0.0.1:5555")
    if node == 0:
        _check_port(address, host, int(port))
    return node


def check_memory(settings: Settings, ranks: int) -> None:
    """Whether this machine can hold what `ranks` ranks of it check. Without checks tensors take no memory."""
    if not settings.check_correctness or settings.test == SCALE_VALIDATION:
        return
    test, elements = TESTS[settings.test], settings.size_max // settings.item_bytes
    members = len(settings.members)
    held = test.output_elements(elements, members)
    if not test.is_in_place:
        held += test.input_elements(elements, members)
    needed = int(held * settings.item_bytes * ranks * WORKING_SHARE)
    available = available_memory()
    if available is not None and needed > available:
        raise UserError(
            f"{settings.size_max} bytes: to check the results of {ranks} ranks takes about {needed / 2**30:.0f} GiB of"
            f" this machine's memory, and {available / 2**30:.0f} GiB are free; use a smaller size or fewer ranks, or"
            " --no_correctness, with which figures are the same"
        )


def _check_port(address: str, host: str, port: int) -> None:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        who = holder(port)
        reason = f"in use by {who}" if who else error.strerror or str(error)
        raise UserError(
            f"HCCL_COMM_ID={address}: node 0 cannot listen there: {reason}; use an address of this machine and a free"
            " port"
        ) from error


def _sizes(request: Request) -> tuple[int, int]:
    if request.size_range is None:
        size = _size("--size", request.size)
        return size, size
    low, high = (_size("--size_range", text) for text in request.size_range)
    if low > high:
        raise UserError(f"--size_range {' '.join(request.size_range)}: the first size must not be more than the second")
    return low, high


def _size(option: str, text: str, kilo: int = 1024) -> int:
    try:
        return parse_size(text, kilo)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def _ranks(request: Request, environ: Mapping[str, str], box_cards: int) -> tuple[int, int]:
    """(ranks, ranks per node)."""
    if request.mpi and request.model:
        raise UserError("--model: starts no ranks; leave -mpi out, and say how many to think of: --nranks 512")
    if request.mpi:
        given = {"--nranks": request.nranks, "--ranks_per_node": request.ranks_per_node, "--node_id": request.node_id}
        for option, value in given.items():
            if value is not None:
                raise UserError(f"{option}: not with -mpi, which has the ranks counted and placed by mpirun: -np 8")
        return 0, box_cards
    if request.nranks is None:
        raise UserError("--nranks is missing: how many ranks are to take part? For example --nranks 8")
    if request.nranks < 1:
        raise UserError(f"--nranks {request.nranks}: use two or more")
    per_node = request.ranks_per_node
    if per_node is None:
        try:
            per_node = box_cards if request.model else min(box_cards, len(visible_modules(environ)))
        except ConfigurationError as error:
            raise UserError(str(error)) from error
    if per_node == 0:
        raise UserError("no card is visible (HABANA_VISIBLE_DEVICES=none); name one, or use 'all'")
    if not 1 <= per_node <= box_cards:
        raise UserError(f"--ranks_per_node {per_node}: a box has {box_cards} cards; use 1 to {box_cards}")
    return request.nranks, per_node


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise UserError(f"{option} {text}: is not a list of ranks; for example 0,1,8,9") from error


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    ranks = _numbers("--ranks_list", text)
    if len(ranks) % 2:
        raise UserError(f"--ranks_list {text}: has no receiver for its last sender; give pairs: 0,8,1,8")
    pairs = tuple(zip(ranks[::2], ranks[1::2], strict=True))
    for sender, receiver in pairs:
        if sender == receiver:
            raise UserError(f"--ranks_list {text}: rank {sender} cannot send to itself; give pairs of different ranks")
    return pairs


def _check_files(request: Request) -> None:
    if request.result_csv:
        path = Path(request.result_csv).absolute()
        if path.is_dir():
            raise UserError(f"--result_csv {request.result_csv}: is a directory; give the name of a file in it")
        _check_folder("--result_csv", request.result_csv, path.parent)
        if path.exists() and not os.access(path, os.W_OK):
            raise UserError(f"--result_csv {request.result_csv}: is not writable; choose another file")
    if request.data_csv:
        _check_folder("--data_csv", request.data_csv, Path(request.data_csv).absolute())
        if request.no_correctness:
            raise UserError("--data_csv: with --no_correctness there is no data; leave one of them out")


def _check_folder(option: str, given: str, folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(f"{option} {given}: there is no folder {folder}; create it first (mkdir -p {folder})")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{option} {given}: {folder} is not writable; choose another folder")
