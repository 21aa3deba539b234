"""`media_function`, the base class of operators on the host."""

from __future__ import annotations

from ...._unavailable import kind
from ..._refusal import ALTERNATIVE, FEATURE

media_function = kind("media_function", FEATURE, ALTERNATIVE)

__all__ = ["media_function"]
