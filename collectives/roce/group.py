"""Modelled time of collectives among a fixed set of cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from device.errors import ConfigurationError

from . import fabric
from .algorithms import ALGORITHMS, fitting
from .place import Place
from .plan import Clock, Phase, Step
from .wiring import Wiring

CACHED_TIMES = 8192


class Group:
    """Cards that communicate; satisfies `fabric.FabricModel`. The first place is the root of rooted patterns.

    Attributes:
        places: where the cards stand, in the order of ranks.
        algorithm: what is used, `auto` resolved.

    Raises:
        ConfigurationError: a card that the fabric does not have, two ranks at one card, two cards that have no way to
        each other.
    """

    def __init__(self, wiring: Wiring, algorithm: str, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        for place in self.places:
            wiring.check_place(place)
        for place, count in Counter(self.places).items():
            if count > 1:
                raise ConfigurationError(
                    f"{count} ranks of a group stand at card {place} (box.module); give each its own"
                )
        self._wiring = wiring
        sizes = Counter(wiring.domain(place) for place in self.places)
        self.algorithm = fitting(algorithm, tuple(sizes.values()))
        self._plans: dict[tuple[str, bool], list[Step]] = {}
        # Per instance, so that a group that is gone takes its times along.
        self._timed = lru_cache(maxsize=CACHED_TIMES)(self._time)
        self._moved = lru_cache(maxsize=CACHED_TIMES)(self._hbm_bytes_per_s)
        if len(self.places) > 1:
            self._plan(fabric.ALL_REDUCE, is_small=False)  # finds out now who cannot reach whom

    def seconds(self, pattern: str, nbytes: int) -> float:
        """See `FabricModel.seconds`. A group of one card has nobody to talk to: 0."""
        return self._timed(pattern, nbytes, 0)

    def shared_seconds(self, pattern: str, nbytes: int, sharers: int) -> float:
        """Modelled seconds where `sharers` other transfers use the same links all along, each with a fair share."""
        if sharers < 0:
            raise ValueError(f"a link cannot be shared with {sharers} others")
        return self._timed(pattern, nbytes, sharers)

    def hbm_bytes_per_s(self, pattern: str, nbytes: int) -> float:
        """Bytes per second that are read from and written to the memory of a card while the collective runs, on average
        over its cards and its time. What is sent is read, what comes in is written; a reduction in HBM reads and writes
        for each byte that comes in, one in SRAM reads the own part and writes the result.
        """
        return self._moved(pattern, nbytes)

    def _hbm_bytes_per_s(self, pattern: str, nbytes: int) -> float:
        seconds = self.seconds(pattern, nbytes)
        if not seconds:
            return 0.0
        moved = 0.0
        for step in self._plan(pattern, self._is_small(nbytes)):
            for stage in step.stages:
                sent = stage.traffic.sent * nbytes * step.rounds
                received = sent
                if stage.reduces:
                    received *= 2 if self._wiring.box.hccl.reduces_in == "hbm" else 2 / stage.sources
                moved += sent + received
        return moved / len(self.places) / seconds

    def links(self, pattern: str, place: Place | None = None) -> frozenset[tuple[Place, int]]:
        """Ports that a pattern uses, of all cards or of the one at `place`: (place, number of the port)."""
        self._check(pattern, 0)
        if len(self.places) == 1:
            return frozenset()
        return frozenset(
            (Place(link.one, link.two), link.port)
            for is_small in (False, True)
            for step in self._plan(pattern, is_small)
            for stage in step.stages
            for link in stage.traffic.ports()
            if place in (None, Place(link.one, link.two))
        )

    def explain(self, pattern: str, nbytes: int) -> list[Phase]:
        """The phases of a collective in the order in which they begin; the last of them ends it. Phases of one step
        overlap.
        """
        self._check(pattern, nbytes)
        phases: list[Phase] = []
        start = 0.0
        roce = self._wiring.box.roce
        for step in self._steps(pattern, nbytes):
            whole, stages = self._clock().step(step, nbytes)
            for timed in stages:
                load = timed.load
                phases.append(
                    Phase(
                        name=timed.stage.name,
                        start_s=start + timed.begin_s,
                        seconds=timed.seconds,
                        rounds=timed.rounds,
                        latency_s=timed.latency_s,
                        link=self._wiring.name(load.link) if load else "",
                        wire_bytes=load.wire_bytes(timed.nbytes, roce) if load else 0.0,
                        rate_bytes_per_s=load.rate_bytes_per_s if load else 0.0,
                    )
                )
            start += whole
        return phases

    def _time(self, pattern: str, nbytes: int, sharers: int) -> float:
        self._check(pattern, nbytes)
        clock = self._clock(1.0 + sharers)
        return sum(clock.step(step, nbytes)[0] for step in self._steps(pattern, nbytes))

    def _clock(self, slowdown: float = 1.0) -> Clock:
        return Clock(self._wiring.box, self._wiring.fabric.spec.switches, slowdown)

    def _steps(self, pattern: str, nbytes: int) -> list[Step]:
        return self._plan(pattern, self._is_small(nbytes)) if len(self.places) > 1 else []

    def _plan(self, pattern: str, is_small: bool) -> list[Step]:
        key = (pattern, is_small and pattern == fabric.BROADCAST)
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = ALGORITHMS[self.algorithm](self._wiring, self.places, *key)
        return known

    def _is_small(self, nbytes: int) -> bool:
        return nbytes <= self._wiring.box.hccl.broadcast_two_phase_bytes

    def _check(self, pattern: str, nbytes: int) -> None:
        if pattern not in fabric.PATTERNS:
            raise ValueError(f"unknown collective pattern {pattern!r}; known: {', '.join(fabric.PATTERNS)}")
        if nbytes < 0:
            raise ValueError(f"a collective cannot have {nbytes} bytes")
