"""`torch.profiler` with the card's activities: importing this replaces `profile`, `ProfilerActivity` and
`supported_activities` there. PyTorch's own activities are taken, too.
"""

from __future__ import annotations

from device.profiler.torch_profile import DebugActivity, install, profile

__all__ = ["DebugActivity", "profile"]

install()
