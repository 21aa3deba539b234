"""What every part of the media pipeline answers when it is used."""

from __future__ import annotations

from typing import Any


def refuse(name: str) -> NotImplementedError:
    """The error for using `name`."""
    return NotImplementedError(
        f"{name}: the media pipeline (habana_frameworks.mediapipe) is not emulated. Decode and transform on the host "
        "instead, with torch.utils.data.DataLoader and torchvision.transforms"
    )


class Unavailable:
    """A class of the media pipeline: may be imported and derived from, not made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise refuse(type(self).__name__)
