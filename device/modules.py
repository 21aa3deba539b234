"""Which cards of the box a process may use.

`HABANA_VISIBLE_DEVICES` (the container runtime's variable: `all`, `none`, or device indexes) and
`HABANA_VISIBLE_MODULES` (the application's: module ids, one per OAM slot) both choose; the latter is the narrower one
and wins where both are set. In an emulated box device index and module id are the same number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .errors import ConfigurationError

BOX_CARDS = 8  # HLS-1, HLS-2 and HLS-3 carry eight cards each
BOX_VARIABLE = "HPUCLUSTER_BOX"
"""Which of several boxes emulated on this machine holds the card, counted from 0."""


def _parse_list(variable: str, text: str) -> list[int]:
    chosen: list[int] = []
    for part in text.split(","):
        item = part.strip()
        if not item.isdecimal():
            raise ConfigurationError(
                f"{variable}={text!r}: {item!r} is not a card index; use 'all', 'none' or a list such as 0,1,5"
            )
        index = int(item)
        if index >= BOX_CARDS:
            raise ConfigurationError(
                f"{variable}={text!r}: there is no card {index}; a box has {BOX_CARDS} cards, 0 to {BOX_CARDS - 1}"
            )
        if index in chosen:
            raise ConfigurationError(f"{variable}={text!r}: card {index} is named twice; name each card once")
        chosen.append(index)
    return chosen


def visible_modules(environ: Mapping[str, str] | None = None) -> list[int]:
    """Module ids that this process may use, in the order in which they were named; empty for `none`.

    Raises:
        ConfigurationError: a value that is not a list of existing, different cards; an empty value.
    """
    environ = os.environ if environ is None else environ
    for variable in ("HABANA_VISIBLE_MODULES", "HABANA_VISIBLE_DEVICES"):
        text = environ.get(variable)
        if text is None:
            continue
        if not text.strip():
            raise ConfigurationError(
                f"{variable} is set but empty; use 'all', 'none' or a list such as 0,1,5, or unset it"
            )
        if text.strip() == "all":
            return list(range(BOX_CARDS))
        if text.strip() == "none":
            return []
        return _parse_list(variable, text)
    return list(range(BOX_CARDS))


def own_module(environ: Mapping[str, str] | None = None) -> int:
    """Module id of the card that this process acquires: HLS_MODULE_ID, else by local rank, else the first visible."""
    environ = os.environ if environ is None else environ
    text = environ.get("HLS_MODULE_ID")
    if text is not None and text.strip().isdecimal():
        return int(text)
    modules = visible_modules(environ)
    local_rank = environ.get("LOCAL_RANK", "0")
    index = int(local_rank) if local_rank.isdecimal() else 0
    if not modules:
        raise ConfigurationError("no card is visible (HABANA_VISIBLE_DEVICES=none); name one, or use 'all'")
    return modules[index % len(modules)]


def slot(module: int, environ: Mapping[str, str] | None = None) -> int:
    """The number of a card among all that this machine emulates, of however many boxes."""
    text = (os.environ if environ is None else environ).get(BOX_VARIABLE, "")
    return module + BOX_CARDS * (int(text) if text.isdecimal() else 0)


def own_rank(environ: Mapping[str, str] | None = None) -> int:
    """Rank of this process: RANK, else OMPI_COMM_WORLD_RANK, else 0."""
    environ = os.environ if environ is None else environ
    for variable in ("RANK", "OMPI_COMM_WORLD_RANK"):
        text = environ.get(variable, "")
        if text.isdecimal():
            return int(text)
    return 0
