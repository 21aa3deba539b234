"""What a process says on standard error when it acquires its card: the bridge's banner, and hints on its environment.

The banner's form follows the release (HPUCLUSTER_SOFTWARE): up to 1.19 that of the bridge's public source, from 1.20 on
that of published logs. Only rank 0 shows it; PT_HPU_PRINT_DEVICE_CONFIG=1 has every rank show it.
"""

from __future__ import annotations

import os
import sys

from . import flags, modules, strict
from .environment import FIRST_EAGER_SOFTWARE, software_release

_SHOWN_1_19 = (
    "PT_HPU_LAZY_MODE",
    "PT_RECIPE_CACHE_PATH",
    "PT_CACHE_FOLDER_DELETE",
    "PT_HPU_RECIPE_CACHE_CONFIG",
    "PT_HPU_MAX_COMPOUND_OP_SIZE",
    "PT_HPU_LAZY_ACC_PAR_MODE",
    "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES",
    "PT_HPU_EAGER_PIPELINE_ENABLE",
    "PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE",
)
_SHOWN_1_20 = (
    *(name for name in _SHOWN_1_19 if name not in ("PT_RECIPE_CACHE_PATH", "PT_CACHE_FOLDER_DELETE")),
    "PT_HPU_ENABLE_LAZY_COLLECTIVES",
)
_NAMED_WHEN_SET = "PT_HPU_KEEP_INPUT_MUTATIONS"
_KILOBYTE, _GIGABYTE = 2**10, 2**30


def announce() -> None:
    """Print the banner where this rank shows one, and a line for each variable that is a slip of the pen."""
    lines = banner() if shows_banner() else []
    if modules.own_rank() == 0:
        lines += [f"hpu: {line}" for line in flags.unknown()]
    if lines:
        sys.stderr.write("\n".join([*lines, ""]))  # in one piece: other ranks write, too
        sys.stderr.flush()


def refuse_unknown_variables() -> None:
    """With the strict switch a variable that is a slip of the pen is an error.

    Raises:
        StrictError: there is one.
    """
    for line in flags.unknown():
        strict.refuse(line)


def shows_banner() -> bool:
    """Whether this rank shows the banner."""
    return modules.own_rank() == 0 or bool(flags.get("PT_HPU_PRINT_DEVICE_CONFIG"))


def banner() -> list[str]:
    """The banner's lines."""
    later = software_release() >= FIRST_EAGER_SOFTWARE
    lines = []
    version = os.environ.get("HB_BUILD_VER")
    if version is not None:
        title = (
            " HPU SW VERSION ====================================== "
            if later
            else ("HABANA SW VERSION======================================= ")
        )
        lines += ["=" * 29 + title, f" HB_BUILD_VER = {version}"]
    if later:
        rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
        lines.append("=" * 29 + f" HPU PT BRIDGE CONFIGURATION ON RANK = {rank} {'=' * 13} ")
    else:
        lines.append("=" * 29 + f" HABANA PT BRIDGE CONFIGURATION {'=' * 27} ")
    lines += [f" {name} = {_shown(name)}" for name in (_SHOWN_1_20 if later else _SHOWN_1_19)]
    if _NAMED_WHEN_SET in os.environ:
        lines.append(f" {_NAMED_WHEN_SET} = {os.environ[_NAMED_WHEN_SET]}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    ram = f"{memory // _GIGABYTE} GB" if later else f"{memory // _KILOBYTE} KB"
    return [
        *lines,
        f"{'-' * 27}: System Configuration :{'-' * 27}",
        f"Num CPU Cores : {os.cpu_count()}",
        f"CPU RAM       : {ram}",
        "-" * 78,
    ]


def _shown(name: str) -> str:
    value = flags.get(name)
    return str(int(value)) if isinstance(value, bool) else str(value)
