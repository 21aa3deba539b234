"""`HPUMediaPipe`, which chooses a pipeline by the card."""

from __future__ import annotations

from ..._unavailable import kind

HPUMediaPipe = kind(
    "HPUMediaPipe",
    "habana_frameworks.medialoaders",
    "use torch.utils.data.DataLoader with torchvision's transforms, which decode on the host",
)

__all__ = ["HPUMediaPipe"]
