"""`python spawn.py CARDS SCRIPT ARGUMENTS...`: what optimum-habana's example `gaudi_spawn.py` does with its options."""

from __future__ import annotations

import os
import sys

from optimum.habana.distributed import DistributedRunner

cards, port = int(sys.argv[1]), int(os.environ["PORT"])
runner = DistributedRunner([" ".join(sys.argv[2:])], world_size=cards, use_mpi=cards > 1, master_port=port)
sys.exit(runner.run())
