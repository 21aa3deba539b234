"""What a card remembers of a run for its report: compilations with their causes, steps, collectives, fallbacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .communication import Communication
from .graph.causes import Cause
from .step_times import StepTimes

TOP_CAUSES = 20


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
    optimizer_steps: StepTimes = field(default_factory=StepTimes)
    marks: StepTimes = field(default_factory=StepTimes)  # up to the first step of an optimizer
    graph_compile_seconds: float = 0.0
    received: int = 0  # bytes over PCIe
    sent: int = 0
    communication: Communication = field(default_factory=Communication)

    @property
    def steps(self) -> int:
        """Training steps: calls of `optimizer.step()`, or step marks where there is no optimizer."""
        return self._steps.count

    @property
    def step_source(self) -> str:
        """What ends a step: "optimizer" or "mark_step"."""
        return "optimizer" if self.optimizer_steps.count else "mark_step"

    @property
    def _steps(self) -> StepTimes:
        return self.optimizer_steps if self.optimizer_steps.count else self.marks

    def compiled(self, compilation: Compilation) -> None:
        """A graph was compiled."""
        self.compilations.append(compilation)
        self.graph_compile_seconds += compilation.seconds

    def end_step(self, moment: float) -> None:
        """An optimizer has stepped."""
        self.optimizer_steps.end(moment)

    def mark(self, moment: float) -> bool:
        """A step mark with something before it. Whether it ends a step: where no optimizer has stepped."""
        if self.optimizer_steps.count:
            return False
        self.marks.end(moment)
        return True

    def copied(self, direction: str, nbytes: int) -> None:
        """A copy between host and card: "h2d" or "d2h"."""
        if direction == "h2d":
            self.received += nbytes
        else:
            self.sent += nbytes

    def step_seconds(self) -> float:
        """Typical modelled time of a step."""
        return self._steps.typical()

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
