"""Fused updates of parameters: whole lists of tensors in one operator.

What changes from step to step (learning rate, step size, decay) comes as a tensor of one element on the card, so that a
new value makes no new recipe. Computed in the wider of float32 and the state's type, rounded to each tensor's type.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .fp8_format import is_fp8, round_to
from .registry import Registry, nothing, same_lengths

Tensors = Sequence[Tensor]


def _moment_in(state: Tensor, scale: Tensor | None) -> Tensor:
    return state.float() if scale is None else state.float() * scale.float()


def _moment_out(state: Tensor, value: Tensor, scale: Tensor | None) -> None:
    """Store a moment. In 8 bits it is divided by a power of two, which is kept, so that its largest fits.

    The same format range is used on every generation: 240 for e4m3, 57,344 for e5m2 (open bridge, optimizer_adamw).
    """
    if scale is None or not is_fp8(state.dtype):
        state.copy_(value)
        return
    limit = 240.0 if state.dtype == torch.float8_e4m3fn else 57344.0
    largest = value.abs().amax()
    if largest > 0 and torch.isfinite(largest):
        scale.copy_(torch.exp2(-torch.floor(torch.log2(limit / largest))).reshape(scale.shape))
    state.copy_(round_to(value / scale.float(), state.dtype))


def adamw(
    gradient_vec: Tensors,
    weight_vec: Tensors,
    exp_avg_vec: Tensors,
    exp_avg_sq_vec: Tensors,
    neg_step_t: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: Tensor,
    has_weight_decay: bool,
    exp_avg_scales: Tensors | None = None,
    exp_avg_sq_scales: Tensors | None = None,
) -> None:
    """optimizer_adamw: w <- w decay + neg_step m / (sqrt(v) + epsilon), with m and v brought up to date before.

    `weight_decay` is the factor 1 - decay x learning rate; bias correction is part of the step size.
    """
    same_lengths(
        "optimizer_adamw",
        {"gradient_vec": gradient_vec, "weight_vec": weight_vec, "exp_avg_vec": exp_avg_vec,
         "exp_avg_sq_vec": exp_avg_sq_vec},
    )  # fmt: skip
    step, decay = neg_step_t.float(), weight_decay.float()
    for i, (gradient, weight, first, second) in enumerate(
        zip(gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec, strict=True)
    ):
        scales = [items[i] if items else None for items in (exp_avg_scales, exp_avg_sq_scales)]
        slope = gradient.float()
        mean = _moment_in(first, scales[0]) * beta1 + slope * (1.0 - beta1)
        square = _moment_in(second, scales[1]) * beta2 + slope * slope * (1.0 - beta2)
        value = weight.float() * decay if has_weight_decay else weight.float()
        weight.copy_(value + mean / (square.sqrt() + epsilon) * step)
        _moment_out(first, mean, scales[0])
        _moment_out(second, square, scales[1])


def _adamw_with_number(
    gradient_vec: Tensors,
    weight_vec: Tensors,
    exp_avg_vec: Tensors,
    exp_avg_sq_vec: Tensors,
    neg_step_t: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    exp_avg_scales: Tensors | None = None,
    exp_avg_sq_scales: Tensors | None = None,
) -> None:
    # As a tensor, so that a learning rate that changes it makes no new recipe.
    decay = torch.tensor([weight_decay], dtype=torch.float32).to(neg_step_t.device, non_blocking=True)
    torch.ops.hpu.optimizer_adamw(
        gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec, neg_step_t, beta1, beta2, epsilon, decay,
        weight_decay != 1.0, exp_avg_scales, exp_avg_sq_scales,
    )  # fmt: skip


def sgd(
    gradients: Tensors, weights_in: Tensors, learning_rate: Tensor, wd: float, mom: float, damp: float, nesterov: bool
) -> None:
    """optimizer_sgd: w <- w - lr (g + wd w)."""
    same_lengths("optimizer_sgd", {"gradients": gradients, "weights_in": weights_in})
    for gradient, weight in zip(gradients, weights_in, strict=True):
        value = weight.float()
        weight.copy_(value - learning_rate.float() * (gradient.float() + wd * value))


def sgd_momentum(
    gradients: Tensors,
    weights_in: Tensors,
    momentum_in: Tensors,
    epoch_num: Tensor,
    learning_rate: Tensor,
    mom: Tensor,
    wd: float,
    damp: float,
    nesterov: bool,
) -> None:
    """optimizer_sgd_momentum: as torch.optim.SGD. In epoch 0 a buffer becomes the gradient, without dampening."""
    same_lengths(
        "optimizer_sgd_momentum", {"gradients": gradients, "weights_in": weights_in, "momentum_in": momentum_in}
    )
    first = bool(epoch_num.reshape(-1)[0] == 0)
    for gradient, weight, buffer in zip(gradients, weights_in, momentum_in, strict=True):
        value = weight.float()
        slope = gradient.float() + wd * value
        moving = slope if first else buffer.float() * mom.float() + slope * (1.0 - damp)
        buffer.copy_(moving)
        change = slope + mom.float() * moving if nesterov else moving
        weight.copy_(value - learning_rate.float() * change)


def adagrad(
    gradients: Tensors,
    weights_in: Tensors,
    variances_in: Tensors,
    epoch_num: Tensor,
    learning_rate: Tensor,
    wd: float,
    lrd: float,
    eps: float,
) -> None:
    """optimizer_adagrad: as torch.optim.Adagrad; `epoch_num` counts steps from 1."""
    same_lengths("optimizer_adagrad", {"gradients": gradients, "weights_in": weights_in, "variances_in": variances_in})
    rate = learning_rate.float() / (1.0 + (epoch_num.float() - 1.0) * lrd)
    for gradient, weight, variance in zip(gradients, weights_in, variances_in, strict=True):
        value = weight.float()
        slope = gradient.float() + wd * value
        total = variance.float() + slope * slope
        variance.copy_(total)
        weight.copy_(value - rate * slope / (total.sqrt() + eps))


def ema(model_inputs: Tensors, updated_ema: Tensors, decay: Tensor) -> None:
    """optimizer_ema: e <- e decay + (1 - decay) m; what is not floating-point stays."""
    same_lengths("optimizer_ema", {"model_inputs": model_inputs, "updated_ema": updated_ema})
    share = decay.float()
    for model, average in zip(model_inputs, updated_ema, strict=True):
        if average.dtype.is_floating_point:
            average.copy_(average.float() * share + (1.0 - share) * model.float())


def lars(
    params: Tensors,
    grads: Tensors,
    skip_masks: Sequence[int],
    eeta: float,
    weight_decay: float,
    eps: float,
    lr: Tensor,
) -> None:
    """optimizer_lars: g <- lr g where the mask is 0; elsewhere lr x trust ratio x (g + weight_decay p).

    The ratio is eeta |p| / (|g| + weight_decay |p| + eps), and 1 where a norm is 0.
    """
    same_lengths("optimizer_lars", {"params": params, "grads": grads, "skip_masks": skip_masks})
    for param, grad, masked in zip(params, grads, skip_masks, strict=True):
        slope, value = grad.float(), param.float()
        if not masked:
            grad.copy_(slope * lr.float())
            continue
        of_param, of_grad = value.norm(), slope.norm()
        ratio = eeta * of_param / (of_grad + weight_decay * of_param + eps)
        ratio = torch.where((of_param > 0) & (of_grad > 0), ratio, torch.ones_like(ratio))
        grad.copy_((slope + weight_decay * value) * (ratio * lr.float()))


def resource_apply_momentum(params_momentum_buf_list: Tensors, dp_list: Tensors, momentum: float) -> None:
    """optimizer_resource_apply_momentum: parameters and buffers alternate; b <- b momentum - d, p <- p + b."""
    if len(params_momentum_buf_list) != 2 * len(dp_list):
        raise RuntimeError(
            "hpu::optimizer_resource_apply_momentum: params_momentum_buf_list must have twice as many elements as "
            f"dp_list but they respectively have: {len(params_momentum_buf_list)}, {len(dp_list)}"
        )
    for i, step in enumerate(dp_list):
        param, buffer = params_momentum_buf_list[2 * i : 2 * i + 2]
        moving = buffer.float() * momentum - step.float()
        buffer.copy_(moving)
        param.copy_(param.float() + moving)


def register(registry: Registry) -> None:
    """The updates above, under the names that the bridge's own operators had before, too."""
    moments = "Tensor[] gradient_vec, Tensor(a!)[] weight_vec, Tensor(b!)[] exp_avg_vec, Tensor(c!)[] exp_avg_sq_vec, "
    numbers = "Tensor neg_step_t, float beta1, float beta2, float epsilon, "
    scales = "Tensor(d!)[]? exp_avg_scales=None, Tensor(e!)[]? exp_avg_sq_scales=None) -> ()"
    decay = "Tensor weight_decay, bool has_weight_decay, "
    registry.operator(f"optimizer_adamw({moments}{numbers}{decay}{scales}", adamw, nothing)
    registry.composite(f"optimizer_adamw.number({moments}{numbers}float weight_decay, {scales}", _adamw_with_number)
    registry.operator(
        "optimizer_sgd(Tensor[] gradients, Tensor(a!)[] weights_in, Tensor learning_rate, float wd, float mom, "
        "float damp, bool nesterov) -> ()",
        sgd,
        nothing,
    )
    registry.operator(
        "optimizer_sgd_momentum(Tensor[] gradients, Tensor(a!)[] weights_in, Tensor(b!)[] momentum_in, "
        "Tensor epoch_num, Tensor learning_rate, Tensor mom, float wd, float damp, bool nesterov) -> ()",
        sgd_momentum,
        nothing,
    )
    registry.operator(
        "optimizer_adagrad(Tensor[] gradients, Tensor(a!)[] weights_in, Tensor(b!)[] variances_in, Tensor epoch_num, "
        "Tensor learning_rate, float wd, float lrd, float eps) -> ()",
        adagrad,
        nothing,
    )
    registry.operator(
        "optimizer_ema(Tensor[] model_inputs, Tensor(a!)[] updated_ema, Tensor decay) -> ()", ema, nothing
    )
    registry.operator(
        "optimizer_lars(Tensor[] params, Tensor(a!)[] grads, int[] skip_masks, float eeta, float weight_decay, "
        "float eps, Tensor lr) -> ()",
        lars,
        nothing,
    )
    registry.operator(
        "optimizer_resource_apply_momentum(Tensor(a!)[] params_momentum_buf_list, Tensor[] dp_list, float momentum) "
        "-> ()",
        resource_apply_momentum,
        nothing,
    )
