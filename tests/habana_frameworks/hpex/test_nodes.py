"""Each fused kernel is one node for the compiler, and a new learning rate or norm makes no new recipe."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from device.backend import runtime
from habana_frameworks.torch.hpex import kernels, normalization, optimizers
from habana_frameworks.torch.hpex.experimental import transformer_engine as te
from habana_frameworks.torch.hpu.metrics import metric_localcontext


def nodes(action: Callable[[], Any]) -> int:
    """Operators that are recorded for it."""
    htcore.mark_step()
    before = runtime.bridge().recorded()
    kept = action()  # noqa: F841  held until they are counted
    return runtime.bridge().recorded() - before


def tensor(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape).to("hpu").requires_grad_(grad)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("heads", [4, 2, 1])
def test_attention_is_one_node_each_way(recompute: bool, heads: int) -> None:
    q, k, v = tensor(2, 4, 6, 8, grad=True), tensor(2, heads, 6, 8, grad=True), tensor(2, heads, 6, 8, grad=True)
    outputs = []
    assert (
        nodes(lambda: outputs.append(kernels.FusedSDPA.apply(q, k, v, None, 0.1, True, None, "None", recompute))) == 1
    )
    slope = torch.ones_like(outputs[0])
    assert nodes(lambda: torch.autograd.grad(outputs[0], (q, k, v), slope)) == 1


def test_normalization_and_position_are_one_node_each_way() -> None:
    x, gamma, table = tensor(4, 16, grad=True), tensor(16, grad=True), tensor(4, 16)
    for function in (
        lambda: normalization.FusedRMSNorm.apply(x, gamma, 1e-6),
        lambda: kernels.RotaryPosEmbeddingHelperV1.apply(x, table, table, 0),
        lambda: torch.ops.hpu.rotary_pos_embedding(x, table, table, None, 0, 1),
        lambda: torch.ops.hpu.rms_norm(x, gamma, 1e-6)[0],
    ):
        outputs = []
        assert nodes(lambda function=function, outputs=outputs: outputs.append(function())) == 1
        slope = torch.ones_like(outputs[0])
        assert nodes(lambda outputs=outputs, slope=slope: torch.autograd.grad(outputs[0], x, slope)) == 1


def mixed(permuted: bool = True, fused: bool = False, grad: bool = False) -> tuple[Any, ...]:
    torch.manual_seed(0)
    first = [tensor(*((6, 4) if permuted else (4, 6)), grad=grad) for _ in range(6)]
    last = [tensor(*((4, 6) if permuted else (6, 4)), grad=grad) for _ in range(3)]
    w1, w2 = first[:3], first[3:]
    dim = 0 if permuted else 1
    lists = ([torch.cat(pair, dim) for pair in zip(w1, w2, strict=True)], last) if fused else (w1, w2, last)
    table = torch.tensor([[0, 1], [2, 1], [0, 2], [1, 0], [2, 0]]).to("hpu")
    return tensor(5, 4, grad=grad), table, tensor(5, 2, grad=grad), *lists


def expected_mixture(states: torch.Tensor, table: Any, shares: Any, w1: Any, w2: Any, w3: Any) -> torch.Tensor:
    rows = []
    for token in range(states.shape[0]):
        parts = [
            share * (w3[e] @ (nn.functional.silu(w1[e] @ states[token]) * (w2[e] @ states[token])))
            for e, share in zip(table[token].tolist(), shares[token], strict=True)
        ]
        rows.append(sum(parts))
    return torch.stack(rows)


def test_a_mixture_of_experts_equals_its_formula_and_trains() -> None:
    arguments = mixed(grad=True)
    leaves = [arguments[0], arguments[2], *arguments[3], *arguments[4], *arguments[5]]
    copies = iter([leaf.detach().cpu().requires_grad_() for leaf in leaves])
    plain = [next(copies), arguments[1].cpu(), next(copies), *([next(copies) for _ in range(3)] for _ in range(3))]
    outputs = []
    operator = torch.ops.hpu.mixture_of_experts
    assert nodes(lambda: outputs.append(operator(*arguments, True, "silu", 0, 2))) == 1
    wanted = expected_mixture(*plain)
    torch.testing.assert_close(outputs[0].cpu(), wanted, rtol=1e-4, atol=1e-4)
    found = torch.autograd.grad(outputs[0].sum(), leaves)
    truth = torch.autograd.grad(wanted.sum(), [plain[0], plain[2], *plain[3], *plain[4], *plain[5]])
    for ours, theirs in zip(found, truth, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_forms_of_a_mixture_of_experts_agree() -> None:
    whole = torch.ops.hpu.mixture_of_experts(*mixed(), True, "silu", 0, 2).cpu()
    fused = torch.ops.hpu.mixture_of_experts(*mixed(fused=True), True, "silu", 0, 2).cpu()
    torch.testing.assert_close(fused, whole)
    states, table, shares, w1, w2, w3 = mixed()
    parts = [
        torch.ops.hpu.mixture_of_experts(
            states, table, shares, w1[a : b + 1], w2[a : b + 1], w3[a : b + 1], True, "silu", a, b
        )
        for a, b in ((0, 0), (1, 2))
    ]
    torch.testing.assert_close(sum(parts).cpu(), whole)  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="weights of 3"):
        torch.ops.hpu.mixture_of_experts(*mixed(), True, "silu", 0, 7)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optimizers.FusedAdamW(p, lr=0.1, weight_decay=0.1),
        lambda p: optimizers.FusedSGD(p, lr=0.1, momentum=0.9),
        lambda p: optimizers.FusedAdagrad(p, lr=0.1),
        lambda p: optimizers.FusedLamb(p, lr=0.1),
        lambda p: optimizers.FusedLars(optimizers.FusedResourceApplyMomentum(p, lr=0.1, momentum=0.9), [1, 1]),
    ],
    ids=["AdamW", "SGD", "Adagrad", "Lamb", "Lars"],
)
def test_a_new_learning_rate_makes_no_new_recipe(make: Callable[[Any], Any]) -> None:
    params = [tensor(5, grad=True), tensor(3, 4, grad=True)]
    optimizer, limit = make(params), normalization.FusedClipNorm(params, 1.0)

    def step(number: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.9**number
        optimizer.zero_grad()
        sum((p * p).sum() for p in params).backward()  # type: ignore[union-attr]
        htcore.mark_step()
        limit.clip_norm(params)
        optimizer.step()
        htcore.mark_step()

    for number in range(4):
        step(number)
    with metric_localcontext("graph_compilation") as metric:
        for number in range(4, 10):
            step(number)
    assert dict(metric.stats())["TotalNumber"] == 0


def test_the_state_of_adamw_survives_saving_and_continues_that_of_torch() -> None:
    p, q = tensor(4, grad=True), tensor(4, grad=True)
    with torch.no_grad():
        q.copy_(p)
    first = optimizers.FusedAdamW([p], lr=0.1)
    for _ in range(2):
        p.grad = torch.ones_like(p)
        first.step()
    assert first.state_dict()["param_groups"][0]["step"] == 2
    second = optimizers.FusedAdamW([q], lr=0.1)
    second.load_state_dict(deepcopy(first.state_dict()))
    with torch.no_grad():
        q.copy_(p)
    for optimizer, parameter in ((first, p), (second, q)):
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    assert torch.equal(p.cpu(), q.cpu())
    plain = torch.optim.AdamW([p], lr=0.1)
    p.grad = torch.ones_like(p)
    plain.step()
    third = optimizers.FusedAdamW([p], lr=0.1)
    third.load_state_dict(plain.state_dict())
    p.grad = torch.ones_like(p)
    third.step()
    assert third.param_groups[0]["step"] == 2


def test_dropout_draws_only_where_it_is_asked_for_and_by_seed() -> None:
    q = tensor(1, 1, 4, 4)
    eye = torch.eye(4).reshape(1, 1, 4, 4).to("hpu")
    state = torch.hpu.get_rng_state()
    kernels.FusedSDPA.apply(q, q, q)
    assert torch.equal(torch.hpu.get_rng_state(), state)
    for recompute in (False, True):
        runs = []
        for _ in range(2):
            torch.manual_seed(3)
            runs.append(kernels.FusedSDPA.apply(q, q, eye, None, 0.5, False, None, "None", recompute).cpu())
        assert torch.equal(*runs) and (runs[0] == 0).any()


@pytest.mark.parametrize("recompute", [False, True])
def test_the_backward_drops_what_the_forward_dropped(recompute: bool) -> None:
    q, k = tensor(1, 2, 4, 8), tensor(1, 2, 4, 8)
    v = torch.eye(4).expand(1, 2, 4, 4).contiguous().to("hpu").requires_grad_()
    out = kernels.FusedSDPA.apply(q, k, v, None, 0.5, False, None, "None", recompute)
    slope = torch.randn(1, 2, 4, 4)
    out.backward(slope.to("hpu"))
    torch.testing.assert_close(v.grad.cpu(), out.detach().cpu().transpose(-2, -1) @ slope)  # type: ignore[union-attr]


def test_sequences_with_padding() -> None:
    q = torch.randn(2, 1, 4, 8)
    lengths, on_card = torch.tensor([4, 2]), q.to("hpu")
    for side in ("left", "right"):
        out = kernels.FusedSDPA.apply(
            on_card, on_card, on_card, None, 0.0, True, None, "None", True, lengths.int().to("hpu"), side
        ).cpu()
        part = slice(2, 4) if side == "left" else slice(0, 2)
        short = q[1:, :, part]
        wanted = nn.functional.scaled_dot_product_attention(short, short, short, is_causal=True)
        torch.testing.assert_close(out[1:, :, part], wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"return_attn_probs": True}, "inference"),
        ({"valid_seq_len": 1}, "is_causal=True"),
        ({"recompute_mode": True, "return_dropout_mask": True}, "recompute_mode=False"),
        ({"recompute_mode": True, "softmax_mode": "fast"}, "triangular"),
    ],
)
def test_what_attention_does_not_support_is_said(options: dict[str, Any], message: str) -> None:
    q = tensor(1, 1, 4, 8, grad=True)
    names = ("attn_mask", "dropout_p", "is_causal", "scale", "softmax_mode", "recompute_mode", "valid_seq_len",
             "seq_padding_type", "return_dropout_mask", "return_attn_probs")  # fmt: skip
    usual = (None, 0.0, False, None, "None", False, None, "left", False, False)
    with pytest.raises(ValueError, match=message):
        kernels.FusedSDPA.apply(q, q, q, *({**dict(zip(names, usual, strict=True)), **options}.values()))


def test_attention_gives_its_probabilities_and_its_mask() -> None:
    q = tensor(1, 2, 4, 8)
    out, probabilities, mask = kernels.FusedSDPA.apply(
        q, q, q, None, 0.5, False, None, "None", False, None, "left", True, True
    )
    weights = probabilities.cpu() * mask.cpu() * 2
    torch.testing.assert_close(out.cpu(), weights @ q.cpu())


class TestTransformerEngine:
    def test_a_linear_layer_in_8_bits_is_near_the_plain_one_and_trains(self) -> None:
        torch.manual_seed(0)
        layer = te.Linear(16, 8).to("hpu")
        x = torch.randn(4, 16).to("hpu").requires_grad_()
        plain = layer(x)
        recipe = te.recipe.DelayedScaling(fp8_format=te.recipe.Format.HYBRID, amax_history_len=2)
        for _ in range(3):
            x.grad = layer.weight.grad = None
            with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
                assert te.fp8.FP8GlobalStateManager.is_fp8_enabled()
                out = layer(x)
            out.sum().backward()
        assert not te.fp8.FP8GlobalStateManager.is_fp8_enabled()
        torch.testing.assert_close(out.cpu(), plain.cpu(), rtol=0.1, atol=0.1)
        assert not torch.equal(out.cpu(), plain.cpu())
        torch.testing.assert_close(x.grad.cpu(), layer.weight.sum(0).expand(4, 16).cpu(), rtol=0.1, atol=0.1)
        assert (layer.forward_scales.scale.cpu() > 1).all()

    def test_weights_may_come_later(self) -> None:
        layer = te.Linear(3, 2, skip_weight_param_allocation=True, minimize_memory=True)
        with pytest.raises(RuntimeError, match="no weight"):
            layer(torch.ones(1, 3))
        layer.weight = nn.Parameter(torch.ones(2, 3))
        assert layer(torch.ones(1, 3)).tolist() == [[3, 3]]

    def test_what_is_not_documented_names_the_alternative(self) -> None:
        with pytest.raises(NotImplementedError, match="FusedAttention"):
            te.DotProductAttention  # noqa: B018
