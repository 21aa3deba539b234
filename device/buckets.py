"""Dynamic shapes: graphs that differ only in sizes share a few recipes, each for a range of sizes (a bucket).

Per graph without its sizes (`graph/shape_free.py`):

    the first sizes            a static bucket, for these sizes alone
    other sizes                the bucket that holds them, the tightest where several do; its recipe runs as it is
    sizes that none holds      a new bucket, from the policies' minimum to their maximum (`bucket_policies.py`)
    more than 20 buckets       a recipe for these sizes alone, every time

A dimension of size 1 broadcasts and is part of the key, so it never spans a range.

Refinement: when a bucket has run 5 times, the card compiles a tighter recipe in the background, for the sizes that have
come so far; it is kept as another bucket if it is faster by PT_HPU_DS_TIME_IMPROVE_THRESHOLD_PERCENT. How much faster
is taken from the elements of the inputs at the largest sizes of both. Real hardware measures, in a thread whose moment
is not fixed; here it is always the fifth run.

What a run inside a bucket costs is the caller's: the hardware patches the recipe to the actual sizes, so the program of
the actual sizes, placed on the card, is what to charge, without compile time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .bucket_policies import History, Policies, bounds, widened
from .environment import flag
from .graph.ir import Graph
from .graph.shape_free import Sizes, input_sizes, shape_free_key

MAX_BUCKETS = 20
REFINE_AFTER_RUNS = 5


class DynamicShapes:
    """The process's switch: PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES, and `torch.hpu.enable_dynamic_shape` from then on."""

    def __init__(self, on: bool | None = None) -> None:
        self._on = on
        self._closed = False

    @property
    def on(self) -> bool:
        """Whether later graphs share recipes; the variable is read when this is first asked."""
        if self._on is None:
            self._on = flag("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False)
        return self._on and not self._closed

    @property
    def closed(self) -> bool:
        """A graph was captured: they stay off."""
        return self._closed

    def enable(self) -> None:
        self._on = True

    def disable(self) -> None:
        self._on = False

    def close(self) -> None:
        """The capture of a graph begins, which needs sizes that stand: off for the rest of the process."""
        self._closed = True


dynamic_shapes = DynamicShapes()


@dataclass(eq=False)
class Bucket:
    """Sizes that one recipe serves: `low` to `high` for each input, equal in a static bucket."""

    number: int
    low: Sizes
    high: Sizes
    runs: int = 0
    is_final: bool = False  # it is not refined any more
    seen: tuple[Sizes, Sizes] | None = None  # least and largest sizes that have run in it

    @property
    def is_static(self) -> bool:
        return self.low == self.high

    @property
    def volume(self) -> int:
        """Elements of the inputs at their largest."""
        return sum(math.prod(sizes) for sizes in self.high)

    def holds(self, sizes: Sizes) -> bool:
        return widened(self.low, self.high, sizes) == (self.low, self.high)


@dataclass(frozen=True)
class Admission:
    """Where a graph belongs: its bucket, and whether its recipe has to be compiled first. `sizes`: of this graph."""

    key: str
    bucket: Bucket
    compile: bool
    sizes: Sizes


@dataclass(frozen=True)
class Refinement:
    """The card has compiled a tighter recipe in the background; `kept` if it is enough faster to be used."""

    bucket: Bucket
    kept: bool


@dataclass
class Family:
    """All graphs of one key."""

    history: History
    buckets: list[Bucket] = field(default_factory=list)


class Buckets:
    """The buckets of one card.

    `admit` is asked for each graph whose exact signature is new, `ran` is told of each launch of an admitted one.
    """

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.refines = True
        self.families: dict[str, Family] = {}

    def admit(self, graph: Graph) -> Admission:
        """Where a graph belongs; a bucket is made where none holds it."""
        key, sizes = shape_free_key(graph), input_sizes(graph)
        family = self.families.get(key)
        if family is None:
            family = self.families[key] = Family(History.of(sizes))
        family.history.see(sizes)
        holding = [bucket for bucket in family.buckets if bucket.holds(sizes)]
        if holding:
            return Admission(key, min(holding, key=lambda bucket: (bucket.volume, bucket.number)), False, sizes)
        return Admission(key, self._new_bucket(family, sizes), True, sizes)

    def ran(self, admission: Admission) -> Refinement | None:
        """A graph has run in its bucket. The refinement that this sets off, compiled without the host waiting."""
        bucket = admission.bucket
        bucket.runs += 1
        if not self.refines or bucket.is_static or bucket.is_final:
            return None
        low, high = bucket.seen or (admission.sizes, admission.sizes)
        bucket.seen = widened(low, high, admission.sizes)
        buckets = self.families[admission.key].buckets
        if bucket.runs < REFINE_AFTER_RUNS:
            return None
        bucket.is_final = True
        if len(buckets) >= MAX_BUCKETS:
            return None
        tighter = Bucket(len(buckets), *bucket.seen, is_final=True)
        gain = 100.0 * (bucket.volume - tighter.volume) / max(bucket.volume, 1)
        kept = gain >= self.policies.threshold_percent
        if kept:
            buckets.append(tighter)
        return Refinement(tighter, kept)

    def _new_bucket(self, family: Family, sizes: Sizes) -> Bucket:
        number = len(family.buckets)
        if number >= MAX_BUCKETS:
            return Bucket(number, sizes, sizes)
        low, high = (sizes, sizes) if number == 0 else bounds(family.history, sizes, self.policies)
        bucket = Bucket(number, low, high)
        family.buckets.append(bucket)
        family.history.begin_locally(sizes)
        return bucket
