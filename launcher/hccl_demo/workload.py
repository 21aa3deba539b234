"""What one rank does in one iteration of a test: its buffers on the card, its call, and what must come out."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist

from collectives.roce.bandwidth import network_factor

from . import catalogue
from .inputs import reduced_value, value
from .job import Job

REDUCE_OPS = {"sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class Workload(Protocol):
    """`source` and `output` are hpu tensors of shape [elements], maybe the same one. `call` names the result, `factor`
    is that of its network bandwidth.
    """

    source: torch.Tensor
    output: torch.Tensor
    call: str
    factor: float
    is_checked: bool
    """Whether `output` is defined on this rank, and worth a look."""
    is_described: bool
    """Whether this rank tells its figures."""

    def issue(self) -> None:
        """One iteration. The host need not wait for its end."""
        ...

    def expected(self, places: np.ndarray) -> np.ndarray:
        """What `output` must hold at these indexes."""
        ...


class Collective:
    """A collective operation of all members."""

    def __init__(self, job: Job, size: int) -> None:
        settings = job.settings
        test = catalogue.TESTS[settings.test]
        elements = size // settings.item_bytes
        self._job = job
        self._test = settings.test
        self._op = REDUCE_OPS[settings.reduction_op]
        self._inputs = test.input_elements(elements, job.ranks)
        outputs = test.output_elements(elements, job.ranks)
        self.source = torch.empty(self._inputs, dtype=job.dtype, device="hpu")
        self.output = self.source if test.is_in_place else torch.empty(outputs, dtype=job.dtype, device="hpu")
        self.call = test.call
        self.factor = network_factor(test.pattern, job.ranks)
        self.is_checked = {catalogue.BROADCAST: not job.is_root, catalogue.REDUCE: job.is_root}.get(settings.test, True)
        self.is_described = job.is_root

    def issue(self) -> None:
        group, root = self._job.group, self._job.settings.comm_root
        if self._test == catalogue.BROADCAST:
            dist.broadcast(self.output, root, group=group)
        elif self._test == catalogue.ALL_REDUCE:
            dist.all_reduce(self.output, self._op, group=group)
        elif self._test == catalogue.REDUCE:
            dist.reduce(self.output, root, self._op, group=group)
        elif self._test == catalogue.REDUCE_SCATTER:
            dist.reduce_scatter_single(self.output, self.source, self._op, group=group)
        elif self._test == catalogue.ALL_GATHER:
            dist.all_gather_single(self.output, self.source, group=group)
        else:
            dist.all_to_all_single(self.output, self.source, group=group)

    def expected(self, places: np.ndarray) -> np.ndarray:
        settings, ranks = self._job.settings, self._job.ranks
        members, block = np.array(settings.members), self._inputs // ranks
        if self._test == catalogue.BROADCAST:
            return value(settings.comm_root, ranks, places)
        if self._test == catalogue.ALL_GATHER:
            return value(members[places // self._inputs], ranks, places % self._inputs)
        if self._test == catalogue.ALL_TO_ALL:
            return value(members[places // block], ranks, places % block + self._job.place * block)
        if self._test == catalogue.REDUCE_SCATTER:
            places = places + self._job.place * block
        return reduced_value(settings.members, settings.reduction_op, places)
