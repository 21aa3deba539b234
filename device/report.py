"""The report of one card as plain data: what a table, a file, a dashboard and a test read."""

from __future__ import annotations

from typing import Any

from .environment import Settings
from .journal import Journal
from .memory import Hbm
from .recipe_cache import RecipeCache
from .spec import CardSpec
from .timeline import COMPUTE, Timeline


def time_shares(total: float, compiling: float, collectives: float, device: float) -> dict[str, float]:
    """Where `total` went, in shares that add up to it: compiling first, then collectives, then the card, then the host.

    Compilation and collectives hold up both host and card. What the card did while the host prepared more counts as
    the card's.
    """
    left = total
    shares = {"total": total}
    for name, seconds in (("compile", compiling), ("collectives", collectives), ("device", device)):
        shares[name] = min(seconds, left)
        left -= shares[name]
    shares["host"] = left
    return shares


def card_report(
    spec: CardSpec,
    module: int,
    settings: Settings,
    timeline: Timeline,
    memory: Hbm,
    journal: Journal,
    cache: RecipeCache[Any],
) -> dict[str, Any]:
    """The figures of one card; times in modelled seconds, sizes in bytes."""
    shares = time_shares(timeline.now, timeline.compiling, journal.collective_seconds, timeline.busy[COMPUTE])
    return {
        "card": spec.name,
        "module": module,
        "mode": settings.mode,
        "software": settings.software,
        "steps": journal.steps,
        "step_source": "optimizer" if journal.optimizer_steps else "mark_step",
        "graphs_compiled": len(journal.compilations),
        "recompilations": journal.recompilations(),
        "compilations": journal.compilation_rows(),
        "causes": journal.top_causes(),
        "recipe_cache": {"hits": cache.hits, "misses": cache.misses, "entries": len(cache)},
        "cpu_fallback": {
            "total": journal.fallbacks.total(),
            "ops": dict(sorted(journal.fallbacks.items())),
        },
        "memory": {
            "limit": memory.limit,
            "in_use": memory.in_use,
            "peak": memory.peak,
            "workspace": memory.workspace,
        },
        "pcie": {"received": journal.received, "sent": journal.sent},
        "time": {**shares, "step": journal.step_seconds()},
        "collectives": {
            "count": journal.collectives,
            "bytes": journal.collective_bytes,
            "seconds": journal.collective_seconds,
            "waited": journal.collective_waited,
        },
        "utilization": timeline.busy[COMPUTE] / timeline.now if timeline.now > 0 else 0.0,
    }
