"""Pooling and resampling: every result element looks at a window of the input."""

from __future__ import annotations

from ..kernel import Kernel
from .operator import Operator, Rule, touch, volume

POOLS = ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "fractional_max_pool")
# Input elements that one result element takes, times a multiply-add.
RESAMPLES = {
    "upsample_nearest1d": 1, "upsample_nearest2d": 1, "upsample_nearest3d": 1, "_upsample_nearest_exact1d": 1,
    "_upsample_nearest_exact2d": 1, "_upsample_nearest_exact3d": 1, "upsample_linear1d": 2, "upsample_bilinear2d": 4,
    "_upsample_bilinear2d_aa": 4, "upsample_trilinear3d": 8, "upsample_bicubic2d": 16, "_upsample_bicubic2d_aa": 16,
    "grid_sampler_2d": 12, "grid_sampler_3d": 24, "reflection_pad1d": 1, "reflection_pad2d": 1, "reflection_pad3d": 1,
    "replication_pad1d": 1, "replication_pad2d": 1, "replication_pad3d": 1,
}  # fmt: skip


def _small_and_large(operator: Operator) -> tuple[int, int]:
    """Elements of the pooled side and of the other one."""
    counts = [operand.window.elements for operand in operator.reads + operator.writes if operand.window.elements > 0]
    return (min(counts), max(counts)) if counts else (0, 0)


def pool(operator: Operator) -> list[Kernel]:
    """max_pool2d_with_indices, avg_pool2d, _adaptive_avg_pool2d and their backwards."""
    small, large = _small_and_large(operator)
    kernel_size = operator.attribute("kernel_size")
    if kernel_size:
        sizes = kernel_size if isinstance(kernel_size, tuple) else (kernel_size,)
        rank = next((int(digit) for digit in "123" if f"{digit}d" in operator.base), 2)
        reach = volume(sizes) if len(sizes) == rank else sizes[0] ** rank
        operations = float(small * reach)
    else:
        operations = float(large)
    stem = operator.base.strip("_").removesuffix("_backward").removesuffix("_with_indices")
    stem = stem.replace("max_pool", "maxpool_").replace("avg_pool", "avg_pool_")
    backward = operator.base.endswith("_backward")
    return [
        operator.tpc(
            f"{stem}_{'bwd' if backward else 'fwd'}",
            "pooling",
            operations,
            reads=[touch(operand) for operand in operator.reads],
            dtype=operator.reads[0].window.dtype if operator.reads else None,
        )
    ]


def resample(operator: Operator) -> list[Kernel]:
    """upsample_*, grid_sampler_* and padding by reflection, and their backwards."""
    backward = operator.base.endswith("_backward")
    taps = RESAMPLES[operator.base.removesuffix("_backward")]
    stem = "grid_sample" if "grid_sampler" in operator.base else "pad" if "pad" in operator.base else "resize"
    name = f"{stem}_{'bwd' if backward else 'fwd'}"
    return [operator.tpc(name, "pooling", operator.elements * taps)]


POOL_NAMES = tuple(
    f"{prefix}{pool_}{digit}d{tail}"
    for pool_ in POOLS
    for digit in "123"
    for prefix in ("", "_")
    for tail in ("", "_backward", "_with_indices", "_with_indices_backward")
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(POOL_NAMES, pool),
    **dict.fromkeys(RESAMPLES, resample),
    **{f"{name}_backward": resample for name in RESAMPLES},
}
