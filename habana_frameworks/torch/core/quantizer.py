"""Names of the quantizer for PyTorch's export-based quantization (PT2E).

PyTorch 2.13 has given that up: `torch.ao.quantization.quantizer` and `quantize_pt2e`, which the quantizer is built on,
are gone. The names exist and say so. The observers (`core.observer`) and the card's fp8 operators work without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["habana_quant_config_symmetric", "habana_quantizer"]

_ALTERNATIVE = (
    "PyTorch 2.13 and later have no torch.ao.quantization.quantizer any more. Use the observers of "
    "habana_frameworks.torch.core.observer with torch.ops.hpu.cast_to_fp8_v2 and fp8_gemm_v2"
)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"{name} quantizes graphs that were exported for PT2E; {_ALTERNATIVE}")


def _refusing(name: str) -> Callable[..., NoReturn]:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    return call


class habana_quantizer:
    """The quantizer; refuses to be made."""

    def __init__(self) -> None:
        _refuse("habana_quantizer")


habana_quant_config_symmetric = _refusing("habana_quant_config_symmetric")
_mark_nodes_as_annotated = _refusing("_mark_nodes_as_annotated")
_is_annotated = _refusing("_is_annotated")
_update_input_qspec_map = _refusing("_update_input_qspec_map")
_update_output_qspec = _refusing("_update_output_qspec")
