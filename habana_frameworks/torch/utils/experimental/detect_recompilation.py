"""Which modules of a model make the graph compiler work again and again, and which shapes a data loader gives.

`detect_recompilation_auto_model` marks a step before and after each module's `forward` and counts the compilations in
between. A graph is compiled once for each module and signature of inputs; a compilation for a signature that was there
before comes from an operator whose result's shape depends on data, of the module itself or of one inside it.
"""

from __future__ import annotations

import inspect
import types
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from ...core.step_closure import mark_step
from ...hpu.graphs import input_hash
from ...hpu.metrics import metric_localcontext
from .table import Table

TAG = "[DETECT_RECOMPILE_AUTO]"
_FIELD = "_dynshape_info"
NEW_INPUT = "Recompiled due to new input shape"
KNOWN_INPUT = "Already processed input shape still recompiled"
FROM_INSIDE = "Could be due to dynamic child"


@dataclass
class Recompilation:
    """One call of a module's `forward` in which graphs were compiled."""

    step: int
    module: str
    new_input: bool
    new_output: bool

    @property
    def comment(self) -> str:
        if self.new_input:
            return NEW_INPUT
        return f"{KNOWN_INPUT}{' and has new output shape' if self.new_output else ''}. Maybe dyn ops"


@dataclass
class _Watched:
    """What is known of one module."""

    name: str
    class_name: str
    location: str
    inputs: set[Hashable] = field(default_factory=set)
    outputs: set[Hashable] = field(default_factory=set)


