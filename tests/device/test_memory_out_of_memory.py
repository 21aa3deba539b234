"""The text of an out-of-memory error: what was asked for, what holds memory, and where most is needed."""

from __future__ import annotations

import torch

from device.graph.ir import Buffer, Graph, Node, Operand, Window
from device.memory import INITIAL_WORKSPACE, RESERVED_BYTES, Category, Copied, Hbm, Holding, PoolLimits, Shortage
from device.memory.out_of_memory import (
    LiveTensor,
    PeakOperator,
    message,
    out_of_memory_error,
    peak_operator,
    size_text,
    tensor_of,
)
from device.spec import load_card

GAUDI2 = load_card("gaudi2")
MIB = 2**20


def operand(name: str, buffer: int, *sizes: int, dtype: str = "Float") -> Operand:
    return Operand(name, buffer, Window(dtype, sizes, (1,) * len(sizes), 0))


def node(op: str, inputs: list[Operand], result: Operand, where: str) -> Node:
    return Node(op, tuple(inputs), (result,), (), (), where, "")


# x (resident) -> h -> y -> loss; h and y live only in the graph
X, H, Y, LOSS = (operand(name, number, 1024, 1024) for number, name in enumerate("xhyl"))
GRAPH = Graph(
    "signature",
    (
        node("aten::mm", [X, X], H, "net.py:4"),
        node("aten::relu", [H], Y, "net.py:5"),
        node("aten::sum", [Y], LOSS, "net.py:6"),
    ),
    (
        Buffer(4 * MIB, resident=True, live=True),
        Buffer(4 * MIB, resident=False, live=False),
        Buffer(4 * MIB, resident=False, live=False),
        Buffer(4, resident=False, live=True),
    ),
)


def holding(slot: int, category: Category = Category.ACTIVATIONS) -> Holding:
    return Holding(0, category, 0, "graph_0", slot, 4 * MIB)


class TestLiveTensors:
    def test_an_output_of_a_graph(self) -> None:
        assert tensor_of(holding(1), GRAPH, None) == LiveTensor(
            4 * MIB, "activations", "Float", (1024, 1024), "net.py:4"
        )

    def test_a_copy(self) -> None:
        copy = Copied("BFloat16", (2048, 1024), "train.py:9")
        tensor = tensor_of(holding(-1, Category.WEIGHTS), None, copy)
        assert tensor == LiveTensor(4 * MIB, "weights", "BFloat16", (2048, 1024), "train.py:9")

    def test_a_graph_that_is_not_known_any_more(self) -> None:
        assert tensor_of(holding(1, Category.OPTIMIZER_STATE), None, None) == LiveTensor(4 * MIB, "optimizer state")


class TestPeakOperator:
    def test_it_is_where_most_is_needed(self) -> None:
        assert peak_operator(GRAPH) == PeakOperator("aten::relu", "net.py:5", 8 * MIB)

    def test_a_graph_that_makes_nothing(self) -> None:
        in_place = Node("aten::add_", (X,), (), (X,), (), "net.py:8", "")
        assert peak_operator(Graph("s", (in_place,), GRAPH.buffers[:1])) is None


class TestMessage:
    def test_of_a_tensor(self) -> None:
        text = message(
            Shortage(requested=234881024, free=3 * MIB, largest=2 * MIB, limit=8 * MIB),
            [LiveTensor(4 * MIB, "weights", "Float", (1024, 1024), "train.py:3"), LiveTensor(100, "other")],
            PeakOperator("aten::relu", "net.py:5", 5 * MIB),
            "mark_step",
            rank=3,
        )
        assert text.splitlines() == [
            "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::234881024 (224)MB [Rank:3] while running "
            "mark_step",
            "requested 234881024 bytes (224.00 MB), free 3145728 bytes (3.00 MB) of 8388608 bytes (8.00 MB), "
            "largest free block 2097152 bytes (2.00 MB)",
            "largest tensors that hold memory:",
            "  4194304 bytes (4.00 MB): weights, Float [1024, 1024] from train.py:3",
            "  100 bytes: other, unknown shape",
            "operator at the peak: aten::relu at net.py:5; the graph's own take 5242880 bytes (5.00 MB) there",
            "use a smaller batch, free tensors that are not needed, or use a larger card",
        ]

    def test_of_the_workspace(self) -> None:
        text = message(Shortage(4 * MIB, 2 * MIB, MIB, 8 * MIB, workspace=MIB), [], None, "mark_step", 0)
        assert "requested as workspace, which takes 1048576 bytes (1.00 MB) now" in text
        assert text.endswith("so that graphs need less workspace, or use a larger card")

    def test_of_what_is_free_only_in_pieces(self) -> None:
        text = message(Shortage(MIB, 2 * MIB, MIB // 2, 8 * MIB), [], None, "mark_step", 0)
        assert text.endswith("leave PT_ENABLE_MEMORY_DEFRAGMENTATION on")

    def test_sizes(self) -> None:
        assert [size_text(n) for n in (5, 1024, 3 * 2**30)] == [
            "5 bytes",
            "1024 bytes (1.00 KB)",
            "3221225472 bytes (3.00 GB)",
        ]


def test_the_error_is_one_that_clients_retry_on() -> None:
    memory = Hbm(GAUDI2, PoolLimits(RESERVED_BYTES + INITIAL_WORKSPACE + 20 * MIB))
    for number in range(12):
        memory.copied(number, "Float", (256, 1024), f"train.py:{number}")
        memory.apply([(number, (number + 1) * 2**16, -1)])
    shortage = memory.reserve([(99, 32 * MIB, 1)], 0, "graph_1")
    assert shortage is not None
    error = out_of_memory_error(memory, shortage, lambda origin: None, GRAPH, "mark_step", 0)
    assert isinstance(error, torch.OutOfMemoryError) and isinstance(error, RuntimeError) and len(error.args) == 1
    lines = str(error).splitlines()
    assert lines[0].startswith("FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::33554432 (32)MB")
    named = [line.rpartition(":")[2] for line in lines if " from train.py:" in line]
    assert named == [str(number) for number in range(11, 1, -1)]  # the ten largest, largest first
