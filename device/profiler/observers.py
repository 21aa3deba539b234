"""Who is told of what a card does: any number of observers on one timeline."""

from __future__ import annotations

from ..network import Transfer
from ..observer import Observer
from ..timeline import Timeline


class Observers:
    """Tells several observers, in the order in which they were attached."""

    def __init__(self, members: tuple[Observer, ...]) -> None:
        self.members = members

    def host(self, name: str, start: float, end: float, thread: str) -> None:
        for member in self.members:
            member.host(name, start, end, thread)

    def launched(self, recipe: str, stream: int, enqueued: float, start: float, end: float) -> None:
        for member in self.members:
            member.launched(recipe, stream, enqueued, start, end)

    def copied(self, direction: str, nbytes: int, enqueued: float, start: float, end: float) -> None:
        for member in self.members:
            member.copied(direction, nbytes, enqueued, start, end)

    def collective(self, transfer: Transfer, exposed: float) -> None:
        for member in self.members:
            member.collective(transfer, exposed)

    def memory(self, moment: float, in_use: int, persistent: int, workspace: int) -> None:
        for member in self.members:
            member.memory(moment, in_use, persistent, workspace)

    def bridge(self, name: str, start: float, end: float) -> None:
        for member in self.members:
            member.bridge(name, start, end)


def _members(timeline: Timeline) -> tuple[Observer, ...]:
    present = timeline.observer
    if present is None:
        return ()
    return present.members if isinstance(present, Observers) else (present,)


def _install(timeline: Timeline, members: tuple[Observer, ...]) -> None:
    # None where nobody listens, and no fan-out where one does: the timeline's calls are on the hot path.
    timeline.observer = Observers(members) if len(members) > 1 else members[0] if members else None


def attach(timeline: Timeline, observer: Observer) -> None:
    """Tell `observer`, too; a second call changes nothing."""
    members = _members(timeline)
    if observer not in members:
        _install(timeline, (*members, observer))


def detach(timeline: Timeline, observer: Observer) -> None:
    """Tell `observer` no longer; one that is not attached is ignored."""
    _install(timeline, tuple(member for member in _members(timeline) if member is not observer))
