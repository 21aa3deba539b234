"""A private Ray for one job: started with it, seen by nobody else, gone with it.

It never attaches to a Ray cluster that the environment names. Ray is told to leave out what a job on one
machine does not need (dashboard, autoscaler, log forwarding); where a Ray version has no public switch for
that, the part is left out by replacing the internal function that starts it, if that function exists. Without
these replacements a job runs the same, about three seconds slower on two cores, and Ray adds lines of its own.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import site
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ray
from ray import cloudpickle
from ray._private import node as ray_node
from ray._private import worker as ray_worker
from ray._private.accelerators import hpu as ray_hpu

from habana_frameworks import _shield

from . import bootstrap
from .job import Job
from .placement import LOOPBACK

# By value: a worker might find the user's module of this name instead of ours.
cloudpickle.register_pickle_by_value(bootstrap)

_ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_OWN_ERROR = re.compile(r"^device\.errors\.\w+: (.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)

OBJECT_STORE_BYTES = 80 * 2**20
"""Ray's object store: its least size. Nothing large passes through it."""

_PRELOAD = "torch"
"""What Ray's workers import while Ray still starts: the slowest part of a card's start."""

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Memory is the machine's and the kernel's matter: Ray would kill ranks at 95 % of it.
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_preload_python_modules": _PRELOAD,
    "RAY_worker_niceness": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_task_events_report_interval_ms": "0",
}


class EmbeddedRay:
    """Ray on this machine with one `HPU` resource for each card of a job.

    `folder`: where Ray keeps its files; a short path, because its Unix sockets lie there.
    `environ`: the environment of its workers, as the ranks will have it.
    """

    def __init__(self, folder: Path, job: Job, environ: dict[str, str]) -> None:
        self._folder = folder
        self._cards = job.world_size
        # Ray takes these for its own numbers of cards, which are a box's modules or 0, 1, ...
        visible = ",".join(map(str, job.modules))
        self._visible = {} if job.has_several_boxes else {"HABANA_VISIBLE_MODULES": visible}
        self._environ = environ

    def start(self) -> None:
        """Start Ray. Raises what Ray raises. Must run in the main thread: Ray's processes end with their
        parent.
        """
        outside = {k: v for k, v in self._environ.items() if not k.startswith("RAY_")}
        environ = {**outside, **_SETTINGS, **self._visible}
        environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray keeps one in the user's home
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        environ["PYTHONPATH"] = os.pathsep.join(_module_folders(self._environ.get("PYTHONPATH", "")))
        # Ray puts the working directory in front of its workers' path, where files of the user might bear our
        # names.
        with _environment(environ), _working_directory(self._folder), _signals_kept(), _lean_ray():
            ray.init(
                address="local",
                num_cpus=self._cards,  # so many workers start at once
                num_gpus=0,
                resources={"HPU": self._cards},
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.CRITICAL,
                _node_ip_address=LOOPBACK,
                _temp_dir=str(self._folder),
            )

    def create_cards(self, control_path: str) -> list[Any]:
        """Create one actor for each card, which connects to the control socket. Returns their handles."""
        create = ray.remote(bootstrap.CardActor).options(resources={"HPU": 1}, num_cpus=0, max_restarts=0)
        return [create.remote(control_path) for _ in range(self._cards)]

    def failed_cards(self, ready: list[Any]) -> str | None:
        """Why a card could not be created; None where Ray has given up none. `ready`: the cards' `ready()`
        calls.
        """
        done, _ = ray.wait(ready, num_returns=len(ready), timeout=0)
        for reference in done:
            try:
                ray.get(reference)
            except ray.exceptions.RayError as error:
                return self._worker_errors() or _ANSI_COLOUR.sub("", str(error)).strip()
        return None

    def _worker_errors(self) -> str:
        """What a worker that ended too early wrote on its standard error; empty where none wrote anything."""
        for log in sorted(self._folder.glob("session_latest/logs/worker-*.err")):
            if text := log.read_text(errors="replace").strip():
                return essence(text)
        return ""

    def stop(self) -> None:
        """End Ray and all its processes."""
        ray.shutdown()


def essence(trace: str) -> str:
    """The message of the device's own error in a traceback, which says all; else the whole traceback."""
    found = _OWN_ERROR.search(trace)
    return found.group(1).strip() if found else trace


def _module_folders(python_path: str) -> list[str]:
    """PYTHONPATH of Ray's workers: the caller's, absolute, and our own folder where no installation provides it."""
    folders = [os.path.abspath(folder) for folder in python_path.split(os.pathsep) if folder]
    if str(_shield.ROOT) not in site.getsitepackages():
        folders.append(str(_shield.ROOT))
    return folders


@contextmanager
def _environment(environ: dict[str, str]) -> Iterator[None]:
    former = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(former)


@contextmanager
def _working_directory(folder: Path) -> Iterator[None]:
    former = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(former)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep this process's own SIGTERM handler, which `ray.init` replaces."""
    handler: Callable[[int, FrameType | None], Any] | int | None = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def _lean_ray() -> Iterator[None]:
    """Leave out the parts of Ray that a private Ray on one machine has no use for."""

    def nothing(*_arguments: object, **_options: object) -> None:
        return None

    replacements: list[tuple[Any, str, Any]] = [
        (ray_node.Node, "start_monitor", nothing),
        (ray_node.Node, "start_api_server", nothing),
        (ray_node.Node, "start_log_monitor", nothing),
        # Prints what Ray thinks of a worker's death; the supervisor says it better.
        (ray_worker, "listen_error_messages", nothing),
        # Ray would load torch in the driver to ask the device for its name.
        (ray_hpu, "HPU_PACKAGE_AVAILABLE", False),
    ]
    former = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements if hasattr(owner, name)]
    for owner, name, value in replacements:
        if hasattr(owner, name):
            setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in former:
            setattr(owner, name, value)
