"""`torch.compile` on the card: the backend `hpu_backend`, and what PyTorch's compiler asks of a device."""

from __future__ import annotations

from .registration import register

register()
