"""The report of one card as plain data: what a table, a file, a dashboard and a test read."""

from __future__ import annotations

from typing import Any

from .environment import Settings
from .journal import Journal
from .memory import Hbm
from .power import energy_joules, power_watts
from .recipe_cache import RecipeCache
from .recipes import Recipes
from .shares import time_shares
from .spec import CardSpec
from .timeline import COMPUTE, Timeline


def card_figures(
    spec: CardSpec,
    module: int,
    settings: Settings,
    timeline: Timeline,
    memory: Hbm,
    journal: Journal,
    recipes: Recipes,
) -> dict[str, Any]:
    """The figures of one card that do not grow with the run; times in modelled seconds, sizes in bytes."""
    total = timeline.now
    shares = time_shares(total, timeline.compiling, journal.communication.total.exposed, timeline.busy[COMPUTE])
    cache: RecipeCache[Any] = recipes.graphs if settings.lazy else recipes.kernels
    return {
        "card": spec.name,
        "module": module,
        "mode": settings.mode,
        "software": settings.software,
        "steps": journal.steps,
        "step_source": journal.step_source,
        "graphs_compiled": len(journal.compilations),
        "recompilations": journal.recompilations(),
        "compile_seconds": journal.graph_compile_seconds,
        "causes": journal.top_causes(),
        "recipe_cache": {
            "hits": cache.hits,
            "misses": cache.misses,
            "entries": len(cache),
            "disk_hits": recipes.store.hits if recipes.store is not None else 0,
        },
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
        "engines": dict(timeline.engines),
        "power_w": power_watts(spec.power, timeline.engines, total),
        "energy_j": energy_joules(spec.power, timeline.engines, total),
        "time": {**shares, "step": journal.step_seconds()},
        "host_work": {
            name: {"count": int(count), "seconds": seconds}
            for name, (count, seconds) in sorted(timeline.host_work.items())
        },
        "collectives": journal.communication.to_plain(),
        "utilization": timeline.busy[COMPUTE] / total if total > 0 else 0.0,
    }


def card_details(timeline: Timeline, memory: Hbm, journal: Journal) -> dict[str, Any]:
    """What grows with the run: each compilation, and the memory by category over time and at its peak."""
    return {
        "compilations": journal.compilation_rows(),
        "memory_timeline": memory.timeline(timeline.now),
        "memory_at_peak": memory.at_peak(),
    }
