"""Names of the bridge between the media pipeline and PyTorch's tensors: each raises `NotImplementedError`."""

from __future__ import annotations

from typing import Any, NoReturn

from ...mediapipe.unavailable import refuse

__all__ = ["CreatePytMediaProxy", "GetOutputTensor", "RegisterMediaDeleter"]


def CreatePytMediaProxy(device_id: int) -> NoReturn:
    """Memory of a card for the media pipeline."""
    raise refuse("CreatePytMediaProxy")


def GetOutputTensor(addr: int) -> NoReturn:
    """The tensor that the media pipeline wrote to an address."""
    raise refuse("GetOutputTensor")


def RegisterMediaDeleter(func: Any) -> NoReturn:
    """What to call when the media pipeline's memory is given back."""
    raise refuse("RegisterMediaDeleter")
