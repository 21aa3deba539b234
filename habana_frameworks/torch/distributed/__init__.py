"""Collectives between cards."""

from __future__ import annotations

from . import hccl

__all__ = ["hccl"]
