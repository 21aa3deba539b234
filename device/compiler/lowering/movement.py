"""Copies: same dtype and order on the DMA engine, casts and changes of order on the vector engine.

same dtype, same order of dimensions     memcpy, in runs where the windows have gaps
same dtype, other order                  transpose
other dtype                              cast; it also changes the order where that differs
a repeated source (expanded view)        broadcast
"""

from __future__ import annotations

from ..kernel import Kernel
from ..layout import is_broadcast, item_bytes, same_order
from ..program import Engine
from .operator import Operator, Rule, named, suffix, touch, volume


def copy(operator: Operator) -> list[Kernel]:
    """copy_: the one operator behind .to(), .contiguous(), .clone() and slice assignment."""
    if not operator.reads or not operator.writes:
        return []
    source, result = operator.reads[-1].window, operator.writes[0].window
    elements = result.elements
    if source.elements != elements or is_broadcast(source):
        return [
            operator.tpc("broadcast_fwd", "elementwise", elements, dtype=result.dtype, entry=elements, exit=elements)
        ]
    if source.dtype != result.dtype:
        name = f"cast_{suffix(source.dtype)}_to"
        options = {"suffix_": suffix(result.dtype), "entry": elements, "exit": elements}
        return [operator.tpc(name, "cast", elements, **options)]
    if not same_order(source, result):
        return [operator.tpc("transpose", "transpose", elements, dtype=result.dtype)]
    return [operator.kernel(Engine.DMA, "memcpy", "copy", 0.0, dtype=result.dtype, suffix_="")]


def join(operator: Operator) -> list[Kernel]:
    """cat, stack, split with copies, unbind with copies: the DMA engine moves the pieces."""
    pieces = operator.reads
    if not operator.writes or any(word in operator.base for word in ("split", "chunk", "unbind")):
        return [operator.kernel(Engine.DMA, "split", "copy", 0.0, suffix_="")]
    whole = operator.writes[0]
    dim = int(operator.attribute("dim", 0))
    rank = len(whole.window.sizes)
    dim = dim % rank if rank else 0
    outer = any(size > 1 for size in whole.window.sizes[:dim])
    run = 0
    if outer and pieces:
        inner = volume(whole.window.sizes[dim + 1 :]) * item_bytes(whole.window.dtype)
        run = inner * max(1, whole.window.sizes[dim] // len(pieces))
    writes = [touch(whole, run=run)]
    return [operator.kernel(Engine.DMA, "concat", "copy", 0.0, dtype=whole.window.dtype, writes=writes, suffix_="")]


def rearrange(operator: Operator) -> list[Kernel]:
    """roll, flip, repeat, pixel_shuffle, padding with a constant: elements change their place."""
    result = operator.writes[0].window if operator.writes else None
    dtype = result.dtype if result is not None else operator.dtype
    name = {"constant_pad_nd": "pad_fwd", "repeat": "tile_fwd"}.get(operator.base, f"{operator.base.strip('_')}_fwd")
    moved = result.elements if result is not None else operator.elements
    return [operator.tpc(name, "other", moved, dtype=dtype, shape=result.sizes if result is not None else None)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("copy", "_copy_from", "identity", "contiguous", "clone", "_to_copy", "to"), copy),
    **named(
        join,
        "cat _cat stack _stack concatenate split_copy split_with_sizes_copy unbind_copy hstack vstack "
        "unsafe_split unsafe_chunk",
    ),
    **named(
        rearrange,
        "roll flip repeat repeat_interleave pixel_shuffle pixel_unshuffle constant_pad_nd channel_shuffle rot90 "
        "im2col col2im unfold_backward unfold_copy diag_embed select_backward slice_backward diagonal_backward "
        "select_scatter slice_scatter diagonal_scatter as_strided_scatter",
    ),
}