class Detector:
    """Follows the `forward` of a model and of all modules inside it."""

    def __init__(self, name: str, csv_out: str) -> None:
        self.name = name
        self.csv_out = csv_out
        self.step = -1
        self.logs: list[str] = []
        self.modules: dict[str, _Watched] = {}
        self.found: list[Recompilation] = []

    def watch(self, module: torch.nn.Module, name: str) -> None:
        """Follow a module and those inside it; one that stands in several places is followed under its first name."""
        if hasattr(module, _FIELD):
            if getattr(module, _FIELD) is not self:
                raise ValueError(f"{name} is already watched; give detect_recompilation_auto_model a model only once")
            return
        object.__setattr__(module, _FIELD, self)
        defined = inspect.getmodule(type(module))
        location = getattr(defined, "__file__", None) or str(defined)
        class_name = f"{type(module).__module__}.{type(module).__qualname__}".removeprefix("__main__.")
        self.modules[name] = _Watched(name, class_name, location)
        self.logs.append(f"{self._indent(name)}{TAG} Registering hooks for {name} of type {type(module)} in {location}")
        module.forward = types.MethodType(self._forward(module.forward, name), module)  # type: ignore[method-assign]
        for child_name, child in module.named_children():
            self.watch(child, f"{name}/{child_name}")

    @staticmethod
    def _indent(name: str) -> str:
        return "  " * name.count("/")

    def _forward(self, forward: Callable[..., Any], name: str) -> Callable[..., Any]:
        watched = self.modules[name]

        def counted(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.distributed.is_initialized():
                raise RuntimeError("recompilations are detected in a run with one card; this one is distributed")
            given = input_hash((args, kwargs))
            mark_step(sync=True)
            with metric_localcontext("graph_compilation") as metric:
                result = forward(*args, **kwargs)
                mark_step(sync=True)
            made = input_hash(result)
            self._note(watched, given, made, dict(metric.stats())["TotalNumber"])
            return result

        return counted

    def _note(self, watched: _Watched, given: Hashable, made: Hashable, compiled: int) -> None:
        new_input, new_output = given not in watched.inputs, made not in watched.outputs
        watched.inputs.add(given)
        watched.outputs.add(made)
        if compiled:
            self.found.append(Recompilation(self.step + 1, watched.name, new_input, new_output))
        step = ""
        if watched.name == self.name:
            self.step += 1
            step = f"step:{self.step} "
        news = ("Found new input signature " if new_input else "") + (
            "Found new output signature " if new_output else ""
        )
        mark = " Recompilation!" if compiled else ""
        self.logs.append(f"{self._indent(watched.name)}{TAG}[{watched.name}]{step}{news}num_graphs:{compiled}{mark}")

    def rows(self) -> list[list[Any]]:
        """Step, module, whether input and output are new, class, location and comment of each recompilation."""
        unexplained = {entry.module for entry in self.found if not entry.new_input}
        rows = []
        for entry in self.found:
            watched = self.modules[entry.module]
            inside = any(other.startswith(f"{entry.module}/") for other in unexplained)
            comment = f"{entry.comment}. {FROM_INSIDE}" if inside and not entry.new_input else entry.comment
            rows.append(
                [
                    entry.step,
                    entry.module,
                    entry.new_input,
                    entry.new_output,
                    watched.class_name,
                    watched.location,
                    comment,
                ]
            )
        return rows

    def analyse(self) -> None:
        """Print both tables and write them as `<csv_out>_1.csv` and `<csv_out>_2.csv`."""
        steps = Table(["Step", "Recompiling modules", "New in", "New out", "Class", "Location", "Comment"])
        for row in self.rows():
            steps.add_row(row)
        counts = Table(["Module name", "Recompile count"], 80)
        for name, count in Counter(entry.module for entry in self.found).most_common():
            counts.add_row([name, count])
        for number, table in enumerate((steps, counts), 1):
            print(table)
            path = Path(f"{self.csv_out}_{number}.csv")
            path.parent.mkdir(parents=True, exist_ok=True)
            table.dump_to_csv(str(path))


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """`model` with its modules' `forward` counted; adds `analyse_dynamicity()` and `raw_logs()` to it.

    `waittime`, seconds that a real card is given to finish compiling, has no effect: the count is exact at once.
    `csv_out`: beginning of the names of the CSV files.

    Raises:
        ValueError: the model, or a part of it, is watched already.
    """
    detector = Detector(mdlname, csv_out)
    detector.watch(model, mdlname)
    watched: Any = model
    watched.__name__ = mdlname
    watched.analyse_dynamicity = types.MethodType(lambda self: detector.analyse(), model)
    watched.raw_logs = types.MethodType(lambda self: detector.logs, model)
    return model


def get_shape(item: Any) -> Any:
    """The shapes of the tensors in nested lists, tuples and dictionaries; the hash of anything else, which is said."""
    if isinstance(item, torch.Tensor):
        return tuple(item.shape)
    if isinstance(item, (list, tuple)):
        return tuple(get_shape(part) for part in item)
    if isinstance(item, dict):
        return tuple((get_key(key), get_shape(value)) for key, value in item.items())
    print(f"an item of type {type(item)} has no shape; its hash stands for it")
    return hash(item)


def get_key(key: Any) -> Any:
    """What stands for the key of a dictionary: its hash, as for any value without a shape."""
    return get_shape(key) if isinstance(key, (torch.Tensor, list, tuple, dict)) else hash(key)


def data_dynamicity(dl: Iterable[Any]) -> dict[Any, int]:
    """How often each shape comes from a data loader; prints a table of it, most frequent first.

    Raises:
        RuntimeError: in a distributed run.
    """
    if torch.distributed.is_initialized():
        raise RuntimeError("shapes of data are counted in a run with one card; this one is distributed")
    counts = Counter(get_shape(batch) for batch in dl)
    table = Table(["Shape", "Count"])
    for shape, count in counts.most_common():
        table.add_row([shape, count])
    print(table)
    print("Number of unique shapes: ", len(counts))
    amounts = ((20, "a lot of"), (5, "some"), (1, "a little"), (0, "no"))
    words = [amount for limit, amount in amounts if len(counts) > limit]
    print(f"There is {words[0]} dynamicity in input data shapes" if words else "Dataset looks empty")
    return dict(counts)


def const_shape_dataloader(dl: Iterable[Any], maxlen: int) -> DataLoader[Any]:
    """A data loader of at most `maxlen` of the batches of `dl`, all of one shape: the first that comes so often, else
    the most frequent.

    Raises:
        ValueError: `dl` gives nothing.
    """
    by_shape: dict[Any, list[Any]] = {}
    for batch in dl:
        batches = by_shape.setdefault(get_shape(batch), [])
        batches.append(batch)
        if len(batches) == maxlen:
            return _loader(batches)
    if not by_shape:
        raise ValueError("the data loader gives no batch")
    return _loader(max(by_shape.values(), key=len))


def _loader(batches: list[Any]) -> DataLoader[Any]:
    dataset: Any = batches
    return DataLoader(dataset, batch_size=None, collate_fn=None)
