"""Extensions whose interface may still change."""

from __future__ import annotations

from . import transformer_engine

__all__ = ["transformer_engine"]
