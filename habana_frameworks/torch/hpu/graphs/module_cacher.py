"""Training with HPU graphs: a module whose forward and backward pass are captured for each form of call."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from device.backend import runtime
from device.errors import HpuError

from .containers import get_user_input_tensor_list
from .graph_model import GraphModel, bind
from .input_key import call_key
from .wrapped_forward import DISABLE_TENSOR_CACHE

DRY_RUN = "PT_HPUGRAPH_ENABLE_DRY_RUN"
_METHODS = ("set_iteration_count", "capture_start", "capture_end", "is_hpugraph_tracing", "clear_cache")


def _told(variable: str, default: bool) -> bool:
    value = os.environ.get(variable)
    return default if value is None else value == "1"


class CachedForward:
    """The forward of a cached module: what a signature is asked of, and copies go with their module."""

    def __init__(self, cacher: ModuleCacher, original: Callable[..., Any]) -> None:
        self._cacher = cacher
        self.__wrapped__ = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._cacher.forward(*args, **kwargs)


class ModuleCacher:
    """`ModuleCacher(max_graphs)(model)`: calls of `model` in training replay graphs, one for each form of arguments.

    What cannot be replayed runs as it is: evaluation, calls without gradients, eager mode, modules that are not on the
    card, and forms beyond `max_graphs`; the statistics count the reasons.

    A call is replayed if shapes, types and views of its tensors, its other arguments, autocast, and which tensors
    require gradients are as in the captured one. Gradients, running statistics and random numbers are as without
    graphs. Outputs are overwritten by the next call of the same form, so `backward()` has to come before it.
    """

    def __init__(self, max_graphs: int = 10) -> None:
        if max_graphs < 0:
            raise HpuError(f"ModuleCacher: max_graphs={max_graphs} is no number of graphs; use 0 or more")
        self.max_graphs = max_graphs
        self.verbose = False
        self._forget()

    def _forget(self) -> None:
        self.model_dict: dict[Hashable, GraphModel] = {}
        self.hits: Counter[Hashable] = Counter()
        self.uncached: Counter[str] = Counter()
        self.counts: Counter[Hashable] = Counter()  # calls of each form while `is_capturing`
        self.priority_keys: list[Hashable] = []
        self.is_capturing = False
        self.iteration_cnt = -1
        self.forward_cnt = 0
        self.set_iterations_call_cnt = 0
        self._tracing = False

    def __call__(
        self,
        model: nn.Module,
        use_lfu: bool = False,
        inplace: bool = True,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        have_grad_accumulation: bool = False,
        log_frequency: int = 100,
        verbose: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
    ) -> nn.Module:
        """Cache the module; it gets `set_iteration_count`, `capture_start`, `capture_end`, `is_hpugraph_tracing` and
        `clear_cache`.

        Args:
            model: a module; wrap it for data parallelism afterwards.
            use_lfu: capture only the `max_graphs` forms that were most frequent between `capture_start()` and
                `capture_end()`; otherwise the first that come.
            inplace: change `model`; otherwise a copy, which shares its parameters.
            allow_unused_input: see `make_graphed_callables`.
            asynchronous: replays do not wait for the launch.
            have_grad_accumulation: the first of the steps whose gradients are accumulated has a graph of its own, as
                told by `set_iteration_count`. Gradients are right without it, too.
            log_frequency: calls from one print of the statistics to the next, with `verbose`.
            verbose: print statistics.
            disable_tensor_cache: see `make_graphed_callables`; PT_HPUGRAPH_DISABLE_TENSOR_CACHE decides if it is set.
            dry_run: accepted, a capture never runs; likewise PT_HPUGRAPH_ENABLE_DRY_RUN.

        Raises:
            RuntimeError: it is no module, is wrapped for data parallelism, or is cached already.
        """
        if not isinstance(model, nn.Module):
            raise HpuError(f"ModuleCacher takes a module, not {type(model).__name__}")
        if isinstance(model.__dict__.get("forward"), CachedForward):
            raise HpuError(f"{type(model).__name__} is cached already; cache it once")
        self._forget()
        self.inplace = inplace
        model = model if inplace else copy.copy(model)
        original = model.forward if inplace or "forward" in model.__dict__ else type(model).forward.__get__(model)
        self.model = model
        self.use_lfu = use_lfu
        self.allow_unused_input = allow_unused_input
        self.asynchronous = asynchronous
        self.have_grad_accumulation = have_grad_accumulation
        self.log_frequency = max(1, log_frequency)
        self.verbose = verbose
        self.disable_tensor_cache = _told(DISABLE_TENSOR_CACHE, disable_tensor_cache)
        self.dry_run = _told(DRY_RUN, dry_run)
        self._original = original
        self._signature = inspect.signature(original)
        GraphModel(model, forward=original)  # says at once what cannot be cached at all
        model.orig_forward = original  # type: ignore
        model.forward = CachedForward(self, original)  # type: ignore
        for name in _METHODS:
            setattr(model, name, getattr(self, name))
        if not runtime.settings().lazy:
            warnings.warn(
                f"ModuleCacher: HPU graphs need lazy mode, so {type(model).__name__} runs as it is; set "
                "PT_HPU_LAZY_MODE=1 for them",
                stacklevel=2,
            )
        return model

    # -- what the module gets -------------------------------------------------------------------------------------

    def set_iteration_count(self, iter_num: int) -> None:
        """Which of the steps comes whose gradients are accumulated; 0 is the first."""
        self.forward_cnt = iter_num
        self.set_iterations_call_cnt += 1

    def capture_start(self) -> None:
        """From here on, with `use_lfu`, forms of calls are counted, and none is captured."""
        self.is_capturing = True

    def capture_end(self) -> None:
        """The most frequent forms counted are captured from now on; graphs of others are let go."""
        self.priority_keys = [key for key, _ in self.counts.most_common(self.max_graphs)]
        self.is_capturing = False
        if self.verbose:
            self.log_stats()
        self.counts.clear()
        if self.use_lfu:
            self.model_dict = {key: graph for key, graph in self.model_dict.items() if key in self.priority_keys}

    def is_hpugraph_tracing(self) -> bool:
        """Whether the module is being captured now."""
        return self._tracing

    def clear_cache(self) -> None:
        """Let go of all captured graphs and their memory."""
        self.model_dict.clear()

    # -- calls ----------------------------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """A call of the module: replayed, captured and replayed, or as it is."""
        self.iteration_cnt += 1
        if self.verbose and self.iteration_cnt % self.log_frequency == 0:
            self.log_stats()
        why = self._why_not()
        if why:
            return self._run_uncached(why, args, kwargs)
        key = self._key(args, kwargs)
        graph = self.model_dict.get(key)
        if graph is None:
            why = self._why_not_captured(key)
            if why:
                return self._run_uncached(why, args, kwargs)
            graph = self.model_dict[key] = self._captured(args, kwargs)
        self.hits[key] += 1
        return graph.graph_forward(*args, **kwargs)

    def _run_uncached(self, why: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.uncached[why] += 1
        return self._original(*args, **kwargs)

    def _why_not(self) -> str:
        if not self.model.training:
            return "evaluation"
        if not torch.is_grad_enabled():
            return "no gradients are enabled"
        if not runtime.settings().lazy:
            return "eager mode"
        if any(parameter.device.type != "hpu" for parameter in self.model.parameters()):
            return "parameters are not on hpu"
        return ""

    def _why_not_captured(self, key: Hashable) -> str:
        if self.use_lfu:
            if self.is_capturing:
                self.counts[key] += 1
                return "forms of calls are being counted"
            return "" if key in self.priority_keys else "not among the most frequent forms"
        return "" if len(self.model_dict) < self.max_graphs else "max_graphs is reached"

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        arguments = bind(self._signature, args, kwargs)
        wanted = tuple(parameter.requires_grad for parameter in self.model.parameters())
        first = self.have_grad_accumulation and self.forward_cnt == 0
        return (call_key(arguments), wanted, _wants_gradients(arguments), first)

    def _captured(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphModel:
        graph = GraphModel(
            self.model,
            self.allow_unused_input,
            self.asynchronous,
            self.disable_tensor_cache,
            self.dry_run,
            forward=self._original,
        )
        self._tracing = True
        try:
            graph.init_hpu_graph(*args, **kwargs)
        except HpuError as error:
            raise HpuError(f"ModuleCacher cannot cache {type(self.model).__name__}: {error}") from error
        finally:
            self._tracing = False
        return graph

    # -- statistics -----------------------------------------------------------------------------------------------

    def log_stats(self) -> None:
        """Print them."""
        replays, plain = sum(self.hits.values()), sum(self.uncached.values())
        numbers = {key: number for number, key in enumerate(dict.fromkeys([*self.hits, *self.counts]))}
        lines = [
            "HPU Graph Statistics",
            "  Configs",
            f"    Max graphs                :- {self.max_graphs}",
            f"    LFU Cache                 :- {self.use_lfu}",
            f"    Async execution config    :- {self.asynchronous}",
            f"    Grad accumulation config  :- {self.have_grad_accumulation}",
            f"    Set iteration calls       :- {self.set_iterations_call_cnt}",
            "  Cache info",
            f"    No. of HPUGraphs cached   :- {len(self.model_dict)}",
            f"    Priority keys             :- {[numbers.get(key) for key in self.priority_keys]}",
            f"    Input form v. cached hits :- { {numbers[key]: hits for key, hits in self.hits.items()} }",
            f"    Total cached hits         :- {replays}",
            f"    Uncached, and why         :- {dict(self.uncached)}",
            f"    Total forwards executed   :- {replays + plain}",
        ]
        if self.use_lfu and self.counts:
            lines.append(f"    Input form v. count       :- { {numbers[key]: n for key, n in self.counts.items()} }")
        print("\n".join(lines), flush=True)

    def __del__(self) -> None:
        if getattr(self, "verbose", False):
            self.log_stats()

    # -- copies ---------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        graphs = ("model_dict", "hits", "uncached", "counts", "priority_keys")
        return {name: value for name, value in self.__dict__.items() if name not in graphs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()
        self.__dict__.update(state)


def _wants_gradients(obj: Any) -> Hashable:
    tensors = get_user_input_tensor_list(obj)
    return tuple(tensor.requires_grad for tensor in tensors)
