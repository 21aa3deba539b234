"""A process that holds a card as far as `hl-smi` sees it: `card_holder.py KIND MODULE [PORTS]`, until its input ends.

PORTS: what its job's network says of the card's ports, `CardPorts` as JSON.
"""

from __future__ import annotations

import json
import sys
import time

from device.card_records import CardPorts, held_cards
from device.liveness import ProcessId
from device.presence import Presence, tell_ports
from device.spec import load_card

ALLOCATED = 3 * 2**30

if __name__ == "__main__":
    spec = load_card(sys.argv[1])
    report = {
        "memory": {"limit": spec.hbm.pool_bytes, "in_use": ALLOCATED, "peak": 5 * 2**30},
        "pcie": {"received": 2**20, "sent": 2**18},
        "time": {"total": 2.0},
        "utilization": 0.25,
        "engines": {"MME": 0.5, "TPC": 0.25},
        "steps": 7,
    }
    if len(sys.argv) > 3:
        tell_ports(CardPorts(**json.loads(sys.argv[3])))
    Presence(spec, int(sys.argv[2]), lambda: report).start()
    me = ProcessId.of_this_process()
    while not any(record.process == me and record.steps == 7 for record in held_cards()):
        time.sleep(0.005)
    print("ready", flush=True)
    sys.stdin.read()
