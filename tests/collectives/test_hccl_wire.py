"""The wire between machines: who is let in, what becomes of the dead, and how much memory a slow receiver costs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import zmq
from zmq.utils.monitor import recv_monitor_message

import collectives
from collectives.process_group import HcclProcessGroup
from collectives.spanning import crossing
from collectives.spanning.layout import Layout
from collectives.transport import addresses, machine, wire
from collectives.transport.control import control_plane
from collectives.transport.keys import REFUSALS, KeyPair
from collectives.transport.lanes import DATA, PIECE_BYTES, WINDOW, Lanes
from collectives.transport.membership import Membership
from device.errors import ConfigurationError

from .hccl_ranks import HOST, reduce_until_killed, run_ranks
from .test_hccl_errors import dies, message, mismatches, one_is_missing, tell_told, wait_until_told


def membership() -> Membership:
    group: Any = dist.group.WORLD
    assert isinstance(group, HcclProcessGroup)
    return group.communicator.membership


class Warnings(logging.Handler):
    """Warnings of the wire."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("collectives").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


# -- strangers -----------------------------------------------------------------------------------------------


def is_refused(endpoint: str, keys: KeyPair | None, server: bytes, parts: Sequence[bytes]) -> bool:
    """Connect and send; was the handshake refused, or at least never completed?"""
    context = zmq.Context()
    pushing = context.socket(zmq.PUSH)
    if keys is not None:
        keys.approach(pushing, server)
    pushing.setsockopt(zmq.RECONNECT_IVL, -1)
    monitor = pushing.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | REFUSALS)
    pushing.connect(endpoint)
    with contextlib.suppress(zmq.Again):  # refused already
        pushing.send_multipart(parts, zmq.NOBLOCK)
    assert monitor.poll(20_000)
    event = recv_monitor_message(monitor)["event"]
    context.destroy(linger=100)
    return event != zmq.EVENT_HANDSHAKE_SUCCEEDED


def strangers(rank: int, size: int) -> tuple[list[bool], list[str]]:
    warnings = Warnings()
    members = membership()
    victim = members.peers[1].wire
    assert victim is not None
    key = victim.key.encode()
    farewell = wire.control_message({"token": members.token, "from": 0, "kind": "failed", "text": "a lie"})
    dist.barrier()
    refused = []
    if rank == 0:
        refused.append(is_refused(victim.endpoint, None, b"", farewell))
        refused.append(is_refused(victim.endpoint, KeyPair.make(), key, farewell))
        refused.append(is_refused(victim.endpoint, KeyPair.make(), KeyPair.make().public, farewell))
        with socket.create_connection((addresses.LOOPBACK, int(victim.endpoint.rpartition(":")[2]))) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            plain.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                while plain.recv(1000):
                    pass
    total = torch.ones(50_000)
    dist.all_reduce(total)
    assert (total == size).all()
    dist.barrier()
    return refused, warnings.texts


def test_strangers_are_refused_and_named_once() -> None:
    outcomes = run_ranks(2, strangers, machines="ab")
    assert outcomes[0].value == ([True, True, True], [])
    (text,) = outcomes[1].value[1]
    assert text.startswith("a connection was refused, ") and "127.0.0.1" in text


def forgeries(rank: int, size: int) -> list[str]:
    warnings = Warnings()
    members = membership()
    token = bytes.fromhex(members.token)
    dist.barrier()
    if rank == 2:
        link = control_plane()._attach(members, 0)
        segment = {"token": members.token, "from": 2, "kind": "segment", "label": "x", "path": "/etc/passwd"}
        for parts in (
            wire.control_message({"token": members.token, "from": 1, "kind": "failed", "text": "in another's name"}),
            wire.control_message(segment),
            wire.piece(token, 1, DATA, 0, b"in another's name"),
            wire.piece(token, 2, DATA, 7, b"out of order"),
            wire.piece(token, 2, 99, 0, b"no such lane"),
            wire.credit(token, 2, DATA, 1000),
            wire.piece(bytes(16), 2, DATA, 0, b"no such group"),
            [b"\x00{nonsense"],
            [b"\x01short", b"x"],
            [b""],
            [b"\x80\x04pickle", b"."],
        ):
            assert link.send(parts)
    dist.barrier()
    total = torch.ones(50_000)
    dist.all_reduce(total)
    assert (total == size).all()
    return warnings.texts


