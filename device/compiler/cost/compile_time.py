"""How long the graph compiler takes.

    base_s + operators x operator_s + split_s x sum over tensors of log2(1 + bytes / slice_bytes)

The last term is the search for tilings: a tensor can be halved so many times before its parts are smaller than a
slice. It makes time grow with the sizes in a graph, as the tutorial on detecting recompilations shows
(developer.habana.ai): the same network takes 262 ms at batches of 1 to 10 and 304 ms near 110. Coefficients:
`benchmarks/calibrate.py`.

Left out: the host's speed and load, compiling in parallel, what depends on the kinds of operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...spec import CardSpec
from ..program import Program


def splits(sizes: Iterable[int], slice_bytes: int) -> float:
    """How many halvings lie between tensors of these bytes and a slice, in all."""
    return sum(math.log2(1.0 + nbytes / slice_bytes) for nbytes in sizes)


def compile_seconds(program: Program, spec: CardSpec) -> float:
    """Modelled time of compiling a program."""
    coefficients = spec.compile
    halvings = splits((buffer.nbytes for buffer in program.buffers), coefficients.slice_bytes)
    return coefficients.base_s + program.operators * coefficients.operator_s + halvings * coefficients.split_s
