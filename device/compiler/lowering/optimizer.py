"""Optimizer updates and the operators over lists of tensors: one vector kernel for each tensor.

A fused update reads the parameter, the gradient and the state, and writes the parameter and the state. The schemas
say that gradients are written, too: that happens only with a gradient scale (`grad_scale`).
"""

from __future__ import annotations

from ...graph.ir import Operand
from ..kernel import Kernel
from .elementwise import kernel_name
from .operator import Operator, Rule, touch
from .vector_operations import DIVISION, SQUARE_ROOT, per_element

# Vector operations per parameter.
ADAM = SQUARE_ROOT + DIVISION + 10.0
UPDATES: dict[str, tuple[str, float]] = {
    "_fused_adam": ("optimizer_adam_bwd", ADAM),
    "_fused_adamw": ("optimizer_adamw_bwd", ADAM + 1),
    "_fused_sgd": ("optimizer_sgd_bwd", 4),
    "_fused_adagrad": ("optimizer_adagrad_bwd", SQUARE_ROOT + DIVISION + 4),
    "optimizer_adamw": ("optimizer_adamw_bwd", ADAM + 1),
    "optimizer_sgd": ("optimizer_sgd_bwd", 4),
    "optimizer_sgd_momentum": ("optimizer_sgd_bwd", 7),
    "optimizer_adagrad": ("optimizer_adagrad_bwd", SQUARE_ROOT + DIVISION + 4),
    "optimizer_ema": ("optimizer_ema_bwd", 3),
    "optimizer_lars": ("optimizer_lars_bwd", 8),
    "optimizer_lamb_phase1": ("optimizer_lamb_phase1_bwd", ADAM + 6),
    "optimizer_lamb_phase2": ("optimizer_lamb_phase2_bwd", 3),
}
FOREACH = "_foreach_"
AMP = {"_amp_foreach_non_finite_check_and_unscale": 3.0, "_amp_update_scale": 8.0}


def by_tensor(operator: Operator) -> list[tuple[dict[str, Operand], dict[str, Operand]]]:
    """(reads, writes) of each tensor of the lists, by argument; single tensors belong to each of them."""
    lists: dict[str, list[Operand]] = {}
    for operand in operator.reads:
        lists.setdefault(operand.name, []).append(operand)
    count = max((len(operands) for operands in lists.values()), default=0)
    parts: list[tuple[dict[str, Operand], dict[str, Operand]]] = []
    results, changed = operator.node.results, operator.node.written
    changing = {(operand.buffer, operand.window): operand for operand in changed}
    for position in range(count):
        reads = {
            name: operands[position] if len(operands) == count else operands[0]
            for name, operands in lists.items()
            if len(operands) in (1, count)
        }
        writes = {
            name: changing[operand.buffer, operand.window]
            for name, operand in reads.items()
            if (operand.buffer, operand.window) in changing
        }
        if len(results) == count:
            writes["result"] = results[position]
        elif len(changed) == count and not writes:
            writes["result"] = changed[position]
        parts.append((reads, writes))
    return parts


def update(operator: Operator) -> list[Kernel]:
    """_fused_adam_, _fused_adamw_, _fused_sgd_, _fused_adagrad_."""
    name, count = UPDATES[operator.base]
    scaled = operator.operand("grad_scale") is not None
    kernels = []
    for position, (reads, writes) in enumerate(by_tensor(operator)):
        parameter = reads.get("self", next(iter(reads.values())))
        gradient = reads.get("grads")
        untouched = {gradient.buffer} if gradient is not None and not scaled else set()
        kernels.append(
            operator.tpc(
                name,
                "optimizer",
                parameter.window.elements * count,
                reads=[touch(operand) for operand in reads.values()],
                writes=[touch(operand) for operand in writes.values() if operand.buffer not in untouched],
                dtype=parameter.window.dtype,
                shape=parameter.window.sizes,
                part=str(position),
            )
        )
    return kernels


