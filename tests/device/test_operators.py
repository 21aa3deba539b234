"""Every operator that CPU PyTorch has, against CPU PyTorch: values, types and shapes, forward and backward.

The samples are PyTorch's own operator database. Left out: operators on complex or sparse tensors, which the card does
not have, and those whose result is random.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal import common_utils, opinfo
from torch.testing._internal.common_methods_invocations import op_db

RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "normal", "pca_lowrank", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "svd_lowrank", "uniform",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
}  # fmt: skip
# Its sections must be on the CPU, for CUDA as well; the others ask for the CPU or for complex numbers themselves.
HOST_ARGUMENT = {"tensor_split", "to", "stft"}
# Sums chunks in bfloat16, in an order that depends on the device.
CHUNKED = {"nn.functional.linear_cross_entropy"}

DTYPES = (torch.float32, torch.int64, torch.bfloat16)
SAMPLES = 3

OPERATORS = [
    op
    for op in op_db
    if op.name not in RANDOM | HOST_ARGUMENT | CHUNKED
    and "sparse" not in op.name
    and not op.name.startswith(("fft.", "jiterator"))
]


def convert(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The value with every tensor in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        items = [convert(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: convert(item, change) for key, item in value.items()}
    return value


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def on_card(value: Any) -> Any:
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[2], dict) and "device" in value[2]:
        value = (*value[:2], value[2] | {"device": "hpu"})
    return convert(value, lambda tensor: tensor.detach().to("hpu").requires_grad_(tensor.requires_grad))


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [found for item in value for found in tensors(item)] if isinstance(value, (list, tuple)) else []


def dense(values: list[torch.Tensor]) -> bool:
    return all(not value.is_complex() and value.layout == torch.strided for value in values)


def gradients(op: Any, sample: tuple[Any, ...], results: list[torch.Tensor]) -> list[torch.Tensor | None]:
    outputs = [result.sum() for result in results if result.requires_grad]
    inputs = [tensor for tensor in tensors(list(sample)) if tensor.requires_grad]
    return list(torch.autograd.grad(outputs, inputs, allow_unused=True)) if outputs and inputs else []


@pytest.fixture(autouse=True)
def no_search_for_a_unittest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are told which unittest asks for them: none does here, and to find that out takes most of the time."""
    for module in (common_utils, opinfo.core):
        monkeypatch.setattr(module, "extract_test_fn", lambda: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "op", OPERATORS, ids=lambda op: f"{op.name}{'-' if op.variant_test_name else ''}{op.variant_test_name}"
)
def test_operator_equals_the_cpu(op: Any) -> None:
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        differentiable = dtype is torch.float32 and op.supports_autograd
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), SAMPLES):
                compare(op, (sample.input, sample.args, sample.kwargs), differentiable)


def compare(op: Any, sample: tuple[Any, ...], differentiable: bool) -> None:
    host = convert(sample, fresh)
    try:
        wanted = tensors(op(host[0], *host[1], **host[2]))
        wanted_gradients = gradients(op, host, wanted) if differentiable else []
    except (RuntimeError, ValueError, IndexError, TypeError):
        return  # the CPU does not take the sample
    if not dense(wanted):
        return
    card = on_card(sample)
    got = tensors(op(card[0], *card[1], **card[2]))
    got_gradients = gradients(op, card, got) if differentiable else []
    assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in wanted]
    assert all(t.device.type == "hpu" for t in got)
    for mine, theirs in zip(got + got_gradients, wanted + wanted_gradients, strict=True):
        if theirs is None:
            assert mine is None
            continue
        torch.testing.assert_close(mine.detach().cpu(), theirs.detach(), rtol=1e-4, atol=1e-4, equal_nan=True)
