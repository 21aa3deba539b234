"""The forms of hpu::mixture_of_experts, which differ in how weights and scales come, and its gradient.

Names of the forms: `fused_weights` (w12), `fp8_measurement` (also the largest value that goes into each expert's last
product), `fp8` (scales given), `fp8_scalars` (as numbers), `fp8_dynamic` (that of the last product found at run time),
`fp8_blockwise`. Training is for the first two, as documented.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .fp8_gemm import spread
from .mixture_of_experts import Experts, as_matrix, check, halves, rounding, wide_dtype
from .registry import Registry

Weights = Sequence[Tensor]


def _experts(
    weights: Sequence[Weights], permuted: bool, activation: str, first: int, last: int, squeeze: Any = None
) -> Experts:
    """From (w1, w2, w3) or (w12, w3)."""
    check(activation, first, last, *weights)
    matrices = [[as_matrix(weight, permuted) for weight in group] for group in weights]
    if len(matrices) == 2:
        matrices = [*halves(matrices[0]), matrices[1]]
    return Experts(*matrices, activation, first, squeeze)


def _plain(count: int, states: Tensor, table: Tensor, shares: Tensor, *rest: Any, **options: Any) -> Tensor:
    """default and fused_weights."""
    experts = _experts(rest[:count], *rest[count : count + 4])
    return experts.of(states.float(), table, shares).to(states.dtype)


def _plain_shapes(count: int, states: Tensor, table: Tensor, shares: Tensor, *rest: Any, **options: Any) -> Tensor:
    check(rest[count + 1], *rest[count + 2 : count + 4], *rest[:count])
    return states.new_empty(states.shape)


def _measuring(count: int, states: Tensor, table: Tensor, shares: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    experts = _experts(rest[:count], *rest[count : count + 4])
    wide = states.float()
    return experts.of(wide, table, shares).to(states.dtype), experts.measured(wide)


def _measuring_shapes(count: int, states: Tensor, table: Tensor, shares: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    amax = states.new_empty(len(rest[0]), dtype=torch.float32)
    return _plain_shapes(count, states, table, shares, *rest), amax


def _scaled(weights: Weights, scales: Sequence[Any], permuted: bool) -> list[Tensor]:
    """Weights in float32; a scale is a number, or one for each output."""
    result = []
    for weight, scale in zip(weights, scales, strict=True):
        factor = torch.as_tensor(scale, dtype=torch.float32)
        result.append(weight.float() * (factor.reshape(-1, 1) if permuted and factor.numel() > 1 else factor))
    return result


def _fp8(
    count: int, dynamic: bool, states: Tensor, table: Tensor, shares: Tensor, *rest: Any, **options: Any
) -> Tensor:
    """fp8, fp8_scalars, fp8_dynamic and their forms with fused weights."""
    weights, of_states, after = rest[:count], rest[count], rest[count + 1 :]
    inside = None if dynamic else after[0]
    scales, (permuted, activation, first, last) = _split(after, dynamic, count)
    wide = [_scaled(group, scale, permuted) for group, scale in zip(weights, scales, strict=True)]
    experts = _experts(wide, permuted, activation, first, last, rounding(weights[-1][0].dtype, inside))
    factor = torch.as_tensor(of_states, dtype=torch.float32)
    factor = factor.reshape(-1, 1) if factor.numel() > 1 else factor
    return experts.of(states.float() * factor, table, shares).to(wide_dtype(states))


def _split(after: Sequence[Any], dynamic: bool, count: int) -> tuple[Sequence[Any], tuple[Any, ...]]:
    start = 0 if dynamic else 1
    return after[start : start + count], tuple(after[start + count : start + count + 4])


def _fp8_shapes(
    count: int, dynamic: bool, states: Tensor, table: Tensor, shares: Tensor, *rest: Any, **options: Any
) -> Tensor:
    _, (_, activation, first, last) = _split(rest[count + 1 :], dynamic, count)
    check(activation, first, last, *rest[:count])
    return states.new_empty(states.shape, dtype=wide_dtype(states))


def _blockwise(count: int, states: Tensor, table: Tensor, shares: Tensor, *rest: Any, **options: Any) -> Tensor:
    weights, scales, block = rest[:count], rest[count : 2 * count], rest[2 * count]
    wide = [
        [weight.float() * _over_blocks(scale, weight, block) for weight, scale in zip(group, of_group, strict=True)]
        for group, of_group in zip(weights, scales, strict=True)
    ]
    experts = _experts(wide, *rest[2 * count + 1 : 2 * count + 5])
    return experts.of(states.float(), table, shares).to(wide_dtype(states))


def _over_blocks(scale: Tensor, weight: Tensor, block: int) -> Tensor:
    rows, columns = weight.shape
    if scale.shape == (-(-rows // block), -(-columns // block)):
        whole = scale.float().repeat_interleave(block, 0).repeat_interleave(block, 1)
        return whole[:rows, :columns]
    return spread(scale.float(), weight)


def _blockwise_shapes(count: int, states: Tensor, table: Tensor, shares: Tensor, *rest: Any, **options: Any) -> Tensor:
    check(rest[2 * count + 2], *rest[2 * count + 3 : 2 * count + 5], *rest[:count])
    return states.new_empty(states.shape, dtype=wide_dtype(states))


# -- gradient ----------------------------------------------------------------------------------------------------------


def _slope(activation: str, grad: Tensor, x: Tensor) -> Tensor:
    """Gradient of an activation's argument."""
    if activation == "silu":
        return torch.ops.aten.silu_backward(grad, x)
    if activation == "gelu":
        return torch.ops.aten.gelu_backward(grad, x)
    return grad * (x > 0)


