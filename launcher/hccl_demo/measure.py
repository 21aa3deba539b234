"""Modelled seconds of one iteration. This machine's clock has no part in it."""

from __future__ import annotations

from collections.abc import Callable

from collectives.data_movement import timing_only
from device.backend import runtime
from habana_frameworks.torch import hpu

from .job import Job


def timed(job: Job, issue: Callable[[], object]) -> tuple[float, float]:
    """(host, device) seconds per iteration, as the real program takes them: of a loop back to back, or one by one.

    Back to back the host's are taken alone, from the first call to the end of the last.
    """
    with timing_only():  # what is in the buffers does not matter
        issue()
        job.synchronize()
        return (_one_by_one if job.settings.measure == "latency" else _back_to_back)(job, issue)


def _back_to_back(job: Job, issue: Callable[[], object]) -> tuple[float, float]:
    timeline = runtime.card().timeline
    start = timeline.now
    for _ in range(job.settings.loop):
        issue()
    job.synchronize()
    return (timeline.now - start) / job.settings.loop, 0.0


def _one_by_one(job: Job, issue: Callable[[], object]) -> tuple[float, float]:
    timeline = runtime.card().timeline
    host = device = 0.0
    for _ in range(job.settings.loop):
        begin, end = hpu.Event(enable_timing=True), hpu.Event(enable_timing=True)
        start = timeline.host
        begin.record()
        issue()
        end.record()
        end.synchronize()
        host += timeline.host - start
        device += begin.elapsed_time(end) / 1e3
    return host / job.settings.loop, device / job.settings.loop
