"""One rank of a distributed job alone: PT_HPU_EMULATE_DISTRIBUTED=1 leaves communication out.

PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK=N, in addition, ends every rank but N at once, so that a job's launcher can be
used as it is. Collectives give back what they were given, so losses mean nothing; their modelled time is left out, too.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch.distributed as dist

from device import flags
from device.errors import ConfigurationError

SINGLE_RANK = "PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK"


def is_distributed_emulation_enabled() -> bool:
    """Whether communication is left out."""
    return bool(flags.get("PT_HPU_EMULATE_DISTRIBUTED"))


def distributed_emulation_apply_if_enabled() -> None:
    """End this process, with status 0, if it is not the rank that is to run alone; else let it meet nobody.

    Raises:
        ConfigurationError: the rank to keep, or this process's, is no number.
    """
    keep = str(flags.get(SINGLE_RANK))
    if not keep or not is_distributed_emulation_enabled():
        return
    rank = os.environ.get("RANK", "")
    for name, text in ((SINGLE_RANK, keep), ("RANK", rank)):
        if not text.isdecimal():
            raise ConfigurationError(f"{name}={text!r} is no rank; emulating one rank of a job needs a number there")
    if int(keep) != int(rank):
        print(f"hpu: rank {keep} of the job runs alone; rank {rank} ends here", file=sys.stderr)
        sys.stdout.flush()
        sys.exit(0)
    # `torch.distributed.rendezvous` is the function of that name.
    rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
    rendezvous._create_c10d_store = lambda *arguments, **options: dist.HashStore()
