"""Observers for symmetric quantization to fp8: the largest magnitude seen gives the scale.

    scale = max(largest magnitude * 2^backoff_margin / largest quantized value, eps)

The card multiplies by powers of two for free, so the scale becomes the next higher power of two that its hardware has:
for float8_e4m3fn on Gaudi2 one of 2^-8, 2^-4, 1, 2^4, from exponent biases 3, 7, 11 and 15; for float8_e5m2 one bias.
The zero point is 0. Source: the bridge's public Python code, 1.19.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.ao.quantization.observer import UniformQuantizationObserverBase

__all__ = ["AbsMaxObserver", "SimpleAbsMaxObserver"]

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_EXPONENT_BITS = {torch.float8_e4m3fn: 4, torch.float8_e5m2: 5}
_BIASES = {torch.float8_e4m3fn: (3, 7, 11, 15), torch.float8_e5m2: (15,)}
_STEP = 4  # the biases are so many powers of two apart


class AbsMaxObserver(UniformQuantizationObserverBase):
    """Follows the least and the largest value, for one scale per tensor.

    `dtype`: float8_e4m3fn or float8_e5m2. `quant_min`, `quant_max`: the quantized range, symmetric. `backoff_margin`:
    powers of two that the scale is kept away from overflow.

    Raises:
        NotImplementedError: another dtype or scheme, `reduce_range`, or dynamic quantization.
        ValueError: a range that is not symmetric.
    """

    min_val: torch.Tensor
    max_val: torch.Tensor

    def __init__(
        self,
        dtype: torch.dtype = torch.float8_e4m3fn,
        qscheme: torch.qscheme = torch.per_tensor_symmetric,
        reduce_range: bool = False,
        quant_min: float = torch.finfo(torch.float8_e4m3fn).min,
        quant_max: float = torch.finfo(torch.float8_e4m3fn).max,
        factory_kwargs: Any = None,
        eps: float = torch.finfo(torch.float32).eps,
        backoff_margin: float = 0,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__
        for wrong, text in (
            (dtype not in FLOAT8, f"dtype {dtype}; use torch.float8_e4m3fn or torch.float8_e5m2"),
            (qscheme != torch.per_tensor_symmetric, f"scheme {qscheme}; use torch.per_tensor_symmetric"),
            (reduce_range, "reduce_range; leave it off"),
            (is_dynamic, "dynamic quantization; leave is_dynamic off"),
        ):
            if wrong:
                raise NotImplementedError(f"{name} does not support {text}")
        if quant_min != -quant_max:
            raise ValueError(f"{name} needs a symmetric range; got {quant_min} to {quant_max}")
        super().__init__(
            dtype=dtype,
            qscheme=qscheme,
            reduce_range=False,
            quant_min=quant_min,  # type: ignore[arg-type]
            quant_max=quant_max,  # type: ignore[arg-type]
            factory_kwargs=factory_kwargs,
            eps=eps,
            is_dynamic=False,
            **kwargs,
        )
        options = torch.nn.factory_kwargs(factory_kwargs)
        self.register_buffer("min_val", torch.tensor(math.inf, **options))
        self.register_buffer("max_val", torch.tensor(-math.inf, **options))
        self.backoff_margin = backoff_margin

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Take in the values of a tensor, which is given back."""
        if x_orig.numel():
            low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
            self.min_val.copy_(torch.minimum(low, self.min_val))
            self.max_val.copy_(torch.maximum(high, self.max_val))
        return x_orig

    def _largest(self) -> torch.Tensor:
        zero = torch.zeros_like(self.max_val)
        return torch.maximum(-torch.minimum(self.min_val, zero), torch.maximum(self.max_val, zero))

    def calculate_qparams(self, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """(scale, zero point) from the values so far."""
        half_range = float(self.quant_max - self.quant_min) / 2
        scale = torch.maximum(self._largest() / half_range * 2**self.backoff_margin, self.eps.to(self.max_val.device))
        return _hardware_scale(scale, self.dtype), torch.zeros_like(self.max_val, dtype=torch.int64)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_observer_state(self) -> None:
        """Forget the values so far."""
        self.min_val.copy_(torch.tensor(math.inf))
        self.max_val.copy_(torch.tensor(-math.inf))


class SimpleAbsMaxObserver(AbsMaxObserver):
    """As `AbsMaxObserver`, from magnitudes alone."""

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Take in the magnitudes of a tensor, which is given back."""
        if x_orig.numel():
            largest = x_orig.detach().to(self.max_val.dtype).abs().max()
            self.max_val.copy_(torch.maximum(largest, self.max_val))
            self.min_val.copy_(-self.max_val)
        return x_orig


def _hardware_scale(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The next higher power of two that the card has, within its range."""
    own_bias = 2 ** (_EXPONENT_BITS[dtype] - 1) - 1
    scales = [2.0 ** (own_bias - bias) for bias in _BIASES[dtype]]
    exponent = torch.ceil(torch.log2(2 ** torch.ceil(torch.log2(scale))) / _STEP) * _STEP
    return (2**exponent).clamp(min(scales), max(scales))
