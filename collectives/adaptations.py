"""Changes to PyTorch's own distributed code, without which it would ask of HCCL what it does not have.

Importing these parts of PyTorch takes long, so a change waits until somebody imports what it concerns.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel, distributed

from device import interop
from device.backend import runtime

_BF16_HOOKS = ("bf16_compress_hook", "bf16_compress_wrapper_hook")

Change = Callable[[ModuleType], None]


class _ChangedLoader(Loader):
    """Another loader, and a change after it."""

    def __init__(self, loader: Loader, change: Change) -> None:
        self._loader = loader
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)

    def __getattr__(self, name: str) -> Any:  # get_source and the like
        return getattr(self._loader, name)


class _WhenImported(MetaPathFinder):
    """Makes the changes as soon as their modules are loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _CHANGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ChangedLoader(spec.loader, _CHANGES[name])
        return spec


def _sum_instead_of_average(module: ModuleType) -> None:
    """`fully_shard` reduces by SUM and divides afterwards, as it does for other devices whose library has no AVG."""
    factors = module._get_gradient_divide_factors
    signature = inspect.signature(factors)

    @functools.wraps(factors)
    def for_hccl(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        if bound.arguments.get("device_type") == "hpu":
            bound.arguments["force_sum_reduction_for_comms"] = True
        return factors(*bound.args, **bound.kwargs)

    module._get_gradient_divide_factors = for_hccl  # type: ignore[attr-defined]


def _replace_builtin_hook() -> None:
    """The hook in C++ that communicates float16 takes results of process groups in C++ only; there is one in Python."""
    register = DistributedDataParallel._register_builtin_comm_hook

    @functools.wraps(register)
    def for_hccl(parallel: Any, comm_hook_type: Any) -> None:
        if parallel.device_type == "hpu" and comm_hook_type == dist.BuiltinCommHookType.FP16_COMPRESS:
            parallel.register_comm_hook(parallel.process_group, fp16_compress_hook)
        else:
            register(parallel, comm_hook_type)

    DistributedDataParallel._register_builtin_comm_hook = for_hccl  # type: ignore[method-assign]


def _mean_of_sums(module: ModuleType) -> None:
    """A DTensor whose ranks hold terms of an average (as of `mean()`) is reduced by SUM, and divided."""
    partial = module.Partial
    reduce_value, reduce_shard_value = partial._reduce_value, partial._reduce_shard_value

    def is_average(placement: Any, mesh: Any) -> bool:
        return placement.reduce_op == "avg" and mesh.device_type == "hpu"

    @functools.wraps(reduce_value)
    def value(self: Any, tensor: Any, mesh: Any, mesh_dim: int) -> Any:
        if is_average(self, mesh):
            return reduce_value(partial("sum"), tensor, mesh, mesh_dim) / mesh.size(mesh_dim)
        return reduce_value(self, tensor, mesh, mesh_dim)

    @functools.wraps(reduce_shard_value)
    def shard_value(self: Any, tensor: Any, mesh: Any, mesh_dim: int, shard_spec: Any) -> Any:
        if is_average(self, mesh):
            return reduce_shard_value(partial("sum"), tensor, mesh, mesh_dim, shard_spec) / mesh.size(mesh_dim)
        return reduce_shard_value(self, tensor, mesh, mesh_dim, shard_spec)

    partial._reduce_value, partial._reduce_shard_value = value, shard_value


def _allow_bf16_hooks() -> None:
    """DistributedDataParallel asks for NCCL before it takes a hook that communicates bfloat16; HCCL reduces it, too."""
    check = DistributedDataParallel._check_comm_hook

    @functools.wraps(check)
    def for_hccl(parallel: Any, hook: Any) -> None:
        if parallel.device_type == "hpu" and getattr(hook, "__name__", "") in _BF16_HOOKS:
            checked = hook

            def hook(state: Any, bucket: Any) -> Any:
                return checked(state, bucket)

            hook.__signature__ = inspect.signature(checked)  # type: ignore[attr-defined]
        check(parallel, hook)

    DistributedDataParallel._check_comm_hook = for_hccl  # type: ignore[method-assign]


def _charge_reducer() -> None:
    """What DistributedDataParallel does in C++ and around a forward pass takes the host time, and is no operator."""
    prepare = DistributedDataParallel._pre_forward

    @functools.wraps(prepare)
    def for_hccl(parallel: Any, *inputs: Any, **options: Any) -> Any:
        if parallel.device_type == "hpu" and torch.is_grad_enabled() and parallel.require_backward_grad_sync:
            interop.ddp_step(len(parallel._module_parameters))
        return prepare(parallel, *inputs, **options)

    DistributedDataParallel._pre_forward = for_hccl  # type: ignore[method-assign, assignment]


def _compare_nothing_without_values() -> None:
    """DistributedDataParallel compares the ranks' parameters through the card's memory, which has no values with
    HPUCLUSTER_NUMERICS=off.
    """
    verify = distributed._verify_param_shape_across_processes

    @functools.wraps(verify)
    def for_hccl(process_group: Any, tensors: list[torch.Tensor], logger: Any = None) -> None:
        on_card = any(tensor.device.type == "hpu" for tensor in tensors)
        if runtime.settings().numerics or not on_card:
            verify(process_group, tensors, logger)

    distributed._verify_param_shape_across_processes = for_hccl  # type: ignore[attr-defined]


_CHANGES: dict[str, Change] = {
    "torch.distributed.fsdp._fully_shard._fsdp_collectives": _sum_instead_of_average,
    "torch.distributed.tensor.placement_types": _mean_of_sums,
}


@functools.cache
def adapt() -> None:
    """Make the changes; a second call does nothing."""
    _allow_bf16_hooks()
    _replace_builtin_hook()
    _charge_reducer()
    _compare_nothing_without_values()
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _WhenImported())
