"""The test `send_recv`: every rank with one partner, or the pairs of `--ranks_list`."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist

import habana_frameworks.torch.core as htcore

from .catalogue import SEND_RECV, TESTS
from .inputs import value
from .job import Job
from .pairing import partners


class Swap:
    """One message out and one in per iteration, at the same time."""

    is_checked = True
    is_described = True
    call = TESTS[SEND_RECV].call
    factor = 1.0

    def __init__(self, job: Job, size: int) -> None:
        elements = size // job.settings.item_bytes
        self.source = torch.empty(elements, dtype=job.dtype, device="hpu")
        self.output = torch.empty(elements, dtype=job.dtype, device="hpu")
        self._ranks = job.ranks
        self._origin, self._target = partners(job.settings, job.rank)
        self._is_alone = self._target == job.rank
        if self._is_alone:
            self.issue()  # the first graph on fresh memory differs from all later ones, which the warm-up compiles

    def issue(self) -> None:
        if self._is_alone:
            self.output.copy_(self.source)
            htcore.mark_step()  # each iteration is a graph, and the same one
        else:
            exchange([(self.source, self._target)], [(self.output, self._origin)])

    def expected(self, places: np.ndarray) -> np.ndarray:
        return value(self._origin, self._ranks, places)


class Pairs:
    """The messages of `--ranks_list` that concern this rank. Its network bandwidth counts what it receives."""

    is_checked = False

    def __init__(self, job: Job, size: int) -> None:
        elements = size // job.settings.item_bytes
        pairs = job.settings.ranks_list
        self.source = torch.empty(elements, dtype=job.dtype, device="hpu")
        self._targets = [receiver for sender, receiver in pairs if sender == job.rank]
        self._origins = [sender for sender, receiver in pairs if receiver == job.rank]
        self._outputs = [torch.empty_like(self.source) for _ in self._origins]
        self.output = self._outputs[0] if self._outputs else self.source
        self.call = f"{TESTS[SEND_RECV].call}_rank_{job.rank}"
        self.factor = float(len(self._origins))
        self.is_described = bool(self._origins)

    def issue(self) -> None:
        sends = [(self.source, target) for target in self._targets]
        exchange(sends, list(zip(self._outputs, self._origins, strict=True)))

    def expected(self, places: np.ndarray) -> np.ndarray:
        return np.zeros(len(places))


Messages = list[tuple[torch.Tensor, int]]


def exchange(sends: Messages, receives: Messages) -> None:
    """Messages to and from ranks, all at once."""
    operations = [dist.P2POp(dist.isend, tensor, peer) for tensor, peer in sends]
    operations += [dist.P2POp(dist.irecv, tensor, peer) for tensor, peer in receives]
    for work in dist.batch_isend_irecv(operations) if operations else ():
        work.wait()
