"""Operators that a recipe cannot hold. Names without overload; a script may add to the set before it compiles."""

from __future__ import annotations

from device.backend.operators import host_only

hpu_fallback_op_list: set[str] = set(host_only())
