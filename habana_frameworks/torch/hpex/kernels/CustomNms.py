"""Non-maximum suppression, as torchvision.ops has it."""

from __future__ import annotations

import torch
from torch import Tensor


class CustomNms:
    """Boxes are (x1, y1, x2, y2). The number of results depends on the data, so it ends a graph."""

    @staticmethod
    def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        """Numbers of the boxes that stay, by falling score."""
        return torch.ops.hpu.nms_boxes(boxes, scores, float(iou_threshold))

    @staticmethod
    def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
        """The same for each class of `idxs` by itself."""
        if boxes.numel() == 0:
            return torch.empty(0, dtype=torch.int64, device=boxes.device)
        apart = idxs.to(boxes) * (boxes.max() + 1)
        return CustomNms.nms(boxes + apart[:, None], scores, iou_threshold)
