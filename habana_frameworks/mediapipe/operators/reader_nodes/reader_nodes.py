"""Base classes of readers."""

from __future__ import annotations

from ...._unavailable import kind
from ..._refusal import ALTERNATIVE, FEATURE

media_ext_reader_op_impl = kind("media_ext_reader_op_impl", FEATURE, ALTERNATIVE)
media_ext_reader_op_tensor_info = kind("media_ext_reader_op_tensor_info", FEATURE, ALTERNATIVE)

__all__ = ["media_ext_reader_op_impl", "media_ext_reader_op_tensor_info"]
