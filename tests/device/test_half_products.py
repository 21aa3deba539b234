"""Products of the half types: sums in float32, rounded once, whatever this machine's processor can multiply."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

SUPPORTED = {
    torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported(),
    torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported(),
}
PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((128, 512), (512, 512))),
    "mm.out": (lambda a, b: torch.mm(a, b, out=a.new_empty(128, 512)), ((128, 512), (512, 512))),
    "addmm": (torch.addmm, ((512,), (128, 512), (512, 512))),
    "addmm_": (lambda c, a, b: c.clone().addmm_(a, b), ((128, 512), (128, 512), (512, 512))),
    "bmm": (torch.bmm, ((8, 64, 256), (8, 256, 128))),
    "mv": (torch.mv, ((4096, 512), (512,))),
    "linear": (F.linear, ((8, 16, 512), (512, 512), (512,))),
    "conv1d": (F.conv1d, ((4, 64, 100), (64, 64, 3), (64,))),
    "conv2d": (F.conv2d, ((4, 64, 14, 14), (64, 64, 3, 3), (64,))),
    "conv_transpose2d": (F.conv_transpose2d, ((4, 64, 14, 14), (64, 32, 3, 3), (32,))),
}


def made(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    numbers = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=numbers).to(dtype).to(device).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("dtype", list(SUPPORTED), ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_that_of_float32_rounded_once(name: str, dtype: torch.dtype) -> None:
    """To the last bit where the processor has no such products; where it has, sums are in an order of its own."""
    product, shapes = PRODUCTS[name]
    differentiable = name != "mm.out"
    with torch.set_grad_enabled(differentiable):
        inputs = made(shapes, dtype, "hpu")
        wide = [tensor.float().detach().requires_grad_() for tensor in made(shapes, dtype, "cpu")]
        result, wanted = product(*inputs), product(*wide)
    pairs = [(result, wanted)]
    if differentiable:
        slope = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
        slopes = torch.autograd.grad(result, inputs, slope.to("hpu"))
        pairs += zip(slopes, torch.autograd.grad(wanted, wide, slope.float()), strict=True)
    for got, exact in pairs:
        assert got.dtype == dtype and got.device.type == "hpu"
        if SUPPORTED[dtype]:
            torch.testing.assert_close(got.float().cpu(), exact, rtol=2**-7, atol=2**-4)
        else:
            assert torch.equal(got.cpu(), exact.to(dtype)), f"{(got.cpu() != exact.to(dtype)).sum()} numbers differ"
