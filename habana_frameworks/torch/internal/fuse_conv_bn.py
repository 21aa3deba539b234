"""Batch normalisation folded into the convolution before it, for inference."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval

_PAIRS = (
    (torch.nn.Conv1d, torch.nn.BatchNorm1d),
    (torch.nn.Conv2d, torch.nn.BatchNorm2d),
    (torch.nn.Conv3d, torch.nn.BatchNorm3d),
)


def fuse(model: torch.nn.Module, inplace: bool = False) -> torch.nn.Module:
    """`model` with each batch normalisation that alone follows a convolution folded into it; a copy, unless `inplace`.

    A model that cannot be traced as a graph is looked through pair by pair: neighbours in a `Sequential` are folded.

    Raises:
        RuntimeError: a model in training, or not on the CPU.
    """
    if model.training:
        raise RuntimeError("only a model for inference can be fused; call model.eval() first")
    for name, parameter in model.named_parameters():
        if not parameter.is_cpu:
            raise RuntimeError(f"{name} is on {parameter.device}; fuse the model before it moves there")
    fused = model if inplace else copy.deepcopy(model)
    for first, second in _neighbours(fused):
        _fold(fused, first, second)
    return fused


def _neighbours(model: torch.nn.Module) -> list[tuple[str, str]]:
    """Names of convolutions and of the normalisation that alone takes each one's result."""
    modules = dict(model.named_modules())
    try:
        graph = torch.fx.symbolic_trace(model).graph
    except Exception:  # a model may do anything with its inputs, and raise anything when they are symbols
        return [pair for pair in _sequential_pairs(modules) if _is_pair(modules[pair[0]], modules[pair[1]])]
    pairs = []
    for node in graph.nodes:
        if node.op != "call_module" or len(node.args) != 1 or not isinstance(node.args[0], torch.fx.Node):
            continue
        before = node.args[0]
        if before.op == "call_module" and len(before.users) == 1:
            names = str(before.target), str(node.target)
            if _is_pair(modules[names[0]], modules[names[1]]):
                pairs.append(names)
    return pairs


def _sequential_pairs(modules: dict[str, torch.nn.Module]) -> list[tuple[str, str]]:
    pairs = []
    for name, module in modules.items():
        if isinstance(module, torch.nn.Sequential):
            children = [f"{name}.{child}".lstrip(".") for child, _ in module.named_children()]
            pairs += list(itertools.pairwise(children))
    return pairs


def _is_pair(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    return any(type(first) is conv and type(second) is norm for conv, norm in _PAIRS) and getattr(
        second, "track_running_stats", False
    )


def _fold(model: torch.nn.Module, convolution: str, normalization: str) -> None:
    conv: Any = model.get_submodule(convolution)
    norm: Any = model.get_submodule(normalization)
    _replace(model, convolution, fuse_conv_bn_eval(conv, norm))
    _replace(model, normalization, torch.nn.Identity())


def _replace(model: torch.nn.Module, name: str, module: torch.nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, module)
