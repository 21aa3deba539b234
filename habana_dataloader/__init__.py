"""`HabanaDataLoader`: PyTorch's data loader under the name of the one that decodes on the card.

On a card the media pipeline, a closed package, decodes JPEG images and applies torchvision's transforms. The batches
are those of PyTorch's own loader with the same arguments, and that is what this one is; decoding takes host time.
"""

from __future__ import annotations

from . import habana_dataset
from .habana_dataset import HabanaDataLoader, fetch_habana_unet_loader

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
