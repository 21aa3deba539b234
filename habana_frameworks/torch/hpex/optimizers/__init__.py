"""Optimizers whose update of all parameters of a group is one node."""

from __future__ import annotations

from . import SparseAdagrad, SparseSGD, distributed, replacement
from .FusedAdagrad import FusedAdagrad
from .FusedAdamW import FusedAdamW
from .FusedLamb import FusedLamb
from .FusedLars import FusedLars
from .FusedResourceApplyMomentum import FusedResourceApplyMomentum
from .FusedSGD import FusedSGD
from .MarkstepAdam import Adam
from .MarkstepAdamW import AdamW

__all__ = [
    "Adam",
    "AdamW",
    "FusedAdagrad",
    "FusedAdamW",
    "FusedLamb",
    "FusedLars",
    "FusedResourceApplyMomentum",
    "FusedSGD",
    "SparseAdagrad",
    "SparseSGD",
    "distributed",
    "replacement",
]
