"""Reading images from a folder."""

from __future__ import annotations

from ...._unavailable import function
from ..._refusal import ALTERNATIVE, FEATURE

get_max_file = function(FEATURE, ALTERNATIVE)

__all__ = ["get_max_file"]
