"""Compiling the backward pass as it runs, instead of with the forward pass."""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch
from torch._dynamo import compiled_autograd

_logger = logging.getLogger(__name__)


def enable_compiled_autograd(**kwargs: Any) -> None:
    """From here on `backward()` records PyTorch's engine at work, hooks included, and compiles that with `hpu_backend`.

    To be called before anything is compiled. `kwargs` go to torch.compile. DistributedDataParallel then reduces its
    gradients inside the compiled graph.
    """
    _logger.warning("Enabling CompiledAutograd for hpu_backend with torch.compile")

    def compile_backward(graph: torch.fx.GraphModule) -> Any:
        return torch.compile(graph, backend="hpu_backend", options={"inference": False}, **kwargs)

    torch._dynamo.reset()
    torch._C._dynamo.compiled_autograd.set_autograd_compiler(
        functools.partial(compiled_autograd.AutogradCompilerInstance, compile_backward), True
    )
    compiled_autograd.compiled_autograd_enabled = True
    torch._dynamo.config.optimize_ddp = "python_reducer"
    torch._C._set_autograd_fallback_mode("nothing")
