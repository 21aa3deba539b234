"""Quantized programs: a number q stands for (q - zero point) x scale, in integers or in 8-bit floats."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines quantized_decomposed
import torch.nn.functional as F

import habana_frameworks.torch  # noqa: F401  registers hpu

VALUES = torch.linspace(-60, 60, 24).reshape(4, 6)
TYPES = (torch.int8, torch.int32, torch.float8_e5m2, torch.float8_e4m3fn)
operators = torch.ops.quantized_decomposed


def steps(scaled: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return scaled if dtype.is_floating_point else scaled.round()


@pytest.mark.parametrize("as_tensors", [False, True], ids=["numbers", "tensors"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_one_scale_for_all(dtype: torch.dtype, as_tensors: bool) -> None:
    numbers = (5.0, 10, -20, 100)
    given = tuple(torch.tensor(number, device="hpu") for number in numbers) if as_tensors else numbers
    quantized = operators.quantize_per_tensor(VALUES.to("hpu"), *given, dtype)
    expected = (steps(VALUES / 5.0, dtype) + 10).clamp(-20, 100).to(dtype)
    assert quantized.dtype is dtype and torch.equal(quantized.cpu().float(), expected.float())
    restored = operators.dequantize_per_tensor(quantized, *given, dtype, out_dtype=torch.bfloat16)
    assert torch.equal(restored.cpu(), ((expected.float() - 10) * 5.0).bfloat16())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_scale_for_each_channel(dtype: torch.dtype) -> None:
    scales, zeros = torch.linspace(1, 6, 6), torch.arange(6)
    quantized = operators.quantize_per_channel(VALUES.to("hpu"), scales.to("hpu"), zeros.to("hpu"), 1, -20, 100, dtype)
    expected = (steps(VALUES * (1 / scales), dtype) + zeros).clamp(-20, 100).to(dtype)
    assert torch.equal(quantized.cpu().float(), expected.float())
    restored = operators.dequantize_per_channel(quantized, scales.to("hpu"), zeros.to("hpu"), 1, -20, 100, dtype)
    assert torch.equal(restored.cpu(), (expected.float() - zeros) * scales)


def test_the_scale_of_an_8_bit_product_multiplies() -> None:
    a = (torch.rand(12, 16) * 5).to(torch.float8_e5m2)
    b = (torch.rand(24, 16) * 10).to(torch.float8_e5m2).t()
    one, scale = torch.tensor(1.0, device="hpu"), torch.tensor(0.05, device="hpu")
    product = torch._scaled_mm(a.to("hpu"), b.to("hpu"), one, one, scale_result=scale, out_dtype=torch.float8_e5m2)
    exact = a.float() @ b.float() * 0.05
    assert product.dtype is torch.float8_e5m2
    assert torch.allclose(product.cpu().float(), exact, rtol=0.125)  # two bits of mantissa


def test_a_loss_of_one_sample_is_a_scalar() -> None:
    x, target = torch.randn(6), torch.tensor([3, 0, -1, 1, 2, 4])
    loss = F.multilabel_margin_loss(x.to("hpu"), target.to("hpu"), reduction="none")
    assert loss.shape == () and torch.allclose(loss.cpu(), F.multilabel_margin_loss(x, target, reduction="none"))
