"""HPU graphs: a piece of work captured once, and then run again and again at the price of one launch.

A capture runs what it records. Replays work on the same memory: the tensors of the capture are the static inputs and
outputs, which later calls overwrite.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from device.backend import runtime
from device.hpu_graph import HPUGraph, graph
from device.streams import Stream


def is_current_stream_capturing() -> bool:
    """Whether a capture is under way."""
    return runtime.card().is_capturing


def input_hash(obj: Any) -> Hashable:
    """What decides whether a captured graph fits a call: shapes, types and layouts of tensors, and other values."""
    if isinstance(obj, torch.Tensor):
        return ("tensor", obj.device.type, obj.dtype, tuple(obj.shape), obj.stride(), torch.is_autocast_enabled("hpu"))
    if isinstance(obj, dict):
        return ("dict", *((key, input_hash(value)) for key, value in obj.items()))
    if isinstance(obj, (list, tuple)):
        return (type(obj).__name__, *(input_hash(item) for item in obj))
    return (type(obj).__name__, obj if isinstance(obj, Hashable) else id(obj))


def copy_to(dst: Any, src: Any) -> None:
    """Copy the tensors in `src` into those in `dst`, containers being of the same form."""
    if isinstance(dst, torch.Tensor):
        if dst is not src:
            dst.copy_(src, non_blocking=True)
    elif isinstance(dst, dict):
        for key, value in dst.items():
            copy_to(value, src[key])
    elif isinstance(dst, (list, tuple)):
        for old, new in zip(dst, src, strict=True):
            copy_to(old, new)


class CachedParams:
    """One captured call: static inputs, static outputs, and the graph between them."""

    def __init__(
        self,
        graph_inputs: Any,
        graph_outputs: Any,
        graph: HPUGraph,
        out_tinfo_list: Any = None,
        asynchronous: bool = False,
    ) -> None:
        self.graph_inputs = graph_inputs
        self.graph_outputs = graph_outputs
        self.graph = graph
        self.out_tinfo_list = out_tinfo_list
        self.asynchronous = asynchronous


def wrap_in_hpu_graph_func(
    func: Callable[..., Any],
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> Callable[..., Any]:
    """`func` captured at its first call with inputs of a form, and replayed at later ones.

    Replays return the same output tensors, overwritten. Beyond `max_graphs` forms `func` itself runs.
    """
    stream = Stream()
    cache: dict[Hashable, CachedParams] = {}

    @functools.wraps(func)
    def wrapped(*args: Any, bypass_hpu_graphs: bool = False, **kwargs: Any) -> Any:
        if bypass_hpu_graphs:
            return func(*args, **kwargs)
        key = input_hash((args, kwargs))
        cached = cache.get(key)
        if cached is None:
            if max_graphs is not None and len(cache) >= max_graphs:
                return func(*args, **kwargs)
            captured = HPUGraph()
            with graph(captured, stream, dry_run):
                outputs = func(*args, **kwargs)
            cache[key] = CachedParams((args, kwargs), outputs, captured, asynchronous=asynchronous)
            return outputs
        copy_to(cached.graph_inputs, (args, kwargs))
        cached.graph.replay(asynchronous)
        return cached.graph_outputs

    wrapped.clear_cache = cache.clear  # type: ignore[attr-defined]
    return wrapped


def wrap_in_hpu_graph(
    module: nn.Module,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> nn.Module:
    """`module` with its forward captured at the first call of a form, as `wrap_in_hpu_graph_func` does."""
    forward = wrap_in_hpu_graph_func(module.forward, asynchronous, disable_tensor_cache, dry_run, max_graphs)
    module.forward = forward  # type: ignore[method-assign]
    module.clear_cache = forward.clear_cache  # type: ignore
    return module
