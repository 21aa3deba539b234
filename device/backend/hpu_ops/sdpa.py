"""The card's attention operators: with stored probabilities, and with recomputation of them in the backward pass.

`sdpa_fwd` returns the probabilities and the dropout mask (1: kept) for `sdpa_bwd`. `sdpa_recomp_fwd` keeps of each row
its largest score and 1 / sum of exponentials, and of the dropout its seed; `sdpa_recomp_bwd` computes the rest again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .attention import Setting, folded, gradients, kept, leading, parts, scale_of_kept
from .registry import Kernel, Registry

Three = tuple[Tensor, Tensor, Tensor]
Four = tuple[Tensor, Tensor, Tensor, Tensor]


def check(q: Tensor, k: Tensor, v: Tensor, p: float, softmax_mode: str, seq_padding_type: str) -> None:
    """Whether attention can be computed.

    Raises:
        RuntimeError: shapes or settings that do not fit.
    """
    if q.dim() < 3 or k.dim() < 3 or v.dim() < 3:
        raise RuntimeError(f"sdpa: q, k and v need at least 3 dimensions; they have {q.dim()}, {k.dim()} and {v.dim()}")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(
            f"sdpa: q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)} do not fit: q and k share the last "
            "dimension, k and v the one before"
        )
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"sdpa: dropout probability must be between 0 and 1; got {p}")
    if softmax_mode not in ("none", "None", "", "fast"):
        raise RuntimeError(f"sdpa: softmax_mode must be 'None' or 'fast'; got {softmax_mode!r}")
    if seq_padding_type not in ("left", "right", "none", "None", ""):
        raise RuntimeError(f"sdpa: seq_padding_type must be 'left' or 'right'; got {seq_padding_type!r}")


def stored(
    q: Tensor, k: Tensor, v: Tensor, setting: Setting, p: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(output float32, probabilities float32, dropout mask int8) of float32 tensors."""
    outputs, probabilities, masks = [], [], []
    for rows in parts(q, k):
        weights, _, _ = setting.probabilities(setting.scores(q, k, rows))
        probabilities.append(weights)
        if p > 0:
            masks.append(kept(weights.shape, p, generator))
            weights = weights * masks[-1] * scale_of_kept(p)
        outputs.append(torch.matmul(weights, v))
    mask = torch.cat(masks, -2) if masks else torch.ones(1, dtype=torch.int8)
    return torch.cat(outputs, -2), torch.cat(probabilities, -2), mask


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
    generator: torch.Generator | None = None,
) -> Three:
    """sdpa_fwd: (output, probabilities before dropout, dropout mask)."""
    check(q, k, v, p, softmax_mode, seq_padding_type)
    setting = Setting(attention_mask, scale, is_causal, softmax_mode == "fast", valid_seq_len, seq_padding_type)
    output, probabilities, mask = stored(q.float(), k.float(), v.float(), setting, p, generator)
    return output.to(q.dtype), probabilities.to(q.dtype), mask


def _forward_shapes(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, *rest: Any) -> Three:
    check(q, k, v, p, rest[2], rest[4])
    scores = (*leading(q, k), q.shape[-2], k.shape[-2])
    return (
        q.new_empty((*leading(q, k, v), q.shape[-2], v.shape[-1])),
        q.new_empty(scores),
        q.new_empty(scores if p > 0 else (1,), dtype=torch.int8),
    )


def generator_of(seed: Tensor) -> torch.Generator:
    return torch.Generator().manual_seed(int(seed))


def seeded_forward(compute: Kernel) -> Kernel:
    """A forward that takes the seed of its dropout first."""
    return lambda seed, *arguments: compute(*arguments, generator=generator_of(seed))


def seeded_recomputing(compute: Kernel) -> Kernel:
    """The same of a forward that gives its seed to the backward."""
    return lambda seed, *arguments: compute(*arguments, seed=seed)


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    P: Tensor,
    dm: Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    fwd_out: Tensor,
) -> Three:
    """sdpa_bwd: gradients of q, k and v."""
    query, key, value, slope = q.float(), k.float(), v.float(), grad.float()
    of_q: list[Tensor] = []
    of_k, of_v = torch.zeros_like(key), torch.zeros_like(value)
    for rows in parts(q, k):
        dropped = dm[..., rows, :] * scale_of_kept(p) if p > 0 and dm is not None else torch.ones(())
        found = gradients(slope, query, key, value, P[..., rows, :].float(), dropped, rows, scale)
        of_q.append(folded(found[0], query[..., rows, :]))
        of_k += folded(found[1], key)
        of_v += folded(found[2], value)
    return torch.cat(of_q, -2).to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


