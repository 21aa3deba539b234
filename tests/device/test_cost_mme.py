"""Matrix products on the MME: the formula by hand, what wastes its arrays, and that more never costs less."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.compiler.cost import node_cost
from device.compiler.cost.mme import padded_operations, repeated_bytes
from device.compiler.program import Access, Engine, EngineNode
from device.graph.ir import ITEM_BYTES
from device.spec import CARDS, CardSpec, load_card

GAUDI2, GAUDI3 = load_card("gaudi2"), load_card("gaudi3")
MME, KERNEL = GAUDI2.mme, GAUDI2.device.kernel_s
HBM = GAUDI2.hbm.bandwidth_bytes_per_s
SIZES = st.integers(1, 5000)


def product(batch: int, m: int, n: int, k: int, dtype: str = "BFloat16", kind: str = "gemm") -> EngineNode:
    item = ITEM_BYTES[dtype]
    return EngineNode(
        engine=Engine.MME,
        name="mm_0",
        kernel="gemm",
        kind=kind,
        dtype=dtype,
        shape=(batch, m, n, k),
        operations=2.0 * batch * m * n * k,
        reads=(Access(0, batch * m * k * item), Access(1, batch * k * n * item)),
        writes=(Access(2, batch * m * n * item),),
        sources=(0,),
        where="",
    )


def seconds(node: EngineNode, spec: CardSpec = GAUDI2) -> float:
    return node_cost(node, spec).seconds


class TestByHand:
    def test_a_product_that_fills_the_arrays(self) -> None:
        """2 m n k over peak and efficiency, plus the part of the larger factor's loading that nothing hides."""
        m, n, k = 4096, 2048, 1024
        by_hand = 2 * m * n * k / (432e12 * MME.gemm_efficiency["bfloat16"])
        by_hand += MME.exposed_load["bfloat16"] * 2 * m * k / HBM
        cost = node_cost(product(1, m, n, k), GAUDI2)
        assert cost.seconds == pytest.approx(by_hand + KERNEL, rel=1e-12)
        assert cost.bound == "compute"

    def test_a_long_product_slows_down(self) -> None:
        m = n = k = 32768
        full = 2 * m * n * k / (432e12 * MME.gemm_efficiency["bfloat16"])
        by_hand = MME.burst_s + (full - MME.burst_s) / MME.sustained_share["bfloat16"]
        by_hand += MME.exposed_load["bfloat16"] * 2 * m * k / HBM
        assert seconds(product(1, m, n, k)) == pytest.approx(by_hand + KERNEL, rel=1e-12)

    def test_a_thin_product_is_bound_by_memory(self) -> None:
        """A matrix by a vector reads the matrix once, and fills one column in 128 of the arrays."""
        cost = node_cost(product(1, 8192, 1, 8192), GAUDI2)
        memory = 2 * (8192 * 8192 + 8192 + 8192) / (HBM * GAUDI2.hbm.efficiency)
        compute = 2 * 8192 * 128 * 8192 / (432e12 * MME.gemm_efficiency["bfloat16"])
        exposed = MME.exposed_load["bfloat16"] * 2 * 8192 * 8192 / HBM
        assert memory > compute
        assert cost.bound == "memory"
        assert cost.seconds == pytest.approx(max(compute + exposed, memory) + KERNEL, rel=1e-12)

    def test_an_outer_product_is_bound_by_what_it_writes(self) -> None:
        cost = node_cost(product(1, 8192, 8192, 8), GAUDI2)
        nbytes = 2 * (8192 * 8192 + 2 * 8 * 8192)
        assert cost.bound == "memory"
        assert cost.seconds == pytest.approx(nbytes / (HBM * GAUDI2.hbm.efficiency) + KERNEL, rel=1e-12)

    def test_a_tiny_product_is_bound_by_its_start(self) -> None:
        cost = node_cost(product(1, 2, 2, 2), GAUDI2)
        assert cost.bound == "latency"
        assert KERNEL < cost.seconds < 2 * KERNEL

    def test_a_convolution_has_an_efficiency_of_its_own(self) -> None:
        node = product(1, 65536, 512, 4608, kind="convolution")
        by_hand = node.operations / (432e12 * MME.convolution_efficiency["bfloat16"])
        assert seconds(node) == pytest.approx(by_hand + KERNEL, rel=1e-12)

    @pytest.mark.parametrize("kind", ["convolution", "convolution_input", "convolution_weight"])
    def test_so_do_its_backwards(self, kind: str) -> None:
        assert seconds(product(1, 65536, 512, 4608, kind=kind)) == seconds(
            product(1, 65536, 512, 4608, kind="convolution")
        )

    def test_a_shape_that_is_no_product_counts_its_operations(self) -> None:
        node = dataclasses.replace(product(1, 4096, 4096, 4096), shape=(4096, 4096))
        by_hand = node.operations / (432e12 * MME.gemm_efficiency["bfloat16"])
        assert seconds(node) == pytest.approx(by_hand + KERNEL, rel=1e-12)


