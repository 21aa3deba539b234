"""Automatic mixed precision on hpu: which operators run in the lower type, in float32, or in the widest of theirs.

The lists are the bridge's defaults (`configs/autocast/*.txt`); PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST and
PT_HPU_AUTOCAST_FP32_OPS_LIST name files, one operator a line, that replace the first two. An operator on several lists
belongs to the first of: lower, float32, promote.
"""

from __future__ import annotations

import difflib
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..description import configs_dir
from ..errors import ConfigurationError

NORMALIZATIONS = {"batch_norm", "group_norm", "instance_norm", "layer_norm"}
DEFAULT = torch.bfloat16
_ALIASES = {"truediv": ["true_divide"], "iadd": ["add_"]}  # Python spellings


class _Entry(NamedTuple):
    """One line of a list."""

    name: str
    source: Path
    line: int


def _read(path: Path) -> list[_Entry]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"autocast list {path} cannot be read: {error.strerror}") from error
    named = ((number, line.partition("#")[0].strip()) for number, line in enumerate(lines, 1))
    return [_Entry(name, path, number) for number, name in named if name]


def _list(default: str, *variables: str) -> list[_Entry]:
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
    known = _overloads()
    policies: dict[str, str] = {}
    for entries, policy in ((promote, "promote"), (float32, "float32"), (lower, "lower")):
        for entry in entries:
            for alias in _ALIASES.get(entry.name, [entry.name]):
                if alias not in known:
                    raise _unknown(entry, known)
                policies[alias] = "lower_first" if policy == "lower" and entry.name in NORMALIZATIONS else policy
    for name, policy in sorted(policies.items()):
        for overload in known[name]:
            bridge.set_cast_policy(f"aten::{name}", overload, policy)


def _unknown(entry: _Entry, known: dict[str, list[str]]) -> ConfigurationError:
    near = difflib.get_close_matches(entry.name, [*known, *_ALIASES], n=1)
    advice = f"did you mean {near[0]!r}?" if near else "use names such as mm or softmax"
    return ConfigurationError(f"{entry.source}, line {entry.line}: {entry.name!r} is no operator; {advice}")


_get_dtype = torch.get_autocast_dtype
_set_enabled = torch.set_autocast_enabled
_threads = threading.local()


def _begin_thread() -> None:
    # PyTorch keeps the lower type for each thread, and starts with float16 for devices outside PyTorch.
    if not getattr(_threads, "begun", False):
        _threads.begun = True
        torch.set_autocast_dtype("hpu", DEFAULT)


def _get_autocast_dtype(device_type: str) -> torch.dtype:
    """`torch.get_autocast_dtype`: bfloat16 on hpu until something else is set in this thread."""
    if device_type == "hpu":
        _begin_thread()
    return _get_dtype(device_type)


def _set_autocast_enabled(*arguments: Any) -> None:
    """`torch.set_autocast_enabled`, of a device or, as it was once, of CUDA."""
    if arguments and arguments[0] == "hpu":
        _begin_thread()
    _set_enabled(*arguments)


def be_bfloat16_by_default() -> None:
    """`torch.autocast("hpu")` without a type means bfloat16, in every thread."""
    torch.get_autocast_dtype = _get_autocast_dtype
    torch.set_autocast_enabled = _set_autocast_enabled  # type: ignore[assignment]
