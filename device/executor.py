"""The numerics of a recipe: the native executable beside the compiled graph.

With numerics off the bridge skips the arithmetic and storages stay without memory; shapes, time and memory figures are
the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .buckets import Admission
from .compiler.recipe import Recipe
from .graph.ir import Graph


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe that this process can run. `admission`: its bucket, with dynamic shapes."""

    recipe: Recipe
    graph: Graph
    executable: Any
    admission: Admission | None = None

    def run(self, recording: Any) -> None:
        """Replay over the buffers of `recording`, in the order in which graphs ended."""
        self.executable.run(recording)


@dataclass(frozen=True)
class EagerKernel:
    """One operator of eager mode, ready to run."""

    recipe: Recipe
    graph: Graph
    executable: Any

    @property
    def name(self) -> str:
        return self.recipe.name
