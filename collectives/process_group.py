"""`HcclProcessGroup`: the torch.distributed process group of emulated cards.

Every method has the card run what it has recorded so far (so that the data is there) and issues one
operation. hpu tensors are the rule; CPU tensors are taken too, and cost no modelled time. Old and new names
of the same method (`_allgather_base`, `all_gather_single`) are both here, for PyTorch uses either.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from device import interop
from device.backend.untraced import untraced
from device.card import current_card
from device.environment import flag
from device.fences import Extent

from . import recorded
from .calls import movements, reductions
from .calls.checks import check_peer, check_tensor, single
from .calls.options import options
from .calls.staging import Staging
from .communicator import Communicator
from .data_movement import moves_data
from .errors import CollectiveError, CollectiveTimeout
from .identity import Identity
from .operation import Operation
from .point_to_point import Message, PointToPoint
from .work import CoalescedWork, HcclWork

Tensors = Sequence[torch.Tensor]


@untraced
class HcclProcessGroup(Identity):
    """A group of ranks, on one machine or several.

    `store` is the rendezvous store with this group's prefix; `ranks` are the members as the whole job counts
    them (empty: all); `timeout` bounds the rendezvous and every operation; `device_types` is what
    `torch.distributed` may use the group for.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        ranks: Sequence[int] = (),
        name: str = "",
        device_types: Sequence[str] = ("hpu",),
    ) -> None:
        super().__init__(rank, size, name, device_types)
        self._store = store
        self._coalescing: list[dist.Work] | None = None
        members = list(ranks) or list(range(size))
        self.communicator = Communicator(store, rank, members, name or "0", timeout.total_seconds())
        self._channels = PointToPoint(self.communicator)
        self._is_recording = interop.records_collectives()

    def _records(self, *tensors: torch.Tensor) -> bool:
        """Whether a collective of these becomes part of the recorded graph."""
        return (
            self._is_recording
            and self._coalescing is None
            and moves_data()
            and all(tensor.device.type == "hpu" and tensor.numel() for tensor in tensors)
        )

    # -- reductions ----------------------------------------------------------------------------------------

    def allreduce(
        self, tensors: Any, opts: Any = None, *, op: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        """Reduce in place; every rank gets the same bits."""
        opts = options(dist.AllreduceOptions, opts, op=op, timeout=timeout)
        tensor = single(tensors, "all_reduce")
        if self._records(tensor):
            return recorded.all_reduce(self.communicator, tensor, opts.reduceOp)
        return self._issue(reductions.all_reduce(self.communicator, "all_reduce", [tensor], opts.reduceOp), opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        """`allreduce` of several tensors as one operation."""
        opts = options(dist.AllreduceOptions, opts)
        name = "all_reduce_coalesced"
        return self._issue(reductions.all_reduce(self.communicator, name, tensors, opts.reduceOp), opts)

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None, *, root: int | None = None) -> dist.Work:
        """Reduce to the root; the other ranks' tensors stay as they are."""
        opts = options(dist.ReduceOptions, opts, root, op)
        root, tensor = self._root(opts, "reduce"), single(tensors, "reduce")
        return self._issue(reductions.all_reduce(self.communicator, "reduce", [tensor], opts.reduceOp, root), opts)

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, op: Any = None) -> dist.Work:
        """Block r of the list is reduced at rank r."""
        name = "reduce_scatter"
        blocks = input_tensors if isinstance(input_tensors[0], torch.Tensor) else single(input_tensors, name)
        return self._reduce_scatter(name, [(single(output_tensors, name), blocks)], opts, op)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> dist.Work:
        """The input's r-th part (along dimension 0) is reduced at rank r."""
        if self._records(output, input):
            made = options(dist.ReduceScatterOptions, opts)
            return recorded.reduce_scatter(self.communicator, output, input, made.reduceOp)
        return self._reduce_scatter("reduce_scatter_tensor", [(output, input)], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Several `reduce_scatter_single` as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        return self._reduce_scatter("reduce_scatter_tensor_coalesced", pairs, opts)

    def _reduce_scatter(
        self, name: str, pairs: Sequence[tuple[torch.Tensor, Any]], opts: Any, op: Any = None
    ) -> dist.Work:
        opts = options(dist.ReduceScatterOptions, opts, op=op)
        return self._issue(reductions.reduce_scatter(self.communicator, name, pairs, opts.reduceOp), opts)

    # -- gathers -------------------------------------------------------------------------------------------

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> dist.Work:
        """Every rank's tensor, in a list on every rank."""
        name = "all_gather"
        is_flat = isinstance(output_tensors[0], torch.Tensor)
        outputs = list(output_tensors if is_flat else single(output_tensors, name))
        pairs = [(outputs, single(input_tensors, name))]
        return self._issue(movements.all_gather(self.communicator, name, pairs), opts)

    def allgather_coalesced(self, output_lists: Sequence[Tensors], input_list: Tensors, opts: Any = None) -> dist.Work:
        """Several `allgather` as one operation: `output_lists[r][k]` is rank r's k-th tensor."""
        pairs = [([outputs[k] for outputs in output_lists], source) for k, source in enumerate(input_list)]
        return self._issue(movements.all_gather(self.communicator, "all_gather_coalesced", pairs), opts)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> dist.Work:
        """Every rank's tensor, one after another in the output."""
        if self._records(output, input):
            return recorded.all_gather(self.communicator, output, input)
        pairs = [(output, input)]
        return self._issue(movements.all_gather(self.communicator, "all_gather_into_tensor", pairs), opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Several `all_gather_single` as one operation."""
        name = "all_gather_into_tensor_coalesced"
        pairs = list(zip(outputs, inputs, strict=True))
        return self._issue(movements.all_gather(self.communicator, name, pairs), opts)

    def gather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, root: int | None = None
    ) -> dist.Work:
        """Every rank's tensor, in a list at the root."""
        opts = options(dist.GatherOptions, opts, root)
        root = self._root(opts, "gather")
        outputs = single(output_tensors, "gather") if root == self.rank() else ()
        source = single(input_tensors, "gather")
        return self._issue(movements.gather(self.communicator, outputs, source, root), opts)

    # -- from one rank, all to all, barrier ----------------------------------------------------------------

    def broadcast(self, tensors: Any, opts: Any = None, *, root: int | None = None) -> dist.Work:
        """The root's tensor on every rank."""
        opts = options(dist.BroadcastOptions, opts, root)
        tensor, root = single(tensors, "broadcast"), self._root(opts, "broadcast")
        if self._records(tensor):
            return recorded.broadcast(self.communicator, tensor, root)
        return self._issue(movements.broadcast(self.communicator, tensor, root), opts)

    def scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, root: int | None = None
    ) -> dist.Work:
        """Block r of the root's list at rank r."""
        if flag("PT_HPU_ENABLE_LAZY_COLLECTIVES", False):
            raise CollectiveError("scatter is currently not supported with HCCL (PT_HPU_ENABLE_LAZY_COLLECTIVES=1)")
        opts = options(dist.ScatterOptions, opts, root)
        root = self._root(opts, "scatter")
        blocks = single(input_tensors, "scatter") if root == self.rank() else ()
        output = single(output_tensors, "scatter")
        return self._issue(movements.scatter(self.communicator, output, blocks, root), opts)

    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any = None) -> dist.Work:
        """Block s of rank r becomes block r of rank s."""
        return self._issue(movements.all_to_all(self.communicator, output_tensors, input_tensors), opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> dist.Work:
        """Rows of the input to every rank, by split sizes along dimension 0 (empty: equal parts)."""
        if not output_split_sizes and not input_split_sizes and self._records(output, input):
            return recorded.all_to_all(self.communicator, output, input)
        operation = movements.all_to_all_single(
            self.communicator, output, input, output_split_sizes or (), input_split_sizes or ()
        )
        return self._issue(operation, opts)

    def barrier(self, opts: Any = None) -> dist.Work:
        """Wait until every rank of the group has come here."""
        is_on_card = current_card() is not None
        return self._issue(movements.barrier(self.communicator, is_on_card), opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """`barrier` with a time-out of its own. The error names all ranks that did not come, on every rank that came,
        whatever `wait_all_ranks`.
        """
        opts = dist.BarrierOptions()
        opts.asyncOp = False
        opts.timeout = timeout or timedelta(seconds=self.communicator.timeout_s)
        try:
            self.barrier(opts)
        except CollectiveTimeout as error:
            raise CollectiveTimeout(f"monitored_barrier: {error}") from None

    # -- point to point ------------------------------------------------------------------------------------

    def send(self, tensors: Any, dst: int, tag: int = 0) -> dist.Work:
        """Send to a rank of the group; over when the receiver has come. Messages of a pair go in order."""
        message = self._message("send", tensors, dst, tag)
        return self._note(self._channels.send(message, dst), message.extents)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> dist.Work:
        """Receive from a rank of the group; number of elements, dtype and tag must be the sender's."""
        message = self._message("recv", tensors, src, tag)
        return self._note(self._channels.receive(message, src), message.extents)

    def _message(self, name: str, tensors: Any, peer: int, tag: int) -> Message:
        tensor, staging = single(tensors, name), Staging()
        check_tensor(tensor, name)
        check_peer(peer, self.size(), name)
        data = staging.source(tensor) if name == "send" else staging.target(tensor)
        whole = data.view("uint8")
        part = whole if moves_data(len(whole), staging.is_on_card) else whole[:0]
        nbytes = interop.bytes_on_card(len(whole), tensor.dtype) if staging.is_on_card else len(whole)
        return Message(tensor, part, nbytes, tag, staging.finish, staging.is_on_card, staging.extents)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> dist.Work:
        raise CollectiveError("HCCL cannot receive from any source: name one, dist.recv(tensor, src=rank)")

    # -- issuing -------------------------------------------------------------------------------------------

    def _issue(self, operation: Operation, opts: Any) -> dist.Work:
        timeout = getattr(opts, "timeout", None)
        if isinstance(timeout, timedelta) and timeout > timedelta(0):
            operation.timeout_s = timeout.total_seconds()
        is_awaited = getattr(opts, "asyncOp", True) is False and self._coalescing is None
        work = self.communicator.issue(operation, is_awaited)
        return work if is_awaited else self._note(work, operation.staging.extents)

    def _note(self, work: dist.Work, extents: Sequence[Extent]) -> dist.Work:
        if extents and isinstance(work, HcclWork):
            work.put_fence(extents)
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    def _start_coalescing(self, device: torch.device | None = None) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: torch.device | None = None) -> dist.Work:
        works, self._coalescing = self._coalescing or [], None
        return CoalescedWork(works)

    def _root(self, opts: Any, name: str) -> int:
        return check_peer(opts.rootRank, self.size(), name)

    # -- beginning and end ---------------------------------------------------------------------------------

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> HcclProcessGroup | None:
        """A group of some ranks of this one; None where this rank is not among them. All ranks call it."""
        self._splits += 1
        members = sorted(ranks)
        if self.rank() not in members:
            return None
        # PyTorch's name for it may differ between the ranks: it counts the groups that each of them is in.
        label = f"{self.communicator.label}-split{self._splits}-{'.'.join(map(str, members))}"
        group = HcclProcessGroup(
            dist.PrefixStore(f"{label}/", self._store),
            members.index(self.rank()),
            len(members),
            timeout or timedelta(seconds=self.communicator.timeout_s),
            [self.communicator.ranks[rank] for rank in members],
            label,
            self._devices,
        )
        group._set_group_name(group_name or label)
        group._set_group_desc(group_desc or f"{self._description}:split:{self._splits}")
        return group

    def shutdown(self) -> None:
        """End of `destroy_process_group`: finish what was issued, leave the group."""
        self.communicator.run_recorded()
        self.communicator.close("destroy_process_group")

    def abort(self) -> None:
        """Leave at once; what is under way fails here and elsewhere."""
        self.communicator.close("the group was aborted", drain_s=0.0)

    def set_timeout(self, timeout: timedelta) -> None:
        """Time-out of the operations from now on."""
        self.communicator.timeout_s = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def getRank(self) -> int:
        return self.communicator.rank

    def getSize(self) -> int:
        return self.communicator.size

    def _get_sequence_number_for_group(self) -> int:
        return self.communicator.sequence

    def _set_sequence_number_for_group(self) -> None:
        """Sequence numbers always start at 1."""

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing
