"""One issued operation: its parts, where its results go, and when this rank's data was ready."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from device.interop import bytes_on_card
from device.timeline import STREAM

from . import header
from .arrival import Arrival
from .calls.staging import Staging
from .exchange import Exchange


@dataclass
class Part:
    """One exchange of data; a coalesced collective has several."""

    signature: header.Signature
    exchange: Exchange

    @property
    def nbytes(self) -> int:
        """Bytes as the card sends them."""
        dtype = self.signature.dtype
        return self.exchange.model_bytes if dtype is None else bytes_on_card(self.exchange.model_bytes, dtype)


@dataclass
class Operation:
    """A collective as a rank issues it.

    `outputs` is what the work's future holds. `arrival` is when this rank's data is ready; it counts where
    hpu tensors take part. `timeout_s` replaces the group's time-out; `waits`: see `HcclWork`.
    """

    name: str
    parts: list[Part] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)
    staging: Staging = field(default_factory=Staging)
    arrival: Arrival = field(default_factory=Arrival)
    timeout_s: float | None = None
    waits: str = STREAM

    @property
    def pattern(self) -> str:
        """What the fabric's model is asked for. There is at least one part."""
        return self.parts[-1].exchange.pattern

    @property
    def nbytes(self) -> int:
        """The size that it is asked for, as the card sends it; of uneven blocks what this rank knows, until the ranks
        have agreed on them.
        """
        return sum([part.nbytes for part in self.parts])

    def describe(self) -> str:
        """In words, without the sequence number: `all_reduce(SUM) of float32[4]`."""
        if not self.parts:
            return f"{self.name} of no tensors"
        first = self.parts[0].signature
        text = f"{self.name}({first.reduction})" if first.reduction else self.name
        if first.root != header.NO_ROOT:
            text += f" with root {first.root}"
        if first.dtype is not None and first.shapes:
            text += f" of {str(first.dtype).removeprefix('torch.')}{list(first.shapes[0])}"
            more = len(self.parts) - 1
            text += f" and {more} more" if more else ""
        return text
