"""Automatic mixed precision on hpu: which operators run in the lower type, in float32, or in the widest of theirs.

The lists are the bridge's defaults (`configs/autocast/*.txt`); PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST and
PT_HPU_AUTOCAST_FP32_OPS_LIST name files, one operator a line, that replace the first two. An operator on several lists
belongs to the first of: lower, float32, promote.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ..description import configs_dir
from ..errors import ConfigurationError

NORMALIZATIONS = {"batch_norm", "group_norm", "instance_norm", "layer_norm"}
_ALIASES = {"truediv": ["true_divide"], "iadd": ["add_"]}  # Python spellings


def _read(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"autocast list {path} cannot be read: {error.strerror}") from error
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _list(default: str, *variables: str) -> list[str]:
    for variable in variables:
        chosen = os.environ.get(variable)
        if chosen:
            return _read(Path(chosen))
    return _read(configs_dir() / "autocast" / default)


def lower_precision_operators() -> list[str]:
    """Names of the operators that run in the lower type."""
    return _list("lower_precision.txt", "PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "LOWER_LIST")


def _overloads() -> dict[str, list[str]]:
    """Overload names by operator, of those that the dispatcher knows."""
    known: dict[str, list[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        base, _, overload = rest.partition(".")
        if space == "aten" and "out" not in overload:
            known.setdefault(base, []).append(overload)
    return known


def register(bridge: Any) -> None:
    """Give each listed operator its kernel under autocast.

    Raises:
        ConfigurationError: a list names an operator that does not exist.
    """
    lower = lower_precision_operators()
    float32 = _list("float32.txt", "PT_HPU_AUTOCAST_FP32_OPS_LIST", "FP32_LIST")
    promote = _list("promote.txt")
    policies: dict[str, str] = {}
    for names, policy in ((promote, "promote"), (float32, "float32"), (lower, "lower")):
        for name in names:
            for alias in _ALIASES.get(name, [name]):
                policies[alias] = "lower_first" if policy == "lower" and name in NORMALIZATIONS else policy
    known = _overloads()
    for name, policy in sorted(policies.items()):
        if name not in known:
            raise ConfigurationError(
                f"an autocast list names {name!r}, which is no operator; use names such as mm or softmax"
            )
        for overload in known[name]:
            bridge.set_cast_policy(f"aten::{name}", overload, policy)
