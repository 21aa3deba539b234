"""A collective as steps that follow each other, each of one phase or of two that overlap.

    one phase               T = a + t            a: latency, t: the busiest link's time
    repeated                T = rounds x (a + t)
    chain of h hops         T = (h - 1) x (a + t of one slice) + k x (a + t of a k-th), for a message in k slices
    pipeline of two phases  T = a1 + a2 + max(t1, t1/k1 + t2, k2 t1/k1 + t2/k2)

A slice has the library's size, or is all that there is, if that is less; the last one may be smaller. So a transfer of
one byte more never takes less time, as it would if it were cut into one more slice of equal size.

In the pipeline the first phase hands over slices one by one to the second: of its k1 the first k2, and works meanwhile.
So in a reduce-scatter: the box has a slice for each box, and the own one, the last, need not leave. Where the second
phase has more slices than the first, as in an all-gather, all is the mirror, in which 1 and 2 change places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .box import BoxSpec
from .topology import SwitchSpec
from .traffic import Load, Traffic


@dataclass(frozen=True)
class Stage:
    """One phase: its messages, and whether what comes in is reduced into what is there."""

    name: str
    traffic: Traffic
    reduces: bool = False
    sources: int = 1  # messages that are reduced into one result


@dataclass(frozen=True)
class Step:
    """Stages that overlap (one or two), `rounds` times one after another.

    Attributes:
        slices: how many slices each stage passes on, for parts of one slice at most; empty where stages do not overlap.
        part: size of such a part as a share of the collective's bytes.
        chain: hops of a message that is passed on in slices; 0 for none.
    """

    stages: tuple[Stage, ...]
    rounds: int = 1
    slices: tuple[int, ...] = ()
    part: float = 0.0
    chain: int = 0


@dataclass(frozen=True)
class Phase:
    """What `Group.explain` tells of a phase.

    Attributes:
        start_s, seconds: when it begins, counted from the collective's begin, and how long it takes with all rounds.
        rounds: how often it is done.
        latency_s: fixed part of one round.
        link: the busiest link, by whose time the phase is measured; empty if nothing is sent.
        wire_bytes: bytes on that link in one round, overheads and what switches take of the rate included.
        rate_bytes_per_s: what that link carries.
    """

    name: str
    start_s: float
    seconds: float
    rounds: int
    latency_s: float
    link: str
    wire_bytes: float
    rate_bytes_per_s: float


@dataclass(frozen=True)
class Timed:
    """A stage with its time for some size: `begin_s` counts from the begin of its step."""

    stage: Stage
    begin_s: float
    seconds: float
    rounds: int
    latency_s: float
    load: Load | None
    nbytes: float


class Clock:
    """Times steps with the figures of a box and its switches.

    `slowdown`: how many times as long the links take, because others use them as well.
    """

    def __init__(self, box: BoxSpec, switches: SwitchSpec, slowdown: float = 1.0) -> None:
        self._box = box
        self._switches = switches
        self._slowdown = slowdown

    def step(self, step: Step, nbytes: float) -> tuple[float, list[Timed]]:
        """Seconds of a step, and its stages with theirs."""
        if step.chain:
            return self._chain(step, nbytes)
        told = [self._stage(stage, nbytes) for stage in step.stages]
        if len(told) == 1:
            latency, seconds, load = told[0]
            whole = step.rounds * (latency + seconds)
            return whole, [Timed(step.stages[0], 0.0, whole, step.rounds, latency, load, nbytes)]
        (lag, first, one), (delay, second, other) = told
        times = max(1.0, step.part * nbytes / self._box.hccl.slice_bytes)
        k1, k2 = (count * times for count in step.slices or (1, 1))
        if k1 >= k2:
            whole = lag + delay + max(first, first / k1 + second, k2 * first / k1 + second / k2)
            begin = lag + first / k1
        else:
            whole = lag + delay + max(second, second / k2 + first, k1 * second / k2 + first / k1)
            begin = whole - delay - second
        return whole, [
            Timed(step.stages[0], 0.0, lag + first, 1, lag, one, nbytes),
            Timed(step.stages[1], begin, whole - begin, 1, delay, other, nbytes),
        ]

    def _chain(self, step: Step, nbytes: float) -> tuple[float, list[Timed]]:
        (stage,) = step.stages
        largest = min(nbytes, self._box.hccl.slice_bytes)
        slices = max(1, math.ceil(nbytes / self._box.hccl.slice_bytes))
        latency, seconds, load = self._stage(stage, largest)
        _, each, _ = self._stage(stage, nbytes / slices)
        whole = (step.chain - 1) * (latency + seconds) + slices * (latency + each)
        return whole, [Timed(stage, 0.0, whole, step.chain - 1 + slices, latency, load, largest)]

    def _stage(self, stage: Stage, nbytes: float) -> tuple[float, float, Load | None]:
        seconds, load = stage.traffic.busiest(nbytes)
        latency = self._box.roce.phase_latency_s + stage.traffic.hops * self._switches.hop_latency_s
        return latency, seconds * self._slowdown, load
