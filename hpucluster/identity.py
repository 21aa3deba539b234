"""Who a card is: its rank, its module, its kind, and the names under which monitoring knows it."""

from __future__ import annotations

from dataclasses import dataclass

from device.environment import DEFAULT_SOFTWARE
from device.spec import CardSpec

from .job import Job


@dataclass(frozen=True)
class CardIdentity:
    """One card of a job."""

    rank: int
    module: int
    """Module id: the OAM slot in its box."""
    spec: CardSpec
    software: str = DEFAULT_SOFTWARE
    """Version of the emulated software, which the exporter calls the driver's."""

    @property
    def device(self) -> str:
        """Name of its device file: `accel3`."""
        return f"accel{self.module}"

    @property
    def serial(self) -> str:
        """Serial number. An emulated card has none of the maker's, so that nobody takes it for a real one."""
        return f"EMULATED{self.module:02d}"

    @property
    def uuid(self) -> str:
        """The same on every run: product and module."""
        return f"EMULATED-{self.spec.product}-{self.module:02d}"


def identify(job: Job, spec: CardSpec) -> list[CardIdentity]:
    """The cards of `job`, by rank."""
    software = job.environ.get("HPUCLUSTER_SOFTWARE") or DEFAULT_SOFTWARE
    return [CardIdentity(rank, module, spec, software) for rank, module in enumerate(job.modules)]
