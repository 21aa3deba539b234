"""A test that needs what this machine may not have: skipped, but in CI, where nothing may be left out, failed."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def not_here(reason: str) -> NoReturn:
    """The test cannot run on this machine; `reason` says why, and what to do about it."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (a skipped test is a failed one in CI)", pytrace=False)
    pytest.skip(reason)


def need(program: str) -> None:
    """The test runs `program`, which `system_packages.py` installs."""
    if shutil.which(program) is None:
        not_here(f"there is no {program}: run python tests/system_packages.py")
