"""How a collective becomes phases. An algorithm makes the steps of a pattern among cards.

    auto              direct in a box; hierarchical over boxes with equally many cards each, else direct
    direct            each card exchanges with each other one at once
    hierarchical      in the box and across boxes, overlapped in slices
    ring              each card passes on to the next
    halving_doubling  partners at distances 1, 2, 4, ...

Ring and halving-doubling are for comparison: HCCL uses neither on Gaudi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..place import Place
from ..plan import Step
from ..wiring import Wiring
from .direct import direct_steps
from .halving_doubling import halving_doubling_steps
from .hierarchical import hierarchical_steps
from .ring import ring_steps

Algorithm = Callable[[Wiring, Sequence[Place], str, bool], list[Step]]

AUTO, DIRECT, HIERARCHICAL, RING, HALVING_DOUBLING = "auto", "direct", "hierarchical", "ring", "halving_doubling"

ALGORITHMS: dict[str, Algorithm] = {
    DIRECT: direct_steps,
    HIERARCHICAL: hierarchical_steps,
    RING: ring_steps,
    HALVING_DOUBLING: halving_doubling_steps,
}
NAMES = (AUTO, *ALGORITHMS)


def fitting(name: str, domain_sizes: Sequence[int]) -> str:
    """The algorithm that `name` means for a group with so many cards in each box: `auto` is resolved, and
    `hierarchical` is `direct` where it cannot be (one box only, or boxes with different numbers of cards).
    """
    if name not in (AUTO, HIERARCHICAL):
        return name
    return HIERARCHICAL if len(domain_sizes) > 1 and len(set(domain_sizes)) == 1 else DIRECT
