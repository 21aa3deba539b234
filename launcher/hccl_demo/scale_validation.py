"""The test `scale_validation`: the bandwidth of every pair of ranks, one after another, against what ports carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
import torch.distributed as dist

from collectives.roce.box import load_box
from device.spec import chosen_card

from .job import Job
from .measure import timed
from .printing import bandwidth
from .settings import Settings

MARGIN = 0.05  # HabanaAI/hccl_demo, SCALE_VALIDATION_MARGIN: a pair may fall short of the expected by this share

Pair = tuple[int, int]


def scale_up_pairs(settings: Settings) -> Iterator[Pair]:
    """(sender, receiver) within a scale-up group."""
    group = settings.scaleup_group_size
    for sender in range(settings.nranks):
        begin = sender // group * group
        yield from ((sender, peer) for peer in range(begin, min(begin + group, settings.nranks)) if peer != sender)


def scale_out_pairs(settings: Settings) -> Iterator[Pair]:
    """(sender, receiver) of the same place in different groups."""
    group = settings.scaleup_group_size
    for sender in range(settings.nranks):
        yield from ((sender, peer) for peer in range(sender % group, settings.nranks, group) if peer != sender)


def expected_scale_up() -> float:
    """Bytes per second between two cards of a box: their ports' line rate."""
    ports = load_box(chosen_card().box).ports
    return ports.per_pair * ports.line_rate_bytes_per_s


Stage = tuple[str, list[Pair], float]


def stages(settings: Settings) -> list[Stage]:
    """(name, pairs, expected bytes per second) of what is measured: inside the groups, and between them."""
    found: list[Stage] = [("ScaleUp", list(scale_up_pairs(settings)), expected_scale_up())]
    if settings.nranks > settings.ranks_per_node:
        found.append(("ScaleOut", list(scale_out_pairs(settings)), float(settings.scaleout_bw)))
    return found


def validate(job: Job, size: int) -> tuple[str, bool]:
    """Measure all pairs. Returns what the root prints, and whether all were fast enough."""
    text, is_fine = "", True
    for kind, pairs, expected in stages(job.settings):
        more, is_stage_fine = verdict(kind, pairs, _measured(job, size, pairs), expected)
        text, is_fine = text + more, is_fine and is_stage_fine
    return text, is_fine


def _measured(job: Job, size: int, pairs: list[Pair]) -> dict[Pair, float]:
    """Bytes per second of each pair, as the sender sees it."""
    buffer = torch.empty(size // job.settings.item_bytes, dtype=job.dtype, device="hpu")
    own: dict[Pair, float] = {}
    for sender, receiver in pairs:
        if job.rank == sender:
            own[sender, receiver] = size / timed(job, partial(dist.send, buffer, receiver))[0]
        elif job.rank == receiver:
            timed(job, partial(dist.recv, buffer, sender))
    rates: dict[Pair, float] = {}
    for found in job.gather(own):
        rates.update(found)
    return rates


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
