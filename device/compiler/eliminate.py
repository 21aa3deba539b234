"""Leaving out work whose result nobody sees: constants, repeated casts, dead kernels.

Buffers change in place, so a value is a buffer at a moment: a read means the last write before it. Everything here
keeps what every remaining read sees.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from .kernel import Draft, Kernel, Touch, without_memory
from .layout import Walk, covers, walk
from .lowering.collective import COLLECTIVE
from .program import ProgramBuffer

CONSTANT_KERNELS = ("constant", "memset")


def eliminate(draft: Draft) -> Draft:
    """The draft without dead kernels, repeated casts and foldable constants."""
    # Dead kernels first: what is folded or merged must go to a kernel that stays.
    return fold_constants(merge_casts(drop_dead(draft)))


def _whole(touch: Touch, buffers: tuple[ProgramBuffer, ...]) -> bool:
    return covers(touch.window, buffers[touch.buffer].nbytes)


def _writers(kernels: Iterable[Kernel]) -> Counter[int]:
    """How many kernels write each buffer."""
    return Counter(buffer for kernel in kernels for buffer in {touch.buffer for touch in kernel.writes})


def drop_dead(draft: Draft) -> Draft:
    """Without kernels whose results are neither alive at the end nor read before they are overwritten.

    Collectives stay: the other ranks wait for them.
    """
    needed = {number for number, buffer in enumerate(draft.buffers) if buffer.live}
    kept: list[Kernel] = []
    for kernel in reversed(draft.kernels):
        is_needed = kernel.kind == COLLECTIVE or any(touch.buffer in needed for touch in kernel.writes)
        if kernel.writes and not is_needed:
            continue
        kept.append(kernel)
        needed -= {touch.buffer for touch in kernel.writes if _whole(touch, draft.buffers)}
        needed |= {touch.buffer for touch in kernel.reads}
    return replace(draft, kernels=tuple(reversed(kept)))


def fold_constants(draft: Draft) -> Draft:
    """Fills that only elementwise kernels read become part of the first of them: constants need no memory."""
    writers = _writers(draft.kernels)
    readers: dict[int, list[int]] = defaultdict(list)
    for number, kernel in enumerate(draft.kernels):
        for buffer in {touch.buffer for touch in kernel.reads}:
            readers[buffer].append(number)
    folded: dict[int, tuple[int, ...]] = {}
    gone: set[int] = set()
    extra: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for number, kernel in enumerate(draft.kernels):
        if kernel.kernel not in CONSTANT_KERNELS or kernel.reads or len(kernel.writes) != 1:
            continue
        touch = kernel.writes[0]
        users = readers[touch.buffer]
        if (
            users
            and draft.buffers[touch.buffer].is_workspace
            and writers[touch.buffer] == 1
            and _whole(touch, draft.buffers)
            and all(user > number and draft.kernels[user].is_pointwise for user in users)
        ):
            folded[touch.buffer] = kernel.sources
            gone.add(number)
            extra[users[0]] += kernel.sources
    kernels = [
        replace(
            kernel,
            reads=tuple(touch for touch in kernel.reads if touch.buffer not in folded),
            sources=tuple(sorted(kernel.sources + extra[number])),
        )
        if any(touch.buffer in folded for touch in kernel.reads)
        else kernel
        for number, kernel in enumerate(draft.kernels)
        if number not in gone
    ]
    return Draft(tuple(kernels), without_memory(draft.buffers, set(folded)), draft.operators)


def merge_casts(draft: Draft) -> Draft:
    """One cast where the same value is cast to the same dtype several times, and nobody changes the results."""
    writers = _writers(draft.kernels)
    versions: Counter[int] = Counter()
    first: dict[tuple[int, int, Walk, Walk], int] = {}
    moved: dict[int, int] = {}  # buffer of a repeated cast: buffer of the first one
    extra: dict[int, tuple[int, ...]] = defaultdict(tuple)
    gone: set[int] = set()
    for number, kernel in enumerate(draft.kernels):
        if kernel.kind == "cast" and len(kernel.reads) == len(kernel.writes) == 1:
            source, result = kernel.reads[0], kernel.writes[0]
            if writers[result.buffer] == 1 and _whole(result, draft.buffers):
                key = (source.buffer, versions[source.buffer], walk(source.window), walk(result.window))
                earlier = first.setdefault(key, number)
                if earlier != number and draft.buffers[result.buffer].is_workspace:
                    moved[result.buffer] = draft.kernels[earlier].writes[0].buffer
                    extra[earlier] += kernel.sources
                    gone.add(number)
        for touch in kernel.writes:
            versions[touch.buffer] += 1
    if not gone:
        return draft
    kernels = [
        replace(
            kernel,
            reads=tuple(replace(touch, buffer=moved.get(touch.buffer, touch.buffer)) for touch in kernel.reads),
            sources=tuple(sorted(kernel.sources + extra[number])),
        )
        for number, kernel in enumerate(draft.kernels)
        if number not in gone
    ]
    return Draft(tuple(kernels), without_memory(draft.buffers, set(moved)), draft.operators)
