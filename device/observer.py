"""Who is told what a timeline does: profilers, as it is placed, and a log, of the calls."""

from __future__ import annotations

from typing import Protocol

from .network import Transfer


class Observer(Protocol):
    """Told of everything that takes modelled time, as it is placed: what a profiler records."""

    def host(self, name: str, start: float, end: float, thread: str) -> None:
        """The host does `name`; `thread` is "main" or "launch"."""

    def launched(self, recipe: str, stream: int, enqueued: float, start: float, end: float) -> None:
        """A recipe (or an eager kernel) was enqueued and will run on the card from `start` to `end`."""

    def copied(self, direction: str, nbytes: int, enqueued: float, start: float, end: float) -> None:
        """A copy over PCIe; `direction` is "h2d" or "d2h"."""

    def collective(self, transfer: Transfer, exposed: float) -> None:
        """A collective on the network, for whose end the card stood still for `exposed` seconds."""

    def memory(self, moment: float, in_use: int, persistent: int, workspace: int) -> None:
        """The card's memory as of `moment`, in bytes."""

    def bridge(self, name: str, start: float, end: float) -> None:
        """The bridge was in its function `name`, on the main thread."""


class Log(Protocol):
    """Takes down the calls."""

    def add(self, call: tuple[object, ...]) -> None: ...
