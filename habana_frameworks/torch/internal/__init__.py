"""Helpers that the bridge keeps for itself and scripts use all the same."""

from __future__ import annotations

from . import bridge_config, fuse_conv_bn, synrec_helper

__all__ = ["bridge_config", "fuse_conv_bn", "synrec_helper"]
