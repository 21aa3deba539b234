"""The test `scale_validation`: the bandwidth of every pair of ranks, one after another, against what ports carry."""

from __future__ import annotations

from collections.abc import Mapping

from collectives.roce.network import Network
from device.spec import chosen_card

from .pairing import Pair, scale_out_pairs, scale_up_pairs
from .printing import bandwidth
from .settings import Settings

MARGIN = 0.05  # HabanaAI/hccl_demo, SCALE_VALIDATION_MARGIN: a pair may fall short of the expected by this share


def expected_scale_up(settings: Settings) -> float:
    """Bytes per second between two cards of a box: their ports' line rate; where they meet at a switch, what is left of
    it on all ports.
    """
    box = Network.of_environment(chosen_card(), settings.nranks).box
    return box.ports_per_pair * box.ports.line_rate_bytes_per_s if box.pair_ports else box.scale_out_rate


Stage = tuple[str, list[Pair], float]


def stages(settings: Settings) -> list[Stage]:
    """(name, pairs, expected bytes per second) of what is measured: inside the groups, and between them."""
    found: list[Stage] = [("ScaleUp", list(scale_up_pairs(settings)), expected_scale_up(settings))]
    if settings.nranks > settings.ranks_per_node:
        found.append(("ScaleOut", list(scale_out_pairs(settings)), float(settings.scaleout_bw)))
    return found


def verdict(kind: str, pairs: list[Pair], rates: Mapping[Pair, float], expected: float) -> tuple[str, bool]:
    """What to print of the measured rates, in bytes per second, and whether all pairs are fast enough."""
    lines = [f"{kind} - Expected {bandwidth(expected)}"]
    slow = [pair for pair in pairs if rates[pair] < expected * (1 - MARGIN)]
    for sender, receiver in slow:
        rate = rates[sender, receiver]
        lines.append(
            f"{sender}-->{receiver}: Test failed, Actual BW does not meet the expectation"
            f" ({bandwidth(rate)} - {int(rate * 100 / expected)}% of expected BW)"
        )
    if not slow:
        lines.append("Test passed. The BW between all nodes meets the expectations")
    return "\n".join(lines) + "\n", not slow
