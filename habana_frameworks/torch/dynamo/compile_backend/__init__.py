"""The backend `hpu_backend` of torch.compile."""

from __future__ import annotations

from .... import _shield

with _shield.ours():
    from . import backends, config, experimental

__all__ = ["backends", "config", "experimental"]
