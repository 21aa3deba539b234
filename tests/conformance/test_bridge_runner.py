"""The runner of the open bridge's tests, on a small suite of the same shape."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUNNER = Path(__file__).with_name("bridge.py")
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--mode")
    parser.addoption("--dut")
"""
CASES = """
import os, pytest
def test_before(): pass
def test_wrong(): assert 1 == 2, "not so"
def test_ends_the_process(): os._exit(3)
@pytest.mark.parametrize("n", (1, 2))
def test_behind(n): pass
@pytest.mark.skip(reason="not today")
def test_skipped(): pass
"""


def run(checkout: Path, *options: str) -> str:
    command = [
        sys.executable,
        str(RUNNER),
        "--checkout",
        str(checkout),
        "--results",
        str(checkout / "results"),
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_a_crash_takes_nothing_along_and_what_ran_is_not_run_again(tmp_path: Path) -> None:
    suite = tmp_path / "tests" / "pytest_working"
    (suite / "any_mode").mkdir(parents=True)
    (suite / "conftest.py").write_text(CONFTEST)
    (suite / "any_mode" / "test_some.py").write_text(CASES)
    (suite / "any_mode" / "test_more.py").write_text("def test_more(): pass\n")
    (suite / "any_mode" / "test_unreadable.py").write_text("import nothing_of_that_name\n")
    printed = run(tmp_path, "--suite", "any_mode", "--mode", "eager")
    assert 'test_some {"passed": 3, "failed": 1, "crashed": 1, "skipped": 1}' in printed
    assert 'test_more {"passed": 1}' in printed
    assert 'test_unreadable {"error": 1}' in printed

    copy = tmp_path / "results" / "pytest_working" / "any_mode" / "test_some.py"
    copy.write_text(CASES.replace("1 == 2", "1 == 1").replace("os._exit(3)", "pass"))
    assert '"failed": 1, "crashed": 1' in run(
        tmp_path, "--suite", "any_mode", "--mode", "eager", "--files", "test_some.py"
    )
    again = run(tmp_path, "--suite", "any_mode", "--mode", "eager", "--files", "test_some.py", "--again", "failed")
    assert 'test_some {"passed": 5, "skipped": 1}' in again


def test_a_folder_without_the_tests_is_told(tmp_path: Path) -> None:
    command = [sys.executable, str(RUNNER), "--checkout", str(tmp_path), "--suite", "lazy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no tests/pytest_working there" in done.stderr
