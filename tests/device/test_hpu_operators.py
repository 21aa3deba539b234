"""`torch.ops.hpu`: 8-bit floats, packed weights, caches, and what they cost."""

from __future__ import annotations

import pytest
import torch

from device.compiler.lowering import lower
from device.compiler.program import Engine

from .recorded_graphs import Recording

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ops = torch.ops.hpu


@pytest.mark.parametrize(("dtype", "largest"), [(E4M3, 240.0), (E5M2, 57344.0)])
def test_casts_end_at_the_largest_number_of_gaudi2(dtype: torch.dtype, largest: float) -> None:
    x = torch.tensor([1e6, -1e6, 1.0]).to("hpu")
    wanted = [largest, -largest, 1.0]
    assert ops.cast_to_fp8_v2(x, None, False, False, dtype)[0].cpu().float().tolist() == wanted
    assert x.to(dtype).cpu().float().tolist() == wanted


def test_gaudi3_reaches_further_and_the_first_generation_has_none(script) -> None:
    code = """
    import torch
    x = torch.tensor([1e6]).to("hpu")
    try:
        print(torch.ops.hpu.cast_to_fp8_v2(x, None, False, False, torch.float8_e4m3fn)[0].float().item())
    except RuntimeError as error:
        print(error)
    """
    assert script(code, HPUCLUSTER_CARD="gaudi3").stdout.strip() == "448.0"
    assert "GAUDI has no 8-bit floating-point formats" in script(code, HPUCLUSTER_CARD="gaudi").stdout


def test_stochastic_rounding_is_fair_and_goes_by_the_seed() -> None:
    x = torch.full((4000,), 1.0 + 1 / 32).to("hpu")  # a quarter of the way from 1 to 1.125
    rounded = []
    for _ in range(2):
        torch.manual_seed(5)
        rounded.append(ops.cast_to_fp8_v2(x, None, True, False, E4M3)[0].cpu().float())
    assert torch.equal(*rounded)
    assert set(rounded[0].tolist()) == {1.0, 1.125}
    assert abs(rounded[0].mean().item() - (1 + 1 / 32)) < 3e-3


def test_scales_amax_and_the_way_back() -> None:
    x = torch.randn(4, 6)
    scale = torch.rand(6) + 0.5
    casted, amax = ops.cast_to_fp8_v2(x.to("hpu"), scale.to("hpu"), False, True, E5M2, [1, 6])
    assert amax.cpu() == x.abs().max() and amax.dim() == 0
    back = ops.cast_from_fp8(casted, scale.reciprocal().to("hpu"), torch.float32, [1, 6])
    torch.testing.assert_close(back.cpu(), x, rtol=0.13, atol=1e-3)
    with pytest.raises(RuntimeError, match="not equal to number of scale_shape"):
        ops.cast_to_fp8_v2(x.to("hpu"), scale.to("hpu"), False, False, E5M2, [1, 5])


def test_products_with_scales_bias_and_accumulation() -> None:
    a, b = torch.randn(5, 8).to(E4M3), torch.randn(3, 8).to(E4M3)
    bias, start = torch.randn(3), torch.randn(5, 3)
    found = ops.fp8_gemm_v2(
        a.to("hpu"), False, b.to("hpu"), True, start.to("hpu"), torch.float32, torch.tensor(2.0).to("hpu"),
        torch.tensor(0.5).to("hpu"), bias.to("hpu"), True,
    )  # fmt: skip
    torch.testing.assert_close(found.cpu(), a.float() @ b.float().t() + bias + start)
    with pytest.raises(RuntimeError, match="common dimensions of 8 and 3"):
        ops.fp8_gemm_v2(a.to("hpu"), False, b.to("hpu"), False, None, torch.float32)


