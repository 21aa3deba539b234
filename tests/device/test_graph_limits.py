"""How long a lazy graph becomes: limits, stages after data-dependent shapes, and the random mode."""

from __future__ import annotations

import pytest

from device.environment import NO_LIMIT
from device.graph_limits import GraphLimits, Stage


class Told:
    """Limits, and the numbers that the recorder was told."""

    def __init__(self, mode: int = 1, max_ops: int = NO_LIMIT) -> None:
        self.numbers: list[int] = []
        self.limits = GraphLimits(mode, max_ops, self.numbers.append)


def test_without_any_limit_graphs_end_by_themselves() -> None:
    told = Told()
    told.limits.flushed()
    assert told.numbers == [0]


def test_stages_double_until_the_step_mark() -> None:
    told = Told()
    told.limits.happened(Stage.DATA_DEPENDENT)
    for _ in range(3):
        told.limits.flushed()
    told.limits.marked()
    told.limits.flushed()
    assert told.numbers == [0, 10, 20, 40, 80, 0]


def test_stages_end_at_the_limit_of_all_graphs() -> None:
    told = Told(max_ops=25)
    told.limits.happened(Stage.DATA_DEPENDENT)
    told.limits.flushed()
    told.limits.flushed()
    assert told.numbers == [25, 10, 20, 25]


@pytest.mark.parametrize("reason", [Stage.HOST_FALLBACK, Stage.COPY_TO_HOST, Stage.READ])
def test_other_reasons_count_where_their_bit_is_set(monkeypatch: pytest.MonkeyPatch, reason: Stage) -> None:
    told = Told()
    told.limits.happened(reason)
    assert told.numbers == [0]
    monkeypatch.setenv("PT_HPU_STAGE_SUBMISSION_MODE", str(int(reason)))
    monkeypatch.setenv("PT_HPU_MAX_COMPOUND_OP_SIZE_SS", "4")
    told = Told()
    told.limits.happened(reason)
    assert told.numbers == [0, 4]


def test_a_bit_keeps_stages_over_step_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_STAGE_SUBMISSION_MODE", "3")
    told = Told()
    told.limits.happened(Stage.DATA_DEPENDENT)
    told.limits.marked()
    told.limits.flushed()
    assert told.numbers == [0, 10, 20]


def test_stages_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_ENABLE_STAGE_SUBMISSION", "0")
    told = Told()
    told.limits.happened(Stage.DATA_DEPENDENT)
    assert told.numbers == [0]


def test_the_random_mode_is_the_same_in_each_run() -> None:
    first, second = Told(mode=3), Told(mode=3)
    for told in (first, second):
        for _ in range(20):
            told.limits.flushed()
    assert first.numbers == second.numbers
    assert len(set(first.numbers)) > 3
    assert all(1 <= number <= 10 for number in first.numbers)


def test_a_graph_after_a_data_dependent_shape_is_short(script) -> None:
    done = script(
        """
        import torch, habana_frameworks.torch.core as htcore
        from habana_frameworks.torch.hpu.metrics import metric_localcontext
        x = torch.ones(4, device="hpu")
        def chain(y):
            for _ in range(60):
                y = y * 1.5
            return y
        with metric_localcontext("graph_compilation") as whole:
            chain(x); htcore.mark_step(sync=True)
        torch.nonzero(x); torch.hpu.synchronize()
        with metric_localcontext("graph_compilation") as staged:
            y = chain(x); htcore.mark_step(sync=True)
        with metric_localcontext("graph_compilation") as after:
            y = chain(y + 1); htcore.mark_step(sync=True)
        print([dict(metric.stats())["TotalNumber"] for metric in (whole, staged, after)])
        """
    )
    assert done.stdout == "[1, 3, 1]\n"  # 10 + 20 + 30 operators
