"""All gradients of a model averaged by one all-reduce: data parallel training without `DistributedDataParallel`.

Known as `fast_ddp`. The gradients are cast into one flat buffer, packed and unpacked by two recorded HPU graphs, so a
step costs the host two launches and one collective, however many parameters there are. Nothing overlaps with the
backward pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn

from device.hpu_graph import HPUGraph
from device.streams import Stream, StreamContext

from .errors import CollectiveError

Entries = list[tuple[nn.Parameter, torch.Tensor]]

_recorded_for: WeakKeyDictionary[HPUGraph, list[int]] = WeakKeyDictionary()  # addresses of the gradients


def all_reduce_gradients(
    model: nn.Module, fusion_buffer_dtype: torch.dtype = torch.bfloat16, use_hpu_graphs: bool = True
) -> None:
    """Replace every gradient of `model` by its mean over all ranks; to be called between backward and optimizer step.

    The first call makes a buffer of `fusion_buffer_dtype` for all gradients that there are, in the order of
    `model.parameters()`, and keeps it with the model. Every gradient is cast to that dtype, and then divided by the
    number of ranks. From then on the same parameters must have gradients; where the first call finds none, later ones
    do nothing. The card waits for the all-reduce, not the host.

    With `use_hpu_graphs` (lazy mode only) packing and unpacking are recorded at the first call and replayed at every
    one. A replay works on the gradients' memory, so gradients should be zeroed in place,
    `zero_grad(set_to_none=False)`; where they are other tensors now, both are recorded again.

    Raises:
        NotImplementedError: a parameter whose gradient takes part has none any more.
        CollectiveError: there is no process group.
        HpuError: `use_hpu_graphs` outside lazy mode.
    """
    kept = model.__dict__
    entries: Entries | None = kept.get("_all_reduce_fusion_entries")
    if entries is None:
        entries = kept["_all_reduce_fusion_entries"] = _make_entries(model, fusion_buffer_dtype)
    if not entries:
        return
    world = dist.group.WORLD
    if world is None:
        raise CollectiveError("all_reduce_gradients needs a process group; call dist.init_process_group('hccl') first")
    share = 1.0 / world.size()
    current = _gradients(entries)
    pack, unpack = _packing(entries, share), _unpacking(entries)
    _run(kept, "_all_reduce_gradient_pack_graph", pack, current, use_hpu_graphs)
    # What uses the buffer next waits for it on the card.
    dist.all_reduce(kept["_all_reduce_fusion_buffer"], group=world, async_op=True)
    _run(kept, "_all_reduce_gradient_unpack_graph", unpack, current, use_hpu_graphs)


def _make_entries(model: nn.Module, dtype: torch.dtype) -> Entries:
    """The parameters that have gradients, each with its part of the buffer, which is kept with the model."""
    active = [(parameter, parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    total = sum(gradient.numel() for _, gradient in active)
    if not total:
        return []
    buffer = torch.zeros(total, dtype=dtype, device="hpu:0")
    model.__dict__["_all_reduce_fusion_buffer"] = buffer
    parts = buffer.split([gradient.numel() for _, gradient in active])
    return [(parameter, part.view(gradient.shape)) for (parameter, gradient), part in zip(active, parts, strict=True)]


def _gradients(entries: Entries) -> list[torch.Tensor]:
    gradients = [parameter.grad for parameter, _ in entries if parameter.grad is not None]
    if len(gradients) != len(entries):
        raise NotImplementedError(
            f"all_reduce_gradients() cannot change the set of active gradients after its first call: "
            f"{len(entries) - len(gradients)} of {len(entries)} parameters have no gradient any more"
        )
    return gradients


def _packing(entries: Entries, share: float) -> Callable[[], None]:
    @torch.no_grad()
    def pack() -> None:
        for (_, part), gradient in zip(entries, _gradients(entries), strict=True):
            part.copy_(gradient.to(part.dtype) * share, non_blocking=True)

    return pack


def _unpacking(entries: Entries) -> Callable[[], None]:
    @torch.no_grad()
    def unpack() -> None:
        for (_, part), gradient in zip(entries, _gradients(entries), strict=True):
            gradient.copy_(part.to(gradient.dtype), non_blocking=True)

    return unpack


def _run(
    kept: dict[str, object], name: str, work: Callable[[], None], gradients: list[torch.Tensor], use_hpu_graphs: bool
) -> None:
    """Do it, or replay it as an HPU graph that is kept under that name."""
    if not use_hpu_graphs:
        work()
        return
    addresses = [gradient.data_ptr() for gradient in gradients]
    graph = kept.get(name)
    if not isinstance(graph, HPUGraph) or _recorded_for.get(graph) != addresses:
        if isinstance(graph, HPUGraph):
            warnings.warn(
                "all_reduce_gradients: the gradients are other tensors than those that were recorded, so they are "
                "recorded again; zero them in place to replay, optimizer.zero_grad(set_to_none=False)",
                stacklevel=3,
            )
        graph = kept[name] = HPUGraph()
        with StreamContext(Stream()):
            graph.capture_begin()
            work()
            graph.capture_end()
        _recorded_for[graph] = addresses
    graph.replay()
