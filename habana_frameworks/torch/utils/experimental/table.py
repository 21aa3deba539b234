"""A table on the console that breaks long cells into lines, and the same as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CYAN, _RED, _BOLD, _PLAIN = "\033[96m", "\033[91m", "\033[1m", "\033[0m"


class Table:
    """Rows below a line of names; at most about `max_char` characters wide."""

    def __init__(self, field_names: Sequence[str], max_char: int = 120) -> None:
        self.field_names = list(field_names)
        self.rows: list[list[Any]] = [self.field_names]
        self.max_char = max_char

    def add_row(self, row: Sequence[Any]) -> None:
        """Add a row.

        Raises:
            ValueError: it does not have as many cells as there are names.
        """
        if len(row) != len(self.field_names):
            raise ValueError(f"a row has {len(self.field_names)} cells; got {len(row)}")
        self.rows.append(list(row))

    def _widths(self) -> list[int]:
        longest = [max(len(str(row[column])) for row in self.rows) for column in range(len(self.field_names))]
        return [int(width / max(sum(longest), 1) * self.max_char) + 1 for width in longest]

    def __repr__(self) -> str:
        widths = self._widths()
        across = sum(widths) + len(widths) + 1
        bar = f"{_CYAN}|{_PLAIN}"
        lines = [f"{_CYAN}{'=' * across}{_PLAIN}"]
        for number, row in enumerate(self.rows):
            cells = [
                [str(cell)[at : at + width] for at in range(0, len(str(cell)), width)] or [""]
                for cell, width in zip(row, widths, strict=True)
            ]
            for line in range(max(map(len, cells))):
                parts = [
                    (cell[line] if line < len(cell) else "").ljust(width)
                    for cell, width in zip(cells, widths, strict=True)
                ]
                if number == 0:
                    parts = [f"{_RED}{_BOLD}{part}{_PLAIN}" for part in parts]
                lines.append(bar + bar.join(parts) + bar)
            lines.append(f"{_CYAN}{('=' if number == 0 else '-') * across}{_PLAIN}")
        return "\n".join([*lines, ""])

    def dump_to_csv(self, flname: str) -> None:
        """Write the cells with commas between them.

        Raises:
            OSError: the file cannot be written.
        """
        Path(flname).write_text("".join(",".join(map(str, row)) + "\n" for row in self.rows))
