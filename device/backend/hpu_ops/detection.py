"""Non-maximum suppression and region-of-interest pooling, by the formulae of torchvision.ops.

Suppression goes through the boxes from the highest score down and drops those that overlap a kept one by more than the
threshold. Its number of results depends on the data, so it ends a graph. Pooling takes the mean of bilinear samples in
each cell of each region; `aligned` shifts regions by half a pixel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import Registry


def suppress(boxes: Tensor, scores: Tensor, iou_threshold: float, score_threshold: float = 0.0) -> Tensor:
    """habana_nms: numbers of the kept boxes (x1, y1, x2, y2), by falling score."""
    order = scores.argsort(descending=True, stable=True)
    order = order[scores[order] > score_threshold] if score_threshold > 0 else order
    corners = boxes.float()[order]
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    alive = torch.ones(len(order), dtype=torch.bool)
    kept = []
    for place in range(len(order)):
        if not alive[place]:
            continue
        kept.append(place)
        first = torch.maximum(corners[place, :2], corners[place + 1 :, :2])
        last = torch.minimum(corners[place, 2:], corners[place + 1 :, 2:])
        common = (last - first).clamp(min=0).prod(1)
        alive[place + 1 :] &= common / (areas[place] + areas[place + 1 :] - common) <= iou_threshold
    return order[torch.tensor(kept, dtype=torch.int64)]


def _unknown(*arguments: Any) -> Tensor:
    raise NotImplementedError("the number of boxes that are kept depends on their values")


def _samples(size: Tensor, count: int, start: Tensor, cells: int) -> Tensor:
    """(regions, cells x count) positions of samples along one dimension."""
    steps = (torch.arange(cells * count) + 0.5) / count
    return start[:, None] + steps * (size / cells)[:, None]


def _bilinear(length: int, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(lower index, upper index, weight of the lower, weight of the upper); weights 0 outside the image."""
    inside = (positions > -1.0) & (positions < length)
    at = positions.clamp(min=0)
    low = at.floor().long().clamp(max=length - 1)
    high = (low + 1).clamp(max=length - 1)
    at = torch.where(low >= length - 1, low.float(), at)
    upper = at - low
    return low, high, (1 - upper) * inside, upper * inside


def _matrix(length: int, positions: Tensor, cells: int) -> Tensor:
    """(regions, cells, length): how much of each pixel each cell takes along one dimension."""
    low, high, below, above = _bilinear(length, positions)
    weights = torch.zeros(*positions.shape, length)
    weights.scatter_add_(-1, low[..., None], below[..., None])
    weights.scatter_add_(-1, high[..., None], above[..., None])
    return weights.reshape(positions.shape[0], cells, -1, length).mean(2)


def _matrices(
    shape: torch.Size, rois: Tensor, out_h: int, out_w: int, sr: int, ss: float, aligned: bool
) -> tuple[Tensor, Tensor]:
    bounds = rois.float() * ss - (0.5 if aligned else 0.0)
    width, height = bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]
    if not aligned:
        width, height = width.clamp(min=1.0), height.clamp(min=1.0)
    if sr > 0:
        counts = (sr, sr)
        down = _matrix(shape[-2], _samples(height, counts[0], bounds[:, 1], out_h), out_h)
        across = _matrix(shape[-1], _samples(width, counts[1], bounds[:, 0], out_w), out_w)
        return down, across
    downs, acrosses = [], []
    for region in range(rois.shape[0]):  # as many samples as the cell has pixels, rounded up
        one = slice(region, region + 1)
        tall, wide = (
            max(1, int(torch.ceil(size[region] / cells))) for size, cells in ((height, out_h), (width, out_w))
        )
        downs.append(_matrix(shape[-2], _samples(height[one], tall, bounds[one, 1], out_h), out_h))
        acrosses.append(_matrix(shape[-1], _samples(width[one], wide, bounds[one, 0], out_w), out_w))
    return torch.cat(downs), torch.cat(acrosses)


def roi_align(
    inputs: Tensor, rois: Tensor, n_rois: Tensor, out_h: int, out_w: int, mode: int, sr: int, ss: float, aligned: bool
) -> Tensor:
    """roi_align_fwd: (regions, channels, out_h, out_w); `rois` (regions, 4), `n_rois` the image of each region."""
    _check_mode(mode)
    down, across = _matrices(inputs.shape, rois, out_h, out_w, sr, ss, aligned)
    images = inputs.float()[n_rois.reshape(-1).long()]
    return torch.einsum("rchw,ryh,rxw->rcyx", images, down, across).to(inputs.dtype).contiguous()


def _check_mode(mode: int) -> None:
    if mode != 0:
        raise RuntimeError(f"hpu::roi_align_fwd: mode must be 0 (mean of the samples); got {mode}")


def _roi_shapes(inputs: Tensor, rois: Tensor, n_rois: Tensor, out_h: int, out_w: int, mode: int, *rest: Any) -> Tensor:
    _check_mode(mode)
    return inputs.new_empty((rois.shape[0], inputs.shape[1], out_h, out_w))


def roi_align_backward(
    inputs: Tensor, rois: Tensor, n_rois: Tensor, input_shape: Tensor, sr: int, ss: float, aligned: bool
) -> Tensor:
    """roi_align_bwd: the gradient of an image batch of the shape of `input_shape`; `inputs` is the gradient given."""
    down, across = _matrices(input_shape.shape, rois, *inputs.shape[-2:], sr, ss, aligned)
    of_images = torch.einsum("rcyx,ryh,rxw->rchw", inputs.float(), down, across)
    result = torch.zeros(input_shape.shape)
    return result.index_add_(0, n_rois.reshape(-1).long(), of_images).to(inputs.dtype)


def _roi_backward_shapes(inputs: Tensor, rois: Tensor, n_rois: Tensor, input_shape: Tensor, *rest: Any) -> Tensor:
    return inputs.new_empty(input_shape.shape)


def register(registry: Registry) -> None:
    """nms_boxes, roi_align_fwd, roi_align_bwd."""
    registry.operator(
        "nms_boxes(Tensor boxes, Tensor scores, float iou_threshold, float score_threshold=0.0) -> Tensor",
        suppress,
        _unknown,
    )
    registry.operator(
        "roi_align_fwd(Tensor inputs, Tensor rois, Tensor n_rois, int out_h, int out_w, int mode, int sr, float ss, "
        "bool aligned) -> Tensor",
        roi_align,
        _roi_shapes,
    )
    registry.operator(
        "roi_align_bwd(Tensor inputs, Tensor rois, Tensor n_rois, Tensor input_shape, int sr, float ss, bool aligned) "
        "-> Tensor",
        roi_align_backward,
        _roi_backward_shapes,
    )
