"""LAMB in the card's two phases, and the norms of gradients that clip.

LAMB: You et al., arXiv 1904.00962. Phase 1 brings the moments up to date and gives each parameter's Adam step with its
norm and the parameter's; phase 2 applies it times the trust ratio (norm of the parameter / norm of the step).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .registry import Registry, nothing, same_lengths, store

Tensors = Sequence[Tensor]
CLIP_EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_


def _norm(tensors: Tensors) -> Tensor:
    """Root of the sum of all squares; shape (1,)."""
    return torch.stack([tensor.float().square().sum() for tensor in tensors]).sum().sqrt().reshape(1)


def fused_norm(grad: Tensors, max_grad_norm: float) -> Tensor:
    """optimizer_lamb_fused_norm: norm / max_grad_norm where the norm is larger than that, else 1.

    All of it in the gradients' type, as the card's kernels for this operator are.
    """
    _check_some("optimizer_lamb_fused_norm", grad)
    total = torch.zeros(1, dtype=grad[0].dtype)
    for tensor in grad:
        total += tensor.square().sum()
    norm = total.sqrt()
    return torch.where(norm > max_grad_norm, norm / max_grad_norm, torch.ones_like(norm))


def _fused_norm_shapes(grad: Tensors, max_grad_norm: float) -> Tensor:
    _check_some("optimizer_lamb_fused_norm", grad)
    return grad[0].new_empty(1)


def _check_some(operator: str, grad: Tensors) -> None:
    if not len(grad):
        raise RuntimeError(f"hpu::{operator}: the list of gradients cannot be empty; call it where there are some")


def phase1(
    gradients: Tensors,
    weights: Tensors,
    exp_avg: Tensors,
    exp_avg_sq: Tensors,
    out_weight_norms: Tensors,
    out_adam_norms: Tensors,
    out_adam_steps: Tensors,
    clip_global_grad_norm: Tensor,
    grad_averaging: int,
    beta1: float,
    beta2: float,
    epsilon: float,
    bias_correction1: Tensor,
    bias_correction2: Tensor,
    weight_decay: float,
) -> None:
    """optimizer_lamb_phase1."""
    lists = {"gradients": gradients, "weights": weights, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    results = {"weight_norms": out_weight_norms, "adam_norms": out_adam_norms, "adam_steps": out_adam_steps}
    same_lengths("optimizer_lamb_phase1", {**lists, **results})
    share = 1.0 - beta1 if grad_averaging else 1.0
    for gradient, weight, first, second, weight_norm, adam_norm, adam_step in zip(
        *lists.values(), *results.values(), strict=True
    ):
        slope, value = gradient.float() / clip_global_grad_norm.float(), weight.float()
        mean = first.float() * beta1 + slope * share
        square = second.float() * beta2 + slope * slope * (1.0 - beta2)
        store(first, mean)
        store(second, square)
        step = mean / bias_correction1 / ((square / bias_correction2).sqrt() + epsilon)
        if weight_decay != 0:
            step = step + value * weight_decay
        store(adam_step, step)
        store(weight_norm, value.norm())
        store(adam_norm, step.norm())


def phase2(
    weights: Tensors,
    adam_norms: Tensors,
    weight_norms: Tensors,
    adam_steps: Tensors,
    neg_step: Tensor,
    wd: float,
    use_lamb: bool,
) -> None:
    """optimizer_lamb_phase2."""
    lists = {"weights": weights, "adam_norms": adam_norms, "weight_norms": weight_norms, "adam_steps": adam_steps}
    same_lengths("optimizer_lamb_phase2", lists)
    for weight, adam_norm, weight_norm, adam_step in zip(*lists.values(), strict=True):
        step = adam_step.float() * neg_step.float()
        if wd != 0 or use_lamb:
            of_step, of_weight = adam_norm.float(), weight_norm.float()
            ratio = torch.where((of_step > 0) & (of_weight > 0), of_weight / of_step, torch.ones_like(of_step))
            step = step * ratio
        store(weight, weight.float() + step)


def clip(grad: Tensors, max_norm: Tensor, norm_type: float) -> Tensor:
    """fused_norm_: gradients times min(1, max_norm / (norm + 1e-6)); the norm, of shape (1,)."""
    _check_clip(grad, norm_type)
    norm = _norm(grad)
    factor = (max_norm.float() / (norm + CLIP_EPSILON)).clamp(max=1.0)
    for tensor in grad:
        store(tensor, tensor.float() * factor)
    return norm.to(max_norm.dtype)


def _clip_shapes(grad: Tensors, max_norm: Tensor, norm_type: float) -> Tensor:
    _check_clip(grad, norm_type)
    return max_norm.new_empty(1)


def _check_clip(grad: Tensors, norm_type: float) -> None:
    _check_some("fused_norm_", grad)
    if norm_type != 2.0:
        raise RuntimeError(f"unsupported norm_type for FusedClipNorm: {norm_type}; only 2.0 is supported")


def clip_into_last(grad: Tensors, max_norm: Tensor, norm_type: float) -> Tensor:
    """fused_clip_norm: the same for all but the last tensor of the list, which becomes the norm."""
    *gradients, total = grad
    norm = clip(gradients, max_norm, norm_type)
    store(total, norm)
    return norm


def _clip_into_last_shapes(grad: Tensors, max_norm: Tensor, norm_type: float) -> Tensor:
    return _clip_shapes(grad[:-1], max_norm, norm_type)


def register(registry: Registry) -> None:
    """The two phases, and the norms."""
    registry.operator(
        "optimizer_lamb_fused_norm(Tensor[] grad, float max_grad_norm) -> Tensor", fused_norm, _fused_norm_shapes
    )
    registry.operator(
        "optimizer_lamb_phase1(Tensor[] gradients, Tensor[] weights, Tensor(a!)[] exp_avg, Tensor(b!)[] exp_avg_sq, "
        "Tensor(c!)[] out_weight_norms, Tensor(d!)[] out_adam_norms, Tensor(e!)[] out_adam_steps, "
        "Tensor clip_global_grad_norm, int grad_averaging, float beta1, float beta2, float epsilon, "
        "Tensor bias_correction1, Tensor bias_correction2, float weight_decay) -> ()",
        phase1,
        nothing,
    )
    registry.operator(
        "optimizer_lamb_phase2(Tensor(a!)[] weights, Tensor[] adam_norms, Tensor[] weight_norms, "
        "Tensor[] adam_steps, Tensor neg_step, float wd, bool use_lamb) -> ()",
        phase2,
        nothing,
    )
    registry.operator("fused_norm_(Tensor(a!)[] grad, Tensor max_norm, float norm_type) -> Tensor", clip, _clip_shapes)
    registry.operator(
        "fused_clip_norm(Tensor(a!)[] grad, Tensor max_norm, float norm_type) -> Tensor",
        clip_into_last,
        _clip_into_last_shapes,
    )
