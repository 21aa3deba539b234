"""A graph that fails: the error names the operator, and what the graph should have made is never read as a number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import habana_frameworks.torch.core as htcore

from ..conftest import Script


@pytest.fixture
def failed() -> dict[str, torch.Tensor]:
    """Tensors of a graph whose second operator reads beyond the end."""
    x = torch.ones(4, device="hpu")
    tensors = {"x": x, "before": x * 2}
    tensors["failed"] = torch.index_select(x, 0, torch.tensor([7], device="hpu"))
    tensors["independent"] = tensors["before"] + 1
    tensors["dependent"] = tensors["failed"] + 1
    with pytest.raises(IndexError, match=r"out of range.*while the card ran aten::index_select"):
        htcore.mark_step()
    return tensors


def test_tensors_that_had_a_value_keep_it(failed: dict[str, torch.Tensor]) -> None:
    assert failed["x"].tolist() == [1, 1, 1, 1] and failed["before"].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("name", ["failed", "independent", "dependent"])
def test_reading_one_that_was_never_computed_says_why(failed: dict[str, torch.Tensor], name: str) -> None:
    reads: list[Callable[[torch.Tensor], object]] = [
        torch.Tensor.cpu,
        repr,
        lambda x: (x * 2).cpu(),
        torch.Tensor.tolist,
    ]
    for read in reads:
        with pytest.raises(
            RuntimeError, match=r"has no value, because the graph that computes it failed.*index_select"
        ):
            read(failed[name])


def test_the_card_goes_on(failed: dict[str, torch.Tensor]) -> None:
    assert (failed["x"] + torch.ones(4, device="hpu")).tolist() == [2, 2, 2, 2]


def test_a_graph_that_finds_no_memory_leaves_no_numbers_either(script: Script) -> None:
    script(
        """
        import pytest, torch, habana_frameworks.torch.core as htcore
        y = torch.ones(4, device="hpu") + 1
        huge = torch.ones(200 << 30, dtype=torch.int8, device="hpu")
        with pytest.raises(RuntimeError, match="Allocation failed"):
            htcore.mark_step()
        with pytest.raises(RuntimeError, match="has no value, because the graph that computes it failed"):
            y.cpu()
        """,
        PT_HPU_LAZY_MODE="1",
    )
