"""Ranks in two network namespaces, joined by a cable: to each other they are on two machines."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectives.transport import addresses
from collectives.transport.keys import KeyPair
from device import interop
from hpucluster.placement import free_port

from ..missing import not_here
from .hccl_ranks import HOST, ROOT, reduce_until_killed, run_ranks
from .network_namespaces import Namespaces, enter, reason_to_skip, two_namespaces
from .test_hccl_wire import is_refused, membership

EXAMPLE = f"{ROOT}/examples/mnist.py"


@pytest.fixture(scope="module")
def namespaces() -> Iterator[Namespaces]:
    reason = reason_to_skip()
    if reason is not None:
        not_here(reason)
    with two_namespaces() as found:
        yield found


def meet(rank: int, size: int, names: tuple[str, str], store: str) -> None:
    """The first half of the ranks is in one namespace, the second in the other."""
    enter(names[2 * rank // size])
    dist.init_process_group(HOST, init_method=f"file://{store}", rank=rank, world_size=size)


def talks(rank: int, size: int, names: tuple[str, str], store: str) -> tuple[list[str], bool]:
    meet(rank, size, names, store)
    total = torch.arange(700_000.0) + rank
    dist.all_reduce(total)
    assert torch.equal(total, torch.arange(700_000.0) * size + size * (size - 1) / 2)
    message = torch.full((400_000,), float(rank))
    dist.send(message, 3) if rank == 0 else dist.recv(message, 0) if rank == 3 else None
    assert message[9] == (0 if rank == 3 else rank)
    endpoints = [peer.wire.endpoint for peer in membership().peers if peer.wire is not None]
    refused = True
    if rank == 3:
        victim = membership().peers[0].wire
        assert victim is not None
        for keys in (None, KeyPair.make()):
            refused = refused and is_refused(victim.endpoint, keys, victim.key.encode(), [b"\x00{}"])
    dist.barrier()
    return endpoints, refused


def test_ranks_in_two_namespaces_talk_and_refuse_a_client_without_keys(namespaces: Namespaces, tmp_path: Path) -> None:
    here, there = namespaces.addresses
    outcomes = run_ranks(
        4, talks, namespaces.names, f"{tmp_path}/store", backend="", MASTER_ADDR=here, MASTER_PORT="29500"
    )
    endpoints, _ = outcomes[0].value
    hosts = [endpoint.removeprefix("tcp://").partition(":")[0] for endpoint in endpoints]
    assert hosts == [here, here, there, there]
    assert all(outcome.value == (endpoints, True) for outcome in outcomes)


def reduces(rank: int, size: int, names: tuple[str, str], store: str) -> None:
    meet(rank, size, names, store)
    reduce_until_killed(1_000_000)


def kill_one(processes: list[Any]) -> None:
    os.kill(processes[0].pid, signal.SIGKILL)


def test_a_rank_that_is_killed_is_named_in_both_namespaces(namespaces: Namespaces, tmp_path: Path) -> None:
    outcomes = run_ranks(
        4,
        reduces,
        namespaces.names,
        f"{tmp_path}/store",
        backend="",
        may_fail=True,
        on_begun=kill_one,
        limit=20,
        MASTER_ADDR=namespaces.addresses[0],
    )
    for outcome in outcomes[1:]:
        assert outcome.error == "PeerLost" and "rank 0 (process" in outcome.text, outcome


def test_a_machine_that_vanishes_is_noticed_in_seconds(tmp_path: Path) -> None:
    if (reason := reason_to_skip()) is not None:
        not_here(reason)
    with two_namespaces() as found:

        def unplug(processes: list[Any]) -> None:
            found.unplug()

        outcomes = run_ranks(
            4,
            reduces,
            found.names,
            f"{tmp_path}/store",
            backend="",
            may_fail=True,
            on_begun=unplug,
            limit=40,
            MASTER_ADDR=found.addresses[0],
        )
    for rank, outcome in enumerate(outcomes):
        away = "rank [23]" if rank < 2 else "rank [01]"
        assert outcome.error == "PeerLost", outcome
        assert re.search(rf"{away} \(process \d+ on \S+\) has died or cannot be reached any more", outcome.text)
        assert outcome.seconds < 20  # the time-out; on an idle machine, six


REPORTED = ("time", "collectives", "engines")
ARGUMENTS = [EXAMPLE, "--hpu", "--train-samples", "1024", "--batch-size", "32"]
WITH_FIGURES = f"""
import json, os, runpy, sys
import torch
from device import interop

folder, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
report = interop.runtime.card().report()
with open(f"{{folder}}/{{os.environ['RANK']}}.json", "w") as file:
    json.dump({{key: report[key] for key in {REPORTED}}}, file)
"""


def checksums(output: str) -> list[str]:
    """Those of the parameters, by rank."""
    assert "Loss" in output
    return re.findall(r"parameters of rank \d: (\w{16})", output)


def example(rank: int, size: int, port: str) -> tuple[str, str]:
    """The example on one machine; what it prints, and its modelled figures as JSON."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR=addresses.LOOPBACK, MASTER_PORT=port)
    sys.argv = list(ARGUMENTS)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(EXAMPLE, run_name="__main__")
    report = interop.runtime.card().report()
    return output.getvalue(), json.dumps({key: report[key] for key in REPORTED})


@pytest.mark.slow
def test_the_example_trains_on_two_machines_as_on_one(namespaces: Namespaces, tmp_path: Path) -> None:
    outcomes = run_ranks(8, example, str(free_port()), backend="", limit=200)
    output, figures = "".join(outcome.value[0] for outcome in outcomes), [outcome.value[1] for outcome in outcomes]

    script = tmp_path / "with_figures.py"
    script.write_text(WITH_FIGURES)
    rendezvous = ("--nnodes", "2", "--master-addr", namespaces.addresses[0], "--master-port", "29577")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", *rendezvous]
    machines = [
        subprocess.Popen(
            [*namespaces.command(node), *torchrun, "--node-rank", str(node), str(script), str(tmp_path), *ARGUMENTS],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": ROOT},
        )
        for node in range(2)
    ]
    output_of_two = "".join(machine.communicate(timeout=200)[0] for machine in machines)
    assert all(machine.returncode == 0 for machine in machines), output_of_two
    assert len(checksums(output)) == len(checksums(output_of_two)) == 8
    assert len(set(checksums(output) + checksums(output_of_two))) == 1
    assert figures == [(tmp_path / f"{rank}.json").read_text() for rank in range(8)]
    assert json.loads(figures[0])["collectives"]["count"] > 0
