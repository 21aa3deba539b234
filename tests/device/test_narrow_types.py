"""float64 and int64 as the card holds them: in 32 bits, under the name of the wider type."""

from __future__ import annotations

import pytest
import torch

from device.backend import runtime

from ..conftest import Script

FULL = 2**63 - 1
THIRD = 1 / 3


def rounded(value: float) -> float:
    return torch.tensor(value, dtype=torch.float32).item()


class TestFloat64:
    def test_a_copy_keeps_what_float32_keeps(self) -> None:
        tensor = torch.tensor([THIRD, float("inf"), float("nan")], dtype=torch.float64).to("hpu")
        assert tensor.dtype == torch.float64
        back = tensor.cpu()
        assert back[0].item() == rounded(THIRD) and back[1].isinf() and back[2].isnan()

    @pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
    def test_results_are_rounded(self, shape: tuple[int, ...]) -> None:
        made = torch.full(shape, THIRD, dtype=torch.float64, device="hpu")
        assert (made + 1e-12).sub(rounded(THIRD)).abs().max().item() == 0
        made.t_() if made.dim() == 2 else made
        made.mul_(3e38).mul_(30)
        assert made.isinf().all().item()

    def test_windows_of_a_buffer_are_rounded(self) -> None:
        tensor = torch.zeros(4, 4, dtype=torch.float64, device="hpu")
        tensor[:, 1].fill_(THIRD)
        assert (
            tensor.cpu()[:, 1].tolist() == [rounded(THIRD)] * 4 and tensor.sum(1).sub(rounded(THIRD)).abs().max() == 0
        )

    def test_values_beyond_float32_are_refused(self) -> None:
        with pytest.raises(RuntimeError) as caught:
            torch.tensor([-1e300, 5], dtype=torch.float64).to("hpu")
        assert str(caught.value).startswith(
            "Error when trying to cast Double to Float, Input values range [-1e+300, 5] exceeds Float range "
            "[-3.40282e+38, 3.40282e+38]"
        )

    def test_operators_that_run_on_the_host_give_rounded_results(self) -> None:
        matrix = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
        inverse = torch.linalg.inv(matrix.to("hpu"))
        assert torch.equal(inverse.cpu(), torch.linalg.inv(matrix).float().double())


class TestInt64:
    def test_the_range_of_int32_fits(self) -> None:
        tensor = torch.tensor([2**31 - 1, -(2**31)]).to("hpu")
        assert tensor.dtype == torch.int64 and tensor.cpu().tolist() == [2**31 - 1, -(2**31)]

    @pytest.mark.parametrize("target", [torch.int64, torch.float32])
    def test_values_beyond_int32_are_refused(self, target: torch.dtype) -> None:
        into = torch.zeros(2, dtype=target, device="hpu")
        with pytest.raises(RuntimeError) as caught:
            into.copy_(torch.tensor([-5, 2**31]))
        assert str(caught.value).startswith(
            "Error when trying to cast Long to Int, Input values range [-5, 2147483648] exceeds Int range "
            "[-2147483648, 2147483647]"
        )
        assert into.sum().item() == 0

    def test_arithmetic_wraps_around(self) -> None:
        largest = torch.tensor([2**31 - 1, 7]).to("hpu")
        assert (largest + 1).cpu().tolist() == [-(2**31), 8]
        assert (largest * largest).cpu().tolist() == [1, 49]

    def test_constants_and_casts_end_at_the_range(self) -> None:
        assert torch.full((1,), FULL, device="hpu").item() == 2**31 - 1
        hidden = torch.zeros(2, dtype=torch.int64, device="hpu").masked_fill(
            torch.tensor([True, False], device="hpu"), torch.iinfo(torch.int64).min
        )
        assert hidden.cpu().tolist() == [-(2**31), 0]
        assert torch.tensor([1e12], device="hpu").to(torch.int64).item() == 2**31 - 1

    def test_other_integers_keep_their_size(self) -> None:
        assert torch.tensor([2**40], dtype=torch.uint64).to("hpu").cpu().tolist() == [2**40]


WIDE = """
import torch
tensor = torch.full((4,), 2**63 - 1).to("hpu")
assert tensor.cpu().tolist() == [2**63 - 1] * 4 and (tensor - 1).cpu().tolist() == [2**63 - 2] * 4
assert torch.tensor([1 / 3], dtype=torch.float64).to("hpu").item() == torch.tensor(1 / 3).item()
"""
UNCHECKED = """
import torch
assert torch.tensor([2**32 + 3]).to("hpu").item() == 3
assert torch.tensor([1e300], dtype=torch.float64).to("hpu").isinf().item()
"""
REFUSED = """
import torch
try:
    torch.zeros(2, dtype=torch.float16).to("hpu")
except RuntimeError as error:
    assert "not supported on Gaudi" in str(error)
else:
    raise SystemExit("accepted")
"""


@pytest.mark.parametrize("environment", [{"PT_ENABLE_INT64_SUPPORT": "1"}, {"PT_HPU_LAZY_MODE": "0"}])
def test_int64_keeps_64_bits_in_eager_mode_and_on_demand(script: Script, environment: dict[str, str]) -> None:
    script(WIDE, **environment)


