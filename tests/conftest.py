"""Shared by all tests: lazy mode in this process, and scripts in processes of their own."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .warm_python import WarmPython

os.environ["PT_HPU_LAZY_MODE"] = "1"
# Tests run side by side, more processes than there are cards.
os.environ.setdefault("HPUCLUSTER_SHARED_CARDS", "1")
# Tests run side by side, and threads of PyTorch's that spin for the same cores take several times the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background; what tests start inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is this machine's affair.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parent.parent
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID")

Script = Callable[..., subprocess.CompletedProcess[str]]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker per core, up to four; none for a single file, whose tests run one after another anyway."""
    files = {argument.partition("::")[0] for argument in config.args}
    return 0 if len(files) == 1 and files.pop().endswith(".py") else min(len(os.sched_getaffinity(0)), 4)


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """The Python with PyTorch loaded that this session's scripts are forked from."""
    python = WarmPython()
    yield python
    python.close()


@pytest.fixture
def script(tmp_path: Path, warm_python: WarmPython) -> Script:
    """`script(code, *arguments, folder=..., NAME="value", ...)` runs Python code, or a file, in a process of its own.

    The process is a fork of one that has loaded PyTorch, unless `fresh=True` or a variable says what a fork cannot do.
    """

    def run(
        code: str | Path,
        *arguments: str,
        folder: Path = tmp_path,
        check: bool = True,
        timeout: float = 120,
        fresh: bool = False,
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        if isinstance(code, Path):
            path = code
        else:
            path = folder / "script.py"
            path.write_text(textwrap.dedent(code))
        environment = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES} | environ
        if not fresh and warm_python.can_run(environment):
            done = warm_python.run(path, arguments, folder, environment, timeout)
        else:
            done = subprocess.run(
                [sys.executable, str(path), *arguments],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def fresh_script(script: Script) -> Script:
    """`script` in a Python that has just been started."""
    return functools.partial(script, fresh=True)
