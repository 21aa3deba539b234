"""PyTorch's data loaders over the media pipeline."""

from __future__ import annotations

from . import media_dataloader_mediapipe

__all__ = ["media_dataloader_mediapipe"]
