"""Streams and events in modelled time.

A stream orders work; two streams share the card's compute engines and overlap with copies. An event is a mark in a
stream: it knows the modelled moment at which all that the stream had so far has ended.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from .backend import runtime
from .card import current_card
from .marks import NO_MARK
from .timeline import Timeline

_ids = itertools.count(1)
_DEVICE_TYPE = 20  # c10::DeviceType::PrivateUse1
# Any: the stubs' methods take PyTorch's own streams and events only.
_Stream: Any = torch.Stream
_Event: Any = torch.Event


class Stream(_Stream):
    """A queue of work on the card; one of PyTorch's, too, because its C++ takes any object for one."""

    def __new__(cls, device: Any = None, priority: int = 0, stream_id: int | None = None, **described: Any) -> Stream:
        """A new stream, or the one of that id. `described`: device_index, device_type and is_default_stream, which
        follow from the id.

        Raises:
            TypeError: another name.
        """
        unknown = set(described) - {"device_index", "device_type", "is_default_stream"}
        if unknown:
            raise TypeError(f"Stream has no argument {min(unknown)!r}")
        number = next(_ids) if stream_id is None else stream_id
        stream: Stream = super().__new__(cls, stream_id=number, device_index=0, device_type=_DEVICE_TYPE)
        return stream

    def __init__(self, device: Any = None, priority: int = 0, stream_id: int | None = None, **described: Any) -> None:
        self.priority = priority

    @property
    def hpu_stream(self) -> int:
        return self.stream_id

    def id(self) -> int:
        return self.stream_id

    def synchronize(self) -> None:
        """Wait for the stream's work."""
        runtime.marks.synchronize_stream(self.stream_id)

    def query(self) -> bool:
        """Whether all its work has ended in modelled time. Flushes; asking takes the host a moment, too."""
        return runtime.marks.query_stream(self.stream_id)

    def wait_event(self, event: Event | torch.Event) -> None:
        """Work from here on starts after `event`."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work from here on starts after what `stream` has."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event here; a new one where none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id))

    def __repr__(self) -> str:
        return f"<habana_frameworks.torch.hpu.Stream device=hpu:0 id={self.stream_id}>"


class Event(_Event):
    """A mark in a stream; see `Stream` for its base."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        runtime.bridge()  # which has to be there for an event of the device
        event: Event = super().__new__(cls, device=torch.device("hpu", 0), enable_timing=enable_timing)
        return event

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._mark = NO_MARK
        self._timeline: Timeline | None = None  # that has the mark

    def __del__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        if self._timeline is not None:
            self._timeline.forget(self._mark)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the end of all work that the stream (default: the current one) has so far."""
        mark = runtime.marks.record((stream or current_stream()).stream_id)
        self._forget()
        self._timeline, self._mark = runtime.card().timeline, mark

    def wait(self, stream: Stream | None = None) -> None:
        """Later work of the stream (default: the current one) starts after the mark, if there is one."""
        runtime.marks.block(self._mark, (stream or current_stream()).stream_id)

    def query(self) -> bool:
        """Whether the mark was reached in modelled time. Flushes; asking takes the host a moment, too."""
        return runtime.marks.query(self._mark)

    def synchronize(self) -> None:
        """Wait for the mark."""
        runtime.marks.synchronize(self._mark)

    def elapsed_time(self, end_event: Event) -> float:
        """Modelled milliseconds from this event to `end_event`.

        Raises:
            RuntimeError: one of them was not recorded, or was made without `enable_timing`.
        """
        for event, name in ((self, "start"), (end_event, "end")):
            if event._mark == NO_MARK:
                raise RuntimeError(f"the {name} event was not recorded; call record() before elapsed_time()")
            if not event.enable_timing:
                raise RuntimeError(f"the {name} event has no time; make it with Event(enable_timing=True)")
        return runtime.marks.elapsed(self._mark, end_event._mark)


_default = Stream(stream_id=0)
_current = _default


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to without any choice: id 0."""
    return _default


def current_stream(device: Any = None) -> Stream:
    """The chosen stream."""
    card = current_card()
    if card is None or card.stream == _current.stream_id:
        return _current
    return Stream(stream_id=card.stream)  # chosen by `with torch.Stream("hpu")`


def _check(stream: Any) -> None:
    if not isinstance(stream, torch.Stream) or stream.device.type != "hpu":
        raise TypeError(f"{stream!r} is no stream of the card; make one with torch.hpu.Stream()")


def set_stream(stream: Stream | None) -> None:
    """Choose the stream for what follows; None changes nothing.

    Raises:
        TypeError: no stream of the card.
    """
    global _current
    if stream is None:
        return
    _check(stream)
    if stream != current_stream():
        runtime.marks.choose(stream.stream_id)
        _current = stream


def set_stream_by_id(stream_id: int, device_index: int = 0, device_type: int = _DEVICE_TYPE) -> None:
    """Choose the stream of that id for what follows.

    Raises:
        ValueError: a stream of another device.
    """
    if device_index != 0 or device_type != _DEVICE_TYPE:
        raise ValueError(
            f"device index {device_index}, device type {device_type} is no stream of this process's card; that has "
            f"index 0 and type {_DEVICE_TYPE}"
        )
    set_stream(Stream(stream_id=stream_id))


def stream_info(stream: torch.Stream) -> tuple[torch.device, int]:
    """(device, id) of a stream."""
    return torch.device("hpu", 0), stream.stream_id


class StreamContext:
    """Chooses a stream for a block."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before = _default

    def __enter__(self) -> None:
        self._before = current_stream()
        if self.stream is not None:
            set_stream(self.stream)

    def __exit__(self, *exception: Any) -> None:
        if self.stream is not None:
            set_stream(self._before)


def stream(stream: Stream | None) -> StreamContext:
    """`with stream(s):` chooses `s` for the block; None changes nothing."""
    return StreamContext(stream)


def be_the_accelerators() -> None:
    """Have `torch.accelerator` give and take these streams: PyTorch's own would read an event as what it is not."""
    if torch._C._get_privateuse1_backend_name() != "hpu":
        return  # the device could not be built
    torch.accelerator.current_stream = current_stream  # type: ignore[assignment]
    torch.accelerator.set_stream = set_stream  # type: ignore[assignment]