def test_blocks_are_scaled_at_run_time_and_multiplied_by_block() -> None:
    x, w = torch.randn(3, 8), torch.randn(4, 8)
    x8, sx = ops.cast_to_fp8_just_in_time(x.to("hpu"), [1, 4], out_dtype=E4M3, scale_dtype=torch.float32)
    w8, sw = ops.cast_to_fp8_just_in_time(w.to("hpu"), [4, 4], out_dtype=E4M3, scale_dtype=torch.float32)
    assert sx.shape == (3, 2) and sw.shape == (1, 2)
    found = ops.fp8_gemm_v2(
        A=x8, trans_A=False, B=w8, trans_B=True, D=None, out_dtype=torch.float32, A_scale_inv=sx, B_scale_inv=sw.t()
    )
    torch.testing.assert_close(found.cpu(), x @ w.t(), rtol=0.1, atol=0.3)


def test_packed_weights_are_unpacked_by_group() -> None:
    weights = torch.arange(16).reshape(1, 16) % 16
    packed = torch.zeros(2, 2, dtype=torch.int64)
    for i in range(8):
        packed[:, 0] |= weights[0, i] << (4 * i)
        packed[:, 1] |= weights[0, 8 + i] << (4 * i)
    packed = packed.to(torch.int32)
    scale = torch.full((1, 16), 0.5)
    found = ops.convert_from_uint4(packed.to("hpu"), scale.to("hpu"), None, torch.float32)
    assert torch.equal(found.cpu(), weights.float().expand(2, 16) * 0.5)
    signed = ops.convert_from_int4(packed.to("hpu"), scale.to("hpu"), None, torch.float32)
    assert signed[0, 15].item() == -0.5


def test_caches_are_reordered_and_interleaved_in_place() -> None:
    cache = torch.randn(1, 4, 2, 6, 3)
    on_card = cache.to("hpu")
    beams = torch.tensor([[3, 0, 0, 1]])
    packed = (beams * torch.tensor([64, 16, 4, 1])).sum(-1).to(torch.uint8)
    ops.kv_reorder_(on_card, torch.tensor([1]).to("hpu"), torch.tensor([4]).to("hpu"), packed.to("hpu"))
    wanted = cache.clone()
    wanted[0, :, :, 1:4] = cache[0, beams[0], :, 1:4]
    assert torch.equal(on_card.cpu(), wanted)
    x = torch.randn(8, 2)
    assert torch.equal(ops.in_place_interleave_(x.to("hpu")).cpu(), x[:2].repeat_interleave(4, 0))


class TestCost:
    """What the compiler makes of a node."""

    def test_attention_keeps_its_scores_on_the_chip(self) -> None:
        recording = Recording()
        q = [recording.tensor(2, 4, 64, 16, dtype="BFloat16") for _ in range(3)]
        recording.run("sdpa_recomp_fwd", out=[(2, 4, 64, 16)], q=q[0], k=q[1], v=q[2])
        nodes = lower(recording.keep()).program.nodes
        assert [node.engine for node in nodes] == [Engine.MME, Engine.TPC, Engine.MME]
        assert nodes[0].shape == (8, 64, 64, 16) and nodes[2].shape == (8, 64, 16, 64)

    def test_a_product_of_8_bit_floats(self) -> None:
        recording = Recording()
        a, b = recording.tensor(32, 64, dtype="Float8_e4m3fn"), recording.tensor(16, 64, dtype="Float8_e4m3fn")
        recording.run("fp8_gemm_v2", out=[(32, 16)], A=a, B=b, attributes={"trans_A": False, "trans_B": True})
        (node,) = lower(recording.keep()).program.nodes
        assert (node.engine, node.shape, node.dtype) == (Engine.MME, (1, 32, 16, 64), "Float8_e4m3fn")
        assert node.operations == 2 * 32 * 16 * 64

    def test_a_mixture_of_experts_computes_each_choice(self) -> None:
        recording = Recording()
        states, table = recording.tensor(10, 8), recording.tensor(10, 2, dtype="Long")
        lists = {"w12": [recording.tensor(24, 8)] * 4, "w3": [recording.tensor(8, 12)] * 4}
        recording.run("mixture_of_experts", out=[(10, 8)], hidden_states=states, expert_routing_table=table, **lists)
        up, _, down, _ = lower(recording.keep()).program.nodes
        assert up.shape == (1, 20, 24, 8) and down.shape == (1, 20, 8, 12)
