"""How a benchmark's driver tells ranks what to run: lines of JSON over a local socket.

A rank that waits for an order sleeps in the kernel, so that ranks of one library do not take the cores from
those of another between turns.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

ADDRESS, STORE = "COLLECTIVES_ORDERS", "COLLECTIVES_STORE"
RANK, RANKS = "COLLECTIVES_RANK", "COLLECTIVES_RANKS"
"""Environment variables: paths of the socket and of the rendezvous; place and number of ranks, where no launcher says
so.
"""

FLOAT = 4
"""Bytes of an element; all data is float32."""


def elements(nbytes: int, ranks: int) -> tuple[int, int]:
    """Elements of a tensor of `nbytes`, and of a block where it is divided among ranks (at least one each)."""
    count = max(1, nbytes // FLOAT)
    return count, max(1, count // ranks)


def serve(rank: int, prepare: Callable[[str, int], Callable[[], Any]], meet: Callable[[], Any]) -> None:
    """Run orders until the driver hangs up.

    `prepare(op, nbytes)` returns what runs the operation once; `meet` is a barrier. The answer is the seconds per
    repetition.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ[ADDRESS])
    stream = connection.makefile("rw")
    print(json.dumps(rank), file=stream, flush=True)
    prepared: dict[tuple[str, int], Callable[[], Any]] = {}
    for line in stream:
        op, nbytes, repeats = json.loads(line)
        run = prepared.get((op, nbytes))
        if run is None:
            prepared.clear()  # one set of tensors at a time
            run = prepared[op, nbytes] = prepare(op, nbytes)
        meet()
        begin = time.perf_counter()
        for _ in range(repeats):
            run()
        taken = (time.perf_counter() - begin) / repeats
        print(json.dumps(taken), file=stream, flush=True)
