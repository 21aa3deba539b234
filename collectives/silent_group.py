"""A process group in which nothing is sent: each call is done at once, with the rank's own data as everybody's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from .identity import Identity

Tensors = Sequence[torch.Tensor]


def _done(tensors: Any = ()) -> dist.Work:
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(list(tensors))
    create: Any = vars(_distributed_c10d)["_create_work_from_future"]  # which PyTorch's stubs leave out
    work: dist.Work = create(future)
    return work


class SilentGroup(Identity):
    """The group of `size` ranks that rank `rank` believes to be in."""

    def allreduce(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        return _done(tensors)

    allreduce_coalesced = broadcast = reduce = allreduce

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        for gathered, own in zip(outputs, inputs, strict=True):
            for part in gathered:
                part.copy_(own)
        return _done(part for gathered in outputs for part in gathered)

    def _allgather_base(self, output: torch.Tensor, own: torch.Tensor, opts: Any = None) -> dist.Work:
        output.reshape(self.size(), -1).copy_(own.reshape(1, -1))
        return _done([output])

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        for output, own in zip(outputs, inputs, strict=True):
            self._allgather_base(output, own)
        return _done(outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> dist.Work:
        for output, parts in zip(outputs, inputs, strict=True):
            output.copy_(parts[self.rank()])
        return _done(outputs)

    def _reduce_scatter_base(self, output: torch.Tensor, own: torch.Tensor, opts: Any = None) -> dist.Work:
        output.reshape(-1).copy_(own.reshape(self.size(), -1)[self.rank()])
        return _done([output])

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        for output, own in zip(outputs, inputs, strict=True):
            self._reduce_scatter_base(output, own)
        return _done(outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        for output, own in zip(outputs, inputs, strict=True):
            output.copy_(own)
        return _done(outputs)

    def alltoall_base(self, output: torch.Tensor, own: torch.Tensor, *splits: Any) -> dist.Work:
        if output.numel() == own.numel():
            output.reshape(-1).copy_(own.reshape(-1))
        return _done([output])

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        return self.allgather(outputs, inputs) if outputs else _done()

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> dist.Work:
        return self.reduce_scatter(outputs, inputs) if inputs else _done(outputs)

    def send(self, tensors: Tensors, peer: int, tag: int) -> dist.Work:
        return _done(tensors)

    def recv(self, tensors: Tensors, peer: int, tag: int) -> dist.Work:
        return _done(tensors)

    def barrier(self, opts: Any = None) -> dist.Work:
        return _done()
