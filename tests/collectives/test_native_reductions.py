"""The native loops of reductions, in the version for every instruction set that this processor has, against PyTorch."""

from __future__ import annotations

import ctypes

import pytest
import torch

from collectives.reduction import flat_array, reduction
from collectives.transport import native

from .test_hccl_reductions import DTYPES, OPS, reduced, sample

LEVELS = range(len(native.LEVELS))
LENGTHS = (0, 1, 7, 31, 1000, 1024, 1025, 5003)
AWKWARD = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 6e-8, 65504.0, 3.3e38, 1.0, -2.5, 0.1]


def reduce_with(level: int, op: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    """The reduction of one level; skips the test where the processor does not have it."""
    made = reduction(op, tensors[0].dtype)
    result = torch.zeros_like(tensors[0])
    sources = (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])
    count = tensors[0].numel()
    done = native.library().hccl_reduce_with(
        level, made.type_code, made.operation_code, result.data_ptr(), sources, len(tensors), count
    )
    if done != 0:
        pytest.skip(f"no {list(native.LEVELS)[level]} here")
    return result


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_instruction_set_gives_the_bits_of_the_sequential_reference(
    level: int, op: str, dtype: torch.dtype
) -> None:
    for length in LENGTHS:
        for ranks in (1, 2, 3, 8):
            tensors = [sample(rank, (length,), dtype) for rank in range(ranks)]
            got, want = reduce_with(level, op, tensors), reduced(tensors, op)
            assert flat_array(got).tobytes() == flat_array(want).tobytes(), (length, ranks)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64), ids=str)
def test_nan_infinities_and_subnormals(level: int, op: str, dtype: torch.dtype) -> None:
    values = torch.tensor(AWKWARD, dtype=torch.float64).to(dtype)
    left, right = values.repeat_interleave(len(values)), values.repeat(len(values))
    got, want = reduce_with(level, op, [left, right]), reduced([left, right], op)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_integers_wrap_around() -> None:
    tensors = [torch.tensor([127, -128, 100], dtype=torch.int8)] * 3
    assert reduce_with(0, "SUM", tensors).tolist() == [125, -128, 44]
    big = [torch.tensor([2**62], dtype=torch.int64)] * 3
    assert reduce_with(0, "SUM", big).tolist() == [3 * 2**62 - 2**64]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
def test_every_sixteen_bit_float_survives_the_way_through_float32(level: int, dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    got = reduce_with(level, "SUM", [every])
    is_nan = every.isnan()
    assert torch.equal(got.isnan(), is_nan)
    assert torch.equal(got.view(torch.int16)[~is_nan], every.view(torch.int16)[~is_nan])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
def test_results_are_rounded_once_to_the_nearest_even(level: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    bits = torch.randint(-(2**15), 2**15, (2, 50_000), generator=generator, dtype=torch.int32).to(torch.int16)
    left, right = bits.view(dtype)
    want = (left.float() + right.float()).to(dtype)
    torch.testing.assert_close(reduce_with(level, "SUM", [left, right]), want, rtol=0, atol=0, equal_nan=True)


def test_the_target_may_be_one_of_the_sources() -> None:
    values = [torch.arange(5000.0) * rank for rank in range(3)]
    want = reduced(values, "SUM")
    arrays = [flat_array(value) for value in values]
    reduction("SUM", torch.float32)(arrays[1], arrays)
    assert torch.equal(values[1], want)
