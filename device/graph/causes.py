"""Why a graph had to be compiled: how it differs from the nearest graph that was compiled before.

Nearest is one with the same operators in the same order and the fewest differing nodes; failing that, the one with
most operators in common at beginning and end. A graph that shares less than half with every other is a first graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .ir import Graph, Node, Operand

FIRST = "first graph"
SEARCHED = 64  # graphs looked at, the latest first
SMALLEST_LIKENESS = 3  # operators in common below which two graphs are not compared


@dataclass(frozen=True)
class Cause:
    """What changed (`text`, the same for causes of one kind), its values (`detail`), and the user's line (`where`)."""

    text: str
    detail: str
    where: str

    @property
    def is_recompilation(self) -> bool:
        return self.text != FIRST

    def seen_by(self, compiler: str) -> Cause:
        """The same of a graph that `compiler` made out of the user's program, which the details then say."""
        return replace(self, detail=f"{self.detail}, {compiler}" if self.detail else compiler)


def _changed_operand(before: Operand, after: Operand) -> tuple[str, str] | None:
    old, new = before.window, after.window
    if old.dtype != new.dtype:
        return f"dtype of {after.name} changed", f"{old.dtype} -> {new.dtype}"
    if len(old.sizes) != len(new.sizes):
        return f"number of dimensions of {after.name} changed", f"{old.sizes} -> {new.sizes}"
    if old.sizes != new.sizes:
        dimensions = [str(i) for i, (a, b) in enumerate(zip(old.sizes, new.sizes, strict=True)) if a != b]
        return (
            f"size of dimension {', '.join(dimensions)} of {after.name} changed",
            f"{old.sizes} -> {new.sizes}",
        )
    if old.strides != new.strides:
        return f"memory layout of {after.name} changed", f"strides {old.strides} -> {new.strides}"
    if old.offset != new.offset:
        return f"storage offset of {after.name} changed", f"{old.offset} -> {new.offset}"
    if before.buffer != after.buffer:
        return f"aliasing of {after.name} changed", f"buffer {before.buffer} -> {after.buffer}"
    return None


def _changed_node(before: Node, after: Node) -> tuple[str, str] | None:
    for old, new in zip(before.operands + before.results, after.operands + after.results, strict=False):
        change = _changed_operand(old, new)
        if change is not None:
            return change
    if len(before.operands) != len(after.operands):
        return "number of tensors changed", f"{len(before.operands)} -> {len(after.operands)}"
    for (name, old_value), (_, new_value) in zip(before.attributes, after.attributes, strict=False):
        if old_value != new_value:
            return f"constant {name} changed", f"{old_value} -> {new_value}"
    return None


def _short(op: str) -> str:
    return op.removeprefix("aten::").partition(".")[0]


def _same_skeleton(before: Graph, after: Graph) -> Cause:
    for old, new in zip(before.nodes, after.nodes, strict=True):
        change = _changed_node(old, new)
        if change is not None:
            text, detail = change
            return Cause(f"{text} in {_short(new.op)}", detail, new.where)
    for number, (old_buffer, new_buffer) in enumerate(zip(before.buffers, after.buffers, strict=False)):
        if old_buffer.live != new_buffer.live:
            kept = "kept alive" if new_buffer.live else "no longer kept alive"
            producer = next((n for n in after.nodes if number in {o.buffer for o in n.outputs}), after.nodes[-1])
            text = f"a tensor is {kept} across the flush"
            return Cause(text, f"result of {_short(producer.op)}", producer.where)
        if old_buffer.resident != new_buffer.resident:
            reader = next((n for n in after.nodes if number in {o.buffer for o in n.operands}), after.nodes[-1])
            origin = "comes from an earlier graph" if new_buffer.resident else "is made in this graph"
            return Cause(f"a tensor {origin}", f"operand of {_short(reader.op)}", reader.where)
        if old_buffer.nbytes != new_buffer.nbytes:
            return Cause(
                "size of a storage changed",
                f"{old_buffer.nbytes} -> {new_buffer.nbytes} bytes",
                after.nodes[0].where,
            )
    return Cause("evicted from the recipe cache", "", after.nodes[0].where)


def _shared_ends(before: Graph, after: Graph) -> tuple[int, int]:
    """How many operators two graphs share at their beginning, and beyond that at their end."""
    old, new = before.skeleton, after.skeleton
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    tail = next((i for i in range(most - head) if old[-1 - i] != new[-1 - i]), most - head)
    return head, tail


def _other_operators(before: Graph, after: Graph, head: int) -> Cause:
    if head >= len(after.nodes):
        missing, last = before.nodes[head], after.nodes[-1]
        return Cause(f"the graph ends before {_short(missing.op)}", f"{len(after.nodes)} operators", last.where)
    new = after.nodes[head]
    if head >= len(before.nodes):
        return Cause(f"the graph goes on with {_short(new.op)}", f"{len(after.nodes)} operators", new.where)
    text = f"{_short(new.op)} where {_short(before.nodes[head].op)} was"
    return Cause(text, f"operator {head} of {len(after.nodes)}", new.where)


def first(graph: Graph) -> Cause:
    """A graph unlike any before it."""
    return Cause(FIRST, f"{len(graph.nodes)} operators", graph.nodes[0].where)


def explain(graph: Graph, compiled: Iterable[Graph]) -> Cause:
    """The cause of compiling `graph`, given those compiled before, oldest first."""
    candidates = list(compiled)
    same = [candidate for candidate in reversed(candidates) if candidate.skeleton == graph.skeleton][:SEARCHED]
    if same:

        def distance(candidate: Graph) -> int:
            return sum(old.prefix != new.prefix for old, new in zip(candidate.nodes, graph.nodes, strict=True))

        return _same_skeleton(min(same, key=distance), graph)
    best, best_head, best_shared = None, 0, 0
    for candidate in candidates[-SEARCHED:]:
        head, tail = _shared_ends(candidate, graph)
        if head + tail >= best_shared:
            best, best_head, best_shared = candidate, head, head + tail
    # Less than half in common is another graph, not this one compiled again.
    if best is None or 2 * best_shared < max(len(best.nodes), len(graph.nodes)) or best_shared < SMALLEST_LIKENESS:
        return first(graph)
    return _other_operators(best, graph, best_head)
