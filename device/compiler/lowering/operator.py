"""One recorded operator as the lowering rules see it, and how a rule makes kernels for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ...graph.ir import Node, Operand, Window
from ..kernel import Kernel, Touch
from ..layout import dense, is_in_order, item_bytes, run_bytes
from ..program import Engine, ProgramBuffer

# In-place operators whose new value does not depend on the old one.
OVERWRITING = frozenset(
    {"copy", "copy_to_fp8", "fill", "zero", "uniform", "normal", "bernoulli", "random", "exponential", "log_normal",
     "cauchy", "geometric"}
)  # fmt: skip

# As kernels are named: 8-bit floats by their exponent bits, booleans as bytes.
SUFFIXES = {
    "Float": "f32", "BFloat16": "bf16", "Half": "f16", "Double": "f64", "Float8_e4m3fn": "hf8", "Float8_e5m2": "f8",
    "Long": "i64", "Int": "i32", "Short": "i16", "Char": "i8", "Byte": "u8", "Bool": "i8", "UInt16": "u16",
    "UInt32": "u32", "UInt64": "u64",
}  # fmt: skip


def suffix(dtype: str) -> str:
    """How a kernel's name spells a dtype."""
    return SUFFIXES.get(dtype, dtype.lower())


def touch(operand: Operand, passes: int = 1, nbytes: int | None = None, run: int = 0, in_order: bool = True) -> Touch:
    """An access of an operand's window, `passes` times; `nbytes` and `run` where it is not the plain window."""
    window = operand.window
    moved = passes * window.nbytes if nbytes is None else nbytes
    follows = in_order and passes == 1 and nbytes is None and is_in_order(window)
    return Touch(operand.buffer, window, moved, run or run_bytes(window), follows)


class Operator:
    """A graph node with its number, what it really reads and writes, and room for buffers inside its lowering."""

    def __init__(self, node: Node, number: int, buffers: list[ProgramBuffer]) -> None:
        self.node = node
        self.number = number
        self._buffers = buffers
        self._attributes = dict(node.attributes)
        outs = [operand for operand in node.written if operand.name == "out"]
        kept = list(node.operands)
        # Arguments of out= come last in every schema, under names of their own ("grad_input", "values").
        for out in reversed(outs):
            if kept and (kept[-1].buffer, kept[-1].window) == (out.buffer, out.window):
                kept.pop()
        if self.base in OVERWRITING and node.written and not outs:
            kept = kept[1:]
        self.reads: tuple[Operand, ...] = tuple(kept)
        self.writes: tuple[Operand, ...] = node.outputs

    @property
    def base(self) -> str:
        """`add` for `aten::add_.Tensor`, `and` for `aten::__and__.Tensor`."""
        return self.node.kind.lstrip("_") if self.node.op.partition("::")[2].startswith("__") else self.node.kind

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self._attributes.get(name, default)
        return default if value is None else value

    def operand(self, *names: str) -> Operand | None:
        """The first read operand of one of these names."""
        return next((operand for name in names for operand in self.reads if operand.name == name), None)

    def listed(self, name: str) -> tuple[Operand, ...]:
        """All tensors of a list argument."""
        return tuple(operand for operand in self.reads if operand.name == name)

    @property
    def dtype(self) -> str:
        """The widest dtype among the operands; what the lanes of a vector kernel are filled with."""
        windows = [operand.window for operand in self.reads + self.writes]
        return max((window.dtype for window in windows), key=item_bytes, default="Float")

    @property
    def elements(self) -> int:
        """Elements of the largest operand."""
        return max((operand.window.elements for operand in self.reads + self.writes), default=0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the largest operand."""
        windows = [operand.window for operand in self.writes + self.reads]
        return max(windows, key=lambda window: window.elements).sizes if windows else ()

    def scratch(self, dtype: str, *sizes: int, in_memory: bool = True) -> Operand:
        """A buffer between the kernels of this operator; one that is not `in_memory` moves no bytes."""
        window = dense(dtype, *sizes)
        nbytes = window.elements * item_bytes(dtype)
        self._buffers.append(ProgramBuffer(nbytes, resident=False, live=False, fused=not in_memory))
        return Operand("scratch", len(self._buffers) - 1, window)

    def kernel(
        self,
        engine: Engine,
        kernel: str,
        kind: str,
        operations: float,
        *,
        reads: Iterable[Touch] | None = None,
        writes: Iterable[Touch] | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        suffix_: str | None = None,
        part: str = "",
        entry: int = 0,
        exit: int = 0,
    ) -> Kernel:
        """A kernel of this operator; by default it streams every operand once. `part` tells several ones apart."""
        chosen = self.dtype if dtype is None else dtype
        return Kernel(
            engine=engine,
            name=f"{self.base.strip('_') or 'custom'}_{self.number}" + (f"_{part}" if part else ""),
            kernel=kernel,
            suffix=suffix(chosen) if suffix_ is None else suffix_,
            kind=kind,
            dtype=chosen,
            shape=self.shape if shape is None else shape,
            operations=float(operations),
            reads=tuple(touch(operand) for operand in self.reads) if reads is None else tuple(reads),
            writes=tuple(touch(operand) for operand in self.writes) if writes is None else tuple(writes),
            sources=(self.number,),
            where=self.node.where,
            entry=entry,
            exit=exit,
        )

    def tpc(self, kernel: str, kind: str, operations: float, **options: Any) -> Kernel:
        """A kernel of the vector engine."""
        return self.kernel(Engine.TPC, kernel, kind, operations, **options)


Rule = Callable[[Operator], list[Kernel]]


def named(rule: Rule, names: str) -> dict[str, Rule]:
    """One rule for operators of several names, parted by spaces."""
    return dict.fromkeys(names.split(), rule)


def transposed(window: Window, turned: bool = True) -> Window:
    """The window with its last two dimensions changed, where `turned`."""
    if not turned or len(window.sizes) < 2:
        return window
    sizes, strides = list(window.sizes), list(window.strides)
    sizes[-2:], strides[-2:] = sizes[:-3:-1], strides[:-3:-1]
    return replace(window, sizes=tuple(sizes), strides=tuple(strides))


def volume(sizes: Iterable[int]) -> int:
    """Product of sizes."""
    return math.prod(sizes)


def normal_dims(dims: Any, rank: int) -> tuple[int, ...]:
    """Dimensions as non-negative numbers; all of them for None or an empty list."""
    if dims is None or dims == ():
        return tuple(range(rank))
    listed = dims if isinstance(dims, tuple) else (dims,)
    return tuple(sorted(dim % rank for dim in listed)) if rank else ()
