"""Habits of training scripts that recompile in lazy mode, each beside its cure: what compiles how often, which values.

A graph with new shapes is compiled once, whatever comes in between: so a ragged last batch costs one compilation in the
whole run, sequences cost one for each length (or bucket of lengths), and an index that moves one for each place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_localcontext


@contextmanager
def compilations() -> Iterator[list[int]]:
    """A list which the end of the block fills with the number of compilations in it."""
    torch.hpu.synchronize()
    count: list[int] = []
    with metric_localcontext("graph_compilation") as metric:
        yield count
        htcore.mark_step()
        torch.hpu.synchronize()
    count.append(dict(metric.stats())["TotalNumber"])


def compiled(function: Callable[[], object]) -> int:
    with compilations() as count:
        function()
    return count[0]


def test_a_ragged_last_batch_compiles_once_and_every_size_is_remembered() -> None:
    torch.manual_seed(0)
    net = nn.Linear(9, 4).to("hpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def epoch(sizes: list[int]) -> None:
        for size in sizes:
            optimizer.zero_grad()
            net(torch.randn(size, 9).to("hpu")).square().mean().backward()
            optimizer.step()
            htcore.mark_step()

    epoch([63, 63, 63])  # the first step has no gradients to clear
    assert compiled(lambda: epoch([63, 63])) == 0
    assert compiled(lambda: epoch([63, 31])) == 1
    assert compiled(lambda: epoch([63, 63, 31, 63, 31])) == 0


@pytest.mark.parametrize(("granule", "first", "later"), [(1, 6, 0), (32, 2, 0)], ids=["each length", "buckets of 32"])
def test_sequences_compile_once_for_each_length_that_there_is(granule: int, first: int, later: int) -> None:
    lengths = [-(-length // granule) * granule for length in (5, 17, 40, 33, 64, 9)]

    def run() -> None:
        for length in lengths:
            values = torch.ones(1 + granule, length).to("hpu")  # shapes which the other case has not seen
            assert (values * 2 + 1).sum().item() == 3 * length * (1 + granule)

    assert compiled(run) == first
    assert compiled(run) == later


def test_an_index_that_moves_compiles_for_each_place_and_rolling_does_not() -> None:
    wanted = [3.0 * sum(range(column, 28, 7)) for column in range(7)]
    x = torch.arange(28.0).reshape(4, 7).to("hpu")
    moved: list[torch.Tensor] = []
    rolled: list[torch.Tensor] = []
    with compilations() as moving:
        for column in range(7):
            moved.append((x[:, column] * 3).sum())
            htcore.mark_step()
    with compilations() as rolling:
        for _ in range(7):
            rolled.append((x[:, 0] * 3).sum())
            x = torch.roll(x, -1, 1)
            htcore.mark_step()
    assert torch.stack(moved).tolist() == torch.stack(rolled).tolist() == wanted
    assert moving == [7]
    assert rolling == [1]


def test_a_mask_compiles_for_each_number_of_hits_and_where_does_not() -> None:
    rows = [torch.tensor(values) for values in ([1.0, -1, 2, -2, 0], [1.0, 1, 2, -2, 0], [3.0, -1, 2, -3, 0])]

    def masked(row: torch.Tensor) -> None:
        x = row.to("hpu")
        hits = x[x > 0]
        assert hits.shape == row[row > 0].shape and hits.sum().item() == row.clamp(min=0).sum().item()
        assert torch.nonzero(x > 0).tolist() == torch.nonzero(row > 0).tolist()

    masked(rows[0])
    assert compiled(lambda: masked(rows[1])) >= 1
    assert compiled(lambda: masked(rows[2])) == 0  # two hits, as in the first
    with compilations() as static:
        for row in rows:
            x = row.to("hpu")
            assert torch.where(x > 0, x, torch.zeros_like(x)).sum().item() == row.clamp(min=0).sum().item()
    assert static == [1]


def test_a_bound_on_the_card_ends_the_graph_at_the_slice() -> None:
    start, bound = torch.zeros(2, 5, 7).to("hpu"), torch.tensor(3).to("hpu")

    def add(bound: torch.Tensor | int) -> tuple[int, ...]:
        total = start + 1
        part = total[:, :, :bound]
        part.add_(5)
        assert total.sum().item() == 2 * 5 * 7 + 5 * part.numel()
        return tuple(part.shape)

    for value, graphs in ((bound, 2), (3, 1)):
        with compilations() as count:
            assert add(value) == (2, 5, 3)
        assert count == [graphs], value
