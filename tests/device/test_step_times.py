"""The typical step: what it is made of, and that a long run does not fill memory with its steps."""

from __future__ import annotations

import sys

import pytest

from device.journal import Journal
from device.step_times import RECENT, StepTimes


def times(*durations: float) -> StepTimes:
    steps, moment = StepTimes(), 0.0
    for duration in durations:
        moment += duration
        steps.end(moment)
    return steps


@pytest.mark.parametrize(
    ("durations", "typical"),
    [
        ((), 0.0),
        ((4.0,), 4.0),
        ((4.0, 2.0), 2.0),
        ((100.0, 50.0, 2.0), 2.0),  # the first two compile
        ((100.0, 50.0, 8.0, 1.0), 1.0),  # one of two compiled: a mean would be neither
        ((9.0, 9.0, 1.0, 64.0, 2.0), 2.0),
    ],
)
def test_the_typical_step_is_one_that_happened(durations: tuple[float, ...], typical: float) -> None:
    assert times(*durations).typical() == typical


def test_only_recent_steps_are_kept() -> None:
    steps = times(*[8.0] * 10, *[2.0] * (3 * RECENT))
    assert steps.count == 10 + 3 * RECENT
    assert steps.typical() == 2.0
    assert sys.getsizeof(steps._recent) < 16 * RECENT


def test_step_marks_count_until_an_optimizer_steps() -> None:
    journal = Journal()
    assert [journal.mark(1.0), journal.mark(2.0)] == [True, True]
    assert (journal.steps, journal.step_source) == (2, "mark_step")
    journal.end_step(3.0)
    assert not journal.mark(4.0)
    assert (journal.steps, journal.step_source, journal.step_seconds()) == (1, "optimizer", 3.0)
