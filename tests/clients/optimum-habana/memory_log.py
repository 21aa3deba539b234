"""`python memory_log.py LOG`: the memory figures that `GaudiTrainer` has logged, and whether they can be true."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

USED, PEAK, LIMIT = "memory_allocated (GB)", "max_memory_allocated (GB)", "total_memory_available (GB)"
LOGGED = 10
"""max_steps / logging_steps: what one rank logs."""

entries = [ast.literal_eval(line) for line in re.findall(r"\{'loss'.*?\}", Path(sys.argv[1]).read_text())]
assert len(entries) == LOGGED, f"{len(entries)} log entries with a loss; expected {LOGGED} of rank 0 alone"
for entry in entries:
    used, peak, limit = (float(entry[name]) for name in (USED, PEAK, LIMIT))
    # Weights, gradients and two moments of the optimizer are four times 4.6 million float32 values, 0.07 GB.
    assert 0.06 < used <= peak < 0.5 and 90 < limit < 96, entry
print("memory as logged:", {name: entries[-1][name] for name in (USED, PEAK, LIMIT)})