class TestTiles:
    """Gaudi2 in bf16: two arrays of 256 x 256, 512 x 128 or 128 x 512 results; k in whole 128."""

    @pytest.mark.parametrize(
        ("shape", "waves"),
        [
            ((1, 512, 256, 128), 1),  # one tile for each array
            ((1, 513, 256, 128), 2),  # one row more: three tiles, two waves
            ((1, 256, 256, 128), 1),  # half the arrays idle
            ((1, 128, 1024, 128), 1),  # twice as wide
            ((1, 1024, 128, 128), 1),  # twice as high
            ((1, 64, 1024, 128), 1),  # half of each array idle
            ((3, 256, 256, 128), 2),  # a batch of three
            ((1, 1280, 1280, 128), 13),  # 25 tiles
        ],
    )
    def test_waves(self, shape: tuple[int, int, int, int], waves: int) -> None:
        assert padded_operations(shape, "bfloat16", GAUDI2) == waves * 2 * 2 * 256 * 256 * 128

    def test_depth_in_whole_lanes(self) -> None:
        assert padded_operations((1, 512, 256, 129), "bfloat16", GAUDI2) == 2 * 512 * 256 * 256
        assert padded_operations((1, 256, 128, 65), "float32", GAUDI2) == 2 * 256 * 128 * 128

    def test_float32_fills_from_64(self) -> None:
        """docs.habana.ai asks for multiples of 64 in fp32 and of 128 in bf16."""
        assert padded_operations((1, 64, 512, 64), "float32", GAUDI2) == 2 * 64 * 512 * 64
        assert padded_operations((1, 64, 512, 64), "bfloat16", GAUDI2) > 2 * 64 * 512 * 64

    def test_fp8_has_twice_the_arrays(self) -> None:
        assert padded_operations((1, 1024, 256, 128), "float8", GAUDI2) == 2 * 1024 * 256 * 128

    def test_small_heads_waste(self) -> None:
        """Attention over 384 tokens with heads of 64: a batch of small products takes several times its share."""
        heads, one = product(512, 384, 384, 64), product(1, 8192, 8192, 1152)
        per_operation = [seconds(node) / node.operations for node in (heads, one)]
        assert per_operation[0] > 2.5 * per_operation[1]

    def test_narrow_products_lose(self) -> None:
        """Measured 395 against 424 TFLOP/s (NAVER Cloud)."""
        narrow, wide = product(1, 16384, 1280, 8192), product(1, 8192, 8192, 8192)
        rates = [node.operations / (seconds(node) + GAUDI2.device.recipe_s) for node in (narrow, wide)]
        assert rates == [pytest.approx(395.4e12, rel=0.01), pytest.approx(423.9e12, rel=0.01)]

    def test_a_dtype_that_the_card_lacks_runs_as_bf16(self) -> None:
        gaudi = load_card("gaudi")
        half, brain = product(1, 512, 512, 512, "Half"), product(1, 512, 512, 512)
        assert seconds(half, gaudi) == seconds(brain, gaudi)


