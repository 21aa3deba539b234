"""One rank's part in `scale_validation`."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from .job import Job
from .measure import timed
from .pairing import Pair
from .scale_validation import stages, verdict


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