def foreach(operator: Operator) -> list[Kernel]:
    """_foreach_*: the operator of that name on each tensor."""
    base = operator.base.removeprefix(FOREACH)
    kernels = []
    for position, (reads, writes) in enumerate(by_tensor(operator)):
        target = next(iter(writes.values()), None) or next(iter(reads.values()))
        source = next(iter(reads.values()))
        reducing = base in ("norm", "max")
        elements = source.window.elements
        known = per_element(base, dict(operator.node.attributes))
        count = AMP.get(operator.base, 2.0 if reducing else known or 1.0)
        space = 0 if reducing or operator.base in AMP else elements
        kernels.append(
            operator.tpc(
                "reduce_norm_fwd" if reducing else kernel_name(base),
                "reduction" if reducing else "elementwise",
                elements * count,
                reads=[touch(operand) for operand in reads.values()],
                writes=[touch(operand, in_order=not reducing) for operand in writes.values()],
                dtype=target.window.dtype,
                shape=source.window.sizes,
                part=str(position),
                entry=elements if reducing else space,
                exit=space,
            )
        )
    return kernels


def momentum(operator: Operator) -> list[Kernel]:
    """optimizer_resource_apply_momentum: parameters and buffers alternate in one list."""
    pairs, gradients = operator.listed("params_momentum_buf_list"), operator.listed("dp_list")
    kernels = []
    for position, gradient in enumerate(gradients):
        both = pairs[2 * position : 2 * position + 2]
        kernels.append(
            operator.tpc(
                "optimizer_resource_apply_momentum_bwd",
                "optimizer",
                gradient.window.elements * 3.0,
                reads=[touch(operand) for operand in (*both, gradient)],
                writes=[touch(operand) for operand in both],
                dtype=gradient.window.dtype,
                shape=gradient.window.sizes,
                part=str(position),
            )
        )
    return kernels


def norm(operator: Operator) -> list[Kernel]:
    """fused_norm_, fused_clip_norm, optimizer_lamb_fused_norm: a sum of squares for each tensor, their root, and, where
    gradients are clipped, a product for each.
    """
    gradients = operator.listed("grad")
    if operator.base == "fused_clip_norm":
        gradients = gradients[:-1]
    sums = operator.scratch("Float", max(1, len(gradients)))
    single = touch(sums, nbytes=4)
    kernels = [
        operator.tpc(
            "reduce_sum_square_fwd",
            "reduction",
            2.0 * gradient.window.elements,
            reads=[touch(gradient)],
            writes=[single],
            dtype=gradient.window.dtype,
            shape=gradient.window.sizes,
            part=f"square_{position}",
            entry=gradient.window.elements,
        )
        for position, gradient in enumerate(gradients)
    ]
    rest = [operand for operand in operator.reads if operand not in gradients]
    changed = {(operand.buffer, operand.window) for operand in gradients}
    results = [operand for operand in operator.writes if (operand.buffer, operand.window) not in changed]
    kernels.append(
        operator.tpc(
            "norm_fwd",
            "reduction",
            len(gradients) + SQUARE_ROOT + DIVISION,
            reads=[touch(sums), *(touch(operand) for operand in rest)],
            writes=[touch(operand) for operand in results],
            dtype="Float",
            shape=(len(gradients),),
            part="norm",
        )
    )
    if operator.base == "optimizer_lamb_fused_norm":
        return kernels
    factor = [touch(operand) for operand in results[:1]]
    for position, gradient in enumerate(gradients):
        elements = gradient.window.elements
        kernels.append(
            operator.tpc(
                "mult_fwd",
                "elementwise",
                float(elements),
                reads=[touch(gradient), *factor],
                writes=[touch(gradient)],
                dtype=gradient.window.dtype,
                shape=gradient.window.sizes,
                part=f"clip_{position}",
                entry=elements,
                exit=elements,
            )
        )
    return kernels


RULES: dict[str, Rule] = {
    **dict.fromkeys(UPDATES, update),
    **dict.fromkeys(AMP, foreach),
    **dict.fromkeys(("fused_norm", "fused_clip_norm", "optimizer_lamb_fused_norm"), norm),
    "optimizer_resource_apply_momentum": momentum,
}
