"""`python -m launcher.api_coverage`: the page of the Gaudi software's names, and how far each works here.

Names and gaps are data (`configs/api/`); whether a name exists is asked of the modules. A name without a gap that is
there is full, one with a gap partial; one that is not there, or only refuses, is absent.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import habana_frameworks.torch  # noqa: F401
from device import flags
from device.description import configs_dir, read_table

PAGE = "api_coverage.md"
FULL, PARTIAL, ABSENT = "full", "partial", "absent"
CONFIG = "habana_frameworks.torch.internal.bridge_config"
OPERATORS = "torch.ops.hpu"

HEAD = """# The Gaudi software's Python names

Made by `python -m launcher.api_coverage` from `configs/api/`. **full**: the name works. **partial**: it works but for
what is said. **absent**: it is not there, or it refuses with `NotImplementedError`. Names in **bold** are those that
scripts use most. `torch.hpu` is `habana_frameworks.torch.hpu`.
"""


@dataclass(frozen=True)
class Entry:
    """One name and its state."""

    module: str
    name: str
    is_must: bool
    state: str
    note: str

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


def entries() -> list[Entry]:
    """All names, in the order of the list."""
    folder = configs_dir() / "api"
    gaps = read_table(folder / "gaps.toml", "names")
    found = []
    for module, table in read_table(folder / "names.toml", "names").items():
        for tier in ("must", "names"):
            for name in table.get(tier, []):
                full = f"{module}.{name}" if name else module
                state, note = _state(module, name, full, gaps)
                found.append(Entry(module, name, tier == "must", state, note))
    return [*found, *_flags()]


def _state(module: str, name: str, full: str, gaps: Mapping[str, Any]) -> tuple[str, str]:
    if not exists(module, name):
        return ABSENT, "not there"
    refused = _gap(full, gaps["refused"])
    if refused is not None:
        return ABSENT, refused
    partial = _gap(full, gaps["partial"])
    return (FULL, "") if partial is None else (PARTIAL, partial)


def _gap(full: str, table: Mapping[str, str]) -> str | None:
    for key, text in table.items():
        if full == key or (key[-1] in "._" and full.startswith(key)):
            return text
    return None


def exists(module: str, name: str) -> bool:
    """Whether a name is there, its members and modules included."""
    if module == OPERATORS:
        return hasattr(torch.ops.hpu, name)
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return False
    path = module
    for part in filter(None, name.split(".")):
        path = f"{path}.{part}"
        if not hasattr(found, part):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
        else:
            found = getattr(found, part)
    return True


def _flags() -> Iterator[Entry]:
    config = importlib.import_module(CONFIG)
    names = [variable.name.lower() for variable in flags.bridge_variables()]
    missing = [name for name in names if not (hasattr(config, f"get_{name}") and hasattr(config, f"set_{name}"))]
    note = f"{len(names)} flags; what each does is in `hpurun --env-help`"
    yield Entry(CONFIG, "get_<flag>, set_<flag>", False, PARTIAL if missing else FULL, note)


def page() -> str:
    """The page as Markdown."""
    rows = entries()
    counts = Counter(entry.state for entry in rows)
    lines = [HEAD, " ".join(f"{counts[state]} {state}," for state in (FULL, PARTIAL, ABSENT))[:-1] + "."]
    module = ""
    for entry in rows:
        if entry.module != module:
            module = entry.module
            lines += ["", f"## {module}", "", "| name | state | |", "|---|---|---|"]
        name = f"`{entry.name or '(the module)'}`"
        lines.append(f"| {f'**{name}**' if entry.is_must else name} | {entry.state} | {entry.note} |")
    return "\n".join([*lines, ""])


def main(arguments: list[str] | None = None) -> int:
    """Write the page; with --check say whether the one that is there is current (status 1 if not)."""
    parser = argparse.ArgumentParser(prog="python -m launcher.api_coverage", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where the page is not current")
    options = parser.parse_args(arguments)
    path = Path("docs") / PAGE
    if not path.parent.is_dir():
        print(f"there is no folder {path.parent} here; run this in a checkout", file=sys.stderr)
        return 2
    text = page()
    if options.check:
        if path.exists() and path.read_text() == text:
            return 0
        print(f"{path} is not current; run python -m launcher.api_coverage", file=sys.stderr)
        return 1
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(text)
    os.replace(aside, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
