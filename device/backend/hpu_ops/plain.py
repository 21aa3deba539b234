"""Operators of the namespace that equal one of PyTorch's: matrix products, fast functions, indexing, normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .fp8_format import is_fp8, round_to
from .registry import Registry, like


def _fast(function: Callable[[Tensor], Tensor], self: Tensor) -> Tensor:
    return function(self.float()).to(self.dtype)


def _matmul_backward(grad_out: Tensor, self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of both factors of torch.matmul."""
    left = self.unsqueeze(0) if self.dim() == 1 else self
    right = other.unsqueeze(-1) if other.dim() == 1 else other
    grad = grad_out
    if self.dim() == 1:
        grad = grad.unsqueeze(-2 if other.dim() > 1 else 0)
    if other.dim() == 1:
        grad = grad.unsqueeze(-1)
    of_left = torch.matmul(grad, right.transpose(-2, -1)).sum_to_size(left.shape)
    of_right = torch.matmul(left.transpose(-2, -1), grad).sum_to_size(right.shape)
    return of_left.reshape(self.shape).to(self.dtype), of_right.reshape(other.shape).to(other.dtype)


def _two_like(grad_out: Tensor, self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return self.new_empty(self.shape), other.new_empty(other.shape)


def _linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    rows, grads = self.reshape(-1, self.shape[-1]), grad_output.reshape(-1, grad_output.shape[-1])
    of_bias = grads.sum(0) if output_mask[2] else grads.new_zeros(weight.shape[0])
    return grad_output.matmul(weight), grads.t().matmul(rows), of_bias


def _linear_backward_shapes(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    return self.new_empty(self.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape[0])


def _index(self: Tensor, indices: Sequence[Tensor]) -> Tensor:
    return torch.ops.aten.index(self, [index.long() if index.dtype == torch.int32 else index for index in indices])


def _index_shapes(self: Tensor, indices: Sequence[Tensor]) -> Tensor:
    return torch.ops.aten.index(self, list(indices))


def _cast(input: Tensor, type: Any, stochastic_rounding: bool, seed: int = 0) -> Tensor:
    """habana_cast_sr_mode: to another floating-point type, rounding stochastically with the seed given (0: drawn)."""
    wanted = SCALAR_TYPES[int(type)]
    if not stochastic_rounding:
        return round_to(input, wanted) if is_fp8(wanted) else input.to(wanted)
    state = torch.get_rng_state() if seed else None
    if seed:
        torch.manual_seed(seed)
    try:
        return round_to(input, wanted, True) if is_fp8(wanted) else _stochastic_bfloat16(input).to(wanted)
    finally:
        if state is not None:
            torch.set_rng_state(state)


def _stochastic_bfloat16(input: Tensor) -> Tensor:
    bits = input.float().view(torch.int32)
    return ((bits + torch.randint(1 << 16, bits.shape, dtype=torch.int32)) & -65536).view(torch.float32)


def _cast_shapes(input: Tensor, type: Any, stochastic_rounding: bool, seed: int = 0) -> Tensor:
    if int(type) not in SCALAR_TYPES:
        raise RuntimeError(f"hpu::habana_cast_sr_mode: type {type} is no floating-point type; see c10::ScalarType")
    return input.new_empty(input.shape, dtype=SCALAR_TYPES[int(type)])


SCALAR_TYPES = {  # c10::ScalarType
    5: torch.float16, 6: torch.float32, 15: torch.bfloat16, 23: torch.float8_e5m2, 24: torch.float8_e4m3fn,
}  # fmt: skip


def _random_seed(input: Tensor) -> Tensor:
    """habana_random_seed: a new seed from one, int32."""
    generator = torch.Generator().manual_seed(int(input.reshape(-1)[0]))
    return torch.randint(2**31 - 1, input.shape, dtype=torch.int32, generator=generator)


def _seeds(seed: Tensor, counter: Tensor, size: int) -> Tensor:
    """habana_seed_generator: `size` seeds from a seed and a counter, int32."""
    start = int(seed.reshape(-1)[0]) * 0x9E3779B1 + int(counter.reshape(-1)[0])
    generator = torch.Generator().manual_seed(start & (2**63 - 1))
    return torch.randint(2**31 - 1, (size,), dtype=torch.int32, generator=generator)


def _instance_norm(input: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(normalized, mean, 1 / standard deviation) of each image and channel; statistics float32."""
    wide, rest = input.float(), list(range(2, input.dim()))
    variance, mean = torch.var_mean(wide, rest, correction=0, keepdim=True)
    inverse = torch.rsqrt(variance + eps)
    shape = [1, -1, *[1] * len(rest)]
    result = (wide - mean) * inverse * weight.float().view(shape) + bias.float().view(shape)
    return result.to(input.dtype), mean.flatten(1), inverse.flatten(1)


def _instance_norm_shapes(input: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    statistics = input.new_empty(input.shape[:2], dtype=torch.float32)
    return input.new_empty(input.shape), statistics, torch.empty_like(statistics)


def _instance_norm_backward(
    input: Tensor, grad_in: Tensor, mean: Tensor, istd: Tensor, gamma: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of bias and of weight."""
    wide, grad, rest = input.float(), grad_in.float(), list(range(2, input.dim()))
    over = (..., *[None] * len(rest))
    normalized = (wide - mean[over]) * istd[over]
    scaled = grad * gamma.float().view(1, -1, *[1] * len(rest))
    centred = scaled - scaled.mean(rest, keepdim=True) - normalized * (scaled * normalized).mean(rest, keepdim=True)
    return (centred * istd[over]).to(input.dtype), grad.sum([0, *rest]), (grad * normalized).sum([0, *rest])


def _instance_norm_backward_shapes(input: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    channels = input.new_empty(input.shape[1], dtype=torch.float32)
    return input.new_empty(input.shape), channels, torch.empty_like(channels)


def _add_each(self: Sequence[Tensor], other: Sequence[Tensor]) -> None:
    torch._foreach_add_(list(self), list(other))


def register(registry: Registry) -> None:
    """The operators above."""
    for name in ("exp", "sqrt", "rsqrt"):
        registry.operator(f"{name}_fast_math(Tensor self) -> Tensor", partial(_fast, getattr(torch, name)), like)
    registry.operator("matmul(Tensor self, Tensor other) -> Tensor", torch.matmul, torch.matmul)
    registry.operator(
        "matmul_bwd(Tensor grad_out, Tensor self, Tensor other) -> (Tensor, Tensor)", _matmul_backward, _two_like
    )
    linear = torch.nn.functional.linear
    registry.operator("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear, linear)
    registry.operator(
        "linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) "
        "-> (Tensor, Tensor, Tensor)",
        _linear_backward,
        _linear_backward_shapes,
    )
    registry.operator("plain_index(Tensor self, Tensor[] indices) -> Tensor", _index, _index_shapes)
    registry.operator("identity(Tensor self) -> Tensor", torch.clone, torch.empty_like)
    registry.operator(
        "habana_cast_sr_mode(Tensor input, Scalar type, bool stochastic_rounding, int seed=0) -> Tensor",
        _cast,
        _cast_shapes,
        random=True,
    )
    registry.operator("habana_random_seed(Tensor input) -> Tensor", _random_seed, like)
    registry.operator(
        "habana_seed_generator(Tensor seed, Tensor counter, int size) -> Tensor",
        _seeds,
        lambda seed, counter, size: seed.new_empty(size, dtype=torch.int32),
    )
    registry.operator(
        "instance_norm(Tensor input, Tensor weight, Tensor bias, float eps) -> (Tensor, Tensor, Tensor)",
        _instance_norm,
        _instance_norm_shapes,
    )
    registry.operator(
        "instance_norm_backward(Tensor input, Tensor grad_in, Tensor mean, Tensor istd, Tensor gamma) "
        "-> (Tensor, Tensor, Tensor)",
        _instance_norm_backward,
        _instance_norm_backward_shapes,
    )
    registry.operator("custom_foreach_add_(Tensor(a!)[] self, Tensor[] other) -> ()", _add_each, lambda *lists: None)
    registry.composite(
        "accumulate_grads_(Tensor[] variables, Tensor[] new_grads) -> ()",
        _accumulate,
    )


def _accumulate(variables: Sequence[Tensor], new_grads: Sequence[Tensor]) -> None:
    """accumulate_grads_: add to `.grad` of each variable, or set it."""
    for variable, grad in zip(variables, new_grads, strict=True):
        variable.grad = grad if variable.grad is None else variable.grad + grad
