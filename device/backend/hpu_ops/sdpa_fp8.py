"""Attention on 8-bit floats.

    q, k, v            times d_scale_q, d_scale_k, d_scale_v
    probabilities      times q_scale_s, rounded to the type of q, times d_scale_s (default 1 / q_scale_s)
    output             times q_scale_o, rounded to the type of q; bfloat16 without that scale
    amax_s, amax_o     largest absolute probability and output before rounding, one number each (0 where not asked for)

Operands that are not 8-bit floats are taken as they are, which is how scales are measured.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .attention import Setting, folded, gradients, kept, leading, parts, scale_of_kept
from .fp8_format import is_fp8, require_card, round_to
from .registry import Registry
from .sdpa import TENSORS, check, drawn_seed, generator_of, seeded_forward, seeded_recomputing

Scale = Tensor | float | None


def scaled(tensor: Tensor, scale: Scale) -> Tensor:
    """float32, times the scale; 0.0 among the scalar forms means none."""
    wide = tensor.float()
    if scale is None or (not isinstance(scale, Tensor) and not scale):
        return wide
    return wide * (scale.float() if isinstance(scale, Tensor) else scale)


def given(scale: Scale) -> bool:
    return scale is not None and (isinstance(scale, Tensor) or bool(scale))


def quantized(values: Tensor, dtype: torch.dtype, scale: Scale, undo: Scale) -> Tensor:
    """`values` as the matrix engine sees them after rounding to `dtype` with `scale`; float32."""
    if not is_fp8(dtype) or scale is None or not given(scale):
        return values
    coarse = scaled(round_to(scaled(values, scale), dtype), undo)
    if given(undo):
        return coarse
    return coarse / (scale.float() if isinstance(scale, Tensor) else scale)


def output_dtype(q: Tensor, q_scale_o: Scale) -> torch.dtype:
    return q.dtype if not is_fp8(q.dtype) or given(q_scale_o) else torch.bfloat16


def _finished(output: Tensor, q: Tensor, q_scale_o: Scale) -> Tensor:
    wanted = output_dtype(q, q_scale_o)
    return round_to(scaled(output, q_scale_o), wanted) if is_fp8(wanted) else output.to(wanted)


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    d_scale_q: Scale,
    d_scale_k: Scale,
    d_scale_v: Scale,
    q_scale_s: Scale,
    q_scale_o: Scale,
    d_scale_s: Scale,
    is_amax_s: bool,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """fp8_sdpa_fwd: (output, probabilities, dropout mask, amax_s)."""
    setting = Setting(attention_mask, scale, is_causal, softmax_mode == "fast", valid_seq_len, seq_padding_type)
    query, key, value = scaled(q, d_scale_q), scaled(k, d_scale_k), scaled(v, d_scale_v)
    outputs, stored, masks, amax = [], [], [], torch.zeros(1)
    for rows in parts(q, k):
        weights, _, _ = setting.probabilities(setting.scores(query, key, rows))
        amax = torch.maximum(amax, weights.amax())
        factor = q_scale_s if is_fp8(q.dtype) else None
        stored.append(round_to(scaled(weights, factor), q.dtype) if is_fp8(q.dtype) else weights.to(q.dtype))
        weights = quantized(weights, q.dtype, q_scale_s, d_scale_s)
        if p > 0:
            masks.append(kept(weights.shape, p, generator))
            weights = weights * masks[-1] * scale_of_kept(p)
        outputs.append(torch.matmul(weights, value))
    mask = torch.cat(masks, -2) if masks else torch.ones(1, dtype=torch.int8)
    whole = torch.cat(outputs, -2)
    return _finished(whole, q, q_scale_o), torch.cat(stored, -2), mask, amax * is_amax_s


def _forward_shapes(*arguments: Any) -> tuple[Tensor, ...]:
    q, k, v, _, p, _, _, softmax_mode = arguments[:8]
    require_card("fp8_sdpa_fwd")
    check(q, k, v, p, softmax_mode, arguments[-1])
    scores = (*leading(q, k), q.shape[-2], k.shape[-2])
    return (
        q.new_empty((*leading(q, k, v), q.shape[-2], v.shape[-1]), dtype=output_dtype(q, arguments[12])),
        q.new_empty(scores),
        q.new_empty(scores if p > 0 else (1,), dtype=torch.int8),
        q.new_empty(1, dtype=torch.float32),
    )


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
    d_scale_q: Scale,
    d_scale_k: Scale,
    d_scale_v: Scale,
    q_scale_s: Scale,
    q_scale_o: Scale,
    d_scale_s: Scale,
    is_amax_s: bool,
    is_amax_o: bool,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
    seed: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """fp8_sdpa_recomp_fwd: (output, largest scores, 1 / sums, seed, amax_s, amax_o)."""
    setting = Setting(attention_mask, scale, is_causal, softmax_mode == "fast", valid_seq_len, seq_padding_type)
    query, key, value = scaled(q, d_scale_q), scaled(k, d_scale_k), scaled(v, d_scale_v)
    chosen = drawn_seed(p) if seed is None else seed.reshape(1).to(torch.int32)
    generator = generator_of(chosen)
    outputs, tops, inverses, amax = [], [], [], torch.zeros(1)
    for rows in parts(q, k):
        weights, top, inverse = setting.probabilities(setting.scores(query, key, rows))
        amax = torch.maximum(amax, weights.amax())
        tops.append(top)
        inverses.append(inverse)
        weights = quantized(weights, q.dtype, q_scale_s, d_scale_s)
        if p > 0:
            weights = weights * kept(weights.shape, p, generator) * scale_of_kept(p)
        outputs.append(torch.matmul(weights, value))
    whole = torch.cat(outputs, -2)
    statistics = _statistics(q, softmax_mode)
    if requires_backward:
        top, inverse = torch.cat(tops, -2).to(statistics[0]), torch.cat(inverses, -2).to(statistics[1])
    else:
        top, inverse = torch.zeros(1, dtype=statistics[0]), torch.zeros(1, dtype=statistics[1])
    of_output = whole.abs().amax().reshape(1) * is_amax_o
    return _finished(whole, q, q_scale_o), top, inverse, chosen, amax * is_amax_s, of_output


def _statistics(q: Tensor, softmax_mode: str) -> tuple[torch.dtype, torch.dtype]:
    if is_fp8(q.dtype):
        return torch.bfloat16, torch.bfloat16
    return q.dtype, torch.bfloat16 if softmax_mode == "fast" and q.dtype == torch.bfloat16 else torch.float32


def _recomputing_shapes(*arguments: Any) -> tuple[Tensor, ...]:
    q, k, v, _, p, _, _, requires_backward, softmax_mode = arguments[:9]
    require_card("fp8_sdpa_recomp_fwd")
    check(q, k, v, p, softmax_mode, arguments[-1])
    row = (*leading(q, k), q.shape[-2], 1) if requires_backward else (1,)
    statistics = _statistics(q, softmax_mode)
    return (
        q.new_empty((*leading(q, k, v), q.shape[-2], v.shape[-1]), dtype=output_dtype(q, arguments[13])),
        q.new_empty(row, dtype=statistics[0]),
        q.new_empty(row, dtype=statistics[1]),
        q.new_empty(1, dtype=torch.int32),
        q.new_empty(1, dtype=torch.float32),
        q.new_empty(1, dtype=torch.float32),
    )


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
    d_scale_q: Scale,
    d_scale_k: Scale,
    d_scale_v: Scale,
    d_scale_s: Scale,
    d_scale_do: Scale,
    d_scale_ds: Scale,
    q_scale_s: Scale,
    q_scale_ds: Scale,
    is_amax_ds: bool,
    fwd_out: Tensor,
) -> tuple[Tensor, ...]:
    """fp8_sdpa_bwd: (gradients of q, k, v in bfloat16, largest absolute gradient of the scores)."""
    query, key, value = scaled(q, d_scale_q), scaled(k, d_scale_k), scaled(v, d_scale_v)
    slope = scaled(grad, d_scale_do)
    of_q: list[Tensor] = []
    of_k, of_v, amax = torch.zeros_like(key), torch.zeros_like(value), torch.zeros(1)
    for rows in parts(q, k):
        weights = scaled(P[..., rows, :], d_scale_s)
        dropped = dm[..., rows, :] * scale_of_kept(p) if p > 0 and dm is not None else torch.ones(())
        found = gradients(slope, query, key, value, weights, dropped, rows, scale)
        of_scores = quantized(found[3], grad.dtype, q_scale_ds, d_scale_ds)
        amax = torch.maximum(amax, found[3].abs().amax())
        of_q.append(folded(torch.matmul(of_scores, key) * scale, query[..., rows, :]))
        of_k += folded(torch.matmul(of_scores.transpose(-2, -1), query[..., rows, :]) * scale, key)
        of_v += folded(found[2], value)
    return torch.cat(of_q, -2).bfloat16(), of_k.bfloat16(), of_v.bfloat16(), amax * is_amax_ds


def _backward_shapes(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    require_card("fp8_sdpa_bwd")
    wide = [tensor.new_empty(tensor.shape, dtype=torch.bfloat16) for tensor in (q, k, v)]
    return (*wide, q.new_empty(1, dtype=torch.float32))


NAMES = ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")


def register(registry: Registry) -> None:
    """fp8_sdpa_fwd, fp8_sdpa_recomp_fwd (scales as tensors or numbers), fp8_sdpa_bwd."""
    tensors, numbers = (", ".join(f"{kind} {name}" for name in NAMES) for kind in ("Tensor?", "float"))
    end = "Tensor? valid_seq_len, str seq_padding_type)"
    four, six = (f"({', '.join(['Tensor'] * count)})" for count in (4, 6))
    plain = f"{TENSORS}str softmax_mode, {tensors}, bool is_amax_s, {end} -> {four}"
    for form in ("", "_dropout", "_non_dropout"):
        random = form != "_non_dropout"
        registry.operator(f"fp8_sdpa_fwd{form}({plain}", forward, _forward_shapes, random=random)
    registry.operator(
        f"fp8_sdpa_fwd_dropout_seed(Tensor seed, {plain}",
        seeded_forward(forward),
        lambda seed, *rest: _forward_shapes(*rest),
    )
    for overload, scales in (("", tensors), (".scalar", numbers)):
        again = (
            f"{TENSORS}bool requires_backward, str softmax_mode, {scales}, bool is_amax_s, bool is_amax_o, {end} "
            f"-> {six}"
        )
        for form in ("", "_dropout", "_non_dropout"):
            registry.operator(
                f"fp8_sdpa_recomp_fwd{form}{overload}({again}",
                recomputing_forward,
                _recomputing_shapes,
                random=form != "_non_dropout",
            )
        registry.operator(
            f"fp8_sdpa_recomp_fwd_dropout_seed{overload}(Tensor seed, {again}",
            seeded_recomputing(recomputing_forward),
            lambda seed, *rest: _recomputing_shapes(*rest),
        )
    backward_scales = (*NAMES[:3], "d_scale_s", "d_scale_do", "d_scale_ds", "q_scale_s", "q_scale_ds")
    registry.operator(
        "fp8_sdpa_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, float p, "
        f"float scale, {', '.join(f'Tensor? {name}' for name in backward_scales)}, bool is_amax_ds, Tensor fwd_out) "
        f"-> {four}",
        backward,
        _backward_shapes,
    )
