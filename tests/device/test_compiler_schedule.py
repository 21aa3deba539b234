"""A program on a card: SRAM, places in time on the engines, workspace; and whole recipes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device.compiler.compile import compile_graph, eager_program, graph_program, place
from device.compiler.cost import compile_seconds, node_cost
from device.compiler.dependencies import dependencies, uses
from device.compiler.memory_plan import ALIGNMENT, Lifetime, plan_memory
from device.compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from device.compiler.recipe import Recipe
from device.compiler.schedule import SLICE, pipes
from device.compiler.sram import NEAR, USABLE, plan_sram
from device.graph.ir import Graph
from device.spec import CardSpec, load_card

from .recorded_graphs import Recording
from .test_compiler_fusion import STEP, random_graph

GAUDI2, GAUDI3 = load_card("gaudi2"), load_card("gaudi3")
MIB = 2**20


def without_sram(spec: CardSpec) -> CardSpec:
    return replace(spec, sram=replace(spec.sram, capacity_bytes=0))


def node(
    name: str, engine: Engine, reads: list[int], writes: list[int], nbytes: int = MIB, in_order: bool = True
) -> EngineNode:
    """A node that moves `nbytes` of each of its buffers."""
    return EngineNode(
        engine,
        name,
        "kernel",
        "gemm" if engine is Engine.MME else "elementwise",
        "Float",
        (1, 1024, 1024, 1024) if engine is Engine.MME else (nbytes // 4,),
        2.0 * 1024**3 if engine is Engine.MME else nbytes / 4,
        tuple(Access(buffer, nbytes, 0, in_order) for buffer in reads),
        tuple(Access(buffer, nbytes, 0, in_order) for buffer in writes),
        (0,),
        "",
    )


def program(nodes: list[EngineNode], nbytes: int = MIB, outside: tuple[int, ...] = (0,)) -> Program:
    """Buffers of `nbytes` each; those of `outside` are inputs that live on, all others are workspace."""
    count = 1 + max(access.buffer for entry in nodes for access in entry.reads + entry.writes)
    buffers = tuple(ProgramBuffer(nbytes, number in outside, number in outside) for number in range(count))
    return Program(tuple(nodes), buffers, len(nodes))


class TestDependencies:
    def test_reads_after_writes_writes_after_reads_writes_after_writes(self) -> None:
        tpc = Engine.TPC
        nodes = [
            node("a", tpc, [0], [1]),
            node("b", tpc, [1], [2]),
            node("c", tpc, [0], [3]),
            node("d", tpc, [2], [1]),
            node("e", tpc, [0], [1]),
        ]
        assert dependencies(nodes) == [(), (0,), (), (0, 1), (3,)]

    def test_a_kernel_that_reads_and_writes_a_buffer_does_not_wait_for_itself(self) -> None:
        assert dependencies([node("a", Engine.TPC, [0], [0]), node("b", Engine.TPC, [0], [0])]) == [(), (0,)]


class TestSram:
    def test_short_lived_intermediates_stay_on_the_chip(self) -> None:
        chain = program([node(str(i), Engine.TPC, [i], [i + 1]) for i in range(4)], outside=(0, 4))
        plan = plan_sram(chain, uses(chain.nodes), 8 * MIB)
        assert plan.buffers == {1, 2, 3}
        assert plan.peak_bytes == 2 * MIB

    def test_large_and_long_lived_ones_do_not(self) -> None:
        large = program([node("a", Engine.TPC, [0], [1]), node("b", Engine.TPC, [1], [0])], nbytes=3 * MIB)
        assert plan_sram(large, uses(large.nodes), 8 * MIB).buffers == frozenset()
        filler = [node(f"f{i}", Engine.TPC, [0], [2 + i]) for i in range(NEAR)]
        long = program([node("a", Engine.TPC, [0], [1]), *filler, node("b", Engine.TPC, [1], [0])])
        assert 1 not in plan_sram(long, uses(long.nodes), 8 * MIB).buffers

    def test_what_does_not_fit_goes_to_memory(self) -> None:
        wide = program(
            [
                *(node(f"w{i}", Engine.TPC, [0], [1 + i]) for i in range(8)),
                node("r", Engine.TPC, list(range(1, 9)), [0]),
            ]
        )
        plan = plan_sram(wide, uses(wide.nodes), 8 * MIB)
        assert plan.buffers == set(range(1, 7))  # three quarters of 8 MiB

    def test_space_is_given_again_when_its_last_user_has_ended(self) -> None:
        chain = program([node(str(i), Engine.TPC, [i], [i + 1]) for i in range(9)], outside=(0, 9))
        plan = plan_sram(chain, uses(chain.nodes), 6 * MIB)
        assert plan.buffers == set(range(1, 9))
        assert plan.waits[4] == (1,)  # four find new space in 4.5 MiB; node 4 takes over what node 1 used last

    def test_a_producer_waits_for_the_space_that_it_takes_over(self) -> None:
        """Four buffers fill what is usable; slow copies read them; the fifth has to wait for the first copy."""
        makers = [node(f"make{i}", Engine.TPC, [0], [1 + i]) for i in range(5)]
        readers = [
            replace(node(f"read{i}", Engine.DMA, [1 + i], []), writes=(Access(6 + i, 64 * MIB),)) for i in range(5)
        ]
        order = [*makers[:4], *readers[:4], makers[4], readers[4]]
        built = program(order, outside=(0, *range(6, 11)))
        spec = replace(GAUDI2, sram=replace(GAUDI2.sram, capacity_bytes=6 * MIB))
        recipe = place(built, spec, "graph", "signature")
        assert recipe.sram_buffers == (1, 2, 3, 4, 5)
        assert recipe.nodes[8].start == recipe.nodes[4].end > recipe.nodes[3].end

    def test_it_saves_time_and_workspace(self) -> None:
        recording = Recording()
        x, weight = recording.tensor(1024, 1024), recording.tensor(1024, 1024)
        value = recording.elementwise("relu", recording.matmul(recording.elementwise("relu", x), weight))
        graph = recording.keep(recording.matmul(value, weight))
        with_it = compile_graph(graph, GAUDI2)
        without = compile_graph(graph, without_sram(GAUDI2))
        assert (len(with_it.sram_buffers), with_it.workspace_bytes) == (3, 0)
        assert (len(without.sram_buffers), without.workspace_bytes) == ((0, 2 * 4 * MIB))
        assert with_it.seconds < without.seconds


class TestMemoryPlan:
    def test_memory_is_shared_one_after_the_other(self) -> None:
        plan = plan_memory([Lifetime(number, 1000, number, number + 1) for number in range(5)])
        assert plan.nbytes == 1024

    def test_the_smallest_gap_that_fits(self) -> None:
        plan = plan_memory(
            [
                Lifetime(0, 4096, 0, 1),
                Lifetime(1, 128, 0.1, 9),
                Lifetime(2, 1024, 0.2, 1),
                Lifetime(3, 128, 0.3, 9),
                Lifetime(4, 1000, 2, 9),
            ]
        )
        assert plan.offsets[4] == plan.offsets[2]

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 20), st.integers(0, 20)), max_size=40))
    def test_what_lives_together_lies_apart(self, drawn: list[tuple[int, int, int]]) -> None:
        lives = [Lifetime(number, size, min(a, b), max(a, b)) for number, (size, a, b) in enumerate(drawn)]
        plan = plan_memory(lives)
        for one, other in combinations(lives, 2):
            if one.start < other.end and other.start < one.end:
                first, second = plan.offsets[one.buffer], plan.offsets[other.buffer]
                assert first + one.nbytes <= second or second + other.nbytes <= first or not one.nbytes * other.nbytes
        assert all(offset % ALIGNMENT == 0 for offset in plan.offsets.values())
        at_once = [sum(life.nbytes for life in lives if life.start <= moment < life.end) for moment in range(20)]
        assert max(at_once) <= plan.nbytes <= sum(life.nbytes + ALIGNMENT for life in lives)


class TestSchedule:
    def recipe(self, built: Program, spec: CardSpec = GAUDI2) -> Recipe:
        return place(built, spec, "graph", "signature")

    def test_one_engine_does_one_node_after_the_other(self) -> None:
        nodes = [node(str(i), Engine.TPC, [0], [i + 1]) for i in range(3)]
        recipe = self.recipe(program(nodes), without_sram(GAUDI2))
        cost = node_cost(nodes[0], GAUDI2).seconds
        assert [entry.start for entry in recipe.nodes] == [0.0, cost, cost + cost]
        assert recipe.seconds == recipe.nodes[-1].end + GAUDI2.device.recipe_s

    def test_independent_nodes_of_two_engines_overlap(self) -> None:
        nodes = [
            node("mme", Engine.MME, [0], [1]),
            node("tpc", Engine.TPC, [0], [2]),
            node("dma", Engine.DMA, [0], [3]),
        ]
        recipe = self.recipe(program(nodes))
        assert [entry.start for entry in recipe.nodes] == [0.0, 0.0, 0.0]
        assert recipe.seconds == max(entry.seconds for entry in recipe.nodes) + GAUDI2.device.recipe_s

    def test_a_consumer_follows_slice_by_slice(self) -> None:
        """64 MiB through slices of a quarter of 48 MB: six slices."""
        size = 64 * MIB
        built = program([node("mme", Engine.MME, [0], [1], size), node("tpc", Engine.TPC, [1], [2], size)], size)
        recipe = self.recipe(built)
        producer, consumer = recipe.nodes
        assert pipes(built, uses(built.nodes), int(GAUDI2.sram.capacity_bytes * SLICE))[1].slices == 6
        follows = producer.end + consumer.seconds / 6 - consumer.seconds
        assert consumer.start == pytest.approx(max(producer.start + producer.seconds / 6, follows))
        assert consumer.start < producer.end < consumer.end
        assert recipe.seconds < producer.seconds + consumer.seconds

    @pytest.mark.parametrize("case", ["small", "out of order", "needed again", "same engine", "kept"])
    def test_otherwise_it_waits(self, case: str) -> None:
        size = MIB if case == "small" else 64 * MIB
        consumer = Engine.MME if case == "same engine" else Engine.TPC
        nodes = [
            node("a", Engine.MME, [0], [1], size, in_order=case != "out of order"),
            node("b", consumer, [1], [2], size),
        ]
        if case == "needed again":
            nodes.append(node("c", Engine.MME, [1], [3], size))
        built = program(nodes, size, outside=(0, 1) if case == "kept" else (0,))
        recipe = self.recipe(built)
        assert recipe.nodes[1].start == recipe.nodes[0].end

    def test_the_same_program_on_another_card(self) -> None:
        recording = Recording()
        hidden = recording.matmul(
            recording.tensor(4096, 4096, dtype="BFloat16"), recording.tensor(4096, 4096, dtype="BFloat16")
        )
        graph = recording.keep(recording.elementwise("exp", hidden))
        recipe = compile_graph(graph, GAUDI2)
        moved = place(recipe.program, GAUDI3, recipe.name, recipe.signature)
        assert moved == compile_graph(graph, GAUDI3)
        assert (moved.card, moved.program) == ("gaudi3", recipe.program)
        assert moved.seconds < recipe.seconds


def check(recipe: Recipe) -> None:
    """Engines, dependencies and workspace of any recipe."""
    program = recipe.program
    assert tuple(entry.node for entry in recipe.nodes) == program.nodes
    for engine in Engine:
        runs = sorted((entry.start, entry.end) for entry in recipe.nodes if entry.node.engine is engine)
        assert all(before[1] <= after[0] for before, after in pairwise(runs))
    spec = load_card(recipe.card)
    sliced = pipes(program, uses(program.nodes), int(spec.sram.capacity_bytes * SLICE))
    for number, needs in enumerate(dependencies(program.nodes)):
        for need in needs:
            if number in sliced and sliced[number].producer == need:
                assert recipe.nodes[number].start >= recipe.nodes[need].start
                assert recipe.nodes[number].end >= recipe.nodes[need].end
            else:
                assert recipe.nodes[number].start >= recipe.nodes[need].end
    offsets, alive = dict(recipe.offsets), {}
    for buffer, touching in uses(program.nodes).items():
        starts, ends = zip(*((recipe.nodes[n].start, recipe.nodes[n].end) for n in touching), strict=True)
        alive[buffer] = (min(starts), max(ends))
    for one, other in combinations(offsets, 2):
        if alive[one][0] < alive[other][1] and alive[other][0] < alive[one][1]:
            low, high = sorted((one, other), key=lambda buffer: offsets[buffer])
            assert offsets[low] + program.buffers[low].nbytes <= offsets[high]
    placed = [offset + program.buffers[buffer].nbytes for buffer, offset in offsets.items()]
    assert max(placed, default=0) <= recipe.workspace_bytes
    on_chip = recipe.sram_buffers
    assert not set(on_chip) & set(offsets)
    for moment in {entry.start for entry in recipe.nodes}:
        held = sum(
            program.buffers[buffer].nbytes for buffer in on_chip if alive[buffer][0] <= moment < alive[buffer][1]
        )
        assert held <= USABLE * spec.sram.capacity_bytes


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=25), st.lists(st.integers(0, 30), max_size=3))
def test_any_program_is_placed_without_conflict(steps: list[tuple[str, int, int]], kept: list[int]) -> None:
    graph = random_graph(steps, kept)
    check(compile_graph(graph, GAUDI2))
    check(place(eager_program(graph), GAUDI2, "eager", "signature"))


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_large_buffers_are_placed_without_conflict(data: st.DataObject) -> None:
    """Engines at random over buffers of up to 64 MiB, so that slices, SRAM and workspace all come into play."""
    count = data.draw(st.integers(1, 20))
    nodes = []
    for number in range(count):
        reads = data.draw(st.lists(st.integers(0, number), min_size=1, max_size=3))
        engine = data.draw(st.sampled_from([Engine.MME, Engine.TPC, Engine.DMA]))
        nodes.append(
            node(str(number), engine, reads, [number + 1], data.draw(st.sampled_from([MIB, 6 * MIB, 64 * MIB])))
        )
    buffers = [ProgramBuffer(MIB, True, True)]
    buffers += [ProgramBuffer(entry.writes[0].nbytes, False, data.draw(st.booleans())) for entry in nodes]
    check(place(Program(tuple(nodes), tuple(buffers), count), GAUDI2, "graph", "signature"))


class TestRecipe:
    def graph(self) -> Graph:
        recording = Recording()
        value = recording.elementwise("relu", recording.tensor(1024))
        return recording.keep(recording.elementwise("sigmoid", value))

    def test_what_it_says(self) -> None:
        recipe = compile_graph(self.graph(), GAUDI2)
        assert recipe.name == "graph_0123456789abcdef"
        assert (recipe.card, recipe.output_bytes, recipe.workspace_bytes) == ("gaudi2", 4096, 0)
        (node,) = recipe.nodes
        assert recipe.seconds == node.end + GAUDI2.device.recipe_s
        assert recipe.compile_seconds == compile_seconds(graph_program(self.graph()), GAUDI2)

    def test_workspace_is_reused(self) -> None:
        recording = Recording()
        value = recording.tensor(512, 512)
        weight = recording.tensor(512, 512)
        for _ in range(6):
            value = recording.matmul(value, weight)
        recipe = compile_graph(recording.keep(value), without_sram(GAUDI2))
        assert recipe.workspace_bytes == 2 * 512 * 512 * 4

    def test_an_empty_program(self) -> None:
        recording = Recording()
        recording.elementwise("relu", recording.tensor(4))
        recipe = compile_graph(recording.keep(), GAUDI2)
        assert (recipe.nodes, recipe.seconds, recipe.workspace_bytes) == ((), GAUDI2.device.recipe_s, 0)
