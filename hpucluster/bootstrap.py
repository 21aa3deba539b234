"""The Ray actor of a card, in a form that travels to the worker as it is.

It loads our modules through the shield, so that modules of the same name on the user's path are not taken for ours.
"""

from __future__ import annotations

import importlib
from typing import Any


class CardActor:
    """See `actor.CardHost`, which it loads."""

    def __init__(self, control_path: str) -> None:
        shield = importlib.import_module("habana_frameworks._shield")
        self._host: Any = shield.load("hpucluster.actor").CardHost(control_path)

    def ready(self) -> bool:
        """True once the card is ready; lets the driver see through Ray whether the actor was created."""
        return True

    def run(self) -> None:
        """Run the script and end the process."""
        self._host.run()
