"""Reads a trace in Chrome's format event by event, so that its size does not matter.

A trace is an object with its events in the list `traceEvents`, or that list alone, plain or compressed by gzip.
Python's own decoder takes one event at a time from a window of the text. Libraries that parse JSON as a stream (ijson,
json-stream) report every brace and key to Python, which for objects as small as events takes many times as long as the
decoder's C code, that takes an event in one call.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ..messages import UserError

WINDOW = 1 << 20
"""Characters that are read at a time."""

_GZIP = b"\x1f\x8b"
_LONGEST_WORD = 16
"""More than any number's end, word or escape that the end of the window can cut through."""


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a trace in the order of the file.

    Raises:
        UserError: the file cannot be read, is not JSON, holds no events, or ends in the middle. The events before that
            place have been given by then.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.peek(len(_GZIP)).startswith(_GZIP)  # a pipe cannot be rewound
            source = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(source, encoding="utf-8-sig") as file:  # type: ignore[type-var]
                yield from _Reader(file, path).events()
    except FileNotFoundError as error:
        raise UserError(f"--trace {path}: no such file; give the trace that a profiled run wrote") from error
    except IsADirectoryError as error:
        raise UserError(f"--trace {path}: is a directory; give one trace file in it") from error
    except EOFError as error:
        raise _cut_off(path) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"--trace {path}: is damaged: {error}; profile the run again") from error
    except OSError as error:
        raise UserError(f"--trace {path}: cannot be read: {error.strerror or error}; check its permissions") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--trace {path}: is no trace in JSON: not UTF-8 text") from error


def _cut_off(path: Path) -> UserError:
    return UserError(f"--trace {path}: is cut off: it ends in the middle of the events; profile the run again")


class _Reader:
    """A window of a file's text that moves on."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._text = ""
        self._at = 0
        self._before = 0  # characters that have left the window
        self._ended = False
        self._decode = json.JSONDecoder().raw_decode

    def events(self) -> Iterator[dict[str, Any]]:
        first = self._next()
        if first == "[":
            yield from self._list()
        elif first == "{":
            yield from self._object()
        elif first:
            raise self._damaged()
        else:
            raise UserError(f"--trace {self._path}: is empty; profile the run again")

    def _object(self) -> Iterator[dict[str, Any]]:
        self._at += 1
        found = False
        while self._next() != "}":
            key = self._value()
            if self._next() != ":" or not isinstance(key, str):
                raise self._damaged()
            self._at += 1
            if key == "traceEvents" and self._next() == "[":
                found = True
                yield from self._list()
            else:
                self._value()
            self._comma("}")
        if not found:
            raise UserError(f"--trace {self._path}: is no trace: it has no list traceEvents")

    def _list(self) -> Iterator[dict[str, Any]]:
        self._at += 1
        while self._next() != "]":
            event = self._value()
            if not isinstance(event, dict):
                raise self._damaged()
            yield event
            self._comma("]")
        self._at += 1

    def _comma(self, end: str) -> None:
        mark = self._next()
        if mark == ",":
            self._at += 1
        elif not mark:
            raise _cut_off(self._path)
        elif mark != end:
            raise self._damaged()

    def _next(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if not self._read():
                return ""

    def _value(self) -> Any:
        if not self._next():
            raise _cut_off(self._path)
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                within = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _LONGEST_WORD
                if within and self._read():
                    continue
                if within and self._ended:
                    raise _cut_off(self._path) from error
                self._at = error.pos
                raise self._damaged() from error
            except (RecursionError, ValueError) as error:  # nested too deep; an integer of thousands of digits
                raise self._damaged() from error
            # A number at the window's end may go on behind it: 1 as 1.5 or 1e+5.
            if isinstance(value, (int, float)) and len(self._text) - end < _LONGEST_WORD and self._read():
                continue
            self._at = end
            return value

    def _read(self) -> bool:
        """Move the window on; False at the end of the file."""
        # An event longer than the window makes it grow by as much again, so that it is not decoded too often.
        more = self._file.read(max(WINDOW, len(self._text) - self._at))
        if not more:
            self._ended = True
            return False
        self._before += self._at
        self._text, self._at = self._text[self._at :] + more, 0
        return True

    def _damaged(self) -> UserError:
        place = self._before + self._at
        return UserError(f"--trace {self._path}: is no trace in JSON, from character {place} on; profile the run again")
