"""The handle of an issued operation, as torch.distributed and DistributedDataParallel expect it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from device import interop
from device.backend.untraced import untraced
from device.fences import Extent, Fence
from device.timeline import STREAM

from .errors import CollectiveTimeout, collective_error
from .future import CollectiveFuture
from .handles import release
from .ledger import Ledger


@untraced
class HcclWork(dist.Work):
    """Finished when `complete` was called. `result()` and the future hold the output tensors.

    `on_fence` is what the card must have before it may touch memory that the operation uses; by default, its
    end. `waits` is what goes on after the operation where it is waited for: the card's stream, or the host. With
    `has_inline_callbacks` the future's callbacks run in the thread that adds them.
    """

    def __init__(
        self, description: Callable[[], str], outputs: Sequence[torch.Tensor], ledger: Ledger, sequence: int
    ) -> None:
        super().__init__()
        self._description = description
        self._outputs = list(outputs)
        self._ledger = ledger
        self._sequence = sequence
        self._lock = threading.Lock()
        self._is_over = False
        self._is_settled = False
        self._finished: threading.Event | None = None  # there is none where the issuing thread completes it
        self._completing: int | None = None  # thread
        self._error: BaseException | None = None
        self._future: torch.futures.Future | None = None
        # Functions of the work, not bound to it: a handle must go when its last user lets go, not at some garbage
        # collection, because with it go tensors.
        self.on_fence: Callable[[HcclWork], None] = HcclWork.join
        self.waits = STREAM
        self.has_inline_callbacks = False
        self._fence: Fence | None = None

    # -- for whoever runs the operation --------------------------------------------------------------------

    def becomes_asynchronous(self) -> threading.Event:
        """Another thread will complete it, and then set this event."""
        self._finished = threading.Event()
        return self._finished

    def complete(self, error: BaseException | None = None) -> None:
        """The operation is over; with an error, every wait raises it."""
        with self._lock:
            self._error = error
            self._is_over = True
            self._completing = threading.get_ident()
            future = self._future
        if future is not None:
            self._fill(future)

    def describe(self) -> str:
        return self._description()

    def put_fence(self, extents: Sequence[Extent]) -> None:
        """Have the card wait before it uses that memory."""
        self._fence = interop.add_fence(lambda: self.on_fence(self), extents)

    # -- dist.Work -----------------------------------------------------------------------------------------

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end; results may be used afterwards.

        Raises:
            CollectiveError: the operation failed; or is not over after `timeout` (none or zero: the group's
            time-out).
        """
        release(self)
        if self._is_settled:
            return True
        if self._is_awaited():
            seconds = timeout.total_seconds() if timeout is not None else 0.0
            if not self._wait_finished(seconds if seconds > 0 else None):
                raise CollectiveTimeout(f"{self._description()} is not over after wait({seconds:g} s)")
        self.join()
        return True

    def _is_awaited(self) -> bool:
        # A callback of the future runs in the completing thread, which cannot wait for itself.
        finished = self._finished
        return finished is not None and not finished.is_set() and self._completing != threading.get_ident()

    def _wait_finished(self, seconds: float | None = None) -> bool:
        return self._finished is None or self._finished.wait(seconds)

    def join(self) -> None:
        """Wait for the end and account it."""
        if self._is_awaited():
            self._wait_finished()
        fence, self._fence = self._fence, None
        if fence is not None:
            fence.drop()  # with an error, too: who waits is told, and no later use of the memory once more
        self._ledger.settle(self._sequence, self.waits)
        if self._error is not None:
            # A new one, so that tracebacks of several waiters do not pile up on it.
            raise collective_error(self._error) from self._error
        self._is_settled = True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._is_over

    def is_success(self) -> bool:
        return self._is_over and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._outputs

    def get_future(self) -> torch.futures.Future:
        """A future of the list of output tensors."""
        with self._lock:
            if self._future is not None:
                return self._future
            future: torch.futures.Future
            if self.has_inline_callbacks and self._finished is not None:
                future = CollectiveFuture(self._finished)
            else:
                future = torch.futures.Future()
            self._future = future
            is_over = self._is_over
        if is_over:
            self._fill(future)
        return future

    def _fill(self, future: torch.futures.Future) -> None:
        if self._error is None:
            future.set_result(self._outputs)
        else:
            future.set_exception(collective_error(self._error))


@untraced
class _Done(dist.Work):
    """Of an operation that was waited for as it was issued: there is nothing more to ask of it."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True


DONE = _Done()


class CoalescedWork(dist.Work):
    """Several operations as one."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait(timeout) if timeout is not None else work.wait()
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def result(self) -> list[torch.Tensor]:
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> torch.futures.Future:
        """A future of all output tensors; waits for them."""
        self.wait()
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self.result())
        return future
