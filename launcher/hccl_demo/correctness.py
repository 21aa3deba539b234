"""Whether every element of a result is what it must be, and the line that says so."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from .inputs import CHUNK, value
from .job import Job
from .workload import Workload

SHOWN_ELEMENTS = 4
SHOWN_MISMATCHES = 8
"""Of one rank; the real program shows all of a bfloat16 result, and none of a float one."""


@dataclass
class Verdict:
    """`wrong` counts elements; `lines` is what to print."""

    wrong: int = 0
    lines: list[str] = field(default_factory=list)


def verify(job: Job, workload: Workload, size: int) -> Verdict:
    """Compare all of the workload's output, on the card, with what is expected of it."""
    verdict = Verdict()
    if not workload.is_checked:
        return verdict
    first: list[float] = []
    for low in range(0, workload.output.numel(), CHUNK):
        part = workload.output[low : low + CHUNK].cpu().float().numpy()
        first = first or part[:SHOWN_ELEMENTS].tolist()
        compare(job, workload.expected(np.arange(low, low + len(part))), part, low, verdict)
    if verdict.wrong > SHOWN_MISMATCHES:
        verdict.lines.append(f"... and {verdict.wrong - SHOWN_MISMATCHES} more, thisRankId={job.rank}")
    shown = value(job.rank, job.ranks, np.arange(min(SHOWN_ELEMENTS, size // job.settings.item_bytes)))
    verdict.lines.append(
        f"rank={job.rank} size={size} <{job.settings.data_type}>"
        f" Input Buffer {_listed(shown.tolist(), size // job.settings.item_bytes)}"
        f" Output Buffer {_listed(first, workload.output.numel())}"
        f" which is {'bad' if verdict.wrong else 'fine'}."
    )
    return verdict


def compare(job: Job, expected: np.ndarray, found: np.ndarray, low: int, verdict: Verdict) -> None:
    """Compare elements from index `low` on: floats must be equal, bfloat16 within the real program's tolerance, that
    is the number of ranks (at most 8) in 256ths of the value.
    """
    is_exact = job.dtype != torch.bfloat16
    coefficient = 0.0 if is_exact else min(job.ranks, 8) / 256
    difference, tolerance = np.abs(found - expected), np.abs(found) * coefficient
    bad = np.flatnonzero(~(difference <= tolerance))
    for index in bad[: max(0, SHOWN_MISMATCHES - verdict.wrong)]:
        verdict.lines.append(
            f"index={low + index}, expectedValue={expected[index]:g}, value={found[index]:g}, thisRankId={job.rank}, "
            f"tolerance={tolerance[index]:g}, difference={difference[index]:g}, accuracyCoefficient={coefficient:g}, "
            f"m_numberOfRanks={job.ranks}"
        )
    verdict.wrong += len(bad)


def _listed(values: list[float], elements: int) -> str:
    return "[" + "".join(f"{element:g} " for element in values) + ("..." if elements > SHOWN_ELEMENTS else "") + "]"
