"""Ending the process with the card's state written down."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from device.card import current_card
from device.loggers import Level, folder, loggers

__all__ = ["dump_device_state_and_terminate"]

STATUS = 1


def dump_device_state_and_terminate(msg: str, flags: int = 0) -> NoReturn:
    """Write `msg` and what the card has done so far to `dfa_api.txt` in the folder of the logs, and end with status 1.

    `flags` has no effect, as on the real device.
    """
    loggers.log("PT_DEVICE", Level.critical, msg)
    path = folder() / "dfa_api.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    card = current_card()
    state = None if card is None else card.figures()
    path.write_text(f"{msg}\n{json.dumps(state, indent=2, default=str)}\n")
    print(f"hpu: {msg}; the card's state is in {path}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(STATUS)
