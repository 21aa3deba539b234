"""A process that holds a card tells the machine: it keeps a public record of it, which `hl-smi` and
`habana-metric-exporter` read.

A thread of its own looks at the card's report about once a second and writes the record where it has changed. The
record disappears with the process, also where that is killed: readers see that it has ended. A process forked from the
holder does not hold the card and leaves the record alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import modules
from .card_records import (
    HEARTBEAT,
    NOT_TOLD,
    CardKind,
    CardPorts,
    CardRecord,
    PcieBytes,
    PoolUse,
    folders,
    publish,
    withdraw,
)
from .liveness import ProcessId
from .power import busy_seconds, energy_joules, temperatures
from .spec import CardSpec

PERIOD = 1.0
"""Seconds between two looks at the card."""

LARGEST_SHARE = 0.01
"""Share of the time that looking may take."""

PATIENCE = 10.0
"""Seconds without modelled progress after which the card counts as idle."""

Report = Mapping[str, Any]

_ports = NOT_TOLD


def tell_ports(ports: CardPorts) -> None:
    """What the record of this process's card, which it may not hold yet, says of its RoCE ports from now on."""
    global _ports
    _ports = ports


class Presence:
    """The public record of this process's card.

    `report`: what `Card.report()` returns; called from another thread.
    """

    def __init__(self, spec: CardSpec, module: int, report: Callable[[], Report]) -> None:
        self._report = report
        self._activity = Activity(spec)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._folders = folders()  # as of now: the script may change its environment
        self._path: Path | None = None
        self._record = _first_record(spec, module)

    def start(self) -> None:
        """Write the record and keep it up to date until `stop`, or the end of the process.

        The report is not asked for here: the card may be in the middle of what it was taken for.
        """
        atexit.register(self.stop)
        try:
            self._publish(self._record)
        except OSError as error:
            where = error.filename or "its record's folder"
            print(f"hpu: hl-smi cannot show this card: {where}: {error.strerror}", file=sys.stderr)
        threading.Thread(target=self._run, name="hpu-presence", daemon=True).start()

    def stop(self) -> None:
        """Remove the record. In a process forked from the holder, nothing happens."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._stopped.set()
            if self._path is not None:
                withdraw(self._path)
                self._path = None

    def _run(self) -> None:
        period = 0.0
        while not self._stopped.wait(period):
            begin = time.monotonic()
            # OSError: told at the start. RuntimeError: the script changed a table while it was being read here.
            with contextlib.suppress(OSError, RuntimeError):
                self._update()
            # A report may grow with the run, and takes its time from the script.
            period = max(PERIOD, (time.monotonic() - begin) / LARGEST_SHARE)

    def _update(self) -> None:
        record = replace(self._activity.apply(self._record, self._report(), time.monotonic()), ports=_ports)
        if self._path is None or record != self._record or time.time() - record.updated >= HEARTBEAT:
            self._publish(record)

    def _publish(self, record: CardRecord) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            self._record = replace(record, updated=time.time())
            path = publish(self._record, self._folders)
            if self._path is not None and self._path != path:
                withdraw(self._path)  # its folder is full
            self._path = path


class Activity:
    """What a card did of late: between the last two looks at which its modelled time had moved on."""

    def __init__(self, spec: CardSpec) -> None:
        self._power = spec.power
        self._total = 0.0
        self._busy = 0.0
        self._energy = 0.0
        self._progress = float("-inf")
        self._utilization = 0.0
        self._watts = spec.power.idle_w

    def apply(self, record: CardRecord, report: Report, moment: float) -> CardRecord:
        """The record with the report's figures; `moment`: seconds of this machine's clock."""
        total = float(report["time"]["total"])
        busy = float(report["utilization"]) * total
        energy = energy_joules(self._power, busy_seconds(report), total)
        passed = total - self._total
        if passed > 0:
            self._utilization = min(1.0, max(0.0, (busy - self._busy) / passed))
            self._watts = (energy - self._energy) / passed
            self._total, self._busy, self._energy, self._progress = total, busy, energy, moment
        elif moment - self._progress > PATIENCE:
            self._utilization, self._watts = 0.0, self._power.idle_w
        felt = temperatures(self._power, self._watts)
        memory, pcie = report["memory"], report["pcie"]
        return replace(
            record,
            memory=PoolUse(memory["limit"], memory["in_use"], memory["peak"]),
            pcie=PcieBytes(pcie["received"], pcie["sent"]),
            steps=report["steps"],
            utilization=self._utilization,
            power_w=self._watts,
            chip_c=felt.chip,
            board_c=felt.board,
            energy_j=energy,
            modelled_s=total,
        )


def _first_record(spec: CardSpec, module: int) -> CardRecord:
    now = time.time()
    return CardRecord(
        process=ProcessId.of_this_process(),
        user="",  # readers put the file's owner here
        command=command_name(sys.orig_argv),
        module=modules.slot(module),
        rank=modules.own_rank(),
        world_size=_world_size(),
        job=os.environ.get("HPUCLUSTER_JOB_ID") or os.environ.get("TORCHELASTIC_RUN_ID") or "",
        started=now,
        updated=now,
        kind=CardKind.of(spec),
        ports=_ports,
        memory=PoolUse(spec.hbm.pool_bytes, 0, 0),
        pcie=PcieBytes(0, 0),
        steps=0,
        utilization=0.0,
        power_w=spec.power.idle_w,
        chip_c=spec.power.chip_idle_c,
        board_c=spec.power.board_idle_c,
        energy_j=0.0,
        modelled_s=0.0,
    )


def command_name(arguments: list[str]) -> str:
    """`python train.py` of a command line: the interpreter and the script or module, without folders and arguments."""
    if not arguments:
        return "python"
    program = os.path.basename(arguments[0])
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in ("-m", "-c"):
            return f"{program} -m {next(rest, '')}" if argument == "-m" else f"{program} -c"
        if argument in ("-W", "-X"):
            next(rest, None)
        elif not argument.startswith("-"):
            return f"{program} {os.path.basename(argument)}"
    return program


def _world_size() -> int:
    for variable in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"):
        text = os.environ.get(variable, "")
        if text.isdecimal():
            return int(text)
    return 1