def test_what_no_rank_would_say_is_dropped() -> None:
    texts = run_ranks(3, forgeries, machines="aab")[0].value
    assert len(texts) == 10 and all("malformed message from the network was dropped" in text for text in texts)


# -- deaths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ("killed", "exited", "left", "raised"))
def test_a_rank_that_is_gone_is_named_on_both_machines(action: str) -> None:
    words = {"left": "rank 1 has left the group: destroy_process_group", "raised": "its process is ending"}
    outcomes = run_ranks(4, dies, action, machines="aabb", timeout=60, may_fail=True)
    for rank in (0, 2, 3):
        text = outcomes[rank].value[0]
        assert "rank 1 " in text and words.get(action, "has died") in text, (rank, text)
        assert outcomes[rank].seconds < 10


def reduces_until_killed(rank: int, size: int) -> None:
    reduce_until_killed(1_000_000)


def kill_one(processes: list[Any]) -> None:
    os.kill(processes[2].pid, signal.SIGKILL)


@pytest.mark.parametrize("machines", ("aabb", "abca"))
def test_a_rank_is_killed_in_the_middle_of_an_all_reduce(machines: str) -> None:
    outcomes = run_ranks(4, reduces_until_killed, machines=machines, on_begun=kill_one, may_fail=True, limit=20)
    for rank in (0, 1, 3):
        assert outcomes[rank].error == "PeerLost" and "rank 2 (process" in outcomes[rank].text, outcomes[rank]


# -- mismatches and delays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("machines", ("abb", "aba"))
def test_ranks_that_disagree_are_named_on_both_machines(machines: str) -> None:
    here, there = run_ranks(3, mismatches), run_ranks(3, mismatches, machines=machines)
    assert [outcome.value for outcome in here] == [outcome.value for outcome in there]


@pytest.mark.parametrize("machines", ("aab", "abb"))
def test_a_rank_that_never_joins_is_named_on_both_machines(machines: str) -> None:
    outcomes = run_ranks(3, one_is_missing, machines=machines, timeout=1)
    for rank in (0, 2):
        text = outcomes[rank].value
        assert "timed out after 1 s waiting for rank 1" in text
        assert "rank 1 last called all_reduce(SUM) #1 of float32[3]" in text


# -- back-pressure -------------------------------------------------------------------------------------------


def memory(name: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))


def slow_receiver(rank: int, size: int) -> int:
    receive, calls = crossing.Crossing.receive, []

    def dawdle(*arguments: Any) -> None:
        calls.append(time.sleep(0.5 if not calls else 0.01))
        receive(*arguments)

    crossing.Crossing.receive = dawdle  # type: ignore[method-assign]
    data = torch.full((64 << 20,), rank + 1, dtype=torch.uint8)
    small = torch.ones(300_000)
    dist.all_reduce(small)
    calls.clear()
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak counts from here on
    before = memory("VmRSS")
    dist.broadcast(data, 0)
    grown = memory("VmHWM") - before
    assert data.max() == 1
    return grown


def test_a_slow_receiver_costs_neither_end_more_than_the_window() -> None:
    for outcome in run_ranks(2, slow_receiver, machines="ab"):
        assert outcome.value < 24 << 20  # of 64 MiB; the window is 4


