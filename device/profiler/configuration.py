"""Settings of a profiling session, from HABANA_PROFILE, HABANA_PROF_CONFIG and the files that they name.

HABANA_PROFILE unset     the template profile_api_light: nothing is recorded until the script says start
HABANA_PROFILE=0         no profiling
HABANA_PROFILE=1         the file in HABANA_PROF_CONFIG, else ~/.habana/prof_config.json, else the defaults, which
                         record the whole run
HABANA_PROFILE=template  the template, with the file in HABANA_PROF_CONFIG on top
HABANA_PROF_CONFIG only  the plugins that the file names, no others
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from . import document as names
from .document import Document
from .units import ENGINES, engines_of, without

PROFILE_VARIABLE = "HABANA_PROFILE"
CONFIG_VARIABLE = "HABANA_PROF_CONFIG"
WRITE_HLTV_VARIABLE = "HABANA_PROFILE_WRITE_HLTV"
UNSET_TEMPLATE = "profile_api_light"

FORMATS = names.MERGED_FORMATS
RANGED_PHASES = ("enq", "multi-enq")
"""Phases that record a range of launches."""

_FIRST_TWO = (0, 1)


@dataclass(frozen=True)
class ProfilerConfig:
    """Settings of a profiling session.

    `session`: how the files' names begin; `#` in it stands for the moment, YYYYMMDD_hh-mm-ss. `formats`: of hltv, json
    and csv. `phase`: enq, one file per launch; multi-enq, one for a range of launches; device-acq, the whole run;
    profileApi, between the script's start and stop. `invocations`: first and last launch, counted from 0; None where
    the phase has no range. `hardware_trace`: what the engines do; `host`: what the host does; `fuser`: how many
    operators a node computes; `flow`: arrows from enqueue to execution. `engines`: of DMA, MME, TPC and NIC.
    `buffer_mb`: the card's trace buffer. `add_pid`, `add_pci`: process and PCI address in the files' names. `csv`: a
    table of the nodes too.
    """

    session: str = "default_profiling"
    output_dir: str = "."
    formats: tuple[str, ...] = ("json",)
    phase: str = "multi-enq"
    invocations: tuple[int, int] | None = _FIRST_TWO
    hardware_trace: bool = True
    host: bool = True
    fuser: bool = True
    flow: bool = True
    engines: tuple[str, ...] = ENGINES
    buffer_mb: int = 128
    add_pid: bool = True
    add_pci: bool = False
    csv: bool = False


def configuration_from_environment(environ: Mapping[str, str]) -> ProfilerConfig | None:
    """The session that the environment asks for; None for HABANA_PROFILE=0.

    Raises:
        ConfigurationError: an unknown template, a file that cannot be read or used, or nothing to record.
    """
    profile, path = environ.get(PROFILE_VARIABLE, "").strip(), environ.get(CONFIG_VARIABLE, "")
    if profile == "0":
        return None
    if not profile and path:
        return _resolve(_named(path), path, only_named=True)
    if profile == "1":
        file = default_path(environ)
        document = names.defaults() | (_named(path) if path else _read(file) if file.exists() else {})
        return _with_hltv(_resolve(document, path or str(file)), environ)
    try:
        document = names.template(profile or UNSET_TEMPLATE)
    except ConfigurationError as error:
        raise ConfigurationError(f"{PROFILE_VARIABLE}={profile!r}: {error}; or use 1 or 0") from error
    if path:
        document |= _named(path)
    return _with_hltv(_resolve(document, path or f"{PROFILE_VARIABLE}={profile}"), environ)


def _with_hltv(config: ProfilerConfig, environ: Mapping[str, str]) -> ProfilerConfig:
    if config.phase != "profileApi" or environ.get(WRITE_HLTV_VARIABLE) != "1" or "hltv" in config.formats:
        return config
    return dataclasses.replace(config, formats=("hltv", *config.formats))


def default_path(environ: Mapping[str, str]) -> Path:
    """Where hl-prof-config writes unless told otherwise."""
    return Path(environ["HOME"] if environ.get("HOME") else Path.home()) / ".habana" / "prof_config.json"


def load_configuration(path: str | Path) -> ProfilerConfig:
    """The session that a file describes, on top of the defaults. A name in it that means nothing is a warning.

    Raises:
        ConfigurationError: the file cannot be read, is not JSON, has another shape or a value that cannot be used.
    """
    return _resolve(names.defaults() | _read(Path(path)), str(path))


def save_configuration(config: ProfilerConfig, path: str | Path) -> None:
    """Write a file that `load_configuration` reads as `config`. Raises ConfigurationError where it cannot."""
    written: Document = names.defaults() | {
        names.SESSION: config.session,
        names.OUTPUT_DIR: config.output_dir,
        names.ADD_PID: config.add_pid,
        names.ADD_PCI: config.add_pci,
        names.HOST: config.host,
        names.HARDWARE: config.hardware_trace,
        names.PHASE: config.phase,
        names.BUFFER: hex(config.buffer_mb << 20),
        names.FUSER: config.fuser,
        names.FLOW: config.flow,
        f"{names.ANALYZER}.enable": config.csv,
        **{f"{names.MERGED}.{name}": name in config.formats for name in FORMATS},
        **without(config.engines),
    }
    if config.invocations is not None:
        written[names.INVOCATIONS] = "{}-{}".format(*config.invocations)
    names.check(written, str(path))
    names.write(written, Path(path))


def configuration(document: Mapping[str, Any]) -> ProfilerConfig:
    """The session that a document describes, its values being right. What it leaves out is as in `ProfilerConfig`, but
    for the phase: a range of launches where it has one, else the whole run.
    """
    default = ProfilerConfig()
    given = names.parse_range(document.get(names.INVOCATIONS))
    phase = document.get(names.PHASE) or ("multi-enq" if given else "device-acq")
    if names.PHASE not in document and document.get(names.START_DISABLED):
        phase = "profileApi"
    chosen = [
        name
        for name in FORMATS
        if document.get(f"{names.MERGED}.{name}")
        or document.get(f"{names.PER_INVOCATION}.{name}")
        or (name == "hltv" and document.get(f"{names.PER_INVOCATION}.hltvWithHost"))
    ]
    buffer = names.parse_buffer(document.get(names.BUFFER))
    analyzer = ("enable", "traceAnalyzerCsv", "traceAnalyzerXlsx")
    return ProfilerConfig(
        session=document.get(names.SESSION, default.session),
        output_dir=os.path.expanduser(document.get(names.OUTPUT_DIR, default.output_dir)),
        formats=tuple(chosen) or default.formats,
        phase=phase,
        invocations=(given or _FIRST_TWO) if phase in RANGED_PHASES else None,
        hardware_trace=document.get(names.HARDWARE, True),
        host=document.get(names.HOST, True),
        fuser=document.get(names.FUSER, default.fuser),
        flow=document.get(names.FLOW, default.flow),
        engines=engines_of(document, document.get(names.ARCHITECTURE)),
        buffer_mb=default.buffer_mb if buffer is None else buffer,
        add_pid=document.get(names.ADD_PID, default.add_pid),
        add_pci=document.get(names.ADD_PCI, default.add_pci),
        csv=any(document.get(f"{names.ANALYZER}.{name}", False) for name in analyzer),
    )


def _read(path: Path) -> Document:
    """A user's file, checked; names that mean nothing are warned of."""
    document = names.read(path)
    unknown = names.check(document, f"profiler configuration {path}")
    if unknown:
        warnings.warn(f"profiler configuration {path}: unknown and without effect: {', '.join(unknown)}", stacklevel=2)
    return document


def _named(path: str) -> Document:
    """The file that HABANA_PROF_CONFIG names."""
    try:
        return _read(Path(path))
    except ConfigurationError as error:
        raise ConfigurationError(f"{CONFIG_VARIABLE}={path}: {error}") from error


def _resolve(document: Document, where: str, only_named: bool = False) -> ProfilerConfig:
    if only_named:
        document = {names.HOST: False, names.HARDWARE: False} | document
    config = configuration(document)
    if not config.host and not (config.hardware_trace and config.engines):
        raise ConfigurationError(
            f"{where}: nothing to profile: neither {names.HOST} nor {names.HARDWARE} is on; use hl-prof-config"
            " --host on --hw-trace on, or HABANA_PROFILE=0"
        )
    return config
