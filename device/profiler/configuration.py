"""Settings of a profiling session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ProfilerConfig:
    """Settings of a profiling session."""

    session: str = "default_profiling"
    output_dir: str = "."
    formats: tuple[str, ...] = ("json",)
    phase: str = "multi-enq"
    invocations: tuple[int, int] | None = (0, 1)
    hardware_trace: bool = True
    host: bool = True
    fuser: bool = True
    flow: bool = True
    engines: tuple[str, ...] = ("DMA", "MME", "TPC", "NIC")
    buffer_mb: int = 128
    add_pid: bool = True
    add_pci: bool = False
    csv: bool = False


def configuration_from_environment(environ: Mapping[str, str]) -> ProfilerConfig | None:
    """The session that HABANA_PROFILE asks for, or None."""
    if environ.get("HABANA_PROFILE") == "1":
        return ProfilerConfig(phase="device-acq", invocations=None)
    return None
