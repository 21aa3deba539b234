"""What each fused kernel and optimizer has to equal: its plain PyTorch formula on the CPU, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from habana_frameworks.torch.hpex import kernels, movingavrg, normalization, optimizers

CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Add a check by its name."""
    CHECKS[function.__name__.replace("_", " ").strip()] = function
    return function


def near(found: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> None:
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    torch.testing.assert_close(found.detach().cpu().float(), wanted.detach().float(), rtol=tolerance, atol=tolerance)


def both(*shape: int, seed: int = 0, grad: bool = True, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The same values on the CPU and on the card."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
    return values.clone().requires_grad_(grad), values.to("hpu").requires_grad_(grad)


def gradients_near(pairs: Iterable[tuple[Tensor, Tensor]], tolerance: float = 1e-5) -> None:
    for wanted, found in pairs:
        assert found.grad is not None and wanted.grad is not None
        near(found.grad, wanted.grad, tolerance)


# -- attention ---------------------------------------------------------------------------------------------------------


def attention(kv_heads: int, mask: Tensor | None, recompute: bool, **options: Any) -> None:
    """FusedSDPA against scaled_dot_product_attention with the heads repeated."""
    pairs = [both(2, 4, 6, 8, seed=1), both(2, kv_heads, 10, 8, seed=2), both(2, kv_heads, 10, 5, seed=3)]
    (q, q_card), (k, k_card), (v, v_card) = pairs
    repeat = 4 // kv_heads
    wanted = F.scaled_dot_product_attention(
        q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1), attn_mask=mask, **options
    )
    on_card = None if mask is None else mask.to("hpu")
    found = kernels.FusedSDPA.apply(
        q_card, k_card, v_card, on_card, 0.0, options.get("is_causal", False), options.get("scale"), "None", recompute
    )
    near(found, wanted)
    slope = torch.randn_like(wanted)
    wanted.backward(slope)
    found.backward(slope.to("hpu"))
    gradients_near(pairs)


MASKS: dict[str, Callable[[], Tensor | None]] = {
    "none": lambda: None,
    "bool": lambda: torch.rand(2, 1, 6, 10) > 0.3,
    "numbers": lambda: torch.randn(2, 4, 6, 10),
    "one row": lambda: (torch.rand(2, 1, 1, 10) > 0.3) | (torch.arange(10) == 0),
    "two dimensions": lambda: torch.randn(6, 10),
}


@check
def attention_with_every_mask_and_grouping() -> None:
    torch.manual_seed(0)
    for number, make in enumerate(MASKS.values()):
        attention((4, 2, 1)[number % 3], make(), recompute=bool(number % 2))
        attention(2, make(), recompute=not number % 2)
    for recompute in (False, True):
        attention(4, None, recompute, is_causal=True)
        attention(1, None, recompute, scale=0.3)


@check
def attention_without_heads_in_bfloat16() -> None:
    (q, q_card), (k, k_card) = both(3, 6, 8, dtype=torch.bfloat16), both(3, 7, 8, seed=4, dtype=torch.bfloat16)
    near(kernels.FusedSDPA.apply(q_card, k_card, k_card), F.scaled_dot_product_attention(q, k, k), 2e-2)


@check
def slices_of_attention() -> None:
    for function in (kernels.PySDPA, kernels.PySDPAHinted):
        for causal in (False, True):
            pairs = [both(1, 2, 5, 8, seed=seed) for seed in (1, 2, 3)]
            wanted = F.scaled_dot_product_attention(*(pair[0] for pair in pairs), is_causal=causal)
            found = function.apply(*(pair[1] for pair in pairs), causal, True)
            near(found, wanted)
            wanted.sum().backward()
            found.sum().backward()
            gradients_near(pairs)


# -- normalization, position, losses -----------------------------------------------------------------------------------


@check
def rms_norm() -> None:
    for fast in (False, True):
        (x, x_card), (g, g_card) = both(4, 3, 16), both(16)
        wanted = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * g
        found = normalization.FusedRMSNorm.apply(x_card, g_card, 1e-6, True, 0, fast)
        near(found, wanted)
        slope = torch.randn_like(wanted)
        wanted.backward(slope)
        found.backward(slope.to("hpu"))
        gradients_near([(x, x_card), (g, g_card)])


@check
def clipping_by_norm() -> None:
    for limit in (0.5, 100.0):
        pairs = [both(7), both(3, 4)]
        for cpu, card in pairs:
            cpu.grad = torch.randn_like(cpu)
            card.grad = cpu.grad.to("hpu")
        clip = normalization.FusedClipNorm([card for _, card in pairs], limit)
        norm = clip.clip_norm([card for _, card in pairs])
        assert norm.shape == (1,)
        near(norm, nn.utils.clip_grad_norm_([cpu for cpu, _ in pairs], limit).reshape(1))
        gradients_near(pairs)


def _half(x: Tensor) -> Tensor:
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)


