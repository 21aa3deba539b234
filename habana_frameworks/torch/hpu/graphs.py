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
from device.captured_graph import CapturedGraph

from .streams import Stream, StreamContext, current_stream


class HPUGraph:
    """A captured graph, to be replayed."""

    def __init__(self) -> None:
        self._captured: CapturedGraph | None = None
        self._stream: Stream | None = None

    def capture_begin(self, dry_run: bool = False) -> None:
        """From here to `capture_end`, what runs on the card is kept.

        Raises:
            RuntimeError: not in lazy mode, or a capture is under way.
        """
        runtime.card().capture_begin()
        self._stream = current_stream()

    def capture_end(self) -> None:
        """End of what is kept.

        Raises:
            RuntimeError: no capture is under way, or it began on another stream.
        """
        captured = runtime.card().capture_end()
        if self._stream != current_stream():
            raise RuntimeError(f"the capture began on {self._stream}, not on {current_stream()}; end it there")
        self._captured = captured

    def replay(self, asynchronous: bool = False) -> None:
        """Run it again, on the memory of the capture. The card works while the host goes on; with `asynchronous` the
        host does not even wait for the launch.

        Raises:
            RuntimeError: nothing was captured.
        """
        if self._captured is None:
            raise RuntimeError("this HPUGraph has captured nothing; call capture_begin() and capture_end() first")
        runtime.card().replay(self._captured, wait=not asynchronous)

    def reset(self) -> None:
        """Let go of the captured work and its memory."""
        if self._captured is not None:
            self._captured.clear()
            self._captured = None


class graph:
    """`with graph(g, stream=s):` captures the block into the HPUGraph `g`, on a stream of its own."""

    def __init__(self, hpu_graph: HPUGraph, stream: Stream | None = None, dry_run: bool = False) -> None:
        self._graph = hpu_graph
        self._stream = StreamContext(Stream() if stream is None else stream)
        self._dry_run = dry_run

    def __enter__(self) -> None:
        runtime.card().flush_and_wait("synchronize")
        self._stream.__enter__()
        self._graph.capture_begin(self._dry_run)

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        try:
            if kind is None or runtime.card().is_capturing:
                self._graph.capture_end()
        finally:
            self._stream.__exit__()


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
