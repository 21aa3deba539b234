"""The tests of `hccl_demo`, their HCCL calls, data types and reductions.

Names: HabanaAI/hccl_demo (`hccl_demo.cpp`, `run_hccl_demo.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

BROADCAST, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "broadcast", "all_reduce", "reduce_scatter", "all_gather"
SEND_RECV, REDUCE, ALL_TO_ALL, SCALE_VALIDATION = "send_recv", "reduce", "all2all", "scale_validation"


@dataclass(frozen=True)
class Test:
    """`call` is HCCL's function, `pattern` the fabric model's name. `has_blocks`: the input has one for each rank."""

    call: str
    pattern: str
    has_blocks: bool = False

    @property
    def is_in_place(self) -> bool:
        """Whether PyTorch has this collective in place only; the real program has two buffers."""
        return self.pattern in (BROADCAST, ALL_REDUCE, REDUCE)

    def input_elements(self, elements: int, ranks: int) -> int:
        """Elements that one rank puts in, of the `elements` asked for: whole blocks where it has blocks."""
        return elements // ranks * ranks if self.has_blocks else elements

    def output_elements(self, elements: int, ranks: int) -> int:
        """Elements that one rank gets."""
        if self.pattern == ALL_GATHER:
            return elements * ranks
        if self.pattern == REDUCE_SCATTER:
            return elements // ranks
        return self.input_elements(elements, ranks)


TESTS: dict[str, Test] = {
    BROADCAST: Test("hcclBroadcast", BROADCAST),
    ALL_REDUCE: Test("hcclAllReduce", ALL_REDUCE),
    REDUCE_SCATTER: Test("hcclReduceScatter", REDUCE_SCATTER, has_blocks=True),
    ALL_GATHER: Test("hcclAllGather", ALL_GATHER),
    SEND_RECV: Test("hcclSendRecv", SEND_RECV),
    REDUCE: Test("hcclReduce", REDUCE),
    ALL_TO_ALL: Test("hcclAlltoAll", "all_to_all", has_blocks=True),
    SCALE_VALIDATION: Test("", SEND_RECV),
}
"""In the order in which `--list_tests` shows them."""

DATA_TYPES = {"float": 4, "bfloat16": 2}
"""Bytes of an element."""

REDUCTIONS = ("sum", "min", "max")
MEASURES = ("bw", "latency")