@pytest.mark.parametrize(
    "environment",
    [
        {"PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK": "0"},
        {"PT_HPU_LAZY_MODE": "0", "PT_ENABLE_INT64_SUPPORT": "0"},
        {"PT_HPU_LAZY_MODE": "0", "HPUCLUSTER_CARD": "gaudi"},
    ],
)
def test_without_a_check_values_are_cut(script: Script, environment: dict[str, str]) -> None:
    script(UNCHECKED, **environment)


def test_the_variable_counts_until_the_first_tensor(script: Script) -> None:
    script(
        """
        import os
        import torch
        from habana_frameworks.torch.utils.internal import is_lazy
        assert is_lazy() and torch.hpu.is_available()
        os.environ["PT_ENABLE_INT64_SUPPORT"] = "True"
        os.environ["PT_HPU_LAZY_MODE"] = "0"  # too late: decided at import
        assert torch.tensor([2**40 + 1], device="hpu").item() == 2**40 + 1
        assert is_lazy()
        os.environ["PT_ENABLE_INT64_SUPPORT"] = "False"  # too late as well
        assert torch.tensor([2**40 + 1], device="hpu").item() == 2**40 + 1
        """
    )


def test_the_strict_switch_refuses_integers_that_are_cut(script: Script) -> None:
    code = """
        import torch
        big = torch.full((2,), 2**31 - 1, device="hpu")
        assert big.max().item() == 2**31 - 1 and torch.full((2,), 2**40, device="hpu").max().item() == 2**31 - 1
        print((big + 1).tolist())
        """
    assert script(code, HPUCLUSTER_STRICT="0").stdout == f"{[-(2**31)] * 2}\n"
    refused = script(code, HPUCLUSTER_STRICT="1", check=False)
    assert refused.returncode == 1
    assert "aten::add.Tensor: 2147483648 in its int64 result does not fit the 32 bits" in refused.stderr
    assert (
        script(code, HPUCLUSTER_STRICT="1", PT_ENABLE_INT64_SUPPORT="1", check=False).stderr.count("does not fit") == 0
    )


def test_a_type_is_refused_from_the_first_tensor_on(script: Script) -> None:
    script(REFUSED, HPUCLUSTER_CARD="gaudi")


@pytest.mark.parametrize(
    ("dtype", "travel"), [(torch.float64, 4), (torch.int64, 4), (torch.int32, 4), (torch.float16, 2), (torch.uint64, 8)]
)
def test_a_copy_takes_the_bytes_that_the_card_holds(dtype: torch.dtype, travel: int) -> None:
    journal = runtime.card().journal
    received, sent = journal.received, journal.sent
    on_card = torch.ones(64, dtype=dtype).to("hpu")
    on_card.cpu(), on_card[5].item()
    assert (journal.received - received, journal.sent - sent) == (64 * travel, 65 * travel)


class TestKindsOfTensors:
    """What the card does not have at all is named."""

    def test_complex(self) -> None:
        x = torch.ones(4, 2, device="hpu")
        for make in (lambda: torch.fft.fft(x), lambda: torch.view_as_complex(x), lambda: torch.linalg.eigvals(x[:2])):
            with pytest.raises(RuntimeError, match="Complex datatype is not supported on HPU device"):
                make()

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_sparse_nested_and_quantized(self) -> None:
        x = torch.eye(3, device="hpu")
        kinds = {
            "Sparse": x.to_sparse,
            "SparseCsr": lambda: torch.eye(3).to_sparse_csr().to("hpu").to_dense(),
            "nested": lambda: torch.nested.nested_tensor([x, x]) * 2,
            "quantized": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        }
        for kind, make in kinds.items():
            with pytest.raises(RuntimeError, match=f"{kind} tensors are not supported on HPU device"):
                make()

    def test_attention_modules_do_without_nested_tensors(self) -> None:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        encoder = torch.nn.TransformerEncoder(layer, 1).eval()
        x, hidden = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, True, True]])
        with torch.no_grad():
            expected = encoder(x, src_key_padding_mask=hidden)
            result = encoder.to("hpu")(x.to("hpu"), src_key_padding_mask=hidden.to("hpu"))
        torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.parametrize("rows", [3, 5])
def test_a_host_operator_gives_an_empty_out_tensor_its_layout(rows: int) -> None:
    matrix = torch.randn(rows, 3)
    wanted = torch.linalg.qr(matrix, out=(torch.empty(0), torch.empty(0)))
    got = torch.linalg.qr(matrix.to("hpu"), out=(torch.empty(0, device="hpu"), torch.empty(0, device="hpu")))
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.uint8, torch.bool])
def test_a_python_number_does_not_decide_the_type(dtype: torch.dtype) -> None:
    host = torch.ones(3, dtype=dtype)
    card = host.to("hpu")
    for mine, theirs in ((card * 0.5, host * 0.5), (0.5 + card, 0.5 + host), (card * 2, host * 2)):
        assert mine.dtype == theirs.dtype and torch.equal(mine.cpu(), theirs)
