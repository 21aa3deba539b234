"""`torch.cuda.*`, answered by the card."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from device.spec import chosen_card

from .. import hpu
from .call_log import logged
from .devices import is_cuda, mapped

_SUBMODULES = ("memory", "random", "streams", "graphs")
_NOT_MAPPED = ("device_of",)
_CAPABILITY = (8, 0)
"""What `get_device_capability` says: scripts ask for it to see whether bfloat16 is there, which began with 8.0."""


def _index(device: Any) -> Any:
    """A device as `torch.hpu` takes it: an index counts cards, and every other device is the process's own."""
    return None if is_cuda(device) or isinstance(device, torch.device) else device


class _DeviceContext(hpu.device):
    """`with torch.cuda.device(1):`; there is one card, so it only checks the index."""

    def __init__(self, device: Any) -> None:
        super().__init__(0 if is_cuda(device) or device is None else device)


class _DeviceOf(hpu.device):
    def __init__(self, obj: Any) -> None:
        super().__init__(0)


def _of_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `torch.hpu` whose only argument is a device, as CUDA's."""

    def call(device: Any = None) -> Any:
        return function(_index(device))

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def _set_device(device: Any) -> None:
    """`cuda:N` and N alike name the card with which this process is to go on."""
    name = str(device)
    index = name.partition(":")[2] or "0" if is_cuda(device) else device
    hpu.set_device(int(index) if isinstance(index, str) and index.isdecimal() else index)


def _properties(device: Any = None) -> types.SimpleNamespace:
    """The card in the words of CUDA's properties; `multi_processor_count` counts TPCs."""
    spec = chosen_card()
    major, minor = _CAPABILITY
    return types.SimpleNamespace(
        name=hpu.get_device_name(),
        total_memory=hpu.mem_get_info()[1],
        multi_processor_count=spec.tpc.count,
        major=major,
        minor=minor,
        is_integrated=False,
        is_multi_gpu_board=False,
    )


def _memory_stats(device: Any = None) -> dict[str, int]:
    """The card's figures, and the same under the names that scripts read most."""
    stats = hpu.memory_stats()
    return {
        **stats,
        "allocated_bytes.all.current": stats["InUse"],
        "allocated_bytes.all.peak": stats["MaxInUse"],
        "reserved_bytes.all.current": stats["Limit"],
        "reserved_bytes.all.peak": stats["Limit"],
        "allocation.all.allocated": stats["NumAllocs"],
        "allocation.all.freed": stats["NumFrees"],
        "num_ooms": 0,
        "num_alloc_retries": 0,
    }


def _nothing(*arguments: Any, **options: Any) -> None:
    """Nothing to do: the card has no such thing."""


@contextlib.contextmanager
def _range(*arguments: Any, **options: Any) -> Iterator[None]:
    """A named range of CUDA's profiler; `torch.profiler.record_function` has the like."""
    with torch.profiler.record_function(str(arguments[0]) if arguments else "range"):
        yield


_DEVICE_ONLY = (
    "get_device_name",
    "synchronize",
    "mem_get_info",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "memory_usage",
    "utilization",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "current_stream",
    "default_stream",
)


def _specials() -> dict[str, Any]:
    same = {name: _of_device(getattr(hpu, name)) for name in _DEVICE_ONLY if hasattr(hpu, name)}
    nothing = dict.fromkeys(("empty_cache", "ipc_collect", "set_per_process_memory_fraction", "_lazy_init"), _nothing)
    return {
        **same,
        **nothing,
        "reset_max_memory_allocated": same["reset_peak_memory_stats"],
        "reset_max_memory_cached": same["reset_peak_memory_stats"],
        "device": _DeviceContext,
        "device_of": _DeviceOf,
        "set_device": _set_device,
        "get_device_properties": _properties,
        "get_device_capability": lambda device=None: _CAPABILITY,
        "memory_stats": _memory_stats,
        "memory_summary": lambda device=None, abbreviated=False: hpu.memory_summary(),
        "get_rng_state": lambda device="cuda": hpu.get_rng_state(),
        "set_rng_state": lambda new_state, device="cuda": hpu.set_rng_state(new_state),
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: False,
        "is_initialized": hpu.is_initialized,
        "CUDAGraph": hpu.HPUGraph,
        "OutOfMemoryError": RuntimeError,
        "graph": _graph,
        "graph_pool_handle": lambda: None,
        "has_half": True,
    }


class _graph(hpu.graphs.graph):
    """`torch.cuda.graph(g, pool, stream)`; memory pools are the card's own matter."""

    def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "") -> None:
        super().__init__(cuda_graph, stream)


def apply() -> None:
    """Install the names."""
    cuda = torch.cuda
    names: dict[str, Any] = {
        name: mapped(value) if isinstance(value, types.FunctionType) else value
        for name in hpu.__all__
        if hasattr(cuda, name) and not isinstance(value := getattr(hpu, name), types.ModuleType)
    } | _specials()
    for name, value in names.items():
        if isinstance(value, types.FunctionType):
            value = logged(f"torch.cuda.{name}", f"torch.hpu.{name}", value)
        setattr(cuda, name, value)
        for submodule in _SUBMODULES:
            if hasattr(getattr(cuda, submodule), name):
                setattr(getattr(cuda, submodule), name, value)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, name, _nothing)
    cuda.nvtx.range = _range  # type: ignore[assignment]
    for name in ("start", "stop"):
        setattr(cuda.profiler, name, _nothing)
