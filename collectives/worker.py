"""A background thread that runs a group's operations one after another."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable


class Worker:
    """First in, first out. The thread starts with the first job and never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], threading.Event] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._unfinished = 0
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None], done: threading.Event) -> None:
        """Run `job` after all earlier ones. It must not raise.

        `done` is set when it has run and the thread holds nothing of it any more: whether a tensor is still referenced
        must not depend on this thread's speed. A job that submits another waits for it: nobody else would run it.
        """
        with self._changed:
            self._unfinished += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._jobs.put((job, done))
        del job
        if threading.current_thread() is self._thread:
            while not done.is_set():
                if not self._run_next():
                    self.stop()  # was for the loop below
                    return

    def is_idle(self) -> bool:
        return self._unfinished == 0

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything submitted has run; False if it takes longer than `timeout_s` seconds."""
        end = time.monotonic() + timeout_s
        with self._changed:
            while self._unfinished:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.5))
        return True

    def stop(self) -> None:
        """Let the thread end after what was submitted."""
        if self._thread is not None:
            self._jobs.put(None)

    def _run(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Run one job; False where the thread shall end."""
        entry = self._jobs.get()
        if entry is None:
            return False
        job, done = entry
        del entry
        try:
            job()
        finally:
            del job
            done.set()
            with self._changed:
                self._unfinished -= 1
                self._changed.notify_all()
        return True
