"""Matrix products and convolutions on the MME.

A product of batch b, results m x n, common dimension k:

    tiles      an array makes h x w results at once, with (h, w) = (s, s), (2s, s/2) or (s/2, 2s) for the tile side s of
               the dtype, whichever wastes least; b ceil(m/h) ceil(n/w) tiles, in waves of all arrays; k in whole s/2.
               habana.ai forum 1272: an MME is 256 x 256, twice as wide or twice as high.
               s/2 is the multiple that docs.habana.ai asks of dimensions: 128 for bf16, 64 for fp32. Where arrays would
               be idle, each tile's k is divided among several, which then add up (the open MME source calls it
               concurrency in the common dimension; a weight's gradient is small and has a long k).
    compute    2 x waves x arrays x h w k / (peak x efficiency of the dtype), k the part that one array does
    sustained  what exceeds burst_s goes on at sustained_share of the rate. Measured: 4.5 ms at 98 % of peak, 193 ms at
               84 % (Gaudi2, 32768^3, bf16), fp8 less. The cause is not published: power, or traffic beyond SRAM.
    load       exposed_load x bytes of the larger factor / HBM rate: its panels are loaded while the array waits. So a
               narrow product (small n beside a large m k) loses most; measured 92 % of peak at n = 1280.
    memory     the node's accesses, and the factors' repeated reads: if neither factor fits half the SRAM (the other
               half is being filled), panels of T rows of one stay there while the other streams past, ceil(m/T) or
               ceil(n/T) times, whichever is less.
    seconds    max(compute + load, memory) + kernel_s

fp8 has its peak by more arrays of the same side where the peak is a multiple of bf16's. A dtype that a card lacks
runs as bf16. A convolution is the product that it equals, with an efficiency of its own, no load and no repeated
reads: those are in that efficiency, which was measured whole.

Left out: the adding up of divided k, power limits, contention with the TPC.
"""

from __future__ import annotations

from collections.abc import Collection

from ...graph.ir import ITEM_BYTES
from ...spec import CardSpec
from ..program import EngineNode
from .roofline import Cost, bounded, memory_seconds

_DTYPES = {"BFloat16": "bfloat16", "Half": "float16", "Float8_e4m3fn": "float8", "Float8_e5m2": "float8"}


def mme_dtype(name: str, spec: CardSpec) -> str:
    """The dtype in which the MME of a card computes what the graph calls `name`."""
    dtype = _DTYPES.get(name, "float32")
    return dtype if dtype in spec.mme.peak_flops else "bfloat16"


def padded_operations(shape: tuple[int, int, int, int], dtype: str, spec: CardSpec) -> float:
    """Operations that the arrays have time for while they make a product of shape (batch, m, n, k)."""
    batch, m, n, k = shape
    side = spec.mme.tile[dtype]
    arrays = max(1, round(spec.mme.count * spec.mme.peak_flops[dtype] / spec.mme.peak_flops["bfloat16"]))
    arrays = max(arrays, spec.mme.count)
    depth = -(-k // (side // 2))
    best = min(
        _waves(batch * -(-m // height) * -(-n // width), depth, arrays)
        for height, width in ((side, side), (2 * side, side // 2), (side // 2, 2 * side))
    )
    return 2.0 * best * arrays * side * side * (side // 2)


def _waves(tiles: int, depth: int, arrays: int) -> int:
    """Units of k that the busiest array goes through: all of `depth` for each of its tiles, or parts of it."""
    shares = range(1, arrays + 1 if tiles % arrays else 2)  # nothing is idle where the tiles come out even
    return min(-(-tiles * share // arrays) * -(-depth // share) for share in shares)


def repeated_bytes(shape: tuple[int, int, int, int], item: int, dtype: str, spec: CardSpec) -> float:
    """Bytes that a product reads from HBM more than once."""
    batch, m, n, k = shape
    half = spec.sram.capacity_bytes // 2
    first, second = m * k * item, n * k * item
    if min(first, second) <= half:
        return 0.0
    side = spec.mme.tile[dtype]
    rows = max(side, half // (k * item) // side * side)
    return float(batch * min((-(-m // rows) - 1) * second, (-(-n // rows) - 1) * first))


def mme_cost(node: EngineNode, spec: CardSpec, on_chip: Collection[int] = ()) -> Cost:
    """The cost of a matrix product or convolution; `on_chip`: buffers that lie in SRAM.

    A node whose shape is not (batch, m, n, k) counts its operations as if they filled the arrays.
    """
    dtype, item = mme_dtype(node.dtype, spec), ITEM_BYTES.get(node.dtype, 4)
    is_product = node.kind == "gemm"
    shape = (node.shape[0], node.shape[1], node.shape[2], node.shape[3]) if len(node.shape) == 4 else None
    operations = padded_operations(shape, dtype, spec) if shape is not None else node.operations
    efficiency = (spec.mme.gemm_efficiency if is_product else spec.mme.convolution_efficiency)[dtype]
    compute = operations / (spec.mme.peak_flops[dtype] * efficiency)
    compute += max(0.0, compute - spec.mme.burst_s) * (1.0 / spec.mme.sustained_share[dtype] - 1.0)
    repeated = exposed = 0.0
    if is_product and shape is not None:
        batch, m, n, k = shape
        larger = batch * max(m, n) * k * item
        if all(access.buffer in on_chip for access in node.reads):
            rate = spec.sram.bandwidth_bytes_per_s
        else:
            rate = spec.hbm.bandwidth_bytes_per_s
            repeated = repeated_bytes(shape, item, dtype, spec)
        exposed = spec.mme.exposed_load[dtype] * larger / rate
    return bounded(compute, memory_seconds(node, spec, on_chip, repeated), "compute", spec, exposed)
