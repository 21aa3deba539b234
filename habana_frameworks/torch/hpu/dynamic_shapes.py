"""Dynamic shapes: whether graphs that differ only in sizes share recipes (`device/buckets.py`)."""

from __future__ import annotations

import logging

from device import flags
from device.buckets import dynamic_shapes

VARIABLE = "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"
_logger = logging.getLogger(__name__)


def enable_dynamic_shape() -> None:
    """Have later graphs share recipes. After the capture of a graph it has no effect, and says so."""
    if dynamic_shapes.closed:
        _logger.warning("enable_dynamic_shape has no effect: a captured graph has switched dynamic shapes off for good")
    dynamic_shapes.enable()


def disable_dynamic_shape() -> None:
    """Have each later graph compiled for its own sizes."""
    dynamic_shapes.disable()


def get_dynamic_shape_status() -> bool:
    """Whether later graphs share recipes."""
    return dynamic_shapes.on


def _follow_flag(on: bool) -> None:
    (enable_dynamic_shape if on else disable_dynamic_shape)()


flags.watch(VARIABLE, _follow_flag, get_dynamic_shape_status)
