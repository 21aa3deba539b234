"""One rank of a distributed job alone: PT_HPU_EMULATE_DISTRIBUTED=1 leaves communication out.

PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK=N, in addition, ends every rank but N at once, so that a job's launcher can be
used as it is. Results of collectives are those of the rank's own data, so losses mean nothing.
"""

from __future__ import annotations

import os
import sys

from device import flags
from device.errors import ConfigurationError


def is_distributed_emulation_enabled() -> bool:
    """Whether communication is left out."""
    return bool(flags.get("PT_HPU_EMULATE_DISTRIBUTED"))


def distributed_emulation_apply_if_enabled() -> None:
    """End this process, with status 0, if it is not the rank that is to run alone.

    Raises:
        ConfigurationError: the rank to keep, or this process's, is no number.
    """
    keep = str(flags.get("PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK"))
    if not keep or not is_distributed_emulation_enabled():
        return
    rank = os.environ.get("RANK", "")
    for name, text in (("PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK", keep), ("RANK", rank)):
        if not text.isdecimal():
            raise ConfigurationError(f"{name}={text!r} is no rank; emulating one rank of a job needs a number there")
    if int(keep) != int(rank):
        print(f"hpu: rank {keep} of the job runs alone; rank {rank} ends here", file=sys.stderr)
        sys.stdout.flush()
        sys.exit(0)
