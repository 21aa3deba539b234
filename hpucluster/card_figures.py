"""What the Prometheus exporter tells of one card, wherever that comes from: a job's snapshots, or the public records of
the machine's processes (`launcher/machine_cards.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from device.board import BoardSpec, Firmware, load_board
from device.card_records import CardKind, CardPorts
from device.power import Temperatures, busy_seconds, energy_joules, power_watts, temperatures

from .identity import CardIdentity
from .snapshots import Snapshot


@dataclass(frozen=True)
class CardFigures:
    """One card at one moment; all rates and energies in modelled time."""

    number: int
    """Index of the card on its machine, from which its device file, serial number and UUID follow."""
    rank: int | None
    """Its rank in the job; None where several jobs may hold it."""
    kind: CardKind
    firmware: Firmware
    ports: CardPorts
    pool_bytes: int = 0
    """Bytes of the pools that processes took; a process takes its whole pool at once."""
    utilization: float = 0.0
    """Share of the time in which the card computed, 0 to 1."""
    power_w: float = 0.0
    energy_j: float = 0.0
    """Never falls."""
    received: int = 0
    """Bytes that came over PCIe. Never falls."""
    sent: int = 0
    """Bytes that went over PCIe. Never falls."""
    received_per_s: float = 0.0
    """Bytes per second."""
    sent_per_s: float = 0.0
    """Bytes per second."""

    @property
    def board(self) -> BoardSpec:
        """Its board, as management tools see it."""
        return load_board(self.kind.box)

    @property
    def memory_used(self) -> int:
        """Bytes that the driver has given away: the firmware's and the pools."""
        return min(self.kind.memory_bytes, self.board.memory.firmware_bytes + self.pool_bytes)

    @property
    def temperatures(self) -> Temperatures:
        """Degrees Celsius, at that power."""
        return temperatures(self.kind.power, self.power_w)


def of_snapshot(card: CardIdentity, snapshot: Snapshot | None) -> CardFigures:
    """The figures of a job's card, means over the run so far. None: the rank's script has not used it yet."""
    kind = CardKind.of(card.spec)
    if snapshot is None:
        return CardFigures(card.module, card.rank, kind, card.firmware, card.ports, power_w=kind.power.idle_w)
    seconds, busy = snapshot["time"]["total"], busy_seconds(snapshot)
    pcie = snapshot.get("pcie", {"received": 0, "sent": 0})
    return CardFigures(
        card.module,
        card.rank,
        kind,
        card.firmware,
        card.ports,
        pool_bytes=snapshot["memory"]["limit"],
        utilization=snapshot["utilization"],
        power_w=power_watts(kind.power, busy, seconds),
        energy_j=energy_joules(kind.power, busy, seconds),
        received=pcie["received"],
        sent=pcie["sent"],
        received_per_s=per_second(pcie["received"], seconds),
        sent_per_s=per_second(pcie["sent"], seconds),
    )


def per_second(amount: float, seconds: float) -> float:
    """A mean rate; 0 where no time has passed."""
    return amount / seconds if seconds > 0 else 0.0