class TestMemory:
    def test_factors_beyond_sram_are_read_again(self) -> None:
        """24 MiB hold 1536 rows of 8192 bf16; 8192 of them need six panels, so the other factor is read six times."""
        assert repeated_bytes((1, 8192, 8192, 8192), 2, "bfloat16", GAUDI2) == 5 * 2 * 8192 * 8192
        assert repeated_bytes((1, 8192, 1024, 8192), 2, "bfloat16", GAUDI2) == 0  # 16 MiB: stays

    def test_what_lies_on_chip_moves_at_its_rate(self) -> None:
        node = product(1, 8192, 1, 8192)
        nbytes = 2 * (8192 * 8192 + 8192 + 8192)
        cost = node_cost(node, GAUDI2, on_chip={0, 1, 2})
        assert cost.seconds == pytest.approx(
            max(
                nbytes / GAUDI2.sram.bandwidth_bytes_per_s,
                padded_operations((1, 8192, 1, 8192), "bfloat16", GAUDI2) / (432e12 * MME.gemm_efficiency["bfloat16"])
                + MME.exposed_load["bfloat16"] * 2 * 8192 * 8192 / GAUDI2.sram.bandwidth_bytes_per_s,
            )
            + KERNEL
        )
        assert cost.seconds < seconds(node)


class TestMonotone:
    @given(
        st.integers(1, 16),
        SIZES,
        SIZES,
        SIZES,
        st.integers(0, 3),
        st.integers(1, 700),
        st.sampled_from(["BFloat16", "Float", "Float8_e4m3fn"]),
    )
    def test_more_work_never_takes_less(
        self, batch: int, m: int, n: int, k: int, which: int, more: int, dtype: str
    ) -> None:
        shape = [batch, m, n, k]
        larger = list(shape)
        larger[which] += more
        for kind in ("gemm", "convolution"):
            assert seconds(product(*larger, dtype, kind)) >= seconds(product(*shape, dtype, kind))

    @given(SIZES, SIZES, SIZES, st.floats(1.0, 4.0))
    def test_a_better_card_is_never_slower(self, m: int, n: int, k: int, factor: float) -> None:
        node = product(1, m, n, k)
        replace = dataclasses.replace
        for better in (
            replace(GAUDI2, mme=replace(MME, peak_flops={d: p * factor for d, p in MME.peak_flops.items()})),
            replace(GAUDI2, hbm=replace(GAUDI2.hbm, bandwidth_bytes_per_s=HBM * factor)),
            replace(GAUDI2, sram=replace(GAUDI2.sram, capacity_bytes=int(GAUDI2.sram.capacity_bytes * factor))),
        ):
            assert seconds(node, better) <= seconds(node)

    @given(SIZES, SIZES, SIZES, st.sets(st.integers(0, 2)))
    def test_sram_never_slows(self, m: int, n: int, k: int, on_chip: set[int]) -> None:
        node = product(1, m, n, k)
        assert node_cost(node, GAUDI2, on_chip).seconds <= seconds(node)

    @given(st.integers(1, 8), SIZES, SIZES, SIZES)
    def test_never_above_the_peak(self, batch: int, m: int, n: int, k: int) -> None:
        node = product(batch, m, n, k)
        for name in CARDS:
            card = load_card(name)
            assert node.operations / seconds(node, card) < card.mme.peak_flops["bfloat16"]


def test_generations_differ_by_compute_where_products_dominate() -> None:
    """Gaudi3 over Gaudi2: near 1835 / 432 = 4.25."""
    nodes = [product(1, 16384, 8192, 8192), product(1, 8192, 8192, 8192), product(1, 8192, 28672, 8192)]
    ratio = sum(seconds(node, GAUDI2) for node in nodes) / sum(seconds(node, GAUDI3) for node in nodes)
    assert ratio == pytest.approx(1835 / 432, rel=0.05)
