"""Where modules compute in 8-bit floats: `fp8_autocast`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from device.backend.hpu_ops.fp8_format import require_card

from .recipe import DelayedScaling


@dataclass(frozen=True)
class _State:
    enabled: bool = False
    recipe: DelayedScaling | None = None
    group: dist.ProcessGroup | None = None


class FP8GlobalStateManager:
    """What holds at this moment."""

    _state = _State()

    @classmethod
    def is_fp8_enabled(cls) -> bool:
        """Whether modules compute in 8-bit floats."""
        return cls._state.enabled

    @classmethod
    def get_fp8_recipe(cls) -> DelayedScaling:
        """The recipe that they go by."""
        return cls._state.recipe or DelayedScaling()

    @classmethod
    def get_fp8_group(cls) -> dist.ProcessGroup | None:
        """The ranks that share scales."""
        return cls._state.group


def is_fp8_available() -> tuple[bool, str]:
    """(whether the card has 8-bit floats, why not)."""
    try:
        require_card("fp8_autocast")
    except RuntimeError as error:
        return False, str(error)
    return True, ""


@contextmanager
def fp8_autocast(
    enabled: bool = False,
    fp8_recipe: DelayedScaling | Mapping[str, Any] | None = None,
    fp8_group: dist.ProcessGroup | None = None,
    **options: Any,
) -> Iterator[None]:
    """Within (or, as a decorator, in the function): modules of this package compute in 8-bit floats.

    Args:
        enabled: whether they do.
        fp8_recipe: a DelayedScaling, or its arguments.
        fp8_group: the ranks that share scales; default all.
    """
    if enabled:
        require_card("fp8_autocast")
    recipe = DelayedScaling(**fp8_recipe) if isinstance(fp8_recipe, Mapping) else fp8_recipe
    before = FP8GlobalStateManager._state
    FP8GlobalStateManager._state = _State(enabled, recipe, fp8_group)
    try:
        yield
    finally:
        FP8GlobalStateManager._state = before
