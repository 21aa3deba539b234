"""What a rank says about a collective before any data counts: enough to notice that ranks disagree."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import torch

from .arrival import Arrival

OPERATIONS = (
    "all_reduce",
    "all_reduce_coalesced",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_coalesced",
    "all_gather_into_tensor_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "send",
    "recv",
)
REDUCTIONS = ("", "SUM", "MIN", "MAX", "PRODUCT")
DTYPES = (
    torch.uint8,
    torch.int8,
    torch.bool,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
NO_ROOT = -1
_MAX_DIMS = 8
_NO_DTYPE = 255

# Equal on all ranks: sequence | operation, reduction, dtype | root | tensors, checksum of their lengths | all
# elements
_KEY = struct.Struct("<QBBBxiIIq")
# Told, not compared: arrival | dimensions and sizes of the first tensor. Libraries count elements, so a [6] may meet a
# [2, 3].
_ARRIVAL = struct.Struct("<dd")
_SHAPE = struct.Struct("<q8q")
_SEQUENCE = struct.Struct("<Q")
KEY_BYTES = ARRIVAL_OFFSET = _KEY.size
ARRIVAL_BYTES = _ARRIVAL.size
SHAPE_OFFSET = ARRIVAL_OFFSET + ARRIVAL_BYTES
TABLE_OFFSET = SHAPE_OFFSET + _SHAPE.size
"""Where things are in a header; the native data plane writes and compares headers too."""


class Signature(NamedTuple):
    """The part of a header that all ranks must share.

    `shapes` holds one shape per tensor (or per block of a list); only the first is named in messages. It is
    empty for collectives whose lengths may differ between ranks. `root` counts in the whole job.
    """

    operation: str
    reduction: str = ""
    dtype: torch.dtype | None = None
    root: int = NO_ROOT
    shapes: tuple[tuple[int, ...], ...] = ()


def header_bytes(ranks: int) -> int:
    """Room for one header in a group of so many ranks; its table holds 2 x ranks int64 (at least one)."""
    return -(-(TABLE_OFFSET + 16 * max(1, ranks)) // 64) * 64


@functools.lru_cache(maxsize=4096)
def packed(signature: Signature) -> tuple[bytes, bytes]:
    """Key without its sequence number, and shape, as they stand in a header."""
    shapes = signature.shapes
    lengths = [math.prod(shape) for shape in shapes]
    key = _KEY.pack(
        0,
        OPERATIONS.index(signature.operation),
        REDUCTIONS.index(signature.reduction),
        DTYPES.index(signature.dtype) if signature.dtype is not None else _NO_DTYPE,
        signature.root,
        len(shapes),
        zlib.crc32(repr(lengths).encode()),
        sum(lengths),
    )
    first = shapes[0] if shapes else ()
    dims = [*first[:_MAX_DIMS], *([0] * (_MAX_DIMS - len(first)))]
    return key[_SEQUENCE.size :], _SHAPE.pack(len(first), *dims)


def write(slot: memoryview, sequence: int, signature: Signature, arrival: Arrival, table: Sequence[int] = ()) -> bytes:
    """Write a header; returns its key, which must be equal on all ranks."""
    rest, shape = packed(signature)
    key = _SEQUENCE.pack(sequence) + rest
    slot[: _KEY.size] = key
    _ARRIVAL.pack_into(slot, _KEY.size, *arrival)
    slot[SHAPE_OFFSET:TABLE_OFFSET] = shape
    if table:
        struct.pack_into(f"<{len(table)}q", slot, TABLE_OFFSET, *table)
    return key


def pack_arrival(arrival: Arrival) -> bytes:
    return _ARRIVAL.pack(*arrival)


def unpack_arrivals(packed: bytes | ctypes.Array[ctypes.c_char]) -> list[Arrival]:
    """Arrivals that stand one after another."""
    return list(map(Arrival._make, _ARRIVAL.iter_unpack(packed)))


def read_arrival(slot: memoryview) -> Arrival:
    return Arrival._make(_ARRIVAL.unpack_from(slot, ARRIVAL_OFFSET))


def read_table(slot: memoryview, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}q", slot, TABLE_OFFSET)


def read_sequence(slot: memoryview) -> int:
    return _SEQUENCE.unpack_from(slot, 0)[0]


def read_payload(slot: memoryview) -> tuple[int, int]:
    """Dtype code and number of elements, which a send and its recv must share."""
    fields = _KEY.unpack_from(slot, 0)
    return fields[3], fields[7]


def describe(slot: memoryview) -> str:
    """A header in words: `all_reduce(SUM) #7 of float32[4, 3]`."""
    number, operation, reduction, dtype, root, count, _, elements = _KEY.unpack_from(slot, 0)
    ndim, *dims = _SHAPE.unpack_from(slot, SHAPE_OFFSET)
    name = OPERATIONS[operation] if operation < len(OPERATIONS) else "?"
    text = f"{name}({REDUCTIONS[reduction]})" if reduction else name
    text += f" #{number}"
    if root != NO_ROOT:
        text += {"send": f" to rank {root}", "recv": f" from rank {root}"}.get(name, f" with root {root}")
    if dtype == _NO_DTYPE:
        return text
    kind = str(DTYPES[dtype]).removeprefix("torch.")
    shape = f"{kind}[{', '.join(str(size) for size in dims[: min(ndim, _MAX_DIMS)])}]"
    if count > 1:
        return f"{text} of {count} tensors, {elements} elements, the first {shape}"
    return f"{text} of {shape}" if count else f"{text} of {kind}"
