"""Looking into the card's memory. Figures go to the loggers PT_DEVMEM and PT_MEMLOG."""

from __future__ import annotations

from typing import Any

import torch

from device.backend import runtime
from device.card import Card, current_card
from device.loggers import Level, loggers
from device.memory.out_of_memory import size_text, tensor_of

GIGABYTE = 2**30
LARGEST = 1_000_000  # all of them
_started: dict[str, int] | None = None


def _card() -> Card | None:
    """The card with everything up to here accounted; None while the process has none."""
    card = current_card()
    if card is not None:
        card.flush("memory statistics")
        card.sync_memory()
    return card


def _live(card: Card) -> list[str]:
    """A line for each tensor that holds memory, the largest first."""
    rows = []
    for address, holding in card.memory.largest_holdings(LARGEST):
        tensor = tensor_of(holding, card.recipes.graph_named(holding.origin), card.memory.copy_at(address))
        where = f" from {tensor.where}" if tensor.where else ""
        rows.append(
            f"  {address:#x} {size_text(tensor.nbytes)}: {tensor.category} {tensor.dtype} {list(tensor.sizes)}{where}"
        )
    return rows


def _memstat_livealloc(msg: str = "") -> None:
    """Log the statistics and every tensor that holds memory; counts of allocations start anew."""
    card = _card()
    if card is None:
        return
    lines = [msg, *(f"  {name}: {value}" for name, value in card.memory.statistics.as_dict().items()), *_live(card)]
    loggers.log("PT_DEVMEM", Level.info, "\n".join(lines))
    card.memory.reset_accumulated()


def _memstat_devmem_start_collect(msg: str = "", show_cs: bool = True) -> None:
    """Log the statistics, and begin to look for what is not given back; `show_cs`: with source lines."""
    global _started
    card = _card()
    if card is None:
        return
    loggers.log("PT_DEVMEM", Level.info, f"{msg}\ncollecting statistics of memory from here on")
    _started = {} if not show_cs else dict.fromkeys(map(str, _addresses(card)), 1)
    card.memory.reset_accumulated()


def _addresses(card: Card) -> list[int]:
    return [address for address, _ in card.memory.largest_holdings(LARGEST)]


def _memstat_devmem_stop_collect(msg: str = "") -> None:
    """Log the statistics since the start, and the tensors of that time that still hold memory."""
    global _started
    card = _card()
    if card is None:
        return
    before, _started = _started or {}, None
    rows = [row for row in _live(card) if str(int(row.split()[0], 16)) not in before]
    lines = [msg, *(f"  {name}: {value}" for name, value in card.memory.statistics.as_dict().items()), *rows]
    loggers.log("PT_DEVMEM", Level.info, "\n".join(lines))


def _mem_log(msg: str) -> bool:
    """Log what is in use, in GB, where the logger PT_MEMLOG is enabled for debugging; returns whether it is."""
    if not loggers.enabled("PT_MEMLOG", Level.debug):
        return False
    statistics = runtime.card().sync_memory().statistics
    figures = {
        "used": statistics.in_use,
        "workspace": statistics.workspace,
        "persistent": statistics.in_use - statistics.workspace,
        "peak": statistics.peak,
    }
    text = ", ".join(f"{name} {value / GIGABYTE:.2f}gb" for name, value in figures.items())
    loggers.log("PT_MEMLOG", Level.debug, f"{msg}: {text}")
    return True


def _dump_memory_reporter() -> None:
    """Log the statistics, the free memory in pieces, and every tensor that holds memory."""
    card = _card()
    if card is not None:
        extended = card.memory.statistics.extended(card.memory.largest_free)
        lines = [*(f"  {name}: {value}" for name, value in extended.items()), *_live(card)]
        loggers.log("PT_DEVMEM", Level.info, "\n".join(["memory reporter", *lines]))


def get_tensor_info(tensor: torch.Tensor) -> tuple[int, int] | None:
    """(device address, bytes) of the storage behind a tensor; None for a tensor that is not on hpu."""
    if tensor.device.type != "hpu":
        return None
    storage: Any = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