def _backward_shapes(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Three:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def statistics_dtype(q: Tensor, softmax_mode: str) -> torch.dtype:
    """Of 1 / sum of exponentials."""
    return torch.bfloat16 if softmax_mode == "fast" and q.dtype == torch.bfloat16 else torch.float32


def recomputed(
    q: Tensor, k: Tensor, v: Tensor, setting: Setting, p: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(output, largest scores, 1 / sums, largest probability) of float32 tensors."""
    outputs, tops, inverses, amax = [], [], [], torch.zeros(())
    for rows in parts(q, k):
        weights, top, inverse = setting.probabilities(setting.scores(q, k, rows))
        tops.append(top)
        inverses.append(inverse)
        amax = torch.maximum(amax, weights.amax())
        if p > 0:
            weights = weights * kept(weights.shape, p, generator) * scale_of_kept(p)
        outputs.append(torch.matmul(weights, v))
    return torch.cat(outputs, -2), torch.cat(tops, -2), torch.cat(inverses, -2), amax


def recomputing_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
    seed: Tensor | None = None,
) -> Four:
    """sdpa_recomp_fwd: (output, largest scores, 1 / sums, seed of the dropout)."""
    check(q, k, v, p, softmax_mode, seq_padding_type)
    setting = Setting(attention_mask, scale, is_causal, softmax_mode == "fast", valid_seq_len, seq_padding_type)
    chosen = drawn_seed(p) if seed is None else seed.reshape(1).to(torch.int32)
    output, top, inverse, _ = recomputed(q.float(), k.float(), v.float(), setting, p, generator_of(chosen))
    if not requires_backward:
        top, inverse = torch.zeros(1), torch.zeros(1)
    return output.to(q.dtype), top.to(q.dtype), inverse.to(statistics_dtype(q, softmax_mode)), chosen


def drawn_seed(p: float) -> Tensor:
    return torch.randint(2**31 - 1, (1,), dtype=torch.int32) if p > 0 else torch.zeros(1, dtype=torch.int32)


def _recomputing_shapes(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, *rest: Any) -> Four:
    requires_backward, softmax_mode, padding = rest[2], rest[3], rest[5]
    check(q, k, v, p, softmax_mode, padding)
    row = (*leading(q, k), q.shape[-2], 1) if requires_backward else (1,)
    return (
        q.new_empty((*leading(q, k, v), q.shape[-2], v.shape[-1])),
        q.new_empty(row),
        q.new_empty(row, dtype=statistics_dtype(q, softmax_mode)),
        q.new_empty(1, dtype=torch.int32),
    )


def recomputing_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    m: Tensor,
    linv: Tensor,
    seed: Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    softmax_mode: str,
    fwd_out: Tensor,
) -> Three:
    """sdpa_recomp_bwd: gradients of q, k and v.

    `m` and `linv` spare the card a pass over the scores; the formula gives the same without them.
    """
    setting = Setting(attention_mask, scale, is_causal, softmax_mode == "fast")
    query, key, value, slope = q.float(), k.float(), v.float(), grad.float()
    generator = generator_of(seed) if p > 0 and seed is not None else None
    of_q: list[Tensor] = []
    of_k, of_v = torch.zeros_like(key), torch.zeros_like(value)
    for rows in parts(q, k):
        weights, _, _ = setting.probabilities(setting.scores(query, key, rows))
        dropped = kept(weights.shape, p, generator) * scale_of_kept(p) if p > 0 else torch.ones(())
        found = gradients(slope, query, key, value, weights, dropped, rows, scale)
        of_q.append(folded(found[0], query[..., rows, :]))
        of_k += folded(found[1], key)
        of_v += folded(found[2], value)
    return torch.cat(of_q, -2).to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


TENSORS = "Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal, "
LENGTHS = "Tensor? valid_seq_len, str seq_padding_type"


def register(registry: Registry) -> None:
    """sdpa_fwd, sdpa_bwd, sdpa_recomp_fwd, sdpa_recomp_bwd, and the forms of the forwards that the compiler names."""
    plain = f"{TENSORS}str softmax_mode, {LENGTHS}) -> (Tensor, Tensor, Tensor)"
    again = f"{TENSORS}bool requires_backward, str softmax_mode, {LENGTHS}) -> (Tensor, Tensor, Tensor, Tensor)"
    for form in ("", "_dropout", "_non_dropout"):
        registry.operator(f"sdpa_fwd{form}({plain}", forward, _forward_shapes, random=form != "_non_dropout")
        registry.operator(
            f"sdpa_recomp_fwd{form}({again}", recomputing_forward, _recomputing_shapes, random=form != "_non_dropout"
        )
    registry.operator(
        f"sdpa_fwd_dropout_seed(Tensor seed, {plain}",
        seeded_forward(forward),
        lambda seed, *rest: _forward_shapes(*rest),
    )
    registry.operator(
        f"sdpa_recomp_fwd_dropout_seed(Tensor seed, {again}",
        seeded_recomputing(recomputing_forward),
        lambda seed, *rest: _recomputing_shapes(*rest),
    )
    registry.operator(
        "sdpa_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, float p, "
        "float scale, Tensor fwd_out) -> (Tensor, Tensor, Tensor)",
        backward,
        _backward_shapes,
    )
    registry.operator(
        "sdpa_recomp_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? attention_mask, Tensor m, Tensor linv, "
        "Tensor? seed, bool is_causal, float p, float scale, str softmax_mode, Tensor fwd_out) "
        "-> (Tensor, Tensor, Tensor)",
        recomputing_backward,
        _backward_shapes,
    )
