"""`torch.hpu`: the device, its memory statistics, random state, streams and metrics."""

from __future__ import annotations

import sys

from device.backend import registration

from . import graphs, metrics, random
from .devices import _get_device_index as _get_device_index
from .devices import _is_in_bad_fork as _is_in_bad_fork
from .devices import _lazy_init as _lazy_init
from .devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from .dynamic_shapes import disable_dynamic_shape, enable_dynamic_shape, get_dynamic_shape_status
from .graphs import (
    CachedParams,
    GraphModel,
    HPUGraph,
    ModuleCacher,
    TensorPacker,
    copy_to,
    extract_tensors,
    get_user_input_tensor_list,
    graph,
    input_hash,
    is_current_stream_capturing,
    make_graphed_callables,
    wrap_in_hpu_graph,
    wrap_in_hpu_graph_func,
    wrapped_hpugraph_forward,
)
from .memory import (
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    memory_usage,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_ctx,
    set_rng_state,
    set_rng_state_all,
    unset_rng_ctx,
)
from .streams import (
    Event,
    Stream,
    StreamContext,
    be_the_accelerators,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

registration.register(sys.modules[__name__])
be_the_accelerators()


def __getattr__(name: str) -> bool:
    if name == "_initialized":  # activation checkpointing asks for it before it saves the random state
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CachedParams",
    "Event",
    "GraphModel",
    "HPUGraph",
    "ModuleCacher",
    "Stream",
    "StreamContext",
    "TensorPacker",
    "can_device_access_peer",
    "copy_to",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "disable_dynamic_shape",
    "enable_dynamic_shape",
    "extract_tensors",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_dynamic_shape_status",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "get_user_input_tensor_list",
    "graph",
    "graphs",
    "init",
    "initial_seed",
    "input_hash",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "metrics",
    "random",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_ctx",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "unset_rng_ctx",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
    "wrapped_hpugraph_forward",
]
