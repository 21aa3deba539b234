"""A process that holds a card as far as `hl-smi` sees it: `card_holder.py KIND MODULE`, until its input ends."""

from __future__ import annotations

import sys

from device.presence import Presence
from device.spec import load_card

ALLOCATED = 3 * 2**30

if __name__ == "__main__":
    spec = load_card(sys.argv[1])
    report = {
        "memory": {"limit": spec.hbm.pool_bytes, "in_use": ALLOCATED, "peak": 5 * 2**30},
        "time": {"total": 2.0},
        "utilization": 0.25,
        "engines": {"MME": 0.5, "TPC": 0.25},
        "steps": 7,
    }
    Presence(spec, int(sys.argv[2]), lambda: report).start()
    print("ready", flush=True)
    sys.stdin.read()
