"""Outcomes of cases, one JSON object a line, as `bridge_recorder` writes them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

SUITES = ("any_mode", "lazy", "eager", "top")
FAILED = ("failed", "error", "crashed", "timed out")


class Outcomes:
    """The cases of one file of tests."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def finished(self) -> dict[str, dict[str, Any]]:
        """The last outcome of each case."""
        return {line["case"]: line for line in self._lines() if "outcome" in line}

    def unfinished(self) -> str | None:
        """The case that began and has no outcome."""
        done = self.finished()
        return next((line["case"] for line in reversed(self._lines()) if line["case"] not in done), None)

    def add(self, case: str, outcome: str, message: str) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"case": case, "outcome": outcome, "seconds": 0.0, "message": message}) + "\n")

    def forget(self, only_failed: bool) -> None:
        kept = [line for line in self.finished().values() if only_failed and line["outcome"] not in FAILED]
        self.path.write_text("".join(json.dumps(line) + "\n" for line in kept))

    def counts(self) -> dict[str, int]:
        return dict(Counter(line["outcome"] for line in self.finished().values()))
