"""The backends of torch.compile by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from device.environment import flag
from device.errors import ConfigurationError, HpuError

from . import config
from .compilers import hpu_inference_compiler, hpu_training_compiler_bw, hpu_training_compiler_fw
from .decomposition import get_hpu_decompositions
from .partition_fn import hpu_partition


def _checked(options: dict[str, Any] | None) -> dict[str, Any]:
    known = config.get_config_copy()  # type: ignore[attr-defined]
    for name in options or {}:
        if name not in known:
            raise ConfigurationError(
                f"torch.compile(options=...) names {name!r}, no switch of hpu_backend; it has {', '.join(known)}"
            )
    return dict(options or {})


def hpu_backend(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
    """The card's compiler: forward and backward traced by AOTAutograd, cut into clusters, one recipe each.

    Takes `options` of torch.compile, names of `config`; `mode` has no effect.

    Raises:
        HpuError: PT_HPU_DISALLOW_TORCH_COMPILE is set.
        ConfigurationError: an option that does not exist.
    """
    if flag("PT_HPU_DISALLOW_TORCH_COMPILE", False):
        raise HpuError(
            "torch.compile is not allowed in this process: PT_HPU_DISALLOW_TORCH_COMPILE is set. Unset it, or leave "
            "torch.compile out"
        )
    options = _checked(kwargs.get("options"))
    patched = config.patch(options) if options else None  # type: ignore[attr-defined]

    def with_options(compiler: Any) -> Any:
        return compiler if patched is None else config.patch(options)(compiler)  # type: ignore[attr-defined]

    def compile_program() -> Any:
        inference = hpu_inference_compiler if config.inference else hpu_training_compiler_bw
        return aot_autograd(
            fw_compiler=with_options(hpu_training_compiler_fw),
            bw_compiler=with_options(hpu_training_compiler_bw),
            inference_compiler=with_options(inference),
            decompositions=get_hpu_decompositions(),
            keep_inference_input_mutations=config.keep_input_mutations,
            partition_fn=hpu_partition,
        )(graph_module, example_inputs)

    if patched is None:
        return compile_program()
    with patched:
        return compile_program()


def aot_hpu_training_backend(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
    """The name of `hpu_backend` for training before release 1.13."""
    return hpu_backend(graph_module, example_inputs, **kwargs)


def aot_hpu_inference_backend(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
    """The name of `hpu_backend` for inference before release 1.13."""
    return hpu_backend(graph_module, example_inputs, **kwargs)
