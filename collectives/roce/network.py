"""The network of a job: one kind of box, the fabric that joins boxes, the state of links, the algorithm."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from device.spec import CardSpec

from .box import BoxSpec, load_box
from .direct_mesh import DirectMesh
from .place import Place


@dataclass(frozen=True)
class Phase:
    """A named part of a collective: it begins `start_s` after the collective and takes `seconds`; `link` carries most
    for its rate: `bytes_on_link` at `rate_bytes_per_s`, behind `latency_s`.
    """

    name: str
    start_s: float
    seconds: float
    latency_s: float
    bytes_on_link: float
    link: str
    rate_bytes_per_s: float


class Network:
    """See `of_environment`. Immutable."""

    def __init__(self, box: BoxSpec, cards_per_box: int) -> None:
        self.box = box
        self.cards_per_box = cards_per_box

    @classmethod
    def of_environment(cls, spec: CardSpec, ranks: int) -> Network:
        box = load_box(spec.box)
        return cls(box, int(os.environ.get("HPUCLUSTER_CARDS_PER_BOX") or box.cards))

    def to_plain(self) -> dict[str, Any]:
        return {"box": self.box.name, "cards_per_box": self.cards_per_box}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Network:
        return cls(load_box(plain["box"]), plain["cards_per_box"])

    def on(self, spec: CardSpec) -> Network:
        return Network(load_box(spec.box), self.cards_per_box)

    def group(self, places: Sequence[Place]) -> Group:
        return Group(self.box, places)


class Group:
    """Satisfies `fabric.FabricModel`."""

    def __init__(self, box: BoxSpec, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self._mesh = DirectMesh(box, len(places))

    def seconds(self, pattern: str, nbytes: int) -> float:
        return self._mesh.seconds(pattern, nbytes)

    def shared_seconds(self, pattern: str, nbytes: int, sharers: int) -> float:
        return self.seconds(pattern, nbytes) * (1 + sharers)

    def hbm_bytes_per_s(self, pattern: str, nbytes: int) -> float:
        seconds = self.seconds(pattern, nbytes)
        return 2 * nbytes / seconds if seconds else 0.0

    def links(self, pattern: str) -> frozenset[tuple[Place, int]]:
        return frozenset((place, port) for place in self.places for port in range(24))

    def explain(self, pattern: str, nbytes: int) -> list[Phase]:
        return [Phase(pattern, 0.0, self.seconds(pattern, nbytes), 0.0, float(nbytes), "", 0.0)]
