"""Ends a wait that cannot succeed: a needed rank is gone, or the time is over."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence

from .errors import CollectiveError, CollectiveTimeout, PeerLost
from .transport.membership import Membership


class Guard:
    """Watches one operation.

    `what` names it in messages (`all_reduce(SUM) #7 of float32[4] in process group 0`); `timeout_s` counts
    from now, in seconds; `last_seen(rank)` says what a late rank did last.
    """

    def __init__(
        self,
        membership: Membership,
        what: Callable[[], str],
        timeout_s: float,
        last_seen: Callable[[int], str] | None = None,
    ) -> None:
        self._membership = membership
        self._what = what
        self._last_seen = last_seen
        self._places: Sequence[int] | None = None
        self.timeout_s = timeout_s
        self.deadline = time.monotonic() + timeout_s

    def within(self, places: Sequence[int], grace_s: float) -> Guard:
        """The same for waits among the ranks at `places` of the group, in which a rank counts by its index there.

        It allows `grace_s` seconds more: a rank that waits for others in turn names them first.
        """
        guard = copy.copy(self)
        guard._places = places
        guard.deadline += grace_s
        return guard

    @property
    def what(self) -> str:
        return self._what()

    def __call__(self, late: Callable[[], list[int]]) -> None:
        """Called while ranks are late; `late()` lists them (places in the group).

        Raises:
            PeerLost: a missing rank has died, failed or left.
            CollectiveTimeout: the time is over.
            CollectiveError: this rank itself has left the group meanwhile.
        """
        places = self._places
        missing = late if places is None else lambda: [places[index] for index in late()]
        if self._membership.closed_because:
            raise CollectiveError(f"{self.what}: this rank has left the group: {self._membership.closed_because}")
        troubles = {rank: text for rank in missing() if (text := self._membership.trouble(rank))}
        if troubles:
            # It may have done its part just before it went.
            for rank in missing():
                if rank in troubles:
                    raise PeerLost(f"{self.what}: {troubles[rank]}")
        if time.monotonic() > self.deadline and (laggards := missing()):
            seen = ""
            if self._last_seen:
                seen = " (" + "; ".join(self._last_seen(rank) for rank in laggards) + ")"
            raise CollectiveTimeout(
                f"{self.what} timed out after {self.timeout_s:g} s waiting for {self._membership.name_ranks(laggards)}"
                f"{seen}; every rank of the group must call it. More time: init_process_group(timeout=...) or "
                "HPUCLUSTER_COLLECTIVE_TIMEOUT (seconds)"
            )

    def of_peer(self, peer: int) -> Callable[[Callable[[], list[int]]], None]:
        """The same for waits in which only one rank can be missing, whatever is counted."""
        return lambda missing: self(lambda: [peer] if missing() else [])
