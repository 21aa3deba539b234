"""Adds the card's events to a trace that PyTorch has written."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import IO

from .collection import Collection
from .json_trace import device_properties

CHUNK = 1 << 18  # bytes
CLOCKS = (
    "the card's moment at the start of the profile stands at the wall clock's; from there on events of /device:HPU, "
    "Synapse Logger, Bridge Logs and Memory Logs have modelled time, all others measured time of this machine"
)
_EVENTS = re.compile(r'(?<!\\)"traceEvents"\s*:\s*\[')
_BASE = re.compile(r'(?<!\\)"baseTimeNanoseconds"\s*:\s*(\d+)')
_NO_DEVICES = re.compile(r'(?<!\\)"deviceProperties"\s*:\s*\[\s*\]')
_BETWEEN = re.compile(r"[\s,]*")


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, f"{mode}t", encoding="utf-8")  # type: ignore[return-value]
    return open(path, mode, encoding="utf-8", newline="")


def add_device_events(path: Path, collection: Collection) -> None:
    """Put the collected events into the trace at `path`, which is read and written in one pass.

    Raises:
        OSError: the file cannot be read or written; it is then as it was.
        ValueError: it is not a trace of PyTorch's.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
    try:
        with _open(path, "r") as source, _open(aside, "w") as target:
            head, rest = _split(source, path)
            names, rest = _leading_names(rest)
            base = _BASE.search(head)
            target.write(_with_metadata(head, collection))
            separator = "\n"
            for text in (*names, *collection.texts(int(base.group(1)) if base else 0)):
                target.write(separator + text)
                separator = ",\n"
            target.write(separator if not rest.startswith("]") else "\n")
            target.write(rest)
            shutil.copyfileobj(source, target, CHUNK)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _split(source: IO[str], path: Path) -> tuple[str, str]:
    """What stands up to the first event, and what of the rest was read with it."""
    head = ""
    while chunk := source.read(CHUNK):
        head += chunk
        found = _EVENTS.search(head)
        if found:
            return head[: found.end()], head[found.end() :] + source.read(CHUNK)
    raise ValueError(f"{path} has no list of trace events")


def _leading_names(rest: str) -> tuple[list[str], str]:
    """Names of processes and threads at the beginning of the events, and the rest.

    Kineto names processes 0 to 7 as GPUs even where there are none; 0 is the card's, so that one is dropped.
    """
    decoder, position = json.JSONDecoder(), 0
    names: list[str] = []
    while True:
        between = _BETWEEN.match(rest, position)
        position = between.end() if between else position
        try:
            event, end = decoder.raw_decode(rest, position)
        except ValueError:  # the end of the list, or of what was read
            return names, rest[position:]
        if event.get("ph") != "M":
            return names, rest[position:]
        if event.get("pid") != 0:
            names.append(json.dumps(event))
        position = end


def _with_metadata(head: str, collection: Collection) -> str:
    fields = {"hpu_time": "modelled", "hpu_time_base": CLOCKS}
    if collection.spec is not None:
        devices = json.dumps(device_properties(collection.spec))
        head = _NO_DEVICES.sub(lambda _: f'"deviceProperties": {devices}', head, count=1)
    return head.replace("{", "{\n" + json.dumps(fields)[1:-1] + ",", 1)
