"""`torch.profiler.profile` with the card's part.

PyTorch's own class does what it does: schedule, steps, callbacks, the host's operators. It knows an activity HPU but
has nobody to ask for it. Here the card's events are collected between start and stop, appear in `events()` and
`key_averages()` as kernels of the device, and are put into the exported traces.
"""

from __future__ import annotations

import enum
import inspect
import operator
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.autograd import profiler as autograd_profiler
from torch.autograd.profiler_util import FunctionEvent, FunctionEventAvg
from torch.profiler.profiler import profile as torch_profile

from . import control
from .activities import ProfilerActivity, TorchActivity, supported_activities, torch_activities
from .collection import Collection
from .merging import add_device_events


class DebugActivity(enum.Enum):
    """Kinds of host event that the real profiler leaves out unless asked. Here a trace has both always."""

    SYNAPSE_FUNCTION_CALLS = enum.auto()
    BRIDGE_FUNCTION_CALLS = enum.auto()


class _Results(autograd_profiler.profile):
    """PyTorch's results of one cycle, with the card's."""

    collection: Collection | None = None

    def _parse_kineto_results(self, result: Any, *args: Any, **kwargs: Any) -> list[FunctionEvent]:
        events = super()._parse_kineto_results(result, *args, **kwargs)
        return events + self._device_events(result.trace_start_ns())

    def _device_events(self, trace_start: int) -> list[FunctionEvent]:
        if self.collection is None:
            return []
        shift = self.collection.wall_start - trace_start
        return [
            FunctionEvent(
                id=0,
                name=span.name,
                trace_name=span.name,
                thread=span.thread,
                start_us=(span.start + shift) / 1000,
                end_us=(span.start + shift + span.duration) / 1000,
                input_shapes=[],
                stack=[span.args["where"]] if self.with_stack and span.args.get("where") else [],
                use_device=self.use_device,
                device_type=DeviceType.PrivateUse1,
                device_index=0,
                flops=0,
            )
            for span in self.collection.device_spans()
        ]

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> Any:
        result = super().export_chrome_trace(path, *args, **kwargs)
        if self.collection is not None:
            try:
                add_device_events(Path(path), self.collection)
            except (OSError, ValueError) as error:
                print(
                    f"profiler: the card's events are missing in {path}: {error}; choose a folder that exists and has "
                    "room",
                    file=sys.stderr,
                    flush=True,
                )
        return result


def _named(activities: Iterable[Any]) -> set[Any]:
    """The activities of a list that may have dictionaries of activity to its kinds."""
    return {name for item in activities for name in (item if isinstance(item, dict) else (item,))}


class profile(torch_profile):
    """`torch.profiler.profile`; see there.

    Args:
        activities: default CPU and HPU (and whatever else this PyTorch can trace).
        debug_activities: members of `DebugActivity`.
        options: as in PyTorch.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        debug_activities: Iterable[DebugActivity] | None = None,
        **options: Any,
    ) -> None:
        self.debug_activities = list(debug_activities or ())
        for activity in self.debug_activities:
            if not isinstance(activity, DebugActivity):
                raise TypeError(f"debug_activities: expected members of DebugActivity, got {activity!r}")
        chosen = torch_activities({*supported_activities(), ProfilerActivity.HPU} if activities is None else activities)
        self._with_card = bool(_named(chosen) & {TorchActivity.HPU, TorchActivity.PrivateUse1})
        if self._with_card and control.is_refused():
            self._with_card = False
            if activities is not None:
                warnings.warn(f"torch.profiler: {control.REFUSED}", stacklevel=2)
        self._collection: Collection | None = None
        self._failure: Exception | None = None
        super().__init__(activities=chosen, **options)

    def prepare_trace(self) -> None:
        super().prepare_trace()
        if self._with_card:
            self.profiler.__class__ = _Results  # type: ignore[assignment, union-attr]

    def start_trace(self) -> None:
        super().start_trace()
        if self._with_card:
            assert isinstance(self.profiler, _Results)
            if self._collection is not None:  # started twice
                self._collection.end()
            self._collection = self.profiler.collection = Collection()

    def stop_trace(self) -> None:
        collection, self._collection = self._collection, None
        if collection is not None:
            try:
                # Ends the current graph, so that what was recorded in the profile is in it.
                collection.synchronize()
            except Exception as error:
                self._failure = error
            finally:
                collection.end()
        super().stop_trace()

    def _transit_action(self, *actions: Any) -> None:
        """As PyTorch's. A graph that fails when the profile ends fails after the profile was handed over, which is
        where it is needed most.
        """
        super()._transit_action(*actions)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _signature() -> inspect.Signature:
    """PyTorch's, with the argument that it does not have: some clients choose their options by it."""
    stock = inspect.signature(torch_profile.__init__)
    ours = inspect.signature(profile.__init__).parameters["debug_activities"]
    return stock.replace(parameters=[*stock.parameters.values(), ours])


profile.__init__.__signature__ = _signature()  # type: ignore[attr-defined]


def install() -> None:
    """Make it PyTorch's profiler. Tables can be sorted by the names that scripts for this card use, such as
    `self_hpu_time_total`.
    """
    torch.profiler.ProfilerActivity = ProfilerActivity  # type: ignore[misc]
    torch.profiler.supported_activities = supported_activities
    torch.profiler.profile = profile  # type: ignore[misc]
    torch.profiler.profiler.profile = profile  # type: ignore[misc]
    for events in (FunctionEvent, FunctionEventAvg):
        for name in ("device_time", "device_time_total", "self_device_time_total"):
            setattr(events, name.replace("device", "hpu"), property(operator.attrgetter(name)))
