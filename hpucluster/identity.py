"""Who a card is: its rank, its module, its kind, and the names under which monitoring knows it."""

from __future__ import annotations

from dataclasses import dataclass

from collectives.roce.network import Network
from collectives.roce.place import places
from device.board import Firmware, firmware_of
from device.card_records import CardPorts
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
    ports: CardPorts
    """Its RoCE ports, as the job's network has them."""
    software: str = DEFAULT_SOFTWARE
    """Version of the emulated software, which the exporter calls the driver's."""

    @property
    def firmware(self) -> Firmware:
        """Versions of its driver and firmware."""
        return firmware_of(self.software)


def device_file(module: int) -> str:
    """Name of a card's device file in /dev/accel: `accel3`. Device index and module id are the same number here."""
    return f"accel{module}"


def serial_number(module: int) -> str:
    """Serial number. An emulated card has none of the maker's, so that nobody takes it for a real one."""
    return f"EMULATED{module:02d}"


def unique_id(product: str, module: int) -> str:
    """UUID of a card: product and module."""
    return f"EMULATED-{product}-{module:02d}"


def identify(job: Job, spec: CardSpec) -> list[CardIdentity]:
    """The cards of `job`, by rank.

    Raises:
        ConfigurationError: the job does not say what its network is, and the environment's cannot be used.
    """
    software = job.environ.get("HPUCLUSTER_SOFTWARE") or DEFAULT_SOFTWARE
    ranks = range(job.world_size)
    network = Network.from_plain(job.network) if job.network else Network.of_environment(spec, job.world_size)
    stand = places(ranks, {rank: job.module(rank) for rank in ranks}, network.cards_per_box)
    return [
        CardIdentity(rank, job.modules[rank], spec, network.ports(stand[rank]), software=software) for rank in ranks
    ]
