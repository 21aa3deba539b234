"""What a card remembers of a run for its report: compilations with their causes, steps, collectives, fallbacks."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .graph.causes import Cause

TOP_CAUSES = 20
WARMUP_STEPS = 2  # the first steps compile


@dataclass(frozen=True)
class Compilation:
    """One compiled graph."""

    recipe: str
    seconds: float
    cause: Cause
    step: int
    nodes: int


@dataclass
class Journal:
    """Counters of one card. Times in modelled seconds, sizes in bytes."""

    compilations: list[Compilation] = field(default_factory=list)
    fallbacks: Counter[str] = field(default_factory=Counter)
    optimizer_steps: int = 0
    marks: int = 0
    step_ends: list[float] = field(default_factory=list)
    mark_ends: list[float] = field(default_factory=list)
    graph_compile_seconds: float = 0.0
    received: int = 0  # bytes over PCIe
    sent: int = 0
    collectives: int = 0
    collective_bytes: int = 0
    collective_seconds: float = 0.0
    collective_waited: float = 0.0

    @property
    def steps(self) -> int:
        """Training steps: calls of `optimizer.step()`, or step marks where there is no optimizer."""
        return self.optimizer_steps or self.marks

    def compiled(self, compilation: Compilation) -> None:
        """A graph was compiled."""
        self.compilations.append(compilation)
        self.graph_compile_seconds += compilation.seconds

    def end_step(self, moment: float) -> None:
        self.optimizer_steps += 1
        self.step_ends.append(moment)

    def mark(self, moment: float) -> None:
        """A step mark with something before it."""
        self.marks += 1
        self.mark_ends.append(moment)

    def copied(self, direction: str, nbytes: int) -> None:
        """A copy between host and card: "h2d" or "d2h"."""
        if direction == "h2d":
            self.received += nbytes
        else:
            self.sent += nbytes

    def step_seconds(self) -> float:
        """Typical (median) modelled time of a step, the first two left out where there are more.

        The median, so that an evaluation or a compilation between two steps does not count as training.
        """
        ends = self.step_ends or self.mark_ends
        steps = [end - start for start, end in zip([0.0, *ends], ends, strict=False)]
        kept = steps[WARMUP_STEPS:] or steps
        return statistics.median(kept) if kept else 0.0

    def recompilations(self) -> int:
        return sum(compilation.cause.is_recompilation for compilation in self.compilations)

    def top_causes(self) -> list[dict[str, Any]]:
        """Causes of recompilation, most frequent first."""
        counts = Counter(
            (compilation.cause.text, compilation.cause.where)
            for compilation in self.compilations
            if compilation.cause.is_recompilation
        )
        return [
            {"cause": text, "where": where, "count": count}
            for (text, where), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP_CAUSES]
        ]

    def compilation_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "recipe": entry.recipe,
                "seconds": entry.seconds,
                "cause": entry.cause.text,
                "detail": entry.cause.detail,
                "where": entry.cause.where,
                "step": entry.step,
                "nodes": entry.nodes,
            }
            for entry in self.compilations
        ]
