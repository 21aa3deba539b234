"""Names of trace files.

    host and device    <session>[_<YYYYMMDD_hh-mm-ss>]_<pid>.<ext>
    device alone       <session>_<hlN>_<invocation>[_<pci>].<ext>, the invocation as 15-19, 7, or not at all

With csv there is also `..._analyzed_nodes.csv`. Where the process's number is left out and several ranks run, the rank
takes its place: no two ranks write one file.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from .. import modules
from .configuration import ProfilerConfig


def session_name(session: str, moment: time.struct_time) -> str:
    """`#` stands for the time: `run#` is `run_20260131_09-05-00`."""
    stamp = time.strftime("%Y%m%d_%H-%M-%S", moment)
    return re.sub("#", stamp, re.sub(r"(?<=[^_#])#", "_#", session))


def merged_name(config: ProfilerConfig, session: str, extension: str, environ: Mapping[str, str] | None = None) -> str:
    """File of host and device together. An hltv file has the process's number always."""
    environ = os.environ if environ is None else environ
    if config.add_pid or extension == "hltv":
        return f"{session}_{os.getpid()}.{extension}"
    ranks = environ.get("WORLD_SIZE") or environ.get("OMPI_COMM_WORLD_SIZE") or "1"
    suffix = f"_rank{modules.own_rank(environ)}" if ranks != "1" else ""
    return f"{session}{suffix}.{extension}"


def hardware_name(
    config: ProfilerConfig, session: str, module: int, invocations: tuple[int, int] | None, extension: str
) -> str:
    """File of the device alone, for some launches."""
    parts = [session, f"hl{module}"]
    if invocations is not None:
        first, last = invocations
        parts.append(str(first) if first == last else f"{first}-{last}")
    if config.add_pci:
        parts.append(pci_address(module))
    return f"{'_'.join(parts)}.{extension}"


def pci_address(module: int) -> str:
    """PCI address of an emulated card, without the colons that file names should not have."""
    return f"0000-{module:02x}-00.0"
