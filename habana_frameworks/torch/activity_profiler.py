"""`torch.profiler` with the card's activities: importing this replaces `torch.profiler.profile`.

`torch.profiler.ProfilerActivity` stays PyTorch's own, which has HPU.
"""

from __future__ import annotations

from device.profiler.torch_profile import DebugActivity, install, profile

__all__ = ["DebugActivity", "profile"]

install()
