"""Parameters that several modules share.

On the real bridge moving a model to the card makes new tensors, so a wrapper keeps what was shared together. Here a
parameter stays the same object when its module moves, on and off the card, so nothing has to be wrapped.
"""

from __future__ import annotations

import torch

__all__ = ["HabanaParameterWrapper", "enable_weight_sharing"]

HabanaParameterWrapper = torch.nn.Parameter


def enable_weight_sharing() -> None:
    """Nothing: parameters are shared in every case."""
