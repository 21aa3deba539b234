"""The card's memory as events come in: statistics, running out and going on, workspace, and defragmentation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from device.memory import INITIAL_WORKSPACE, RESERVED_BYTES, Hbm, PoolLimits, aligned
from device.memory.holding import Shortage
from device.spec import load_card

GAUDI2 = load_card("gaudi2")
MIB = 2**20
BASE = RESERVED_BYTES + INITIAL_WORKSPACE  # in use before the first tensor


def small(room: int, **options: bool) -> Hbm:
    """A card with `room` bytes for tensors beside the first workspace."""
    return Hbm(GAUDI2, PoolLimits(BASE + room, **options))


def made(*sizes: int, first: int = 0) -> list[tuple[int, int, int]]:
    """Events of a graph that makes tensors of these bytes, at addresses and slots from `first` on."""
    return [(number, size, number) for number, size in enumerate(sizes, first)]


def freed(*events: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    return [(address, -nbytes, -1) for address, nbytes, _ in events]


class TestStatistics:
    def test_a_new_process(self) -> None:
        assert Hbm(GAUDI2).statistics.as_dict() == {
            "Limit": GAUDI2.hbm.pool_bytes,
            "InUse": BASE,
            "MaxInUse": BASE,
            "NumAllocs": 1,  # the workspace
            "NumFrees": 0,
            "ActiveAllocs": 1,
            "MaxAllocSize": INITIAL_WORKSPACE,
            "TotalSystemAllocs": 2,  # and the region of small requests
            "TotalSystemFrees": 0,
            "TotalActiveAllocs": 2,
        }

    def test_small_requests_live_in_a_region_that_is_counted_already(self) -> None:
        memory = Hbm(GAUDI2)
        events = made(1, 128, 129)
        memory.apply(events)
        assert memory.in_use == BASE + 256
        assert memory.statistics.allocations == 4
        memory.apply(freed(*events))
        assert memory.in_use == BASE

    @given(st.lists(st.tuples(st.integers(1, 10**6), st.booleans()), max_size=40))
    def test_identities_hold_after_any_events(self, steps: list[tuple[int, bool]]) -> None:
        memory = Hbm(GAUDI2)
        live: list[tuple[int, int, int]] = []
        high = memory.in_use
        for number, (nbytes, drop) in enumerate(steps):
            if drop and live:
                memory.apply(freed(live.pop(0)))
            else:
                live.append((number, nbytes, 0))
                memory.apply(live[-1:])
            high = max(high, memory.in_use)
            stats = memory.statistics.as_dict()
            assert (stats["InUse"], stats["MaxInUse"]) == (memory.in_use, high)
            assert stats["ActiveAllocs"] == stats["NumAllocs"] - stats["NumFrees"] == 1 + len(live)
            assert stats["TotalActiveAllocs"] == 2 + len(live)
            assert memory.in_use + memory.free == memory.limit
            assert memory.in_use >= BASE + sum(aligned(event[1]) for event in live if event[1] > 128)
        memory.reset_peak()
        assert memory.peak == memory.in_use
        memory.apply(freed(*live))
        assert (memory.in_use, memory.free) == (BASE, memory.largest_free)

    def test_resets(self) -> None:
        memory = Hbm(GAUDI2)
        events = made(MIB, 2 * MIB)
        memory.apply(events)
        memory.apply(freed(events[1]))
        memory.reset_accumulated()
        stats = memory.statistics.as_dict()
        assert [stats[name] for name in ("NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize")] == [0, 0, 0, 0]
        assert stats["MaxInUse"] == stats["InUse"] == BASE + MIB
        assert (stats["TotalSystemAllocs"], stats["TotalSystemFrees"]) == (4, 1)
        memory.apply(made(512, first=5))
        assert memory.peak == BASE + MIB + 512

    def test_the_extended_form_keeps_workspace_apart(self) -> None:
        memory = small(16 * MIB)
        memory.reserve(made(MIB), 6 * MIB, "graph")
        memory.reserve([], 5 * MIB, "other")
        assert memory.statistics.extended(memory.largest_free) == {
            "limit": BASE + 16 * MIB,
            "in_use": BASE + 3 * MIB,
            "persistent": RESERVED_BYTES + MIB,
            "workspace": 6 * MIB,
            "last_workspace": 5 * MIB,
            "future": 0,
            "max_cntgs_chunk": 13 * MIB,
            "max_in_use": BASE + 3 * MIB,
            "num_allocs": 3,
            "num_free": 0,
            "max_alloc_size": INITIAL_WORKSPACE,
            "active_allocs": 3,
        }


class TestRunningOut:
    def test_what_was_asked_for_and_what_is_left(self) -> None:
        memory = small(8 * MIB)
        assert memory.reserve(made(3 * MIB), 0, "first") is None
        assert memory.reserve(made(6 * MIB, first=1), 0, "second") == Shortage(6 * MIB, 5 * MIB, 5 * MIB, memory.limit)
        assert memory.in_use == BASE + 3 * MIB

    def test_no_output_of_the_graph_keeps_memory_and_later_frees_do_no_harm(self) -> None:
        memory = small(8 * MIB)
        kept = made(MIB)
        memory.apply(kept)
        graph = made(2 * MIB, 6 * MIB, 100, first=1)
        assert memory.reserve(graph, 0, "graph") is not None
        assert (memory.in_use, memory.free) == (BASE + MIB, 7 * MIB)
        assert memory.reserve([], 0, "next") is None
        memory.apply(freed(*graph))
        assert (memory.in_use, memory.has_refused) == (BASE + MIB, False)
        assert memory.statistics.allocations - memory.statistics.frees == 2  # the workspace and `kept`
        assert memory.reserve(made(7 * MIB, first=9), 0, "half") is None

    def test_the_inputs_stay(self) -> None:
        memory = small(8 * MIB)
        assert memory.reserve([(1, 5 * MIB, -1), (2, 4 * MIB, 0)], 0, "graph") is not None
        assert memory.in_use == BASE + 5 * MIB

    def test_statistics_may_be_asked_before_the_card_tells(self) -> None:
        memory = small(MIB)
        memory.apply([(1, 2 * MIB, -1)])
        assert memory.in_use == BASE
        assert memory.reserve([]) == Shortage(2 * MIB, MIB, MIB, memory.limit)
        assert memory.reserve([]) is None

    def test_a_graph_that_does_not_run_holds_nothing(self) -> None:
        memory = Hbm(GAUDI2)
        old = made(MIB)
        memory.apply(old)
        graph = made(2 * MIB, first=1)
        memory.abandon([*freed(*old), *graph])
        assert memory.in_use == BASE
        memory.apply(freed(*graph))
        assert (memory.in_use, memory.has_refused) == (BASE, False)

    def test_a_tensor_that_did_not_fit_is_used_again(self) -> None:
        memory = small(8 * MIB)
        large = made(7 * MIB)
        memory.apply(large)
        assert memory.reserve(made(2 * MIB, first=1), 0, "graph") is not None
        assert memory.reserve(memory.readmit([1], []), 0, "still") is not None
        events = [(9, MIB, 0), *freed(*large)]
        assert memory.reserve(memory.readmit([1, 5], events), 0, "now") is None
        assert (memory.in_use, memory.has_refused) == (BASE + 3 * MIB, False)


class TestWorkspace:
    def test_it_grows_to_the_largest_need_and_stays(self) -> None:
        memory = Hbm(GAUDI2)
        memory.reserve([], 10 * MIB + 1, "large")
        assert memory.workspace == 10 * MIB + 128
        memory.reserve([], 1, "small")
        assert memory.workspace == 10 * MIB + 128
        assert memory.in_use == RESERVED_BYTES + memory.workspace

    def test_it_cannot_grow(self) -> None:
        memory = small(8 * MIB)
        memory.apply(made(6 * MIB))
        shortage = memory.reserve(made(MIB, first=1), 7 * MIB, "graph")
        assert shortage == Shortage(7 * MIB, 2 * MIB, 2 * MIB, memory.limit, workspace=INITIAL_WORKSPACE)
        assert (memory.workspace, memory.in_use) == (INITIAL_WORKSPACE, BASE + 6 * MIB)

    def test_it_shrinks_to_what_the_graph_needs_where_tensors_do_not_fit(self) -> None:
        memory = small(8 * MIB)
        memory.reserve([], INITIAL_WORKSPACE + 6 * MIB, "large")
        assert memory.reserve(made(5 * MIB), 5 * MIB, "graph") is None
        assert memory.workspace == 5 * MIB
        assert memory.in_use == RESERVED_BYTES + 5 * MIB + 5 * MIB
        assert memory.in_use + memory.free == memory.limit

    def test_it_does_not_shrink_for_copies_or_when_told_so(self) -> None:
        for memory, origin in ((small(8 * MIB), "copy"), (small(8 * MIB, shrink_workspace=False), "graph")):
            memory.reserve([], INITIAL_WORKSPACE + 6 * MIB, "large")
            assert memory.reserve(made(5 * MIB), 0, origin) is not None


class TestDefragmentation:
    def fragmented(self, **options: bool) -> Hbm:
        """8 MiB of tensors of 1 MiB, of which every other is freed: 4 MiB free in holes of one."""
        memory = small(8 * MIB, **options)
        events = made(*[MIB] * 8)
        memory.apply(events)
        memory.apply(freed(*events[::2]))
        return memory

    def test_moved_bytes_are_read_and_written_at_the_memory_s_bandwidth(self) -> None:
        memory = self.fragmented()
        assert (memory.free, memory.largest_free) == (4 * MIB, MIB)
        assert memory.reserve(made(2 * MIB, first=20), 0, "graph") is None
        (done,) = memory.defragmentations
        assert (done.moved, done.nbytes) == (1, MIB)
        assert done.seconds == 2 * MIB / GAUDI2.hbm.bandwidth_bytes_per_s
        assert memory.in_use == BASE + 6 * MIB
        memory.apply(freed(*made(*[MIB] * 8)[1::2], (20, 2 * MIB, 0)))
        assert (memory.in_use, memory.largest_free) == (BASE, 8 * MIB)

    def test_it_also_makes_room_for_the_workspace(self) -> None:
        memory = self.fragmented()
        assert memory.reserve([], INITIAL_WORKSPACE + 3 * MIB, "graph") is None
        assert (memory.free, len(memory.defragmentations)) == (MIB, 1)

    def test_it_can_be_switched_off(self) -> None:
        memory = self.fragmented(defragment=False)
        assert memory.reserve(made(2 * MIB, first=20), 0, "graph") == Shortage(2 * MIB, 4 * MIB, MIB, memory.limit)

    def test_it_gives_back_what_went_along_unused(self) -> None:
        memory = small(4 * 1280)
        a, b, c, _ = events = made(1280, 1280, 1280, 1280)
        memory.apply(events)
        memory.apply(freed(b))
        memory.apply(made(1152, first=5))  # takes the hole of 1280 as a whole
        assert memory.in_use == BASE + 4 * 1280
        memory.apply(freed(a, c))
        assert memory.reserve(made(1408, first=6), 0, "graph") is None
        assert memory.in_use == BASE + 1152 + 1280 + 1408
