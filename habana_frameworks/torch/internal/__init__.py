"""Helpers that the bridge keeps for itself and scripts use all the same."""

from __future__ import annotations

from . import synrec_helper

__all__ = ["synrec_helper"]
