"""The card computes with 8-bit floats, and with half precision everywhere; CPU PyTorch has few kernels for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import habana_frameworks.torch  # noqa: F401  registers hpu

EIGHT_BITS = (torch.float8_e5m2, torch.float8_e4m3fn)

OPERATORS: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda a, b: a + b,
    "rsub": lambda a, b: torch.rsub(a, b),
    "mul by a number": lambda a, b: a * 0.5,
    "clamp": lambda a, b: a.clamp(min=-1, max=1),
    "largest": lambda a, b: torch.amax(a, dim=0),
    "smallest and largest": lambda a, b: torch.stack([x.float() for x in torch.aminmax(a)]),
    "index_fill": lambda a, b: a.clone().index_fill_(0, torch.tensor([0, 2], device=a.device), 1.0),
    "maximum": torch.maximum,
}


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (64, 40)], ids=["small", "large"])
@pytest.mark.parametrize("name", OPERATORS)
def test_8_bit_floats_are_computed_in_float_and_rounded_once(
    name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    a, b = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    result = OPERATORS[name](a.to("hpu"), b.to("hpu")).cpu()
    expected = OPERATORS[name](a.float(), b.float())
    assert result.dtype in (dtype, torch.float32)
    assert torch.equal(result.float(), expected.to(result.dtype).float())


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_half_precision_where_the_cpu_has_no_kernel(dtype: torch.dtype) -> None:
    a = torch.randn(6, 4).to(dtype)
    assert torch.equal(torch.cdist(a.to("hpu"), a.to("hpu")).cpu(), torch.cdist(a.float(), a.float()).to(dtype))


def test_a_tensor_written_in_place_keeps_its_type() -> None:
    a = torch.randn(8).to(torch.float8_e5m2)
    on_card = a.to("hpu")
    same = on_card.add_(on_card)
    assert same is on_card and on_card.dtype is torch.float8_e5m2
    assert torch.equal(on_card.cpu().float(), (2 * a.float()).to(torch.float8_e5m2).float())


def test_an_output_given_by_the_user_is_resized() -> None:
    a = torch.randn(4, 3).to(torch.float8_e5m2)
    out = torch.empty(0, dtype=torch.float8_e5m2, device="hpu")
    torch.amax(a.to("hpu"), dim=1, out=out)
    assert torch.equal(out.cpu().float(), a.float().amax(dim=1))


def test_an_operator_of_the_host_is_what_the_cpu_makes_of_it() -> None:
    with pytest.raises(RuntimeError, match="not implemented for 'BFloat16'"):
        torch.linalg.svd(torch.eye(3, dtype=torch.bfloat16, device="hpu"))


def test_nothing_to_drop_has_a_mask_all_the_same() -> None:
    mask = torch.native_dropout(torch.empty(100, 0, device="hpu"), 0.5, True)[1]
    assert mask.cpu().dtype is torch.bool