@check
def rotary_embedding() -> None:
    angles = torch.randn(1, 1, 12, 4).repeat(1, 1, 1, 2)
    cos, sin = angles.cos(), angles.sin()
    places = torch.randint(12, (2, 5))
    x, x_card = both(2, 3, 5, 8)
    chosen = [table[0, 0][places].unsqueeze(1) for table in (cos, sin)]
    wanted = x * chosen[0] + _half(x) * chosen[1]
    on_card = cos.to("hpu"), sin.to("hpu")
    found = kernels.RotaryPosEmbeddingHelperV2.apply(x_card, *on_card, places.to("hpu"))
    near(found, wanted)
    near(kernels.apply_rotary_pos_emb(x_card, *on_card, places.to("hpu")), wanted)
    wanted.square().sum().backward()
    found.square().sum().backward()
    gradients_near([(x, x_card)])

    y, y_card = both(5, 2, 3, 8, seed=3)
    cache = torch.randn(7, 3, 2)  # six of the eight elements turn
    pairs = y[..., :6].unflatten(-1, (3, 2))
    c, s = (cache[:5, None, None, :, part] for part in (0, 1))
    turned = torch.stack((pairs[..., 0] * c - pairs[..., 1] * s, pairs[..., 1] * c + pairs[..., 0] * s), -1).flatten(-2)
    expected = torch.cat((turned, y[..., 6:]), -1)
    result = kernels.RotaryPosEmbeddingHelperV3.apply(y_card, cache.to("hpu"))
    near(result, expected)
    expected.square().sum().backward()
    result.square().sum().backward()
    gradients_near([(y, y_card)])

    z, z_card = both(8, 2, 8, seed=5)
    wide = torch.randn(8, 1, 11)
    near(
        kernels.RotaryPosEmbeddingHelperV1.apply(z_card, wide.to("hpu"), wide.to("hpu"), 3),
        z * wide[..., 3:] + _half(z) * wide[..., 3:],
    )


@check
def connectionist_loss() -> None:
    targets, lengths = torch.randint(1, 5, (2, 4)), torch.tensor([4, 2])
    for reduction in ("none", "mean", "sum"):
        x = torch.randn(10, 2, 5, generator=torch.Generator().manual_seed(1)).log_softmax(2)
        cpu, card = x.clone().requires_grad_(), x.to("hpu").requires_grad_()
        steps = torch.full((2,), 10)
        wanted = F.ctc_loss(cpu, targets, steps, lengths, reduction=reduction)
        found = kernels.CTCLoss.apply(card, targets.to("hpu"), steps.to("hpu"), lengths.to("hpu"), 0, reduction)
        near(found, wanted)
        wanted.sum().backward()
        found.sum().backward()
        gradients_near([(cpu, card)])


@check
def softmax_variants() -> None:
    x, x_card = both(3, 5, 5)
    mask = torch.randn(3, 5, 5)
    wanted = torch.softmax(x * 0.7 + mask, -1)
    found = kernels.ScaledMaskedSoftmax.apply(x_card, mask.to("hpu"), 0.7)
    near(found, wanted)
    wanted.square().sum().backward()
    found.square().sum().backward()
    gradients_near([(x, x_card)])
    lower = torch.softmax(x.detach().masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf), -1)
    near(kernels.Softmax.triu_masked_softmax(x_card.detach()), lower)
    narrow, narrow_card = both(4, 9, dtype=torch.bfloat16)
    wanted, found = torch.softmax(narrow, -1), kernels.CustomSoftmax.apply(narrow_card, 0)
    near(found, wanted, 1e-2)
    wanted.square().sum().backward()
    found.square().sum().backward()
    gradients_near([(narrow, narrow_card)], 1e-2)


@check
def bags_of_embeddings() -> None:
    table, table_card = both(9, 4, grad=False)
    rows, ends = torch.tensor([1, 3, 3, 8, 0], dtype=torch.int32), torch.tensor([0, 2, 2, 5], dtype=torch.int32)
    counts = torch.tensor([5, 4], dtype=torch.int32)
    wanted = torch.stack([table[rows[:2].long()].sum(0), torch.zeros(4), table[rows[2:].long()].sum(0)])
    found = kernels.EmbeddingBag.forward(table_card, rows.to("hpu"), ends.to("hpu"), counts.to("hpu"), 1)
    near(found, wanted)
    used, bags, starts, count = kernels.EmbeddingBagPreproc.forward(rows, ends)
    assert (used.tolist(), bags.tolist(), starts.tolist(), count) == ([0, 1, 3, 8], [2, 0, 0, 2, 2], [0, 1, 2, 4, 5], 4)
    slope = torch.randn(3, 4)
    out = torch.zeros(4, 4, device="hpu")
    sizes = torch.tensor([5, 5], dtype=torch.int32)
    kernels.EmbeddingBag.backward(out, *(x.to("hpu") for x in (slope, bags, starts, sizes)), 1)
    near(out, torch.stack([slope[2], slope[0], slope[0] + slope[2], slope[2]]))


@check
def regions_of_interest() -> None:
    images, images_card = both(2, 3, 8, 8)
    rois = torch.tensor([[0, 1.0, 1.0, 6.0, 5.0], [1, 0.0, 2.0, 7.5, 7.5]])
    found = kernels.CustomRoiAlign((2, 2), 1.0, 2, True)(images_card, rois.to("hpu"))
    grids = []
    for _, left, top, right, bottom in (rois - torch.tensor([0, 0.5, 0.5, 0.5, 0.5])).tolist():
        ys, xs = (
            torch.tensor([start + (end - start) * (i + 0.5) / 4 for i in range(4)]) / 7 * 2 - 1
            for start, end in ((top, bottom), (left, right))
        )
        grids.append(torch.stack(torch.meshgrid(xs, ys, indexing="xy"), -1))
    samples = F.grid_sample(images, torch.stack(grids), align_corners=True, padding_mode="border")
    wanted = F.avg_pool2d(samples, 2)
    near(found, wanted)
    wanted.square().sum().backward()
    found.square().sum().backward()
    gradients_near([(images, images_card)], 1e-4)


@check
def suppression_of_boxes() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [0, 0, 10, 9.9]])
    scores = torch.tensor([0.5, 0.9, 0.3, 0.8])
    on_card = boxes.to("hpu"), scores.to("hpu")
    assert kernels.CustomNms.nms(*on_card, 0.5).tolist() == [1, 2]
    classes = torch.tensor([0, 1, 0, 0]).to("hpu")
    assert kernels.CustomNms.batched_nms(*on_card, classes, 0.5).tolist() == [1, 3, 2]


# -- optimizers --------------------------------------------------------------------------------------------------------


def train(make: Callable[[list[Tensor]], Any], wanted: Callable[[list[Tensor]], Any], tolerance: float = 1e-5) -> None:
    """Six steps of both, with a learning rate that falls."""
    pairs = [both(5, seed=1), both(3, 4, seed=2)]
    ours, plain = make([card for _, card in pairs]), wanted([cpu for cpu, _ in pairs])
    for step in range(6):
        for optimizer in (ours, plain):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 * 0.7**step
        for which, optimizer in ((0, plain), (1, ours)):
            optimizer.zero_grad()
            sum(((pair[which] - 0.3) ** 2).sum() for pair in pairs).backward()  # type: ignore[union-attr]
            optimizer.step()
    for cpu, card in pairs:
        near(card, cpu, tolerance)


class AdamW(torch.optim.Optimizer):
    """As Hugging Face had it: epsilon is added before the correction of the second moment, not behind it."""

    def __init__(self, params: list[Tensor], decay: float, corrected: bool) -> None:
        super().__init__(params, {"lr": 1e-3, "decay": decay, "corrected": corrected})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        group["t"] = t = group.get("t", 0) + 1
        size = group["lr"] * (math.sqrt(1 - 0.999**t) / (1 - 0.9**t) if group["corrected"] else 1.0)
        for p in group["params"]:
            state = self.state[p]
            if not state:
                state.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
            state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
            state["v"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            p.mul_(1 - group["lr"] * group["decay"])
            p.sub_(size * state["m"] / (state["v"].sqrt() + 1e-6))


@check
def adamw() -> None:
    for decay in (0.0, 0.1):
        for corrected in (True, False):
            train(
                lambda p, decay=decay, corrected=corrected: optimizers.FusedAdamW(
                    p, weight_decay=decay, bias_correction=corrected
                ),
                lambda p, decay=decay, corrected=corrected: AdamW(p, decay, corrected),
            )
    for moments, tolerance in ((None, 1e-3), (torch.bfloat16, 2e-2), ((torch.float8_e4m3fn, torch.float8_e5m2), 0.2)):
        train(
            lambda p, moments=moments: optimizers.FusedAdamW(p, weight_decay=0.1, moments_dtype=moments),
            lambda p: torch.optim.AdamW(p, eps=1e-6, weight_decay=0.1),
            tolerance,
        )


@check
def sgd() -> None:
    for options in (
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.4},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ):
        train(
            lambda p, options=options: optimizers.FusedSGD(p, lr=0.1, **options),
            lambda p, options=options: torch.optim.SGD(p, lr=0.1, **options),
        )


