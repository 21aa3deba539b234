"""Products of matrices that have several floating types, which the card's matrix engine takes and the CPU refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import habana_frameworks.torch  # noqa: F401  registers hpu

from ..conftest import Script

BF16, F32 = torch.bfloat16, torch.float32

# The result has the first operand's type, or the common one.
FIRST: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "mm": (torch.mm, (4, 8), (8, 3)),
    "bmm": (torch.bmm, (2, 4, 8), (2, 8, 3)),
    "matmul": (torch.matmul, (4, 8), (8, 3)),
    "matmul that exchanges its operands": (torch.matmul, (4, 8), (2, 8, 3)),
    "matmul of vectors": (torch.matmul, (8,), (8, 3)),
    "linear": (F.linear, (2, 4, 8), (3, 8)),
    "einsum": (lambda a, b: torch.einsum("ik,jk->ij", a, b), (4, 8), (3, 8)),
}
COMMON: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "dot": (torch.dot, (8,), (8,)),
    "addmm": (lambda a, b: torch.addmm(b[0], a, b), (4, 8), (8, 3)),
}


@pytest.mark.parametrize("types", [(BF16, F32), (F32, BF16), (torch.float16, BF16)], ids=str)
@pytest.mark.parametrize("name", [*FIRST, *COMMON])
def test_computed_in_float32_and_rounded_once(name: str, types: tuple[torch.dtype, torch.dtype]) -> None:
    product, first, second = (FIRST | COMMON)[name]
    a, b = torch.randn(first).to(types[0]), torch.randn(second).to(types[1])
    result = product(a.to("hpu"), b.to("hpu")).cpu()
    assert result.dtype is (types[0] if name in FIRST else torch.promote_types(*types))
    assert torch.equal(result, product(a.float(), b.float()).to(result.dtype))


def test_a_float32_layer_trains_on_a_bfloat16_input() -> None:
    layer = torch.nn.Linear(8, 3)
    on_card = torch.nn.Linear(8, 3).to("hpu")
    on_card.load_state_dict(layer.state_dict())
    x = torch.randn(4, 8).to(BF16)
    result = on_card(x.to("hpu"))
    assert result.dtype is BF16
    result.float().sum().backward()
    layer(x.float()).sum().backward()
    assert on_card.weight.grad is not None and on_card.weight.grad.dtype is F32
    assert layer.weight.grad is not None
    torch.testing.assert_close(on_card.weight.grad.cpu(), layer.weight.grad)


@torch.inference_mode()
def test_the_same_in_inference_mode() -> None:
    x, weight, bias = torch.randn(4, 8).to(BF16), torch.randn(3, 8), torch.randn(3)
    result = F.linear(x.to("hpu"), weight.to("hpu"), bias.to("hpu"))
    assert torch.equal(result.cpu(), F.linear(x.float(), weight, bias).to(BF16))


def test_an_output_keeps_its_type() -> None:
    a, b = torch.randn(4, 8).to(BF16), torch.randn(8, 3)
    out = torch.empty(4, 3, device="hpu")
    torch.mm(a.to("hpu"), b.to("hpu"), out=out)
    assert torch.equal(out.cpu(), a.float() @ b)


def test_a_convolution_has_the_inputs_type_and_its_gradients_their_operands() -> None:
    x, weight = torch.randn(2, 3, 8, 8).to(BF16), torch.randn(4, 3, 3, 3)
    on_card = x.to("hpu").requires_grad_(), weight.to("hpu").requires_grad_()
    result = F.conv2d(*on_card)
    assert result.dtype is BF16
    torch.testing.assert_close(result.cpu(), F.conv2d(x.float(), weight).to(BF16))
    result.float().sum().backward()
    assert [operand.grad.dtype for operand in on_card if operand.grad is not None] == [BF16, F32]


def test_a_bias_of_another_type_is_refused_as_on_the_card() -> None:
    with pytest.raises(RuntimeError, match="should be the same"):
        F.conv2d(
            torch.zeros(1, 3, 8, 8, dtype=BF16, device="hpu"),
            torch.zeros(4, 3, 3, 3, device="hpu"),
            torch.zeros(4, device="hpu"),
        )


@pytest.mark.parametrize("product", ["torch.mm(a, b)", "a @ b", "torch.nn.functional.linear(a, b.t())"])
def test_the_strict_switch_refuses_them(script: Script, product: str) -> None:
    code = f"""
        import torch, habana_frameworks.torch
        a, b = torch.ones(2, 4, dtype=torch.bfloat16, device="hpu"), torch.ones(4, 3, device="hpu")
        try:
            {product}
        except RuntimeError as error:
            print(type(error).__name__, error)
        """
    said = script(code, HPUCLUSTER_STRICT="1").stdout
    assert "StrictError" in said and "BFloat16" in said and "torch.autocast" in said
    assert "Error" not in script(code).stdout
