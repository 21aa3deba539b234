"""Caches and dynamic shapes: what they hold, as log lines, and emptying them.

The lines go to the logger PT_RECIPE_STATS, those of dynamic shapes to PT_DYNAMIC_SHAPE.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from device import bucket_file
from device.backend import runtime
from device.buckets import dynamic_shapes
from device.card import current_card
from device.graph.shape_free import shape_free_key
from device.loggers import Level, loggers


def _write(logger: str, title: str, rows: Iterable[str]) -> None:
    rows = list(rows)
    loggers.log(logger, Level.info, f"{title}: {len(rows)}")
    for row in rows:
        loggers.log(logger, Level.info, f"  {row}")


def _get_fallback_op_count() -> dict[str, int]:
    """How often each operator ran on the host because the card lacks it."""
    card = current_card()
    return {} if card is None else dict(card.journal.fallbacks)


def _get_shape_agnostic_unsupported_ops() -> set[str]:
    """Operators whose kernel in eager mode serves one shape only: none here."""
    return set()


def _get_eager_compiler_unsupported_op_prefixes() -> set[str]:
    """Beginnings of names of operators that eager mode's compiler lacks: none here."""
    return set()


def _get_jit_cache_size() -> int:
    """Kernels of eager mode that differ in more than sizes."""
    card = current_card()
    return 0 if card is None else len({shape_free_key(kernel.graph) for kernel in card.recipes.kernels})


def _clear_jit_cache() -> None:
    """Forget the kernels of eager mode."""
    card = current_card()
    if card is not None:
        card.recipes.kernels.clear()


def _flush_disk_cache() -> None:
    """Nothing is left to write: a recipe is on disk as soon as it is compiled."""


def _set_dynamic_mode() -> None:
    """Have later graphs share recipes, as `torch.hpu.enable_dynamic_shape` does."""
    dynamic_shapes.enable()


def _disable_bucket_refinement() -> None:
    """Make no tighter recipes for ranges of sizes from here on."""
    runtime.card().recipes.buckets.refines = False


def _recipe_row(recipe: Any) -> str:
    return f"{recipe.name}: {len(recipe.program.nodes)} nodes, workspace {recipe.workspace_bytes} bytes"


def _dump_recipe_memory_stat() -> None:
    """The recipes in memory."""
    card = current_card()
    graphs = [] if card is None else [loaded.recipe for loaded in card.recipes.graphs]
    _write("PT_RECIPE_STATS", "recipes in memory", map(_recipe_row, graphs))


def _dump_synapse_recipe_memory_stat() -> None:
    """The recipes in memory, with what the compiler planned for them."""
    card = current_card()
    graphs = [] if card is None else [loaded.recipe for loaded in card.recipes.graphs]
    rows = (
        f"{recipe.name}: {recipe.seconds * 1e6:.1f} us, workspace {recipe.workspace_bytes} bytes" for recipe in graphs
    )
    _write("PT_RECIPE_STATS", "compiled recipes", rows)


def _bucket_rows() -> list[str]:
    card = current_card()
    if card is None:
        return []
    return [
        f"graph {key[:12]} bucket {bucket.number}: {bucket.low} to {bucket.high}, {bucket.runs} runs"
        for key, family in card.recipes.buckets.families.items()
        for bucket in family.buckets
    ]


def _dump_bucket_memory_stat() -> None:
    """The ranges of sizes that recipes serve."""
    _write("PT_DYNAMIC_SHAPE", "buckets", _bucket_rows())


def _dump_dynamic_shape_memory_stat() -> None:
    """The graphs that share recipes, and the ranges of sizes that these serve."""
    card = current_card()
    keys = [] if card is None else list(card.recipes.buckets.families)
    _write("PT_DYNAMIC_SHAPE", "graphs with dynamic shapes", keys)
    _dump_bucket_memory_stat()


def _dump_history_memory_stat() -> None:
    """The least and largest sizes of each graph so far."""
    card = current_card()
    families = {} if card is None else card.recipes.buckets.families
    rows = (
        f"graph {key[:12]}: {entry.history.ever_low} to {entry.history.ever_high}" for key, entry in families.items()
    )
    _write("PT_DYNAMIC_SHAPE", "sizes so far", rows)


def _dump_refined_recipe_stat() -> None:
    """The tighter ranges that were made for sizes that came often."""
    _write("PT_DYNAMIC_SHAPE", "refined buckets", (row for row in _bucket_rows() if "bucket 0" not in row))


def load_ds_checkpoint(path: str) -> None:
    """Begin with the ranges of sizes that `save_ds_checkpoint` has written.

    Raises:
        ConfigurationError: no such file, or another kind of file.
    """
    bucket_file.load(runtime.card().recipes.buckets, Path(path))


def save_ds_checkpoint(path: str) -> None:
    """Write the ranges of sizes that recipes serve, for another run.

    Raises:
        OSError: the file cannot be written.
    """
    card = runtime.card()
    card.flush("save_ds_checkpoint")
    bucket_file.save(card.recipes.buckets, Path(path))


def clear_dynamic_bucket_recipe_info() -> None:
    """Forget the ranges of sizes and the recipes that serve them."""
    card = current_card()
    if card is not None:
        card.flush("clear_dynamic_bucket_recipe_info")
        card.recipes.buckets.families.clear()
        card.recipes.graphs.drop(lambda loaded: loaded.admission is not None)
