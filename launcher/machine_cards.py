"""The machine's cards as the Prometheus exporter tells of them: those that `hl-smi` shows, held by any process or idle.

Energy and PCIe bytes count what all processes did on a card that were seen to hold it: a card's counters do not fall
when a process ends, as a real card's do not.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from collectives.roce.network import Network
from device.board import Firmware
from device.card_records import CardRecord, held_cards
from device.liveness import ProcessId
from hpucluster.card_figures import CardFigures, per_second

from .hl_smi.box import Aip, attached
from .hl_smi.ports import network_of, ports_of


@dataclass(frozen=True)
class Counts:
    """What a process did on a card: joules, and bytes over PCIe."""

    energy_j: float
    received: int
    sent: int

    @classmethod
    def of(cls, record: CardRecord) -> Counts:
        return cls(record.energy_j, record.pcie.received, record.pcie.sent)


class MachineCards:
    """The cards of this machine, and what they have counted since this object first saw them. Thread-safe."""

    def __init__(self, firmware: Firmware) -> None:
        self._firmware = firmware
        self._lock = threading.Lock()
        self._seen: defaultdict[tuple[str, str, int], dict[ProcessId, Counts]] = defaultdict(dict)
        self._networks: dict[tuple[str, str], Network] = {}  # reading their files takes longer than all else

    def look(self) -> list[CardFigures]:
        """All cards, box by box.

        Raises:
            ConfigurationError: what the environment says of cards or network cannot be used.
        """
        with self._lock:  # whoever looks later must not count less
            return [self._figures(aip) for aip in attached(held_cards())]

    def _figures(self, aip: Aip) -> CardFigures:
        kind, name = aip.kind, (aip.kind.name, aip.kind.product)
        if name not in self._networks:
            self._networks[name] = network_of(kind)
        seen = self._seen[(*name, aip.module)]
        seen.update({record.process: Counts.of(record) for record in aip.holders})
        return CardFigures(
            aip.index,
            None,
            kind,
            self._firmware,
            ports_of(aip, self._networks[name]),
            pool_bytes=aip.pool_bytes,
            utilization=aip.load,
            power_w=aip.watts,
            energy_j=sum(counts.energy_j for counts in seen.values()),
            received=sum(counts.received for counts in seen.values()),
            sent=sum(counts.sent for counts in seen.values()),
            received_per_s=sum(per_second(record.pcie.received, record.modelled_s) for record in aip.holders),
            sent_per_s=sum(per_second(record.pcie.sent, record.modelled_s) for record in aip.holders),
        )
