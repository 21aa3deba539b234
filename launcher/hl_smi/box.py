"""The cards that `hl-smi` and `habana-metric-exporter` show: one box of each kind that processes of this machine hold,
an idle one where none does.

Several jobs of `hpurun`, or processes with HPUCLUSTER_SHARED_CARDS=1, may hold cards of the same module; such a card
shows what all do together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from device.board import BoardSpec, load_board
from device.card_records import CardKind, CardRecord
from device.modules import BOX_CARDS, visible_modules
from device.power import Temperatures, temperatures
from device.spec import chosen_card
from hpucluster.identity import device_file, serial_number, unique_id

MIB = 2**20


@dataclass(frozen=True)
class Aip:
    """One card, an "AI processor" in this tool's words, and the processes that hold it."""

    index: int
    module: int
    box: int
    kind: CardKind
    holders: tuple[CardRecord, ...]

    @property
    def board(self) -> BoardSpec:
        return load_board(self.kind.box)

    @property
    def bus_id(self) -> str:
        """PCI address: domain:bus:device.function."""
        return self.board.address(self.module, self.box)

    @property
    def device(self) -> str:
        return device_file(self.index)

    @property
    def serial(self) -> str:
        return serial_number(self.index)

    @property
    def uuid(self) -> str:
        return unique_id(self.kind.product, self.index)

    @property
    def memory_total(self) -> int:
        """MiB."""
        return self.kind.memory_bytes // MIB

    @property
    def pool_bytes(self) -> int:
        """Bytes of the holders' pools; a process takes its whole pool at once."""
        return sum(record.memory.limit for record in self.holders)

    @property
    def memory_used(self) -> int:
        """MiB that the driver has given away: the firmware's, and the holders' pools."""
        return min(self.memory_total, (self.board.memory.firmware_bytes + self.pool_bytes) // MIB)

    @property
    def memory_free(self) -> int:
        """MiB."""
        return self.memory_total - self.memory_used

    @property
    def memory_allocated(self) -> int:
        """MiB that tensors and workspaces hold of the pools."""
        return sum(record.memory.in_use for record in self.holders) // MIB

    @property
    def memory_peak(self) -> int:
        """MiB that tensors and workspaces held at most."""
        return sum(record.memory.peak for record in self.holders) // MIB

    @property
    def load(self) -> float:
        """Share of the modelled time in which the card computed of late, 0 to 1."""
        return min(1.0, sum(record.utilization for record in self.holders))

    @property
    def utilization(self) -> int:
        """The same in percent."""
        return round(100 * self.load)

    @property
    def watts(self) -> float:
        """Modelled power of late."""
        power = self.kind.power
        above_idle = sum(record.power_w - power.idle_w for record in self.holders)
        return min(power.limit_w, max(power.idle_w, power.idle_w + above_idle))

    @property
    def temperatures(self) -> Temperatures:
        """Modelled, at that power."""
        return temperatures(self.kind.power, self.watts)


def attached(records: Iterable[CardRecord]) -> list[Aip]:
    """The cards, box by box. HPUCLUSTER_CARD names a kind that is shown in any case.

    HABANA_VISIBLE_DEVICES limits them, as the container runtime gives a container only those devices;
    HABANA_VISIBLE_MODULES does not, which is between an application and its libraries.

    Raises:
        ConfigurationError: HPUCLUSTER_CARD or HABANA_VISIBLE_DEVICES cannot be used.
    """
    held = list(records)
    variable = "HABANA_VISIBLE_DEVICES"
    visible = visible_modules({variable: os.environ[variable]} if variable in os.environ else {})
    found: list[Aip] = []
    first = 0
    for box, kind in enumerate(_kinds(held)):
        by_module: dict[int, list[CardRecord]] = {module: [] for module in range(BOX_CARDS)}
        for record in held:
            if same_kind(record.kind, kind):
                by_module.setdefault(record.module, []).append(record)
        for module, holders in sorted(by_module.items()):
            if module in visible or (module >= BOX_CARDS and len(visible) == BOX_CARDS):
                found.append(Aip(first + module, module, box, kind, tuple(holders)))
        first += max(by_module) + 1
    return found


def _kinds(held: list[CardRecord]) -> list[CardKind]:
    """The kinds of card to show, the user's own first."""
    own = CardKind.of(chosen_card())
    candidates = [own] if os.environ.get("HPUCLUSTER_CARD") else []
    kinds: list[CardKind] = []
    for kind in candidates + [record.kind for record in held]:
        if not any(same_kind(kind, other) for other in kinds):
            kinds.append(kind)
    return sorted(kinds, key=lambda kind: not same_kind(kind, own)) or [own]


def same_kind(one: CardKind, other: CardKind) -> bool:
    """Whether two cards are of one kind, and so may stand in one box."""
    return (one.name, one.product) == (other.name, other.product)
