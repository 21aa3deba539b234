"""How operators reach the card: recorded whole, run at once, or on the host because the card lacks them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch

from ..description import configs_dir
from ..errors import ConfigurationError, HpuError

# `mode.values` refuses devices outside PyTorch; the two losses, taken apart, resize their scalar result and warn.
ALSO_WHOLE = ["aten::mode.values", "aten::mse_loss", "aten::smooth_l1_loss"]

_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


@cache
def _aten_names() -> tuple[str, ...]:
    return tuple(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))


def _whole_operators() -> list[str]:
    """Operators with a CPU kernel of their own that a composite kernel would take apart for other devices.

    Structured operators, too, whose composite kernel makes the result and calls the form with `out`, but two kinds.
    `index`, taken apart, ends the graph only for masks, whose result has a shape that depends on data; and operators of
    the host are known by the name of that form.
    """
    composite = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
    structured = "CompositeExplicitAutogradNonFunctional"
    apart = host_only() | {"index"}
    return [
        name
        for name in _aten_names()
        if _has_kernel(name, "CPU")
        and (
            any(_has_kernel(name, key) for key in composite)
            or (_has_kernel(name, structured) and _base(name) not in apart)
        )
    ]


def _base(name: str) -> str:
    return name.removeprefix("aten::").partition(".")[0]


@cache
def host_only() -> set[str]:
    """Base names of the operators that the card does not have (`configs/operators/host_only.txt`)."""
    lines = (configs_dir() / "operators" / "host_only.txt").read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


@cache
def _place_on_cpu() -> str:
    return os.environ.get("PT_HPU_PLACE_ON_CPU", "").strip()


def _placed_on_host() -> set[str]:
    text = _place_on_cpu()
    return set() if text in ("", "none") else {name.strip() for name in text.split(",") if name.strip()}


def runs_on_host(operator: str) -> bool:
    """Whether `operator` ("aten::name") is one that the card lacks, or that PT_HPU_PLACE_ON_CPU sends to the host."""
    name = operator.removeprefix("aten::").partition(".")[0]
    return bool({name, name.rstrip("_")} & (host_only() | _placed_on_host()))


@cache
def shape_depends_on_data(operator: str) -> bool:
    """Whether PyTorch says so of `operator` ("aten::name" or "aten::name.overload")."""
    name, _, overload = operator.partition(".")
    namespace, _, base = name.partition("::")
    tags = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default").tags
    return torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags


def check_fallback(operator: str) -> None:
    """Whether `operator` ("aten::name"), which ends a graph, may run on the host if the card lacks it.

    PT_HPU_PLACE_ON_CPU unset: every operator may; `none`: no operator; a list: those operators.

    Raises:
        HpuError: it may not.
    """
    text = _place_on_cpu()
    names = {name := operator.removeprefix("aten::").partition(".")[0], name.rstrip("_")}
    if not text or not names & host_only() or names & _placed_on_host():
        return
    raise HpuError(
        f"{operator} is not an operator of the card, and PT_HPU_PLACE_ON_CPU={text!r} does not let it run on the host; "
        f"use an operator that the card has, add {name} to the list, or unset the variable"
    )


def register(bridge: Any) -> None:
    """Tell the bridge about every operator that is not simply recorded."""
    for name in dict.fromkeys(_whole_operators() + ALSO_WHOLE):
        bridge.record_directly(name)
    placed = _placed_on_host()
    wanted = host_only() | placed
    found = set()
    for full in _aten_names():
        base, _, overload = full.removeprefix("aten::").partition(".")
        if base in wanted or base.rstrip("_") in wanted:
            bridge.set_run(f"aten::{base}", overload, "host")
            found |= {base, base.rstrip("_")}
    unknown = sorted(placed - found)
    if unknown:
        raise ConfigurationError(
            f"PT_HPU_PLACE_ON_CPU names {unknown[0]!r}, which is no aten operator; use names such as mm"
        )
