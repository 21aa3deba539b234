"""The profiler's configuration file, in the shape of the real tool's `prof_config.json`.

In the file every value is a leaf `{"value": ...}` below `GeneralSettings` or one of the `Plugins`. Here a document is
flat: a dictionary from dotted names such as `HwTrace.generalOptions.profilePhase` to values, in which merging two
documents is one operation. `HwTrace` and `HostProfiler` alone are the plugins' `enable`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..description import configs_dir
from ..errors import ConfigurationError

Document = dict[str, Any]

HOST, HARDWARE = "HostProfiler", "HwTrace"
LIBRARIES = {HOST: "libhost_profiler.so", HARDWARE: "libhw_trace.so"}

SESSION = "GeneralSettings.session"
OUTPUT_DIR = "GeneralSettings.outdir"
ADD_PID = "GeneralSettings.addPid"
ADD_PCI = "GeneralSettings.addPci"
START_DISABLED = f"{HOST}.start_disabled"
MERGED = f"{HOST}.output"
ARCHITECTURE = f"{HARDWARE}.generalOptions.arch"
PHASE = f"{HARDWARE}.generalOptions.profilePhase"
INVOCATIONS = f"{HARDWARE}.generalOptions.invocationsRange"
BUFFER = f"{HARDWARE}.generalOptions.traceBufferSize"
FUSER = f"{HARDWARE}.parseOptions.addFuserMetadata"
FLOW = f"{HARDWARE}.parseOptions.addEnqueuesFlow"
PER_INVOCATION = f"{HARDWARE}.parseOptions.outputPerInvocation"
ANALYZER = f"{HARDWARE}.parseOptions.traceAnalyzer"
UNITS = f"{HARDWARE}.archProfileUnits"

ARCHITECTURES = ("gaudi", "gaudi2", "gaudi3")
PHASES = ("enq", "multi-enq", "device-acq", "profileApi")
MERGED_FORMATS = ("hltv", "json", "csv")
INVOCATION_FORMATS = ("hltv", "hltvWithHost", "json", "csv", "binary", "dbgInfo", "text", "log")
GROUPS = ("DMA", "MME", "TPC", "NIC", "ROT", "VDEC", "CS")
LARGEST_BUFFER_MB = 65536

Check = Callable[[Any], "str | None"]
"""What a value should be instead; None where it is fine."""


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "use true or false (on or off on the command line)"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "use a text"


def _session(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "use a name for the files"
    if not value.isprintable():
        return "use a name of printable characters"
    return "it begins the files' names, so it holds no '/'; the folder is outdir's" if "/" in value else None


def _folder(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "use a folder, . for the current one"


def _one_of(choices: tuple[str, ...]) -> Check:
    return lambda value: None if value in choices else f"choose one of {', '.join(choices)}"


def _range(value: Any) -> str | None:
    return None if parse_range(value) else "use a range of launches such as 0-1, counted from 0, or a number"


def _buffer(value: Any) -> str | None:
    size = parse_buffer(value)
    fits = size is not None and 1 <= size <= LARGEST_BUFFER_MB
    return (
        None if fits else f"use whole megabytes from 1 to {LARGEST_BUFFER_MB}, in the file as bytes such as 0x8000000"
    )


_CHECKS: dict[str, Check] = {
    SESSION: _session,
    OUTPUT_DIR: _folder,
    ADD_PID: _flag,
    ADD_PCI: _flag,
    HOST: _flag,
    f"{HOST}.lib": _text,
    START_DISABLED: _flag,
    f"{HOST}.performance_mode": _flag,
    HARDWARE: _flag,
    f"{HARDWARE}.lib": _text,
    ARCHITECTURE: _one_of(ARCHITECTURES),
    PHASE: _one_of(PHASES),
    INVOCATIONS: _range,
    BUFFER: _buffer,
    f"{HARDWARE}.generalOptions.traceBufferLocation": _text,
    FUSER: _flag,
    FLOW: _flag,
    f"{HARDWARE}.parseOptions.skipParse": _flag,
    f"{HARDWARE}.parseOptions.mergeWithHost": _flag,
    f"{HARDWARE}.parseOptions.showNullDescs": _flag,
    **{
        f"{ANALYZER}.{name}": _flag for name in ("enable", "traceAnalyzerCsv", "traceAnalyzerJson", "traceAnalyzerXlsx")
    },
    **{f"{MERGED}.{name}": _flag for name in MERGED_FORMATS},
    **{f"{PER_INVOCATION}.{name}": _flag for name in INVOCATION_FORMATS},
}

# Names below these differ between releases of the real tool; what they say is kept.
_OPEN = (f"{HOST}.api_group.", *(f"{UNITS}.{arch}.{group}." for arch in ARCHITECTURES for group in GROUPS))


def parse_range(value: Any) -> tuple[int, int] | None:
    """`15-19` or `7` as first and last launch; None where it is neither."""
    found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", value) if isinstance(value, str) else None
    if found is None:
        return None
    first = int(found[1])
    last = int(found[2] or found[1])
    return (first, last) if first <= last else None


def parse_buffer(value: Any) -> int | None:
    """The trace buffer's size in whole MB, from bytes as number or hexadecimal text; None where it is neither."""
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            return None
    return value >> 20 if isinstance(value, int) and not isinstance(value, bool) else None


