"""HPUCLUSTER_REPORT=FOLDER: a process that held a card leaves the card's report there, whoever started the process.

`hpurun --report` gathers all ranks in one file; this is for `torchrun`, `accelerate launch`, `mpirun` and the like. The
file is `rank<R>.json`: `Card.report()` and the rank. It is written while the process runs, too, so that one which its
launcher kills leaves what it had done by then; Ray ends its workers so.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from .card import Card
from .errors import ConfigurationError

VARIABLE = "HPUCLUSTER_REPORT"
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Who is told by which launcher: torchrun and its kind, Open MPI, MPICH and Intel MPI."""

PERIOD = 1.0
"""Seconds between two reports of a process that runs."""

LARGEST_SHARE = 0.01
"""Share of the time that making reports may take."""


def report_folder(environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder for reports, made where it does not exist; None where none is asked for.

    Raises:
        ConfigurationError: the folder can be neither found nor made.
    """
    text = (os.environ if environ is None else environ).get(VARIABLE)
    if not text:
        return None
    folder = Path(text).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{VARIABLE}={text!r} cannot be made a folder: {error.strerror}") from error
    return folder


def rank_of(environ: Mapping[str, str]) -> int:
    """The rank that a launcher has given this process; 0 without one."""
    for name in RANK_VARIABLES:
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    return 0


def write_report(card: Card, folder: Path) -> Path:
    """Write the card's report, aside first. Raises OSError."""
    rank = rank_of(os.environ)
    target = folder / f"rank{rank}.json"
    aside = folder / f".{target.name}.{os.getpid()}"
    with aside.open("w", encoding="utf-8") as file:
        json.dump({"rank": rank, **card.report()}, file, indent=1)
        file.write("\n")
    aside.replace(target)
    return target


class ReportThread(threading.Thread):
    """Writes the card's report every `PERIOD` seconds in which the card has done something, until `finish`."""

    def __init__(self, card: Card, folder: Path) -> None:
        super().__init__(name="hpu-report", daemon=True)
        self._card = card
        self.folder = folder
        self._stopped = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        previous, period = None, PERIOD
        while not self._stopped.wait(period):
            begin = time.monotonic()
            # OSError: told at the end. RuntimeError: the script changed a table while it was being read here.
            with contextlib.suppress(OSError, RuntimeError):
                figures = self._card.figures()
                if figures != previous:
                    self._write()
                    previous = figures
            period = max(PERIOD, (time.monotonic() - begin) / LARGEST_SHARE)

    def _write(self) -> None:
        with self._writing:
            if not self._stopped.is_set():
                write_report(self._card, self.folder)

    def finish(self) -> None:
        """Stop, and write the last report. Raises OSError."""
        with self._writing:
            self._stopped.set()
        write_report(self._card, self.folder)
