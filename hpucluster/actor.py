"""Hosts one card in a Ray actor's process and runs one rank of the user's script in its main thread.

All that a rank sends goes over its control channel (see `control`) and its two output pipes, so that it
arrives even if the process is killed. Through Ray pass only the channel's path and plain numbers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import ray
from ray._private.worker import shutdown as ray_exit_handler

from habana_frameworks import _shield

from . import leftovers, rank_process, script
from .control import Channel, Message, connect
from .snapshots import SnapshotThread

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a script that an uncaught KeyboardInterrupt ended."""


class CardHost:
    """One card. Created with the path of the driver's control socket; `run` ends the process."""

    def __init__(self, control_path: str) -> None:
        """Take the place that the driver gives to this card's module, and load the device.

        Raises nothing: what goes wrong is told to the driver, and the process ends with status 1.
        """
        accelerator = int(ray.get_runtime_context().get_accelerator_ids()["HPU"][0])
        self._channel = connect(control_path)
        self._channel.send({"event": "hello", "pid": os.getpid(), "accelerator": accelerator})
        self._place, descriptors = self._channel.receive(max_descriptors=3)
        self._become_rank(descriptors)
        try:
            self._host: Any = _shield.load("hpucluster.card_host")
        except Exception as error:
            if not getattr(error, "names_the_remedy", False):
                traceback.print_exc()
            self._fail(1, f"the emulated device could not be loaded: {_one_line(error)}")
            os._exit(1)
        self._channel.send({"event": "ready"})

    def _become_rank(self, descriptors: list[int]) -> None:
        rank_process.set_environment(self._place["environ"])
        os.chdir(self._place["cwd"])
        rank_process.redirect_streams(*descriptors)
        rank_process.reset_signals()
        rank_process.reset_hooks()
        os.register_at_fork(after_in_child=self._channel.close)
        raylet = os.getppid()
        leavings = [pid for pid in leftovers.descendants(raylet) if pid != os.getpid()]
        threading.Thread(
            target=_follow_driver,
            args=(self._channel, [raylet, *leavings], self._place),
            name="hpucluster-driver",
            daemon=True,
        ).start()
        _tell_exits(self._channel)

    def run(self) -> None:
        """Run the script, send the final snapshot and the exit status, and end the process."""
        # Ray sets variables of its own before each method call.
        rank_process.set_environment(self._place["environ"])
        snapshots = SnapshotThread(self._host.figures, self._host.report, self._channel)
        snapshots.start()
        with script.fresh_main() as main:
            status = self._run_script(main)
            rank_process.finish_interpreter(forget=(ray_exit_handler,))
        snapshots.finish()
        self._channel.send({"event": "ended", "status": status})
        os._exit(status)

    def _run_script(self, main: Any) -> int:
        place = self._place
        sys.path[:] = place["sys_path"]
        sys.orig_argv[:] = [sys.executable, *place["command"]]
        _shield.hide()
        try:
            if place["is_module"]:
                script.run_module(place["target"], place["arguments"])
            else:
                script.run_script(place["target"], place["arguments"], main)
        except SystemExit as error:
            status = rank_process.exit_code(error)
            if status != 0:
                number = isinstance(error.code, int)
                self._fail(status, f"exit status {status}" if number else _first_line(str(error.code)))
            return status
        except BaseException as error:
            rank_process.print_uncaught(error, script.user_traceback(error))
            status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
            self._fail(status, _one_line(error))
            return status
        return 0

    def _fail(self, status: int, error: str) -> None:
        self._channel.send({"event": "failed", "status": status, "error": error})


def _one_line(error: BaseException) -> str:
    text = _first_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _first_line(text: str, limit: int = 600) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


LAST_WORDS = 10.0
"""Seconds after which a rank whose driver has gone ends by itself, if nobody has ended it."""


def _follow_driver(channel: Channel, processes: list[int], place: Message) -> None:
    """When the driver has gone without ending its job, end what it left: Ray, this process, the folder."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            channel.receive()
    leftovers.remove_all(Path(place["folder"]), place["environ"]["HPUCLUSTER_JOB_ID"], [*processes, os.getpid()])
    time.sleep(LAST_WORDS)
    os._exit(1)


def _tell_exits(channel: Channel) -> None:
    """Let `os._exit` tell the driver its status, which not every kernel tells it (see `exit_status`)."""
    owner = os.getpid()
    leave = os._exit

    def _exit(status: int) -> None:
        """Exit to the system with specified status, without normal exit processing."""
        if os.getpid() == owner:
            with contextlib.suppress(OSError):  # the driver has gone, nobody asks
                channel.send({"event": "exiting", "status": status & 0xFF})
        leave(status)

    os._exit = _exit  # type: ignore[assignment]