def complaint(name: str, value: Any) -> str | None:
    """What the value of a known setting should be instead; None where it is fine."""
    return _CHECKS[name](value)


def check(document: Mapping[str, Any], where: str) -> list[str]:
    """Check all values; returns the names that mean nothing here.

    Raises:
        ConfigurationError: a value that cannot be used; name, value and `where` it stands are named.
    """
    unknown = []
    for name, value in document.items():
        if name in _CHECKS:
            wrong = complaint(name, value)
            if wrong is not None:
                raise ConfigurationError(f"{where}: {name} is {value!r}; {wrong}")
        elif not name.startswith(_OPEN):
            unknown.append(name)
    return unknown


def read(path: Path) -> Document:
    """The document in a file; its values are not checked yet.

    Raises:
        ConfigurationError: the file cannot be read, is not JSON, or has another shape.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8, or no path"
        raise ConfigurationError(
            f"profiler configuration {path} cannot be read: {reason}; write one by hl-prof-config"
        ) from error
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"profiler configuration {path} is not valid JSON: {error.msg} in line {error.lineno}; write it anew by"
            f" hl-prof-config -e off"
        ) from error
    except (RecursionError, ValueError) as error:
        raise ConfigurationError(
            f"profiler configuration {path}: nested too deep, or a number too long; write it anew by hl-prof-config"
            " -e off"
        ) from error
    return flatten(content, str(path))


def flatten(nested: Any, where: str) -> Document:
    """The flat form of a file's content. Raises ConfigurationError where it has another shape."""
    document: Document = {}
    for key, content in _table(nested, where).items():
        if key == "GeneralSettings":
            _flatten_values(document, key, _table(content, f"{where}: {key}").get("values", {}), where)
        elif key == "Plugins":
            if not isinstance(content, list):
                raise ConfigurationError(f"{where}: Plugins must be a list; got {content!r}")
            for plugin in content:
                _flatten_plugin(document, _table(plugin, f"{where}: a plugin"), where)
        else:
            document[key] = content
    return document


def _flatten_plugin(document: Document, plugin: dict[str, Any], where: str) -> None:
    name = plugin.get("name")
    if not isinstance(name, str):
        raise ConfigurationError(f"{where}: a plugin has no name; known plugins: {', '.join(LIBRARIES)}")
    document[name] = plugin.get("enable", True)
    for key, content in plugin.items():
        if key == "values":
            _flatten_values(document, name, content, where)
        elif key == "lib":
            document[f"{name}.lib"] = content
        elif key not in ("name", "enable"):
            document[f"{name}@{key}"] = content  # beside values, not in them


_AS_VALUE = " (a value is written {'value': ...})"


def _flatten_values(document: Document, prefix: str, values: Any, where: str) -> None:
    for key, content in _table(values, f"{where}: {prefix}").items():
        name = f"{prefix}.{key}"
        if isinstance(content, dict) and "value" in content:
            document[name] = content["value"]
        else:
            _flatten_values(document, name, content, where.removesuffix(_AS_VALUE) + _AS_VALUE)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} must be an object; got {value!r}")
    return value


def nested(document: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file."""
    plugins: dict[str, dict[str, Any]] = {}
    content: dict[str, Any] = {}
    general: dict[str, Any] = {}
    for name, value in document.items():
        head, _, rest = name.partition(".")
        owner, _, beside = head.partition("@")
        if owner == "GeneralSettings":
            _put(general, rest, value)
        elif name == owner and owner not in LIBRARIES and not isinstance(value, bool):
            content[name] = value
        else:
            new = {"enable": True, "lib": LIBRARIES.get(owner, ""), "name": owner, "values": {}}
            plugin = plugins.setdefault(owner, new)
            if beside or rest in ("", "lib"):
                plugin[beside or rest or "enable"] = value
            else:
                _put(plugin["values"], rest, value)
    return content | {"GeneralSettings": {"values": general}, "Plugins": list(plugins.values())}


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    *folders, last = name.split(".")
    for folder in folders:
        values = values.setdefault(folder, {})
    values[last] = {"value": value}


def write(document: Mapping[str, Any], path: Path) -> None:
    """Write a file, its folder too. Raises ConfigurationError where that is not possible."""
    text = json.dumps(nested(document), indent=4) + "\n"
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"profiler configuration {path} is no file; choose another by --config-filename")
    target = path.resolve()  # of a link: the file that it leads to
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.write_text(text)
            os.replace(aside, target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"profiler configuration {path} cannot be written: {error.strerror}; choose another by --config-filename"
        ) from error


def template_names() -> list[str]:
    """Names of the templates."""
    return sorted(path.stem for path in _templates().glob("*.json"))


def template(name: str) -> Document:
    """A template on top of the defaults. Raises ConfigurationError where there is none of that name."""
    if name not in template_names():
        raise ConfigurationError(f"no profiler template {name!r}; known templates: {', '.join(template_names())}")
    return defaults() | read(_templates() / f"{name}.json")


def defaults() -> Document:
    """The settings of a file that was just reset."""
    return read(configs_dir() / "profiler" / "default.json")


def _templates() -> Path:
    return configs_dir() / "profiler" / "templates"
