"""One call of `hpurun` once its options are read: checks, metrics server, job, report, table, exit status."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from device.modules import BOX_CARDS
from hpucluster.cluster import RayStartError, run_job
from hpucluster.identity import identify
from hpucluster.job import Job
from hpucluster.metrics_server import MetricsServer
from hpucluster.outcome import Outcome
from hpucluster.placement import free_port, threads_per_rank
from hpucluster.report import Report, build_report, write_json
from hpucluster.snapshots import SnapshotBoard
from hpucluster.telemetry import build_registry

from .checks import check_environment, check_report, check_script, choose_card, choose_modules, choose_network
from .messages import UserError, readable, say
from .ports import problem
from .progress import Progress
from .summary import print_summary

TIMINGS_VARIABLE = "HPUCLUSTER_TIMINGS"
"""Environment variable: file that receives the seconds of each start-up phase, as JSON."""


@dataclass(frozen=True)
class Request:
    """What the user asked for on the command line."""

    target: str
    is_module: bool
    arguments: list[str]
    cards: int | None
    card: str
    numerics: str
    host_time: str
    report: str | None
    metrics_port: int
    metrics_port_chosen: bool
    """True where the user named the port, so that its being taken is an error instead of a warning."""


def run(request: Request, environ: dict[str, str], sys_path: list[str]) -> int:
    """Run what was asked for. Returns the exit status. Raises UserError.

    `environ`: the caller's environment. `sys_path`: what `sys.path` would hold after the script's own folder
    under plain python.
    """
    if not request.is_module:
        check_script(request.target)
    if request.report is not None:
        check_report(request.report)
    check_environment()
    spec = choose_card(request.card)
    network = choose_network(spec, request.cards or BOX_CARDS)
    modules = choose_modules(request.cards, environ, network.cards_per_box)
    job = Job(
        target=request.target,
        arguments=request.arguments,
        modules=modules,
        card=request.card,
        network=network.to_plain(),
        cwd=os.getcwd(),
        environ=environ,
        sys_path=sys_path,
        is_module=request.is_module,
        numerics=request.numerics,
        host_time=request.host_time,
        threads=threads_per_rank(environ, len(modules)),
        master_port=free_port(),
        identifier=f"{os.getpid()}-{secrets.token_hex(4)}",
    )
    board = SnapshotBoard(job.world_size)
    registry = build_registry(identify(job, spec), board)
    progress = Progress(f"{job.world_size} {spec.name} card{'s' if job.world_size > 1 else ''}")
    try:
        with _metrics(request, registry):
            outcome = run_job(job, board, progress.enter)
    except RayStartError as error:
        say(str(error))
        return 1
    finally:
        progress.stop()
    return _conclude(request, job, board, outcome)


def _conclude(request: Request, job: Job, board: SnapshotBoard, outcome: Outcome) -> int:
    report = build_report(job, board, outcome)
    status = outcome.status
    # Files before the table: whoever reads our output may have gone.
    if request.report is not None and not _write(request.report, report):
        status = status or 1
    if timings := job.environ.get(TIMINGS_VARIABLE):
        with contextlib.suppress(OSError):
            write_json(timings, outcome.wall_clock)
    with readable(sys.stdout):
        if outcome.status == 0 or any(card["used"] for card in report["cards"]):
            print_summary(report, sys.stdout, outcome.wall_clock)
            sys.stdout.flush()
    if outcome.failure is not None:
        say(outcome.failure)
    elif outcome.interrupted is not None:
        say(f"interrupted by {signal.Signals(outcome.interrupted).name}; all ranks have ended")
    return status


def _write(path: str, report: Report) -> bool:
    try:
        write_json(path, report)
    except OSError as error:
        say(f"--report {path}: cannot be written: {error.strerror}; choose another file")
        return False
    return True


@contextlib.contextmanager
def _metrics(request: Request, registry: CollectorRegistry) -> Iterator[None]:
    """Serve the metrics while entered, unless the port is 0 or, not being the user's choice, taken."""
    if request.metrics_port == 0:
        yield
        return
    try:
        server = MetricsServer(request.metrics_port, registry)
    except OSError as error:
        text = problem(request.metrics_port, error)
        if request.metrics_port_chosen:
            raise UserError(
                f"--metrics-port {request.metrics_port}: {text}; choose another, or --metrics-port 0 for none"
            ) from error
        say(f"no metrics: port {request.metrics_port}: {text}; choose another by --metrics-port, 0 for none")
        yield
        return
    with server:
        yield