def test_credits() -> None:
    sent: list[tuple[int, int]] = []
    credits: list[int] = []
    lanes = Lanes(
        {1: b"key"},
        lambda place, lane, number, payload, copy: sent.append((lane, number)) is None,
        lambda place, lane, number: credits.append(number) is None,
    )
    # Sending stops at the window until the other end has taken some.
    lanes.post(1, DATA, [b"x"] * (WINDOW + 1))
    assert not lanes.is_sent(1, DATA) and sent == [(DATA, number) for number in range(WINDOW)]
    lanes.receive_credit(1, DATA, 2)
    assert lanes.is_sent(1, DATA) and sent[-1] == (DATA, WINDOW)
    for number in (1, WINDOW + 2):
        with pytest.raises(ValueError, match="says it has taken"):
            lanes.receive_credit(1, DATA, number)
    # Receiving: in order, within the window, from the right rank, of the length that was agreed.
    for number in range(WINDOW):
        lanes.receive(1, DATA, number, b"abc")
    for number, words in ((WINDOW + 1, "is next"), (WINDOW, "beyond the window")):
        with pytest.raises(ValueError, match=words):
            lanes.receive(1, DATA, number, b"abc")
    with pytest.raises(ValueError, match="came from somebody else"):
        lanes.check_sender(1, b"other")
    first = lanes.take(1, DATA, 3)
    assert first is not None and first.tobytes() == b"abc" and credits == []
    with pytest.raises(collectives.CollectiveError, match="3 bytes came from another machine where 4 were agreed"):
        lanes.take(1, DATA, 4)
    assert credits == [2]
    lanes.receive(1, DATA, WINDOW, b"abc")


def full_link(rank: int, size: int) -> list[str]:
    """A receiver that takes nothing: the sender waits, and is told when time is over."""
    lanes = membership().lanes
    assert lanes is not None
    dist.barrier()
    texts = []
    if rank == 0:
        lanes.post(1, DATA, [bytes(PIECE_BYTES)] * (WINDOW + 1))
        texts.append(message(lambda: dist.broadcast(torch.ones(100), 0)))
        tell_told(rank)
    else:
        wait_until_told(0)
    return texts


def test_a_sender_that_waits_for_room_is_told_for_whom() -> None:
    text = run_ranks(2, full_link, machines="ab", timeout=1)[0].value[0]
    assert "timed out after 1 s waiting for rank 1" in text


# -- addresses -----------------------------------------------------------------------------------------------


def test_which_address_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "HPUCLUSTER_WIRE_ADDRESS", "HPUCLUSTER_WIRE_INTERFACE", "HCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    assert addresses.choose_place(is_one_network=True) == addresses.Place("127.0.0.1", "127.0.0.1")
    monkeypatch.setenv("HCCL_SOCKET_IFNAME", "lo")
    assert addresses.choose_place(is_one_network=False) == addresses.Place("127.0.0.1", "127.0.0.1")
    monkeypatch.setenv("HPUCLUSTER_WIRE_INTERFACE", "nosuch")
    with pytest.raises(ConfigurationError, match="HPUCLUSTER_WIRE_INTERFACE='nosuch': no network interface"):
        addresses.choose_place(is_one_network=False)
    monkeypatch.setenv("HPUCLUSTER_WIRE_ADDRESS", "10.1.2.3")
    assert addresses.choose_place(is_one_network=False) == addresses.Place("10.1.2.3", "*")
    assert addresses.endpoint("::1", 5) == "tcp://[::1]:5" and addresses.endpoint("10.0.0.1", 5) == "tcp://10.0.0.1:5"


@pytest.mark.parametrize("text", ("0", "a-b", "5-4", "1-70000"))
def test_a_range_of_ports_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("HPUCLUSTER_WIRE_PORTS", text)
    with pytest.raises(ConfigurationError, match="is not a range of ports"):
        addresses.ports()


def port(rank: int, size: int) -> int:
    own = membership().peers[rank].wire
    assert own is not None
    return int(own.endpoint.rpartition(":")[2])


def test_ports_can_be_chosen_and_run_out() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        taken = probe.getsockname()[1]
        probe.listen()
        outcomes = run_ranks(2, port, machines="ab", may_fail=True, HPUCLUSTER_WIRE_PORTS=str(taken))
        assert all("cannot listen on 127.0.0.1 for ranks of other machines" in outcome.text for outcome in outcomes)
    low = 41000 + os.getpid() % 1000 * 20
    outcomes = run_ranks(3, port, machines="abc", HPUCLUSTER_WIRE_PORTS=f"{low}-{low + 19}")
    assert all(low <= outcome.value < low + 20 for outcome in outcomes)


