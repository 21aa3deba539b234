"""Streams and events in modelled time."""

from __future__ import annotations

import torch

from device.streams import (
    Event,
    Stream,
    StreamContext,
    be_the_accelerators,
    current_stream,
    default_stream,
    set_stream,
    set_stream_by_id,
    stream,
    stream_info,
)

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "be_the_accelerators",
    "current_stream",
    "default_stream",
    "get_stream_info",
    "record_stream",
    "set_stream",
    "stream",
]

_set_stream_by_id = set_stream_by_id
get_stream_info = stream_info


def record_stream(self: torch.Tensor, stream: torch.Stream) -> None:
    """Keep the tensor's memory until the work that `stream` has so far is done; `Tensor.record_stream`."""
    self.record_stream(stream)
