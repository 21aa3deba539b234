"""How a job went, and the phases that it goes through."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Phase(Enum):
    """The phases of a job, in order. The value names it for people."""

    RAY = "starting Ray"
    CARDS = "starting cards"
    SCRIPT = "running"
    END = "ending"


@dataclass
class Outcome:
    """How a job went."""

    status: int
    """Exit status: the first failing rank's, or 128 + signal where the job was interrupted."""
    failure: str | None
    """Which rank failed first and why."""
    interrupted: int | None
    """The signal that ended the job."""
    wall_clock: dict[str, float] = field(default_factory=dict)
    """Seconds that each phase took on this machine, by the phase's name in lower case. Not reproducible."""
