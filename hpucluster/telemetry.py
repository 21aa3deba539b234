"""The cards' counters as Prometheus metrics, read from their latest snapshots whenever Prometheus scrapes.

Names beginning with `hpucluster_` are this project's. All seconds are modelled card time, not this machine's
time, and sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .card_figures import of_snapshot
from .exporter_names import ExporterCollector
from .identity import CardIdentity
from .report import SHARES, unused_card
from .snapshots import Snapshot, SnapshotBoard

_LABELS = ("rank", "module", "card")

_COUNTERS: list[tuple[str, str, Callable[[Snapshot], float]]] = [
    ("steps", "Training steps done.", lambda s: s["steps"]),
    ("graph_compilations", "Graphs compiled.", lambda s: s["graphs_compiled"]),
    (
        "graph_compilation_seconds",
        "Modelled seconds spent compiling graphs.",
        lambda s: s["compile_seconds"],
    ),
    ("recompilations", "Compilations of a graph seen before in another form.", lambda s: s["recompilations"]),
    ("recipe_cache_hits", "Recipes found in the recipe cache.", lambda s: s["recipe_cache"]["hits"]),
    (
        "recipe_cache_misses",
        "Recipes not found in the recipe cache.",
        lambda s: s["recipe_cache"]["misses"],
    ),
    ("cpu_fallbacks", "Operators run on the host's CPU.", lambda s: s["cpu_fallback"]["total"]),
    ("collectives", "Collective operations done.", lambda s: s["collectives"]["count"]),
    ("collective_bytes", "Bytes given to collective operations.", lambda s: s["collectives"]["bytes"]),
    (
        "collective_seconds",
        "Modelled seconds of collective operations.",
        lambda s: s["collectives"]["seconds"],
    ),
    (
        "collective_wait_seconds",
        "Modelled seconds of waiting for the slowest rank.",
        lambda s: s["collectives"]["waited"],
    ),
]

_GAUGES: list[tuple[str, str, Callable[[Snapshot], float]]] = [
    ("step_seconds", "Modelled seconds of a step, mean after the first two.", lambda s: s["time"]["step"]),
    ("recipe_cache_entries", "Recipes in the recipe cache.", lambda s: s["recipe_cache"]["entries"]),
    ("memory_limit_bytes", "Card memory that the process may use.", lambda s: s["memory"]["limit"]),
    ("memory_in_use_bytes", "Card memory in use.", lambda s: s["memory"]["in_use"]),
    ("memory_peak_bytes", "Largest card memory in use so far.", lambda s: s["memory"]["peak"]),
    ("memory_workspace_bytes", "Card memory of the recipes' workspace.", lambda s: s["memory"]["workspace"]),
    (
        "utilization_ratio",
        "Share of the modelled time in which the card computed.",
        lambda s: s["utilization"],
    ),
]


class ClusterCollector(Collector):
    """The metrics of all cards of a job. A card that no script has used yet shows zeros and its memory's
    size.
    """

    def __init__(self, identities: Iterable[CardIdentity], board: SnapshotBoard) -> None:
        self._identities = list(identities)
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """The metric families, from one look at the latest snapshots."""
        cards = [(identity, latest(identity, self._board)) for identity in self._identities]
        for name, text, read in _COUNTERS:
            counter = CounterMetricFamily(f"hpucluster_{name}", text, labels=_LABELS)
            _fill(counter, cards, read)
            yield counter
        for name, text, read in _GAUGES:
            gauge = GaugeMetricFamily(f"hpucluster_{name}", text, labels=_LABELS)
            _fill(gauge, cards, read)
            yield gauge
        shares = CounterMetricFamily(
            "hpucluster_time_seconds", "Modelled seconds by where they went.", labels=(*_LABELS, "where")
        )
        for identity, snapshot in cards:
            for share in SHARES:
                shares.add_metric([*_values(identity), share], snapshot["time"][share])
        yield shares


def latest(identity: CardIdentity, board: SnapshotBoard) -> Snapshot:
    """The card's latest snapshot; before the first, one with zeros and the card's memory limit."""
    snapshot = board.get(identity.rank)
    if snapshot is not None:
        return snapshot
    unused = unused_card(identity.spec.name, identity.module)
    unused["memory"]["limit"] = identity.spec.hbm.pool_bytes
    return unused


def _values(identity: CardIdentity) -> list[str]:
    return [str(identity.rank), str(identity.module), identity.spec.name]


def _fill(family: Any, cards: list[tuple[CardIdentity, Snapshot]], read: Callable[[Snapshot], float]) -> None:
    for identity, snapshot in cards:
        family.add_metric(_values(identity), read(snapshot))


def build_registry(identities: Iterable[CardIdentity], board: SnapshotBoard) -> CollectorRegistry:
    """A new registry with the metrics of these cards, under this project's names and the exporter's."""
    cards = list(identities)
    registry = CollectorRegistry()
    registry.register(ClusterCollector(cards, board))
    registry.register(ExporterCollector(lambda: [of_snapshot(card, board.get(card.rank)) for card in cards]))
    return registry
