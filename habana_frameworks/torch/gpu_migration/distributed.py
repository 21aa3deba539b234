"""Process groups of `nccl`, carried by `hccl`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils._pytree import tree_map

from .call_log import note
from .devices import HPU, to_hpu


def _backend(backend: Any) -> Any:
    """`nccl` as `hccl`, also in lists such as `cpu:gloo,cuda:nccl`."""
    if not isinstance(backend, str) or "nccl" not in backend.lower():
        return backend
    note(f"backend {backend}", "hccl")
    return backend.lower().replace("cuda:nccl", "hpu:hccl").replace("nccl", "hccl")


def _with_backend(function: Callable[..., Any], position: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        given = list(arguments)
        if len(given) > position:
            given[position] = _backend(given[position])
        if "backend" in options:
            options["backend"] = _backend(options["backend"])
        if "device_id" in options:  # the card is the process's own, whatever its index
            options["device_id"] = None
        return function(*given, **options)

    return call


def apply() -> None:
    """Install the mapping."""
    for name, position in (("init_process_group", 0), ("new_group", 2)):
        replaced = _with_backend(getattr(dist, name), position)
        setattr(dist, name, replaced)
        setattr(dist.distributed_c10d, name, replaced)
    dist.is_nccl_available = lambda: True
    dist.distributed_c10d.is_nccl_available = lambda: True
    init_mesh = dist.device_mesh.init_device_mesh

    @functools.wraps(init_mesh)
    def mesh(device_type: str, *arguments: Any, **options: Any) -> Any:
        return init_mesh(str(to_hpu(device_type)), *arguments, **options)

    dist.init_device_mesh = dist.device_mesh.init_device_mesh = mesh  # type: ignore[assignment]
    _on_the_only_device(DistributedDataParallel, None)
    _on_the_only_device(DataParallel, [0])
    # PyTorch would scatter the batch with CUDA's own copies, for one device, too.
    DataParallel.forward = _forward_on_the_only_device  # type: ignore[method-assign]


def _forward_on_the_only_device(self: DataParallel[Any], *inputs: Any, **options: Any) -> Any:
    return self.module(*_to_card(inputs), **_to_card(options))


def _to_card(values: Any) -> Any:
    """The tensors of a batch on the card, in containers of the same form."""
    return tree_map(lambda value: value.to(HPU) if isinstance(value, torch.Tensor) else value, values)


def _on_the_only_device(wrapper: Any, device_ids: list[int] | None) -> None:
    """A process has one card: the ids that a script gives say no more than that."""
    start = wrapper.__init__

    @functools.wraps(start)
    def init(self: Any, module: Any, given: Any = None, output_device: Any = None, *rest: Any, **options: Any) -> None:
        options.pop("device_ids", None)
        start(self, module, device_ids, None, *rest, **options)

    wrapper.__init__ = init
