"""Tensors that a replay uses in place of those that a graph was captured with.

On the card a replay is given the addresses of other tensors. Here the graph is captured over stand-ins: host memory of
its own, which takes the values of the tensors that a replay is given, and gives back what the graph wrote to them.
Stand-ins count for nothing in the card's memory, and their copies take no modelled time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .backend import runtime
from .captured_graph import CapturedGraph
from .interop import extent_of


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory on the card."""
    return (
        tensor.device.type == "hpu"
        and tensor.numel() > 0
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    )


def _copy(destination: torch.Tensor, source: torch.Tensor) -> None:
    """On the host and at once, as values of the card's memory."""
    if runtime.settings().numerics:
        alias = runtime.bridge().host_alias
        alias(destination.detach()).copy_(alias(source.detach()))


@dataclass(eq=False)
class StandIn:
    """What stands for the marked input number `index`. `tensor` is that input, while it is needed."""

    index: int
    memory: torch.Tensor
    original: torch.Tensor
    tensor: torch.Tensor | None
    is_written: bool = False
    is_output: bool = False  # the captured call returned the input itself


class LentInputs:
    """The inputs of one captured graph that its replays replace."""

    def __init__(self) -> None:
        self._sizes: list[torch.Size] = []
        self._stand_ins: list[StandIn] = []

    @property
    def indices(self) -> set[int]:
        """Which of the marked inputs are replaced: whole tensors on the card that the graph uses."""
        return {stand_in.index for stand_in in self._stand_ins}

    def mark(self, tensors: Sequence[torch.Tensor]) -> None:
        """What follows in the capture uses stand-ins for those tensors, in which their values are."""
        seen = {_address(stand_in.original) for stand_in in self._stand_ins}
        for tensor in tensors:
            self._sizes.append(tensor.shape)
            if not _is_whole(tensor) or _address(tensor) in seen:
                continue
            original = tensor.detach()
            seen.add(_address(original))
            memory = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            runtime.bridge().require_residency(memory)
            _copy(memory, original)
            tensor.data = memory
            self._stand_ins.append(StandIn(len(self._sizes) - 1, memory, original, tensor))

    def restore(self) -> None:
        """The tensors have their own memory again."""
        for stand_in in self._stand_ins:
            if stand_in.tensor is not None:
                stand_in.tensor.data = stand_in.original
            stand_in.tensor = None

    def captured(self, graph: CapturedGraph) -> None:
        """The capture has ended: keep the stand-ins that it uses."""
        self.restore()
        written = graph.written() if self._stand_ins else set()
        used = [stand_in for stand_in in self._stand_ins if graph.touches(_address(stand_in.memory))]
        for stand_in in used:
            stand_in.is_written = _address(stand_in.memory) in written
            if stand_in.is_written and not graph.dry_run:
                _copy(stand_in.original, stand_in.memory)
        self._stand_ins = used
        sizes = {_address(stand_in.memory): stand_in.memory.untyped_storage().nbytes() for stand_in in used}
        graph.uncounted.update(sizes)
        runtime.card().captures.uncount(sizes)

    def returned(self, outputs: Sequence[torch.Tensor]) -> None:
        """The call's outputs: an input that is one of them shows the values of each replay, too. No other is kept."""
        addresses = {_address(output) for output in outputs if output.device.type == "hpu"}
        for stand_in in self._stand_ins:
            stand_in.is_output = _address(stand_in.original) in addresses
            if not stand_in.is_output:
                stand_in.original = stand_in.memory

    def run(self, graph: CapturedGraph, tensors: Sequence[torch.Tensor], replay: Callable[[], None]) -> None:
        """Replay with those tensors, in the order in which they were marked.

        Raises:
            RuntimeError: too few, or one has other sizes than that which it stands for.
        """
        if len(tensors) < len(self._sizes):
            raise RuntimeError(
                f"the graph was captured with {len(self._sizes)} marked inputs, and {len(tensors)} were given to "
                "replayV3(); give as many, in the same order"
            )
        for index, (size, tensor) in enumerate(zip(self._sizes, tensors, strict=False)):
            if tensor.shape != size:
                raise RuntimeError(
                    f"input {index} has sizes {tuple(tensor.shape)}, and the graph was captured with {tuple(size)}; "
                    "capture another graph for other sizes"
                )
        lent = [(stand_in, tensors[stand_in.index]) for stand_in in self._stand_ins]
        for stand_in, tensor in lent:
            if tensor.device.type != "hpu":
                raise RuntimeError(f"input {stand_in.index} is on {tensor.device}; move it to hpu before the replay")
        card = runtime.card()
        card.flush("replay")
        graph.lent = {_address(tensor) for _, tensor in lent}
        for stand_in, tensor in lent:
            card.fences.before_extent(extent_of(tensor))
            _copy(stand_in.memory, tensor)
        replay()
        for stand_in, tensor in lent:
            if stand_in.is_written:
                runtime.bridge().require_residency(tensor)
                _copy(tensor, stand_in.memory)
            if stand_in.is_output:
                _copy(stand_in.original, stand_in.memory)


def run_with(
    graph: CapturedGraph, static: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], replay: Callable[[], None]
) -> None:
    """Replay with `tensors` in place of the captured `static`, which keep their values.

    Raises:
        RuntimeError: not one for each, or other sizes.
    """
    if len(static) != len(tensors):
        raise RuntimeError(
            f"replayV2() was given {len(tensors)} tensors for {len(static)} static ones; give one for each"
        )
    for index, (old, new) in enumerate(zip(static, tensors, strict=True)):
        if old.shape != new.shape:
            raise RuntimeError(
                f"tensor {index} has sizes {tuple(new.shape)}, and the static one {tuple(old.shape)}; "
                "capture another graph for other sizes"
            )
    card = runtime.card()
    card.flush("replay")
    written = graph.written()
    for tensor in (*static, *tensors):
        card.fences.before_extent(extent_of(tensor))
    graph.lent = {_address(tensor) for tensor in tensors}
    kept = [torch.empty_like(tensor) for tensor in static]
    for old, new, aside in zip(static, tensors, kept, strict=True):
        _copy(aside, old)
        _copy(old, new)
    replay()
    for old, new, aside in zip(static, tensors, kept, strict=True):
        if _address(old) in written:
            _copy(new, old)
        _copy(old, aside)
