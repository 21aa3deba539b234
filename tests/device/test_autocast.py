"""Mixed precision: which operators run in which type."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def x() -> torch.Tensor:
    return torch.randn(4, 4, device="hpu")


@pytest.mark.parametrize(
    ("operation", "dtype"),
    [
        (lambda: x() @ x(), torch.bfloat16),
        (lambda: F.linear(x(), x()), torch.bfloat16),
        (lambda: F.layer_norm(x(), [4]), torch.bfloat16),
        (lambda: F.softmax(x(), 0), torch.bfloat16),
        (lambda: x() * 2.0, torch.bfloat16),
        (lambda: x().exp(), torch.float32),
        (lambda: F.mse_loss(x().bfloat16(), x()), torch.float32),
        (lambda: x().bfloat16().log(), torch.float32),
        (lambda: x().bfloat16() + x(), torch.float32),
        (lambda: x().bfloat16() + x().bfloat16(), torch.bfloat16),
        (lambda: x().relu(), torch.float32),
    ],
    ids=["matmul", "linear", "norm", "softmax", "mul", "exp", "loss", "log", "promote", "same", "unlisted"],
)
def test_types_under_autocast(operation, dtype: torch.dtype) -> None:
    with torch.autocast("hpu", dtype=torch.bfloat16):
        assert operation().dtype == dtype
    assert (x() @ x()).dtype == torch.float32


def test_a_mask_of_the_smallest_float_overflows_as_on_the_card() -> None:
    ones = torch.ones(2, 3, device="hpu")
    smallest = torch.finfo(torch.float32).min
    with torch.autocast("hpu", dtype=torch.bfloat16):
        lower = ones * smallest
        with torch.autocast("hpu", enabled=False):
            full = ones * smallest
    assert lower.isinf().all().item() and full.isfinite().all().item()
    assert torch.softmax(lower, -1).isnan().all().item()


def test_gradients_keep_the_parameters_type() -> None:
    layer = torch.nn.Linear(4, 2).to("hpu")
    with torch.autocast("hpu", dtype=torch.bfloat16):
        loss = layer(x()).float().sum()
    loss.backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_restores_autocast_and_the_dropout_mask(reentrant: bool) -> None:
    def run(recompute: bool) -> tuple[torch.Tensor, list[torch.dtype]]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 8)).to("hpu")
        x = torch.linspace(-1, 1, 32).reshape(4, 8).to("hpu").requires_grad_()
        seen: list[torch.dtype] = []
        net[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
        with torch.autocast("hpu", dtype=torch.bfloat16):
            y = checkpoint(net, x, use_reentrant=reentrant) if recompute else net(x)
        y.float().pow(2).sum().backward()
        assert x.grad is not None
        return x.grad.cpu(), seen

    (wanted, _), (got, types) = run(recompute=False), run(recompute=True)
    assert torch.equal(got, wanted)
    assert types == [torch.bfloat16, torch.bfloat16]


def test_the_lower_type_is_bfloat16_in_every_thread_until_another_is_set() -> None:
    def types() -> list[torch.dtype]:
        with torch.autocast("hpu"):
            product = x() @ x()
        return [torch.get_autocast_dtype("hpu"), torch.hpu.get_autocast_hpu_dtype(), product.dtype]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(types).result() == types() == [torch.bfloat16] * 3
    torch.hpu.set_autocast_hpu_dtype(torch.float16)
    try:
        assert types() == [torch.float16] * 3
    finally:
        torch.hpu.set_autocast_hpu_dtype(torch.bfloat16)


def test_regions_nest_and_switch_off() -> None:
    with torch.amp.autocast("hpu", dtype=torch.float16):
        assert (x() @ x()).dtype == torch.float16
        with torch.autocast("hpu", enabled=False):
            assert (x() @ x()).dtype == torch.float32 and not torch.hpu.is_autocast_hpu_enabled()
        with torch.autocast(device_type="hpu", dtype=torch.bfloat16):
            assert (x() @ x()).dtype == torch.bfloat16
        assert (x() @ x()).dtype == torch.float16
    torch.hpu.set_autocast_hpu_enabled(True)
    assert (x() @ x()).dtype == torch.bfloat16
    torch.hpu.set_autocast_hpu_enabled(False)
    assert (x() @ x()).dtype == torch.float32


def test_a_type_that_cannot_be_is_told_with_those_that_can() -> None:
    with pytest.warns(UserWarning, match="hpu Autocast only supports dtypes of torch.bfloat16, torch.float16"):
        region = torch.autocast("hpu", dtype=torch.float32)
    with region:
        assert (x() @ x()).dtype == torch.float32


def test_the_first_gaudi_has_no_float16(script) -> None:
    script(
        """
        import pytest, torch
        import habana_frameworks.torch
        with pytest.warns(UserWarning, match="only supports dtypes of torch.bfloat16 currently"):
            torch.autocast("hpu", dtype=torch.float16)
        with pytest.raises(RuntimeError, match="not supported on Gaudi"):
            torch.ones(2, dtype=torch.float16, device="hpu")
        """,
        HPUCLUSTER_CARD="gaudi",
    )


def test_functions_of_ones_own_choose_their_types() -> None:
    seen = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="hpu", cast_inputs=torch.float32)
        def forward(ctx, value):
            seen.append((value.dtype, torch.is_autocast_enabled("hpu")))
            return value * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="hpu")
        def backward(ctx, gradient):
            seen.append((gradient.dtype, torch.is_autocast_enabled("hpu")))
            return gradient * 2

    value = x().bfloat16().requires_grad_()
    with torch.autocast("hpu"):
        Doubled.apply(value).sum().backward()
    assert seen == [(torch.float32, False), (torch.float32, False)]
    assert value.grad is not None and value.grad.dtype == torch.bfloat16


def test_a_list_of_ones_own(script, tmp_path: Path) -> None:
    (tmp_path / "lower.txt").write_text("mm\n")
    (tmp_path / "full.txt").write_text("softmax\n")
    script(
        """
        import torch
        x = torch.ones(2, 2, device="hpu")
        with torch.autocast("hpu", dtype=torch.bfloat16):
            assert torch.bmm(x[None], x[None]).dtype == torch.float32  # no longer listed
            assert torch.mm(x, x).dtype == torch.bfloat16
            assert torch.softmax(x.bfloat16(), 0).dtype == torch.float32
        """,
        PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST=str(tmp_path / "lower.txt"),
        PT_HPU_AUTOCAST_FP32_OPS_LIST=str(tmp_path / "full.txt"),
    )


def test_an_unknown_operator_in_a_list_is_named(script, tmp_path: Path) -> None:
    (tmp_path / "lower.txt").write_text("# mine\nmm  # and this\nmatmull\n")
    done = script(
        "import torch; torch.ones(1, device='hpu')",
        check=False,
        PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST=str(tmp_path / "lower.txt"),
    )
    assert done.returncode != 0
    assert f"{tmp_path / 'lower.txt'}, line 3: 'matmull' is no operator; did you mean 'matmul'?" in done.stderr


def test_normalization_layers_train_under_autocast() -> None:
    for layer in (nn.GroupNorm(2, 4), nn.BatchNorm2d(4), nn.LayerNorm(6)):
        net = nn.Sequential(nn.Conv2d(3, 4, 1), layer).to("hpu")
        with torch.autocast("hpu"):
            loss = net(torch.randn(2, 3, 6, 6).to("hpu")).sum()
        loss.backward()
        assert {parameter.grad.cpu().dtype for parameter in net.parameters()} == {torch.float32}
