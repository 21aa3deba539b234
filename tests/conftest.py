"""Shared by all tests: lazy mode in this process, and scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["PT_HPU_LAZY_MODE"] = "1"

ROOT = Path(__file__).resolve().parent.parent
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID")

Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """`script(code, *arguments, folder=..., NAME="value", ...)` runs Python code as a file in a new process."""

    def run(
        code: str, *arguments: str, folder: Path = tmp_path, check: bool = True, timeout: float = 120, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        path = folder / "script.py"
        path.write_text(textwrap.dedent(code))
        environment = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        done = subprocess.run(
            [sys.executable, str(path), *arguments],
            cwd=folder,
            env=environment | environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run
