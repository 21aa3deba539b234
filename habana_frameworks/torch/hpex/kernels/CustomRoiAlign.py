"""Pooling of regions of interest, as torchvision.ops.roi_align has it, forward and backward one node each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _RoiAlign(torch.autograd.Function):
    """`apply(input, rois, output_size, spatial_scale, sampling_ratio, aligned)`; rois (regions, 5), the image first."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        rois: Tensor,
        output_size: tuple[int, int],
        spatial_scale: float = 1.0,
        sampling_ratio: int = -1,
        aligned: bool = False,
    ) -> Tensor:
        if rois.dim() != 2 or rois.shape[1] != 5:
            raise ValueError(f"rois must have the shape (regions, 5), the image's number first; got {list(rois.shape)}")
        ctx.settings = sampling_ratio, float(spatial_scale), aligned
        ctx.save_for_backward(input, rois)
        return torch.ops.hpu.roi_align_fwd(input, rois[:, 1:], rois[:, 0].int(), *output_size, 0, *ctx.settings)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        input, rois = ctx.saved_tensors
        result = torch.ops.hpu.roi_align_bwd(grad, rois[:, 1:], rois[:, 0].int(), input, *ctx.settings)
        return result, None, None, None, None, None


class CustomRoiAlign(nn.Module):
    """torchvision.ops.RoIAlign."""

    def __init__(
        self, output_size: tuple[int, int] | int, spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__()
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, rois: Tensor) -> Tensor:
        """(regions, channels, height, width)."""
        settings = (self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)
        return _RoiAlign.apply(input, rois, *settings)
