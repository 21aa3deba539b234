"""A pytest plugin: the outcome of every case is on disk before the next one begins.

One JSON object a line, in a file for each file of tests, in the folder that CONFORMANCE_OUTCOMES names: first
"seconds", "message"}`. Cases that stand there already are left out, so that the run that follows a crash goes on behind
the case that crashed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ["CONFORMANCE_OUTCOMES"])
MESSAGE_LENGTH = 2000

_worst: dict[str, tuple[str, str]] = {}
_RANK = {"passed": 0, "skipped": 1, "xfailed": 1, "xpassed": 1, "error": 2, "failed": 3}


def _outcomes(nodeid: str) -> Path:
    return FOLDER / f"{Path(nodeid.partition('::')[0]).stem}.jsonl"


def _write(record: dict[str, object]) -> None:
    with _outcomes(str(record["case"])).open("a") as file:
        file.write(json.dumps(record) + "\n")


def _done(path: Path) -> set[str]:
    return {json.loads(line)["case"] for line in path.read_text().splitlines()} if path.exists() else set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    done = set[str]().union(*map(_done, {_outcomes(item.nodeid) for item in items}))
    left_out = [item for item in items if item.nodeid in done]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid not in done]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(
            {
                "case": report.nodeid,
                "outcome": "error",
                "seconds": 0.0,
                "message": report.longreprtext[-MESSAGE_LENGTH:],
            }
        )


def pytest_runtest_logstart(nodeid: str) -> None:
    _write({"case": nodeid, "began": True})
    _worst[nodeid] = ("passed", "")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if report.skipped else "xpassed"
    elif report.failed and report.when != "call":
        outcome = "error"
    if _RANK[outcome] > _RANK[_worst[report.nodeid][0]]:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        _worst[report.nodeid] = (outcome, reason[-MESSAGE_LENGTH:])
    if report.when == "teardown":
        outcome, message = _worst.pop(report.nodeid)
        _write({"case": report.nodeid, "outcome": outcome, "seconds": round(report.duration, 3), "message": message})
