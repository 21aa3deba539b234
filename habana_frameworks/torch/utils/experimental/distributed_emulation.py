"""One rank of a distributed job alone; see `collectives/emulation.py`."""

from __future__ import annotations

from collectives.emulation import distributed_emulation_apply_if_enabled, is_distributed_emulation_enabled

__all__ = ["distributed_emulation_apply_if_enabled", "is_distributed_emulation_enabled"]
