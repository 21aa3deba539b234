"""A job: which script runs, with what environment, on which cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from device.modules import BOX_CARDS


@dataclass(frozen=True)
class Job:
    """One run of a user's script on `len(modules)` cards, rank r on module `modules[r]`.

    Plain data only, so that it can be sent to another process as JSON.
    """

    target: str
    """Path of the script as the user gave it, or the module's name where `is_module`."""
    arguments: list[str]
    """What follows the script on the command line: `sys.argv[1:]`."""
    modules: list[int]
    """Where each rank's card is; index = rank: its module id (OAM slot), and 8 more for each box before its own."""
    card: str
    """Kind of card: `gaudi`, `gaudi2` or `gaudi3`."""
    cwd: str
    """Working directory of every rank."""
    environ: dict[str, str]
    """The caller's whole environment."""
    sys_path: list[str]
    """`sys.path` of every rank, without the script's own folder, which comes first."""
    identifier: str
    """Names the job, also in its files in shared memory: letters, digits, `-`."""
    is_module: bool = False
    network: dict[str, Any] | None = None
    """What joins the cards: `collectives.roce.network.Network.to_plain()`."""
    numerics: str = "on"
    host_time: str = "modelled"
    """`on`: tensors hold values; `off`: shapes, time and memory only."""
    threads: int | None = None
    """OMP_NUM_THREADS of every rank; None where the caller's environment has its own."""
    master_address: str = "127.0.0.1"
    master_port: int = 0
    """TCP port of the process group's rendezvous."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.modules)

    @property
    def accelerator_ids(self) -> list[int]:
        """Ray's number for each rank's card: its module id; over several boxes 0, 1, ..."""
        return list(range(self.world_size)) if self.has_several_boxes else list(self.modules)

    @property
    def has_several_boxes(self) -> bool:
        return max(self.modules) >= BOX_CARDS

    def box(self, rank: int) -> int:
        """The box that holds the rank's card, counted from 0."""
        return self.modules[rank] // BOX_CARDS

    def module(self, rank: int) -> int:
        """The module id of the rank's card in its box."""
        return self.modules[rank] % BOX_CARDS

    def neighbours(self, rank: int) -> list[int]:
        """The ranks whose cards are in the same box, in order: what one machine of a real cluster runs."""
        return [other for other in range(self.world_size) if self.box(other) == self.box(rank)]

    def card_name(self, rank: int) -> str:
        """`gaudi2, module 3`: how messages name the card of a rank."""
        box = f"box {self.box(rank)}, " if self.has_several_boxes else ""
        return f"{self.card}, {box}module {self.module(rank)}"