def last_try(rank: int, size: int, store: str, taken: int) -> list[str]:
    os.environ["HPUCLUSTER_WIRE_PORTS"] = str(taken)
    failed = [message(lambda: control_plane().open_wire(is_one_network=True)) for _ in range(20)]
    del os.environ["HPUCLUSTER_WIRE_PORTS"]
    dist.init_process_group(HOST, init_method=f"file://{store}", rank=rank, world_size=size)
    dist.barrier()
    return failed


def test_a_process_that_could_not_listen_may_try_again(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        probe.listen()
        taken = probe.getsockname()[1]
        outcomes = run_ranks(2, last_try, f"{tmp_path}/store", taken, backend="", machines="ab")
    for outcome in outcomes:
        assert all("cannot listen on 127.0.0.1" in text for text in outcome.value)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this kernel has no IPv6")
def test_addresses_of_version_6() -> None:
    ports = [outcome.value for outcome in run_ranks(2, port, machines="ab", HPUCLUSTER_WIRE_ADDRESS="::1")]
    assert all(0 < found < 65536 for found in ports)


def joins(rank: int, size: int) -> None:
    """The error comes when the group is made."""


def test_an_address_that_is_none_is_named_by_all() -> None:
    for outcome in run_ranks(2, joins, machines="ab", may_fail=True, HPUCLUSTER_WIRE_ADDRESS="no.such.host.invalid"):
        assert "HPUCLUSTER_WIRE_ADDRESS='no.such.host.invalid' is no address" in outcome.text


def wrong_address(rank: int, size: int, store: str) -> None:
    if rank == 1:
        listening = socket.socket()  # something that is not a rank and answers nobody
        listening.bind((addresses.LOOPBACK, 0))
        wrong = addresses.endpoint(addresses.LOOPBACK, listening.getsockname()[1])
        control_plane().open_wire(is_one_network=True)
        plane: Any = control_plane()
        plane._wire.address = wire.WireAddress(wrong, plane._wire.address.key)
    dist.init_process_group(HOST, init_method=f"file://{store}", rank=rank, world_size=size)


def test_a_rank_that_cannot_be_reached_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    here, there = run_ranks(2, wrong_address, f"{tmp_path}/store", backend="", machines="ab", may_fail=True, timeout=5)
    assert "rank 1 (process" in here.text and "cannot be reached at tcp://127.0.0.1:" in here.text
    assert "firewall" in here.text and there.text == f"process group 0: rank 0: {here.text}"


# -- machines ------------------------------------------------------------------------------------------------


def test_a_machine_is_a_kernel_a_network_and_a_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HPUCLUSTER_MACHINE", raising=False)
    plain = machine.machine_id()
    assert plain.startswith(machine.network_id()) and plain == machine.machine_id()
    monkeypatch.setenv("HPUCLUSTER_MACHINE", "a")
    assert machine.machine_id() == plain + "a"


def test_a_layout() -> None:
    layout = Layout("baabac", own=4)
    assert layout.machines == [[0, 3], [1, 2, 4], [5]]
    assert (layout.machine, layout.index, layout.mates, layout.rails) == (1, 2, [1, 2, 4], 1)
    assert layout.far == [0, 3, 5] and layout.others == [0, 2]
    assert [layout.counterpart(other) for other in layout.others] == [0, 5]
    # Every rank of another machine is entrusted to exactly one here, which is its counterpart.
    for source in range(6):
        there = Layout("baabac", source)
        for other in there.others:
            takers = [
                place
                for place in there.machines[other]
                if source in Layout("baabac", place).entrusted(there.machine, there.machines[other].index(place))
            ]
            assert takers == [there.counterpart(other)]


def test_the_wire_speaks_json_and_bytes_only() -> None:
    (control,) = wire.control_message({"kind": "left"})
    assert control[0] == wire.CONTROL and json.loads(control[1:]) == {"kind": "left"}
