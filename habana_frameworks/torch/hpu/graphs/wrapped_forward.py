"""A forward pass captured at its first call of a form, and replayed at later ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from device import strict
from device.backend import runtime
from device.hpu_graph import HPUGraph
from device.streams import Stream, StreamContext, default_stream

from . import strict_calls as calls
from .containers import copy_to, extract_tensors, get_user_input_tensor_list
from .input_key import call_key
from .module_state import ModuleState
from .naming import name_of

DISABLE_TENSOR_CACHE = "PT_HPUGRAPH_DISABLE_TENSOR_CACHE"
STALE = "call clear_cache() on what was wrapped, and it is captured anew"


class CachedParams:
    """One captured call: static inputs, static outputs, and the graph between them.

    `out_tinfo_list`: where the tensor cache is off, shape, dtype and device of each output.
    """

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
        self.state: ModuleState | None = None


@dataclass
class Options:
    """How calls are captured and replayed."""

    asynchronous: bool = False
    disable_tensor_cache: bool = False
    dry_run: bool = False
    max_graphs: int | None = None

    def without_tensor_cache(self) -> bool:
        """The option, or the environment variable of that name where it is set."""
        told = os.environ.get(DISABLE_TENSOR_CACHE)
        return self.disable_tensor_cache if told is None else told == "1"


def _split(tensors: tuple[torch.Tensor, ...], graph: HPUGraph) -> tuple[torch.Tensor, ...]:
    """The inputs that a replay does not take directly: they are copied."""
    matched = graph.get_user_input_match_indices()
    return tuple(tensor for index, tensor in enumerate(tensors) if index not in matched)


def _capture(
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    kept: list[torch.Tensor],
) -> CachedParams:
    releases = options.without_tensor_cache()
    dry_run = releases or options.dry_run
    inputs = (args, kwargs)
    tensors = get_user_input_tensor_list(inputs)
    graph = HPUGraph()
    graph.capture_begin(dry_run)
    try:
        if releases:
            graph.mark_user_inputs(tensors)
        outputs = forward(*args, **kwargs)
        graph.capture_end()
    except BaseException:
        graph.reset()
        raise
    if not releases:
        if dry_run:
            graph.replay(options.asynchronous)
        return CachedParams(inputs, outputs, graph, None, options.asynchronous)
    made = extract_tensors(outputs)
    graph.mark_user_outputs([*kept, *made])
    graph.replayV3(tensors, options.asynchronous)
    about = [{"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device} for tensor in made]
    return CachedParams(_split(tensors, graph), outputs, graph, about, options.asynchronous)


def _replay(cached: CachedParams, inputs: Any) -> None:
    if cached.state is not None:
        cached.state.check(STALE)
    tensors = get_user_input_tensor_list(inputs)
    if strict.enabled():
        calls.refuse_overwritten(tensors)
    if cached.out_tinfo_list is None:
        given = inputs
        copy_to(cached.graph_inputs, given)
        cached.graph.replay(cached.asynchronous)
    else:
        given = _split(tensors, cached.graph)
        copy_to(cached.graph_inputs, given)
        cached.graph.replayV3(tensors, cached.asynchronous)
    if strict.enabled():
        calls.overwrite(get_user_input_tensor_list(cached.graph_inputs), get_user_input_tensor_list(given))
        calls.overwrite(extract_tensors(cached.graph_outputs))


def _handed_out(cached: CachedParams, forward: Callable[..., Any], module: nn.Module | None) -> Any:
    """The outputs as the caller gets them."""
    if not strict.enabled():
        return cached.graph_outputs
    return calls.handed_out(cached.graph_outputs, name_of(forward if module is None else module))


def _call(
    cache: MutableMapping[Hashable, CachedParams],
    stream: Stream,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    statistics: Counter[str],
    module: nn.Module | None = None,
) -> Any:
    warmup_mode = kwargs.pop("warmup_mode", False)
    bypass = kwargs.pop("bypass_hpu_graphs", False)
    kept = extract_tensors(kwargs.pop("cache_tensors_list", []))
    if bypass:
        statistics["bypassed"] += 1
        return forward(*args, **kwargs)
    inputs = (args, kwargs)
    key = call_key(inputs)
    cached = cache.get(key)
    if cached is None:
        if options.max_graphs is not None and len(cache) >= options.max_graphs:
            statistics["beyond max_graphs"] += 1
            return forward(*args, **kwargs)
        state = None if module is None else ModuleState(module)
        if state is not None and state.on_host():
            statistics["not on hpu"] += 1
            return forward(*args, **kwargs)
        with StreamContext(stream):
            cached = _capture(forward, args, kwargs, options, kept)
        if state is not None:
            state.settle()
        cached.state = state
        cache[key] = cached
        statistics["captures"] += 1
        if strict.enabled() and cached.out_tinfo_list is None:
            calls.keep(get_user_input_tensor_list(inputs), name_of(forward if module is None else module))
    elif warmup_mode:
        runtime.card().mark_step()
    else:
        statistics["replays"] += 1
        _replay(cached, inputs)
    return _handed_out(cached, forward, module)


def wrapped_hpugraph_forward(
    cache: MutableMapping[Hashable, CachedParams],
    stream: Stream,
    orig_fwd: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    disable_tensor_cache: bool,
    asynchronous: bool,
    dry_run: bool,
    max_graphs: int | None,
) -> Any:
    """One call of `orig_fwd`: captured into `cache` if it is the first of its form, else replayed.

    Takes from `kwargs`: `bypass_hpu_graphs`, to run `orig_fwd` itself; `warmup_mode`, to capture, but not replay; and
    `cache_tensors_list`, tensors that keep their memory between replays where the tensor cache is off.

    Returns:
        What the captured call returned: the same tensors each time, with the values of this call.

    Raises:
        RuntimeError: it holds what cannot be captured; or the module's parameters were moved or replaced since.
        TypeError: an argument cannot be hashed.
    """
    options = Options(asynchronous, disable_tensor_cache, dry_run, max_graphs)
    owner = getattr(orig_fwd, "__self__", None)
    module = owner if isinstance(owner, nn.Module) else None
    return _call(cache, stream, orig_fwd, args, kwargs, options, Counter(), module)


class WrappedForward:
    """A function or forward pass that goes through HPU graphs. Copies of it, and of its module, have none yet."""

    def __init__(self, forward: Callable[..., Any], options: Options, module: nn.Module | None = None) -> None:
        self._forward = forward
        self._module = module
        self._options = options
        self._forget()
        self._look_like(forward)

    def _forget(self) -> None:
        self.cache: dict[Hashable, CachedParams] = {}
        self._statistics: Counter[str] = Counter()

    def _look_like(self, forward: Callable[..., Any]) -> None:
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(forward, name):
                setattr(self, name, getattr(forward, name))
        self.__wrapped__ = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stream = default_stream()
        return _call(self.cache, stream, self._forward, args, kwargs, self._options, self._statistics, self._module)

    def clear_cache(self) -> None:
        """Let go of all captured graphs and their memory."""
        self.cache.clear()

    def clear_inputs(self) -> None:
        """Let go of inputs that the last replays were given and wrote to."""
        for cached in self.cache.values():
            cached.graph.clear_inputs()

    def statistics(self) -> dict[str, int]:
        """Calls so far: captures, replays, and those that were not captured, by the reason."""
        names = ("captures", "replays", "bypassed", "beyond max_graphs", "not on hpu")
        return {name: self._statistics[name] for name in names}

    def __getstate__(self) -> dict[str, Any]:
        return {"_forward": self._forward, "_options": self._options, "_module": self._module}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()
        self._look_like(self._forward)


def wrap_in_hpu_graph_func(
    func: Callable[..., Any],
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> WrappedForward:
    """`func` captured at its first call with inputs of a form, and replayed at later ones.

    Replays return the same output tensors, overwritten, and overwrite the tensors that the captured call was given.
    Beyond `max_graphs` forms `func` itself runs.

    Args:
        func: what depends on its arguments' tensors by operators of the card alone.
        asynchronous: replays do not wait for the launch.
        disable_tensor_cache: only outputs keep memory between replays; inputs are not kept, and not overwritten.
            PT_HPUGRAPH_DISABLE_TENSOR_CACHE (1 or 0) decides where it is set.
        dry_run: the capture does not run what it records; a replay follows at once.
        max_graphs: the most forms to capture.

    Raises (when called):
        RuntimeError: not in lazy mode; or `func` holds what cannot be captured: a read of a value, an operator whose
            result's shape depends on data or that the card lacks, a collective that is not recorded, another capture.
    """
    return WrappedForward(func, Options(asynchronous, disable_tensor_cache, dry_run, max_graphs))


def wrap_in_hpu_graph(
    module: nn.Module,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> nn.Module:
    """`module` with its forward captured at the first call of a form, as `wrap_in_hpu_graph_func` does; one that is
    wrapped already is wrapped anew.

    It gets `clear_cache()`, `clear_inputs()` and `hpu_graph_statistics()`. The values of its parameters may change;
    moving or replacing them makes the captured graphs stale, which is an error at the next call.

    Raises:
        TypeError: not a module.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"wrap_in_hpu_graph takes a module, not {type(module).__name__}; use wrap_in_hpu_graph_func")
    options = Options(asynchronous, disable_tensor_cache, dry_run, max_graphs)
    plain = module.forward.__wrapped__ if isinstance(module.forward, WrappedForward) else module.forward
    forward = WrappedForward(plain, options, module)
    module.forward = forward  # type: ignore[method-assign]
    module.clear_cache = forward.clear_cache  # type: ignore
    module.clear_inputs = forward.clear_inputs  # type: ignore
    module.hpu_graph_statistics = forward.statistics  # type: ignore
    return module
