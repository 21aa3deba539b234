"""The tables of `docs/conformance.md`: what became of each file of the open bridge's tests, and why.

Reasons stand in `bridge_reasons.toml`. Each has a pattern of cases (`*` is anything) and says why they fail here;
`left_out` marks those that need what is no part of the comparison (torchvision, a C++ extension).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_outcomes import FAILED, Outcomes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REASONS = Path(__file__).with_name("bridge_reasons.toml")
BEGIN, END = "<!-- bridge: begin -->", "<!-- bridge: end -->"
SKIPPED = ("skipped", "xfailed")


@dataclass(frozen=True)
class Reason:
    pattern: re.Pattern[str]
    mode: str | None
    why: str
    left_out: bool

    def covers(self, case: str, mode: str) -> bool:
        return self.mode in (None, mode) and self.pattern.search(case) is not None


@dataclass
class Row:
    """One file of tests."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    left_out: int = 0
    why: str = ""


def read_reasons(path: Path = REASONS) -> list[Reason]:
    def pattern(text: str) -> re.Pattern[str]:
        return re.compile("(^|/)" + ".*".join(map(re.escape, text.split("*"))) + "$")

    entries = tomllib.loads(path.read_text())["reason"]
    return [
        Reason(pattern(cases), entry.get("mode"), entry["why"], entry.get("left_out", False))
        for entry in entries
        for cases in entry["cases"]
    ]


def row_of(path: Path, mode: str, reasons: list[Reason]) -> Row:
    row = Row(path.stem)
    whys: Counter[str] = Counter()
    for case, line in Outcomes(path).finished().items():
        reason = next((reason for reason in reasons if reason.covers(case, mode)), None)
        if line["outcome"] in FAILED and reason is not None and reason.left_out:
            row.left_out += 1
        elif line["outcome"] in FAILED:
            row.failed += 1
        elif line["outcome"] in SKIPPED:
            row.skipped += 1
        else:
            row.passed += 1
        if line["outcome"] in FAILED:
            whys[reason.why if reason else f"not explained: {_first_error(line)}"] += 1
    row.why = "; ".join(f"{count}: {why}" for why, count in whys.most_common())
    return row


def _first_error(line: dict[str, Any]) -> str:
    errors = [text for text in line["message"].splitlines() if text.startswith("E  ")] or [line["message"]]
    return errors[0].removeprefix("E").strip()[:100].replace("|", "/").replace("\n", " ").replace("<", "&lt;")


def table(folder: Path, suite: str, mode: str, reasons: list[Reason]) -> str:
    rows = [row_of(path, mode, reasons) for path in sorted(folder.glob("*.jsonl"))]
    rows = [row for row in rows if row.passed or row.failed or row.skipped or row.left_out]
    total = Row("all")
    for row in rows:
        for figure in ("passed", "failed", "skipped", "left_out"):
            setattr(total, figure, getattr(total, figure) + getattr(row, figure))
    share = 100 * total.passed / max(1, total.passed + total.failed)
    lines = [
        f"### `{suite}`, {mode} mode: {share:.1f} % passed",
        "",
        "| file | passed | failed | skipped | left out | why |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in [*rows, total]:
        lines.append(f"| {row.name} | {row.passed} | {row.failed} | {row.skipped} | {row.left_out} | {row.why} |")
    return "\n".join(lines)


def write(results: Path, page: Path) -> None:
    """Write the tables of all outcomes in `results` between the marks of `page`."""
    reasons = read_reasons()
    tables = []
    for folder in sorted(results.glob("*-*")):
        suite, _, mode = folder.name.rpartition("-")
        if next(folder.glob("*.jsonl"), None):
            tables.append(table(folder, suite, mode, reasons))
    text = page.read_text() if page.exists() else f"# Conformance\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    aside = page.with_suffix(".new")
    aside.write_text(before + BEGIN + "\n\n" + "\n\n".join(tables) + "\n\n" + END + after)
    aside.replace(page)
