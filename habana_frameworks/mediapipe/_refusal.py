"""What the media pipeline's names say."""

from __future__ import annotations

FEATURE = "habana_frameworks.mediapipe"
ALTERNATIVE = "use torch.utils.data.DataLoader with torchvision's transforms, which decode on the host"
