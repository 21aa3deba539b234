"""What a card's process loads of the harness, once its environment says which card it is.

Loaded after the environment is set (see `actor`), because the device reads it when it loads.
"""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401 - registers the hpu device and the hccl process group
from device.backend import runtime
from device.card import current_card

from .snapshots import Snapshot

runtime.bridge()  # built here where it is missing: a machine that cannot is told before the script starts


def figures() -> Snapshot | None:
    """The figures of this process's card; None where the script has not used the device."""
    card = current_card()
    return None if card is None else card.figures()


def report() -> Snapshot | None:
    """The whole report of this process's card; None where the script has not used the device."""
    card = current_card()
    return None if card is None else card.report()
