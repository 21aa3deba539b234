"""`python spawn.py CARDS SCRIPT ARGUMENTS...`: what optimum-habana's example `gaudi_spawn.py` does with its options."""

from __future__ import annotations

import socket
import sys

from optimum.habana.distributed import DistributedRunner

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
cards = int(sys.argv[1])
runner = DistributedRunner([" ".join(sys.argv[2:])], world_size=cards, use_mpi=cards > 1, master_port=port)
sys.exit(runner.run())
