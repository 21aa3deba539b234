"""Constants and ranges: nothing is read."""

from __future__ import annotations

from ..kernel import Kernel
from ..program import Engine
from .operator import Operator, Rule, named

# Operators whose result is one value everywhere: elimination may make them part of their consumers.
CONSTANTS = frozenset({"fill", "zero", "full", "full_like", "zeros", "zeros_like", "ones", "ones_like",
                       "new_full", "new_zeros", "new_ones", "scalar_tensor"})  # fmt: skip


def fill(operator: Operator) -> list[Kernel]:
    """fill_ and zero_: zeros are set by the DMA engine, values by the vector engine."""
    written = sum(operand.window.elements for operand in operator.writes)
    if "zero" in operator.base or (operator.attribute("value") == 0 and not operator.reads):
        return [operator.kernel(Engine.DMA, "memset", "fill", 0.0, suffix_="")]
    return [operator.tpc("constant", "fill", written)]


def sequence(operator: Operator) -> list[Kernel]:
    """arange, linspace, eye, tril_indices, ..."""
    written = sum(operand.window.elements for operand in operator.writes)
    names = {"arange": "range", "linspace": "range", "logspace": "range", "eye": "eye"}
    return [operator.tpc(names.get(operator.base, operator.base), "fill", 2 * written)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(CONSTANTS, fill),
    **named(sequence, "arange linspace logspace eye tril_indices triu_indices range"),
}
