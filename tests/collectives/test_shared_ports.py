"""What a card's lines do to each other: fair shares of the ports, as far as one card knows."""

from __future__ import annotations

import pytest

from collectives.arrival import Arrival
from collectives.job_network import JobNetwork
from collectives.roce.group import Group
from collectives.roce.network import Network
from collectives.timing import Line, SharedPorts
from device.spec import load_card

NETWORK = Network.of_environment(load_card("gaudi2"), 8)


@pytest.fixture(autouse=True)
def _a_byte_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "seconds", lambda model, pattern, nbytes: float(nbytes))


def lines(*labels: str, ranks: tuple[int, ...] = (0, 1)) -> list[Line]:
    job = JobNetwork(NETWORK, {rank: rank for rank in range(8)})
    return [job.line(label, ranks, 0) for label in labels]


def issue(ports: SharedPorts, line: Line, number: int, moment: float, seconds: int) -> float:
    """Seconds by which it becomes longer."""
    return ports.issue(line, number, "all_reduce", seconds, moment).backlog


class TestSharing:
    def test_two_at_once_take_as_long_as_both(self) -> None:
        ports, (one, two) = SharedPorts(), lines("a", "b")
        assert issue(ports, one, 1, 0.0, 10) == 0.0
        assert issue(ports, two, 1, 0.0, 10) == 10.0

    def test_a_long_one_gives_way_to_a_short_one_and_no_more(self) -> None:
        ports, (one, two) = SharedPorts(), lines("a", "b")
        issue(ports, one, 1, 0.0, 100)
        assert issue(ports, two, 1, 0.0, 10) == 10.0

    def test_a_queue_is_one_sharer(self) -> None:
        """Ten transfers behind each other send one at a time: who comes beside them gets half of the ports."""
        ports, (queue, other) = SharedPorts(), lines("a", "b")
        for number in range(10):
            assert issue(ports, queue, number, 0.0, 10) == 0.0
        assert issue(ports, other, 1, 0.0, 10) == 10.0
        ports.settle(other, 1)
        assert issue(ports, other, 2, 20.0, 15) == 15.0

    def test_each_line_is_a_sharer(self) -> None:
        ports = SharedPorts()
        for others, line in enumerate(lines("a", "b", "c", "d")):
            assert issue(ports, line, 1, 0.0, 10) == others * 10.0

    def test_what_begins_after_its_end_does_not_count(self) -> None:
        ports, (later, now) = SharedPorts(), lines("a", "b")
        issue(ports, later, 1, 100.0, 10)
        assert issue(ports, now, 1, 0.0, 10) == 0.0
        ports.settle(now, 1)
        assert issue(ports, now, 2, 95.0, 10) == 5.0  # five seconds of it are left then

    def test_what_ends_before_it_begins_does_not_count(self) -> None:
        ports, (one, two) = SharedPorts(), lines("a", "b")
        issue(ports, one, 1, 0.0, 10)
        assert issue(ports, two, 1, 10.0, 10) == 0.0

    def test_what_is_accounted_or_over_does_not_count(self) -> None:
        ports, (one, two, three) = SharedPorts(), lines("a", "b", "c")
        issue(ports, one, 1, 0.0, 10)
        issue(ports, two, 1, 0.0, 10)
        assert ports.settle(one, 1) and not ports.settle(one, 1)
        ports.drop(two)
        assert issue(ports, three, 1, 0.0, 10) == 0.0

    def test_messages_on_other_cables_share_nothing(self) -> None:
        ports = SharedPorts()
        (one,), (two,) = lines("a", ranks=(0, 1)), lines("a", ranks=(0, 2))
        issue(ports, one, 1, 0.0, 10)
        assert issue(ports, two, 1, 0.0, 10) == 0.0


def test_memory_is_used_for_as_many_bytes_however_long_it_takes() -> None:
    alone, shared = lines("a", "b")
    rates = []
    for line, backlog in ((alone, 0.0), (shared, 30.0)):
        transfer = line.finish("all_reduce", "all_reduce", 10, [Arrival(0.0), Arrival(0.0, backlog)], 0)
        assert transfer is not None
        assert transfer.seconds == 10.0 + backlog
        rates.append(transfer.hbm_bytes_per_s)
    assert rates[1] == rates[0] / 4 > 0


def test_ranks_that_stand_elsewhere_are_another_job() -> None:
    job = JobNetwork(NETWORK, {0: 2, 1: 5, 2: None})
    assert job.knows({0: 2}) and job.knows({2: None, 1: 5})
    assert not job.knows({0: 3}) and not job.knows({3: 2}) and not job.knows({2: 1})
