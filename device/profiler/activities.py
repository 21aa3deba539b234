"""`torch.profiler.ProfilerActivity` as the bridge has it: an enumeration of its own, in front of PyTorch's.

Clients tell by the type whether the bridge has been loaded before they import the profiler, and refuse to profile if
not.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from torch._C._profiler import ProfilerActivity as TorchActivity
from torch.profiler import supported_activities as torch_supported_activities


class _Activity(enum.Enum):
    """A member equals PyTorch's of the same name, which is its value."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TorchActivity) and self.value == other)

    def __hash__(self) -> int:
        return hash(self.value)


# PyTorch renames PrivateUse1, too, and has a member HPU of its own besides, which nobody collects.
_MEMBERS = {**TorchActivity.__members__, "HPU": TorchActivity.PrivateUse1}

ProfilerActivity: Any = _Activity("ProfilerActivity", _MEMBERS, module=__name__)  # type: ignore[call-arg]


def torch_activity(activity: Any) -> Any:
    """PyTorch's member for one of ours, or for a dictionary with ours as keys; anything else as it is."""
    if isinstance(activity, dict):
        return {torch_activity(name): kinds for name, kinds in activity.items()}
    return activity.value if isinstance(activity, ProfilerActivity) else activity


def torch_activities(activities: Iterable[Any]) -> list[Any]:
    """`torch_activity` of each."""
    return [torch_activity(activity) for activity in activities]


def supported_activities() -> set[Any]:
    """As `torch.profiler.supported_activities`."""
    return {ProfilerActivity(activity) for activity in torch_supported_activities()}
