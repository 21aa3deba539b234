"""Elimination and fusion: what is left out and joined, and that every remaining read still sees the value it saw."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from device.compiler.compile import eager_program, graph_program
from device.compiler.eliminate import eliminate
from device.compiler.fusion import Limits, fuse
from device.compiler.layout import walk
from device.compiler.lowering import lower
from device.compiler.lowering.operator import Operator
from device.compiler.lowering.vector_operations import EXPONENTIAL
from device.compiler.program import Program
from device.graph.ir import Graph

from .recorded_graphs import Recording, Tensor

BF16 = "BFloat16"


def kernels(program: Program) -> list[str]:
    return [node.kernel for node in program.nodes]


class TestElimination:
    def test_what_nobody_reads_is_left_out(self) -> None:
        recording = Recording()
        x = recording.tensor(8)
        recording.elementwise("exp", x)
        kept = recording.elementwise("relu", x)
        assert kernels(graph_program(recording.keep(kept))) == ["relu_fwd_f32"]

    def test_an_overwritten_value_is_left_out_unless_it_was_read(self) -> None:
        for read in (False, True):
            recording = Recording()
            x, y = recording.tensor(8), recording.tensor(8)
            recording.run("zero_", self=x, changes=[x])
            seen = recording.elementwise("relu", x) if read else x
            recording.copy(y, x)
            expected = ["memset", "relu_fwd_f32", "memcpy"] if read else ["memcpy"]
            assert kernels(graph_program(recording.keep(x, seen))) == expected

    def test_a_part_that_is_overwritten_does_not_end_the_rest(self) -> None:
        recording = Recording()
        x, y = recording.tensor(8), recording.tensor(4)
        recording.run("fill_.Scalar", self=x, changes=[x], attributes={"value": 1.0})
        recording.copy(y, x.narrow(0, 0, 4))
        assert kernels(graph_program(recording.keep(x))) == ["constant_f32", "memcpy"]

    def test_updates_of_running_statistics_stay(self) -> None:
        recording = Recording()
        recording.run(
            "native_batch_norm",
            out=[(4, 16, 8, 8), (16,), (16,)],
            input=recording.tensor(4, 16, 8, 8),
            running_mean=recording.tensor(16),
            running_var=recording.tensor(16),
            attributes={"training": True},
        )
        assert kernels(graph_program(recording.keep())) == ["batch_norm_fwd_f32"]

    def test_a_constant_becomes_part_of_its_consumer(self) -> None:
        recording = Recording()
        one = recording.empty()
        recording.run("fill_.Scalar", self=one, changes=[one], attributes={"value": 1.0})
        result = recording.elementwise("add", recording.tensor(8), one)
        (node,) = graph_program(recording.keep(result)).nodes
        assert (node.sources, node.nbytes) == ((0, 1), 64)

    def test_a_constant_joins_a_consumer_that_stays(self) -> None:
        recording = Recording()
        one = recording.empty(8)
        recording.run("fill_.Scalar", self=one, changes=[one], attributes={"value": 1.0})
        recording.elementwise("relu", one)  # nobody reads this
        result = recording.elementwise("exp", one)
        (node,) = graph_program(recording.keep(result)).nodes
        assert node.sources == (0, 2)

    def test_a_constant_that_changes_or_feeds_a_product_stays(self) -> None:
        recording = Recording()
        ones = recording.empty(4, 4)
        recording.run("fill_.Scalar", self=ones, changes=[ones], attributes={"value": 1.0})
        result = recording.matmul(ones, recording.tensor(4, 4))
        assert kernels(graph_program(recording.keep(result))) == ["constant_f32", "gemm"]

    def test_a_constant_that_is_changed_in_place_stays(self) -> None:
        recording = Recording()
        total = recording.empty(4, 4)
        recording.run("fill_.Scalar", self=total, changes=[total], attributes={"value": 0.5})
        recording.run("add_.Tensor", self=total, other=recording.tensor(4, 4), changes=[total])
        result = recording.elementwise("exp", total.t())
        program = graph_program(recording.keep(result))
        assert kernels(program) == ["constant_f32", "add_fwd_f32", "exp_fwd_f32"]
        assert [access.buffer for access in program.nodes[2].reads] == [total.buffer]

    def test_casts_of_one_value_are_made_once(self) -> None:
        recording = Recording()
        weight, x, y = recording.tensor(4, 4), recording.tensor(2, 4, dtype=BF16), recording.tensor(2, 4, dtype=BF16)
        first = recording.matmul(x, recording.cast(weight, BF16))
        second = recording.matmul(y, recording.cast(weight, BF16))
        program = graph_program(recording.keep(first, second))
        assert kernels(program) == ["cast_f32_to_bf16", "gemm", "gemm"]
        assert program.nodes[0].sources == (0, 2)
        assert program.nodes[1].reads[1].buffer == program.nodes[2].reads[1].buffer

    def test_a_value_that_changed_is_cast_again(self) -> None:
        recording = Recording()
        weight, x = recording.tensor(4, 4), recording.tensor(2, 4, dtype=BF16)
        first = recording.matmul(x, recording.cast(weight, BF16))
        recording.run("mul_", self=weight, changes=[weight])
        second = recording.matmul(x, recording.cast(weight, BF16))
        products = [node for node in graph_program(recording.keep(first, second)).nodes if node.kind == "gemm"]
        assert products[0].reads[1].buffer != products[1].reads[1].buffer

    def test_a_cast_whose_result_changes_is_not_shared(self) -> None:
        recording = Recording()
        weight, x = recording.tensor(4, 4), recording.tensor(2, 4, dtype=BF16)
        copies = [recording.cast(weight, BF16), recording.cast(weight, BF16)]
        recording.run("mul_", self=copies[0], changes=[copies[0]])
        results = [recording.matmul(x, copy) for copy in copies]
        products = [node for node in graph_program(recording.keep(*results)).nodes if node.kind == "gemm"]
        assert [node.reads[1].buffer for node in products] == [copy.buffer for copy in copies]


class TestFusion:
    def test_a_chain_is_one_kernel_without_intermediates(self) -> None:
        recording = Recording()
        x, bias = recording.tensor(8, 16), recording.tensor(16)
        total = recording.elementwise("add", x, bias)
        result = recording.elementwise("exp", recording.elementwise("relu", total))
        program = graph_program(recording.keep(result))
        (node,) = program.nodes
        assert (node.name, node.kernel, node.kind) == ("fused_kernel_0", "fused_kernel_0_f32", "elementwise")
        assert node.sources == (0, 1, 2)
        assert node.operations == 128 * (1 + 1 + EXPONENTIAL)
        assert node.nbytes == 4 * (128 + 16 + 128)
        assert [buffer.fused for buffer in program.buffers] == [False, False, True, True, False]
        assert not any(buffer.is_workspace for buffer in program.buffers)

    def test_a_value_that_is_needed_later_is_still_written(self) -> None:
        recording = Recording()
        middle = recording.elementwise("relu", recording.tensor(8))
        result = recording.elementwise("exp", middle)
        (node,) = graph_program(recording.keep(middle, result)).nodes
        assert {access.buffer for access in node.writes} == {middle.buffer, result.buffer}

    def test_casts_join_and_the_hardest_work_sets_the_dtype(self) -> None:
        recording = Recording()
        x = recording.tensor(8, dtype=BF16)
        result = recording.cast(recording.elementwise("exp", recording.cast(x, "Float")), BF16)
        (node,) = graph_program(recording.keep(result)).nodes
        assert (node.kernel, node.nbytes) == ("fused_kernel_0_f32", 32)

    def test_views_of_the_same_elements_join_and_other_orders_do_not(self) -> None:
        for transposed in (False, True):
            recording = Recording()
            middle = recording.elementwise("relu", recording.tensor(8, 8))
            seen = middle.t() if transposed else middle.view(64)
            result = recording.elementwise("exp", seen)
            assert len(graph_program(recording.keep(result)).nodes) == (2 if transposed else 1)

    def test_products_keep_to_themselves(self) -> None:
        recording = Recording()
        x, weight = recording.tensor(8, 8), recording.tensor(8, 8)
        hidden = recording.elementwise("relu", recording.matmul(recording.elementwise("exp", x), weight))
        result = recording.elementwise("exp", hidden)
        assert kernels(graph_program(recording.keep(result))) == ["exp_fwd_f32", "gemm", "fused_kernel_0_f32"]

    @pytest.mark.parametrize("op", ["_softmax", "native_layer_norm"])
    def test_neighbours_join_a_softmax_or_normalization(self, op: str) -> None:
        recording = Recording()
        before = recording.elementwise("mul", recording.tensor(8, 16), recording.tensor())
        made = recording.run(op, out=[(8, 16)], self=before)
        result = recording.elementwise("relu", made)
        (node,) = graph_program(recording.keep(result)).nodes
        assert node.kind == {"_softmax": "softmax", "native_layer_norm": "normalization"}[op]
        assert node.sources == (0, 1, 2)
        assert node.nbytes == 4 * (128 + 1 + 128)

    def test_a_reduction_takes_in_what_is_before_and_behind(self) -> None:
        recording = Recording()
        squares = recording.elementwise("square", recording.tensor(8, 16))
        mean = recording.run("mean", out=[(8, 1)], self=squares, attributes={"dim": (1,), "keepdim": True})
        result = recording.elementwise("rsqrt", mean)
        (node,) = graph_program(recording.keep(result)).nodes
        assert (node.kind, node.nbytes) == ("reduction", 4 * (128 + 8))

    def test_a_full_sum_is_not_continued(self) -> None:
        recording = Recording()
        total = recording.run("sum", out=[()], self=recording.tensor(8, 16))
        result = recording.elementwise("sqrt", total)
        assert len(graph_program(recording.keep(result)).nodes) == 2

    def test_a_kernel_does_not_pass_what_depends_on_it(self) -> None:
        recording = Recording()
        x, weight = recording.tensor(8, 8), recording.tensor(8, 8)
        first = recording.elementwise("relu", x)
        result = recording.elementwise("add", first, recording.matmul(first, weight))
        assert kernels(graph_program(recording.keep(result))) == ["relu_fwd_f32", "gemm", "add_fwd_f32"]

    def test_a_kernel_moves_down_to_its_consumer(self) -> None:
        recording = Recording()
        first = recording.elementwise("relu", recording.tensor(8, 8))
        product = recording.matmul(recording.tensor(8, 8), recording.tensor(8, 8))
        result = recording.elementwise("add", first, product)
        assert kernels(graph_program(recording.keep(result))) == ["gemm", "fused_kernel_0_f32"]

    def test_an_optimizer_step_in_place_is_one_kernel(self) -> None:
        recording = Recording()
        weight, gradient, mean, square = (recording.tensor(64) for _ in range(4))
        recording.run("lerp_", self=mean, end=gradient, changes=[mean])
        recording.run("mul_", self=square, changes=[square])
        recording.run("addcmul_", self=square, tensor1=gradient, tensor2=gradient, changes=[square])
        root = recording.elementwise("sqrt", square)
        recording.run("addcdiv_", self=weight, tensor1=mean, tensor2=root, changes=[weight])
        (node,) = graph_program(recording.keep()).nodes
        assert node.nbytes == 256 * (4 + 3)  # reads four, writes all but the gradient

    def test_limits(self) -> None:
        recording = Recording()
        value = recording.tensor(8)
        for _ in range(7):
            value = recording.elementwise("relu", value)
        draft = lower(recording.keep(value))
        assert [len(kernel.sources) for kernel in fuse(draft, Limits(operators=3)).kernels] == [3, 3, 1]
        assert len(fuse(draft, Limits(operators=1)).kernels) == 7

    def test_eager_mode_fuses_nothing(self) -> None:
        recording = Recording()
        result = recording.elementwise("exp", recording.elementwise("relu", recording.tensor(8)))
        recording.elementwise("exp", result)
        assert len(eager_program(recording.keep(result)).nodes) == 3


# -- random programs ---------------------------------------------------------------------------------------------------

STEP = st.tuples(
    st.sampled_from(
        [
            "unary",
            "binary",
            "in_place",
            "cast",
            "copy",
            "fill",
            "softmax",
            "sum",
            "mm",
            "slice",
            "transposed",
            "constant",
        ]
    ),
    st.integers(0, 30),
    st.integers(0, 30),
)


def random_graph(steps: list[tuple[str, int, int]], kept: list[int]) -> Graph:
    """A program over 4 x 4 tensors with views, in-place writes, constants, casts and overwritten buffers."""
    recording = Recording()
    tensors = [recording.tensor(4, 4) for _ in range(3)]

    def pick(number: int) -> Tensor:
        return tensors[number % len(tensors)]

    for kind, first, second in steps:
        one, other = pick(first), pick(second)
        if kind == "unary":
            tensors.append(recording.elementwise("relu", one))
        elif kind == "binary":
            tensors.append(recording.elementwise("add", one, other))
        elif kind == "in_place":
            recording.run("add_.Tensor", self=one, other=other, changes=[one])
        elif kind == "cast":
            tensors.append(recording.cast(recording.cast(one, BF16), "Float"))
        elif kind == "copy":
            recording.copy(one, other)
        elif kind == "fill":
            recording.run("fill_.Scalar", self=one, changes=[one], attributes={"value": 1.0})
        elif kind == "constant":
            tensors.append(recording.empty(4, 4))
            recording.run("fill_.Scalar", self=tensors[-1], changes=[tensors[-1]], attributes={"value": 1.0})
        elif kind == "softmax":
            tensors.append(recording.run("_softmax", out=[(4, 4)], self=one))
        elif kind == "sum":
            total = recording.run("sum", out=[(4, 1)], self=one, attributes={"dim": (1,)})
            tensors.append(recording.elementwise("mul", other, total))
        elif kind == "mm":
            tensors.append(recording.matmul(one, other))
        elif kind == "slice":
            recording.copy(one.narrow(0, 0, 2), other.narrow(0, 2, 2))
        else:
            tensors.append(recording.elementwise("add", one.t(), other))
    return recording.keep(*(pick(number) for number in kept))


def last_writers(graph: Graph, order: list[int]) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """With the operators in this order: who wrote what each one reads, and who wrote each buffer last."""
    writer: dict[int, int] = {}
    seen: dict[tuple[int, int], int] = {}
    for number in order:
        operator = Operator(graph.nodes[number], number, [])
        for operand in operator.reads:
            seen[number, operand.buffer] = writer.get(operand.buffer, -1)
        for operand in operator.writes:
            writer[operand.buffer] = number
    return seen, writer


@settings(max_examples=200, deadline=None)
@example([("constant", 0, 0), ("unary", 0, 0), ("unary", 8, 0), ("unary", 21, 0)], [6])
@given(st.lists(STEP, max_size=25), st.lists(st.integers(0, 30), max_size=3))
def test_every_read_sees_the_value_of_program_order(steps: list[tuple[str, int, int]], kept: list[int]) -> None:
    graph = random_graph(steps, kept)
    program = graph_program(graph)
    order = [source for node in program.nodes for source in node.sources]
    assert max(Counter(order).values(), default=1) == 1  # each operator at most once
    expected, expected_last = last_writers(graph, list(range(len(graph.nodes))))
    seen, last = last_writers(graph, order)
    assert seen == {key: expected[key] for key in seen}
    live = [number for number, buffer in enumerate(graph.buffers) if buffer.live]
    assert {number: last.get(number) for number in live} == {number: expected_last.get(number) for number in live}


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=25), st.lists(st.integers(0, 30), max_size=3))
def test_fused_operators_meet_on_the_same_elements(steps: list[tuple[str, int, int]], kept: list[int]) -> None:
    graph = random_graph(steps, kept)
    for node in graph_program(graph).nodes:
        operators = [Operator(graph.nodes[source], source, []) for source in node.sources]
        if len(operators) < 2 or any(operator.base == "fill" for operator in operators):
            continue  # a folded constant is no memory: it does not matter how it is looked at
        walks: dict[int, set[object]] = {}
        for operator in operators:
            for operand in operator.reads + operator.writes:
                walks.setdefault(operand.buffer, set()).add(walk(operand.window))
        written = {operand.buffer for operator in operators for operand in operator.writes}
        assert all(len(walks[buffer]) == 1 for buffer in written)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=25), st.lists(st.integers(0, 30), max_size=3))
def test_nothing_that_is_read_or_kept_loses_its_memory(steps: list[tuple[str, int, int]], kept: list[int]) -> None:
    graph = random_graph(steps, kept)
    program = graph_program(graph)
    touched = {access.buffer for node in program.nodes for access in node.reads + node.writes}
    assert not any(buffer.fused for number, buffer in enumerate(program.buffers) if number in touched)
    assert not any(buffer.fused and (buffer.live or buffer.resident) for buffer in program.buffers)
    for node in program.nodes:
        here = {access.buffer for access in node.reads + node.writes}
        for source in node.sources:
            read = {operand.buffer for operand in Operator(graph.nodes[source], source, []).reads}
            assert all(buffer in here or program.buffers[buffer].fused for buffer in read)
    assert len(eliminate(lower(graph)).kernels) >= len(program.nodes)
