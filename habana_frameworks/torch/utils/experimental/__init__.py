"""Experimental helpers (usually imported as htexp)."""

from __future__ import annotations

from .detect_recompilation import const_shape_dataloader, data_dynamicity, detect_recompilation_auto_model
from .distributed_emulation import distributed_emulation_apply_if_enabled, is_distributed_emulation_enabled
from .low_level import (
    _compute_stream,
    _data_ptr,
    _get_device_type,
    _is_available,
    _is_fp16_supported,
    _record_param,
    _record_params,
    _reset_device_memory,
    _set_profiler_tracer_memory,
    synDeviceType,
)

__all__ = [
    "_compute_stream",
    "_data_ptr",
    "_get_device_type",
    "_is_available",
    "_is_fp16_supported",
    "_record_param",
    "_record_params",
    "_reset_device_memory",
    "_set_profiler_tracer_memory",
    "const_shape_dataloader",
    "data_dynamicity",
    "detect_recompilation_auto_model",
    "distributed_emulation_apply_if_enabled",
    "is_distributed_emulation_enabled",
    "synDeviceType",
]