@check
def adagrad() -> None:
    options = {"lr_decay": 0.1, "weight_decay": 0.05, "initial_accumulator_value": 0.2}
    train(lambda p: optimizers.FusedAdagrad(p, **options), lambda p: torch.optim.Adagrad(p, **options))


@check
def adam_that_marks_steps() -> None:
    train(lambda p: optimizers.Adam(p), lambda p: torch.optim.Adam(p))
    train(lambda p: optimizers.AdamW(p), lambda p: torch.optim.AdamW(p))


class Lamb(torch.optim.Optimizer):
    """The formula of the paper, as apex has it."""

    def __init__(self, params: list[Tensor], decay: float, limit: float) -> None:
        super().__init__(params, {"lr": 1e-3, "decay": decay})
        self.limit = limit

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        params = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        clip = norm / self.limit if norm > self.limit else 1.0
        for p in params:
            state = self.state[p]
            if not state:
                state.update(m=torch.zeros_like(p), v=torch.zeros_like(p), t=0)
            state["t"] += 1
            g = p.grad / clip
            state["m"].mul_(0.9).add_(g, alpha=0.1)
            state["v"].mul_(0.999).addcmul_(g, g, value=0.001)
            corrected = state["v"] / (1 - 0.999 ** state["t"])
            update = state["m"] / (1 - 0.9 ** state["t"]) / (corrected.sqrt() + 1e-6)
            decay = self.param_groups[0]["decay"]
            update = update + decay * p
            ratio = p.norm() / update.norm() if decay else 1.0
            p.sub_(update * (self.param_groups[0]["lr"] * ratio))


@check
def lamb() -> None:
    for decay in (0.0, 0.01):
        train(
            lambda p, decay=decay: optimizers.FusedLamb(p, weight_decay=decay, max_grad_norm=0.7),
            lambda p, decay=decay: Lamb(p, decay, 0.7),
        )


class LarsMomentum(torch.optim.Optimizer):
    """Layer-wise rates before momentum."""

    def __init__(self, params: list[Tensor], mask: list[int]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.mask = mask

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        lr = self.param_groups[0]["lr"]
        for p, masked in zip(self.param_groups[0]["params"], self.mask, strict=True):
            g = p.grad * lr
            if masked:
                ratio = 0.001 * p.norm() / (p.grad.norm() + 1e-4 * p.norm() + 1e-8)
                g = (p.grad + 1e-4 * p) * (lr * ratio)
            buffer = self.state[p].setdefault("b", torch.zeros_like(p))
            buffer.mul_(0.9).sub_(g)
            p.add_(buffer)


@check
def lars_with_momentum() -> None:
    def ours(params: list[Tensor]) -> optimizers.FusedLars:
        inner = optimizers.FusedResourceApplyMomentum(params, lr=0.1, momentum=0.9, weight_decay=1e-4)
        return optimizers.FusedLars(inner, [1, 0])

    train(ours, lambda p: LarsMomentum(p, [1, 0]))


@check
def functional_adamw() -> None:
    pairs = [both(5, seed=1), both(3, 4, seed=2)]
    plain = torch.optim.AdamW([cpu for cpu, _ in pairs], lr=0.1, eps=1e-6, weight_decay=0.1)
    ours = optimizers.distributed.FusedAdamW([card for _, card in pairs], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        for cpu, _ in pairs:
            cpu.grad = torch.randn_like(cpu)
        ours.step([cpu.grad.to("hpu") for cpu, _ in pairs])  # type: ignore[union-attr]
        plain.step()
    for cpu, card in pairs:
        near(card, cpu, 1e-3)


@check
def moving_average() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("hpu")
    average = movingavrg.FusedEMA(model, 0.9)
    before = [value.cpu().clone() for value in average.ema.state_dict().values()]
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(1)
    average.update(model)
    decay = 0.9 * (1 - math.exp(-1 / 2000))
    for old, (name, new) in zip(before, average.ema.state_dict().items(), strict=True):
        now = model.state_dict()[name].cpu()
        near(new, old * decay + now * (1 - decay) if old.is_floating_point() else old)
    assert average.updates == 1 and not average.ema.training
