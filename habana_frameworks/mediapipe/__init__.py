"""Names of the media pipeline, a closed package that decodes images and videos on the card."""

from __future__ import annotations

from . import fn, media_types, mediapipe

__all__ = ["fn", "media_types", "mediapipe"]
