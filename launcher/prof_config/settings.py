"""The settings of the profiler as people see them: one by one, as texts, with what each may be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from device.profiler import document as names
from device.profiler.configuration import RANGED_PHASES, configuration
from device.profiler.document import Document
from device.profiler.units import ENGINES, engines_of, switch_name

ON, OFF = ("on", "true"), ("off", "false")
DEFAULT_ARCHITECTURE = "gaudi2"


def switch(text: str) -> bool:
    """`on` or `off`, `true` or `false`. Raises ValueError."""
    if text.lower() in ON:
        return True
    if text.lower() in OFF:
        return False
    raise ValueError("use on or off")


def architecture(document: Document) -> str:
    """The generation whose units the settings switch."""
    return str(document.get(names.ARCHITECTURE, DEFAULT_ARCHITECTURE))


@dataclass(frozen=True)
class Setting(ABC):
    """A setting: its options on the command line, what it means, and which texts it takes."""

    options: tuple[str, ...]
    meaning: str
    values: str

    @property
    def title(self) -> str:
        """Name for people."""
        return max(self.options, key=len).lstrip("-").replace("-", " ")

    @abstractmethod
    def show(self, document: Document) -> str:
        """The value as text, as `put` takes it."""

    @abstractmethod
    def put(self, document: Document, text: str) -> None:
        """Set it. Raises ValueError that says what to use instead."""


@dataclass(frozen=True)
class Text(Setting):
    """A text that stands in the document as it is."""

    name: str
    default: str = ""

    def show(self, document: Document) -> str:
        return str(document.get(self.name, self.default))

    def put(self, document: Document, text: str) -> None:
        _put(document, self.name, text)


@dataclass(frozen=True)
class Switch(Setting):
    """On or off."""

    name: str
    default: bool

    def show(self, document: Document) -> str:
        return "on" if document.get(self.name, self.default) else "off"

    def put(self, document: Document, text: str) -> None:
        _put(document, self.name, switch(text))


@dataclass(frozen=True)
class Several(Setting):
    """Some of a few choices, parted by commas: one switch for each in the document."""

    prefix: str
    choices: tuple[str, ...]

    def show(self, document: Document) -> str:
        return ",".join(name for name in self.choices if document.get(f"{self.prefix}.{name}")) or "none"

    def put(self, document: Document, text: str) -> None:
        wanted = _some_of(self.choices, text)
        for name in self.choices:
            document[f"{self.prefix}.{name}"] = name in wanted


@dataclass(frozen=True)
class Megabytes(Setting):
    """A size in MB that stands in the document as bytes."""

    name: str

    def show(self, document: Document) -> str:
        return str(configuration(document).buffer_mb)

    def put(self, document: Document, text: str) -> None:
        if not text.isdecimal():
            raise ValueError(f"use whole megabytes from 1 to {names.LARGEST_BUFFER_MB}")
        _put(document, self.name, hex(int(text) << 20))


class Phase(Text):
    """The phase."""

    def show(self, document: Document) -> str:
        return configuration(document).phase


class Invocations(Text):
    """A range of launches. It makes a phase that takes none multi-enq."""

    def show(self, document: Document) -> str:
        given = configuration(document).invocations
        return "all" if given is None else "{}-{}".format(*given)

    def put(self, document: Document, text: str) -> None:
        super().put(document, text)
        if configuration(document).phase not in RANGED_PHASES:
            document[names.PHASE] = "multi-enq"


class Engines(Setting):
    """The engines in the trace: switches of their groups."""

    def show(self, document: Document) -> str:
        return ",".join(engines_of(document, document.get(names.ARCHITECTURE))) or "none"

    def put(self, document: Document, text: str) -> None:
        wanted = _some_of(ENGINES, text.upper())
        archs = [document[names.ARCHITECTURE]] if names.ARCHITECTURE in document else names.ARCHITECTURES
        for arch in archs:
            for engine in ENGINES:
                document[switch_name(arch, engine)] = engine in wanted


def _put(document: Document, name: str, value: object) -> None:
    wrong = names.complaint(name, value)
    if wrong is not None:
        raise ValueError(wrong)
    document[name] = value


def _some_of(choices: Sequence[str], text: str) -> list[str]:
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in wanted if part not in choices and part.lower() != "none"]
    if unknown or not wanted:
        raise ValueError(f"use some of {', '.join(choices)}, parted by commas, or none")
    return wanted


_SWITCH = "on|off"
_MERGED = "|".join(names.MERGED_FORMATS)
_INVOCATION = "|".join(names.INVOCATION_FORMATS)

SETTINGS: tuple[Setting, ...] = (
    Text(("-s", "--session"), "How the files' names begin; # stands for the time.", "NAME", names.SESSION),
    Text(("-o", "--output-dir"), "Folder of the files.", "DIR", names.OUTPUT_DIR, "."),
    Phase(
        ("--phase",),
        "device-acq: the whole run; multi-enq: a range of launches; enq: each in a file; profileApi: between the"
        " script's start and stop.",
        "|".join(names.PHASES),
        names.PHASE,
    ),
    Invocations(("-g", "--invocations-range"), "Launches A to B, counted from 0, or one.", "A-B", names.INVOCATIONS),
    Switch(("--hw-trace",), "What the engines do.", _SWITCH, names.HARDWARE, True),
    Switch(("--host",), "What the host does.", _SWITCH, names.HOST, True),
    Engines(("--engines",), "Engines in the trace.", ",".join(ENGINES)),
    Several(("--merged",), "Formats of the trace.", _MERGED, names.MERGED, names.MERGED_FORMATS),
    Several(
        ("--invoc",),
        "Formats of the trace, hardware only.",
        _INVOCATION,
        names.PER_INVOCATION,
        names.INVOCATION_FORMATS,
    ),
    Switch(("--fuser",), "How many operators each node computes.", _SWITCH, names.FUSER, True),
    Switch(("--flow",), "Arrows from enqueue to execution.", _SWITCH, names.FLOW, True),
    Switch(("--trace-analyzer",), "A table of the nodes, as CSV.", _SWITCH, f"{names.ANALYZER}.enable", False),
    Switch(("--trace-analyzer-csv",), "The same.", _SWITCH, f"{names.ANALYZER}.traceAnalyzerCsv", False),
    Switch(
        ("--trace-analyzer-xlsx",),
        "The same; a table as XLSX is not written.",
        _SWITCH,
        f"{names.ANALYZER}.traceAnalyzerXlsx",
        False,
    ),
    Megabytes(("-b", "--buffer"), "The card's trace buffer, in MB.", "MB", names.BUFFER),
    Switch(("--add-pid",), "The process's number in the files' names.", "on|off", names.ADD_PID, True),
    Switch(("--add-pci",), "The card's PCI address in the files' names.", "on|off", names.ADD_PCI, False),
)
"""In the order in which they are shown and applied."""