def _gradients(
    count: int, grad: Tensor, states: Tensor, table: Tensor, shares: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    """(of hidden states, of router weights, of each list of weights, stacked)."""
    groups, (permuted, activation, first, last) = rest[:count], rest[count : count + 4]
    experts = _experts(groups, permuted, activation, first, last)
    wide, slope = states.float(), grad.float()
    chosen = table.reshape(states.shape[0], -1).long()
    weights = shares.reshape(chosen.shape).float()
    of_states, of_shares = torch.zeros_like(wide), torch.zeros_like(weights)
    stacks = [torch.zeros(len(group), *group[0].shape) for group in groups]
    for number in range(len(experts.downs)):
        tokens, place = torch.where(chosen == number + first)
        if tokens.numel() == 0:
            continue
        x, gate, up, down = wide[tokens], experts.gates[number], experts.ups[number], experts.downs[number]
        before, other = x @ gate, x @ up
        active = torch.nn.functional.relu(before) if activation == "relu" else _active(activation, before)
        inside, part = active * other, slope[tokens]
        share = weights[tokens, place, None]
        of_shares[tokens, place] = (part * (inside @ down)).sum(-1)
        of_inside = (part * share) @ down.t()
        of_before, of_other = _slope(activation, of_inside * other, before), of_inside * active
        of_states.index_add_(0, tokens, of_before @ gate.t() + of_other @ up.t())
        of_weights = [x.t() @ of_before, x.t() @ of_other, inside.t() @ (part * share)]
        if count == 2:
            of_weights = [torch.cat(of_weights[:2], -1), of_weights[2]]
        for stack, of_weight in zip(stacks, of_weights, strict=True):
            stack[number] = of_weight.t() if permuted else of_weight
    typed = [stack.to(group[0].dtype) for stack, group in zip(stacks, groups, strict=True)]
    return of_states.to(states.dtype), of_shares.reshape(shares.shape).to(shares.dtype), *typed


def _active(activation: str, x: Tensor) -> Tensor:
    return torch.nn.functional.silu(x) if activation == "silu" else torch.nn.functional.gelu(x)


def _gradient_shapes(
    count: int, grad: Tensor, states: Tensor, table: Tensor, shares: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    stacks = [group[0].new_empty((len(group), *group[0].shape)) for group in rest[:count]]
    return states.new_empty(states.shape), shares.new_empty(shares.shape), *stacks


def _save(count: int, ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Any = None, output: Any = None) -> None:
    states, table, shares, *rest = inputs
    ctx.settings = tuple(rest[count : count + 4])
    ctx.number = len(rest[0])
    ctx.save_for_backward(states, table, shares, *(weight for group in rest[:count] for weight in group))


def _differentiate(count: int, operator: str, ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    states, table, shares, *flat = ctx.saved_tensors
    groups = [flat[i * ctx.number : (i + 1) * ctx.number] for i in range(count)]
    of_states, of_shares, *stacks = getattr(torch.ops.hpu, operator)(
        grad, states, table, shares, *groups, *ctx.settings
    )
    return of_states, None, of_shares, *(list(stack.unbind()) for stack in stacks), None, None, None, None


# -- names -------------------------------------------------------------------------------------------------------------

COMMON = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights"
END = "bool permuted_weights, str activation, int experts_min, int experts_max"
CHUNKS = "int chunk_size=0, int total_experts=0"
LISTS = {"": ("w1", "w2", "w3"), "fused_weights": ("w12", "w3")}


def register(registry: Registry) -> None:
    """hpu::mixture_of_experts in all its forms."""
    for form, names in LISTS.items():
        _register_plain(registry, form, names)
        _register_fp8(registry, form, names)


def _register_plain(registry: Registry, form: str, names: tuple[str, ...]) -> None:
    count = len(names)
    weights = ", ".join(f"Tensor[] {name}" for name in names)
    suffix = f".{form}" if form else ""
    name = registry.operator(
        f"mixture_of_experts{suffix}({COMMON}, {weights}, {END}, *, bool recomp=True) -> Tensor",
        partial(_plain, count),
        partial(_plain_shapes, count),
    )
    backward = f"mixture_of_experts_{form + '_' if form else ''}backward"
    gradients = ", ".join(["Tensor"] * (count + 2))
    registry.operator(
        f"{backward}(Tensor grad, {COMMON}, {weights}, {END}) -> ({gradients})",
        partial(_gradients, count),
        partial(_gradient_shapes, count),
    )
    registry.gradient(name, partial(_save, count), partial(_differentiate, count, backward))
    registry.operator(
        f"mixture_of_experts.fp8_measurement{'_' + form if form else ''}({COMMON}, {weights}, {END}, "
        "bool measurement_mode) -> (Tensor, Tensor)",
        partial(_measuring, count),
        partial(_measuring_shapes, count),
    )


def _register_fp8(registry: Registry, form: str, names: tuple[str, ...]) -> None:
    count = len(names)
    weights = ", ".join(f"Tensor[] {name}" for name in names)
    middle = f"_{form}" if form else ""
    lists, numbers = (", ".join(f"{kind}[] d_scale_{name}" for name in names) for kind in ("Tensor", "float"))
    inside = "d_scale_intermediate_hidden_states"
    for ending, scales, dynamic in (
        ("", f"Tensor d_scale_hidden_states, Tensor[] {inside}, {lists}", False),
        ("_scalars", f"float d_scale_hidden_states, float[] {inside}, {numbers}", False),
        ("_dynamic", f"Tensor d_scale_hidden_states, {lists}", True),
    ):
        registry.operator(
            f"mixture_of_experts.fp8{middle}{ending}({COMMON}, {weights}, {scales}, {END}, {CHUNKS}) -> Tensor",
            partial(_fp8, count, dynamic),
            partial(_fp8_shapes, count, dynamic),
        )
    registry.operator(
        f"mixture_of_experts.fp8{middle}_blockwise({COMMON}, {weights}, {lists}, int block_size, {END}, {CHUNKS}) "
        "-> Tensor",
        partial(_blockwise, count),
        partial(_blockwise_shapes, count),
    )
