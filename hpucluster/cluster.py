"""Runs a job from beginning to end: private Ray, cards, script, and nothing left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from . import leftovers
from .embedded_ray import EmbeddedRay
from .job import Job
from .outcome import Outcome, Phase
from .outlets import Outlets
from .placement import common_environment
from .signals import SignalWatch
from .snapshots import SnapshotBoard
from .supervisor import Supervisor


class RayStartError(RuntimeError):
    """Ray did not start."""


def run_job(job: Job, board: SnapshotBoard, on_phase: Callable[[Phase], None]) -> Outcome:
    """Run `job` and wait for its end. `on_phase` is called as each phase begins.

    `board` receives the cards' snapshots while the job runs. Must be called in the main thread.
    Raises RayStartError.
    """
    clock = _PhaseClock(on_phase)
    folder = leftovers.create_folder()
    ray = EmbeddedRay(folder, job, common_environment(job))
    try:
        with SignalWatch() as signals:
            clock.begin(Phase.RAY)
            try:
                ray.start()
            except Exception as error:
                raise RayStartError(f"Ray did not start: {error}") from error
            outlets = Outlets(job.world_size)
            supervisor = Supervisor(job, folder, outlets, board, signals)
            try:
                clock.begin(Phase.CARDS)
                supervisor.start(ray)
                if not supervisor.stopping:
                    clock.begin(Phase.SCRIPT)
                supervisor.run()
            finally:
                clock.begin(Phase.END)
                supervisor.close()
                outlets.finish()
    finally:
        started = leftovers.descendants(os.getpid())
        ray.stop()
        leftovers.kill(started)
        leftovers.remove_shared_memory(job.identifier)
        leftovers.remove_folder(folder)
    clock.finish()
    return Outcome(supervisor.status, supervisor.failure, supervisor.interrupted, clock.seconds)


class _PhaseClock:
    """Measures how long each phase takes, in seconds of wall time."""

    def __init__(self, on_phase: Callable[[Phase], None]) -> None:
        self._on_phase = on_phase
        self._phase: Phase | None = None
        self._begin = 0.0
        self.seconds: dict[str, float] = {}

    def begin(self, phase: Phase) -> None:
        self.finish()
        self._phase, self._begin = phase, time.monotonic()
        self._on_phase(phase)

    def finish(self) -> None:
        if self._phase is not None:
            self.seconds[self._phase.name.lower()] = time.monotonic() - self._begin
            self._phase = None
