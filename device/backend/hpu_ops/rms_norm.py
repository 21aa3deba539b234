"""RMS normalization: x x gamma / sqrt(mean(x^2) + epsilon) over the last dimension, and its backward.

The second result is the inverse root mean square of each row, which the backward takes. Where x and gamma have
different types both results are float32. The fast forms compute the same; the card's shorter formulae are within their
tolerance.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import Registry


def _dtype(data_in: Tensor, gamma: Tensor) -> torch.dtype:
    return data_in.dtype if data_in.dtype == gamma.dtype else torch.float32


def _check(data_in: Tensor, gamma: Tensor) -> None:
    if gamma.dim() != 1 or data_in.shape[-1:] != gamma.shape:
        raise RuntimeError(
            f"hpu::rms_norm: gamma must have one element for each of the last dimension; x has {list(data_in.shape)}, "
            f"gamma {list(gamma.shape)}"
        )


def normalize(data_in: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """(normalized, inverse root mean square of each row, last dimension 1)."""
    _check(data_in, gamma)
    wide = data_in.float()
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    dtype = _dtype(data_in, gamma)
    return (wide * inverse * gamma.float()).to(dtype), inverse.to(dtype)


def _normalize_shapes(data_in: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    _check(data_in, gamma)
    dtype = _dtype(data_in, gamma)
    return data_in.new_empty(data_in.shape, dtype=dtype), data_in.new_empty((*data_in.shape[:-1], 1), dtype=dtype)


def differentiate(
    grad_in: Tensor, data_in: Tensor, gamma: Tensor, inverse_rms: Tensor, use_stages: bool, bwd_mode: int
) -> tuple[Tensor, Tensor]:
    """Gradients of x and gamma. `use_stages` and `bwd_mode` choose among the card's kernels, not among results."""
    grad, x, inverse = grad_in.float(), data_in.float(), inverse_rms.float()
    scaled = grad * gamma.float()
    normalized = x * inverse
    of_input = inverse * (scaled - normalized * (scaled * normalized).mean(-1, keepdim=True))
    of_gamma = (grad * normalized).reshape(-1, gamma.shape[0]).sum(0)
    return of_input.to(data_in.dtype), of_gamma.to(gamma.dtype)


def _differentiate_shapes(grad_in: Tensor, data_in: Tensor, gamma: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return data_in.new_empty(data_in.shape), gamma.new_empty(gamma.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    data_in, gamma, _ = inputs
    ctx.save_for_backward(data_in, gamma, output[1])
    ctx.set_materialize_grads(False)  # none comes for the second result


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    return (*torch.ops.hpu.rms_norm_backward(grad, *ctx.saved_tensors, True, 0), None)


def _fast_backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    return (*torch.ops.hpu.rms_norm_fast_backward(grad, *ctx.saved_tensors, True, 0), None)


def register(registry: Registry) -> None:
    """rms_norm, rms_norm_fast and their backwards."""
    for form, backward in (("", _backward), ("_fast", _fast_backward)):
        name = registry.operator(
            f"rms_norm{form}(Tensor data_in, Tensor gamma, float epsilon) -> (Tensor, Tensor)",
            normalize,
            _normalize_shapes,
        )
        registry.operator(
            f"rms_norm{form}_backward(Tensor grad_in, Tensor data_in, Tensor gamma, Tensor inverse_rms, "
            "bool use_stages, int bwd_mode) -> (Tensor, Tensor)",
            differentiate,
            _differentiate_shapes,
        )
        registry.gradient(name, _save, backward)
