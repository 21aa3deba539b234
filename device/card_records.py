"""Public records of the cards that this machine's processes hold: one small file per process, which any user may read.

They lie in a folder that every user may write to and where nobody can replace another's files (sticky, like /tmp). A
record says what `hl-smi` shows of a card; the process that holds the card writes it (`device/presence.py`), aside first
and then renamed. Readers take a record's word only where its file belongs to the user whose process it names, and drop
those of processes that have ended. Nothing secret is in them: no arguments, no paths beyond the script's name.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pwd
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from .description import Limits, parse_table
from .errors import ConfigurationError
from .liveness import ProcessId
from .spec import CardSpec, PowerSpec

FOLDER_VARIABLE = "HPUCLUSTER_CARD_RECORDS"
"""Environment variable: folder of the records, instead of the machine's own."""

FOLDERS = (Path("/dev/shm/hpucluster-cards"), Path("/tmp/hpucluster-cards"))
"""Where records lie: the first that can be had."""

HEARTBEAT = 10.0
"""Seconds after which a record is written again, changed or not."""

FORMAT = 3
RECORD_SUFFIX = ".json"
LARGEST = 65536  # bytes of a record's file
SHARED_MODE = 0o1777


@dataclass(frozen=True)
class CardKind:
    """What does not change of a card: its kind, memory in bytes, clock in Hz, and the power and temperature figures."""

    name: str
    product: str
    box: str
    memory_bytes: int
    clock_hz: float
    power: PowerSpec

    @classmethod
    def of(cls, spec: CardSpec) -> CardKind:
        return cls(spec.name, spec.product, spec.box, spec.hbm.capacity_bytes, spec.tpc.clock_hz, spec.power)


@dataclass(frozen=True)
class PoolUse:
    """Bytes: the pool that the process took, what its tensors and workspace hold of it, and held at most."""

    limit: int
    in_use: int
    peak: int


@dataclass(frozen=True)
class PcieBytes:
    """Bytes that the card received from its host over PCIe and sent to it, since the start of the process."""

    received: int
    sent: int


@dataclass(frozen=True)
class CardPorts:
    """RoCE ports 0 to `count` - 1 of a card, as its job's network has them: which leave the box, whose link is down."""

    count: Annotated[int, Limits(at_most=1024)]
    external: list[int]
    down: list[int]

    def kind(self, port: int) -> str:
        """`external` where the port leaves the box, else `internal`."""
        return "external" if port in self.external else "internal"

    def is_up(self, port: int) -> bool:
        """Whether the port has a link, at whatever rate."""
        return port not in self.down


NOT_TOLD = CardPorts(0, [], [])
"""Ports of a process that has no process group, and so no network."""


@dataclass(frozen=True)
class CardRecord:
    """One process's card.

    `started` and `updated` are seconds since 1970. `utilization` (0 to 1), `power_w` and the temperatures (degrees
    Celsius) are of late; `energy_j` and `modelled_s` count from the start of the process, in modelled time.
    """

    process: ProcessId
    user: str
    command: str
    module: int
    rank: int
    world_size: int
    job: str
    started: float
    updated: float
    kind: CardKind
    ports: CardPorts
    memory: PoolUse
    pcie: PcieBytes
    steps: int
    utilization: float
    power_w: float
    chip_c: float
    board_c: float
    energy_j: float
    modelled_s: float

    @property
    def file_name(self) -> str:
        """Name of its file, the same for the life of the process and of no other."""
        return f"{self.process.namespace}-{self.process.pid}-{self.process.start}{RECORD_SUFFIX}"


def process_of(file_name: str) -> ProcessId | None:
    """The process whose record a file of that name is; None where it is none. Names are the same in every format."""
    parts = re.fullmatch(rf"([0-9]+)-([0-9]+)-([0-9]+){re.escape(RECORD_SUFFIX)}", file_name)
    if parts is None:
        return None
    namespace, pid, start = map(int, parts.groups())
    return ProcessId(pid=pid, start=start, namespace=namespace)


def folders() -> tuple[Path, ...]:
    """Folders that may hold records, the preferred one first."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return (Path(chosen),) if chosen else FOLDERS


def publish(record: CardRecord, where: Sequence[Path] | None = None) -> Path:
    """Write the record, or write it again, in the first of the folders that can be used. Returns its file.

    Raises OSError where no folder can be had.
    """
    problem: OSError | None = None
    for folder in folders() if where is None else where:
        try:
            prepare(folder)
            with _opened(folder) as descriptor:
                _write(descriptor, record.file_name, json.dumps({"format": FORMAT, "card": asdict(record)}))
            return folder / record.file_name
        except OSError as error:
            problem = problem or error
    assert problem is not None
    raise problem


def withdraw(path: Path) -> None:
    """Remove a record that `publish` wrote."""
    with contextlib.suppress(OSError):  # somebody removed the folder
        path.unlink()


def held_cards() -> list[CardRecord]:
    """The records of all processes of this machine that hold a card now, by module, then by process.

    Removes the files of processes that have ended, where this user may.
    """
    # A file that is being replaced may be listed under both of its lives.
    records = {record.process: record for folder in folders() for record in _read_folder(folder)}
    return sorted(records.values(), key=lambda record: (record.module, record.process.pid))


def prepare(folder: Path) -> None:
    """Create the folder where it is missing; complete at once, as others may be about to use it.

    Raises OSError where it cannot be had.
    """
    if folder.is_dir():
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        aside.chmod(SHARED_MODE)
        aside.rename(folder)
    except OSError:
        aside.rmdir()
        if not folder.is_dir():
            raise


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder, which must not be a symbolic link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(folder: int, name: str, text: str) -> None:
    aside = f".{name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(aside, flags, 0o644, dir_fd=folder)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o644)  # whatever the umask
            stream.write(text)
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise


def _read_folder(folder: Path) -> Iterator[CardRecord]:
    try:
        with _opened(folder) as descriptor:
            for name in os.listdir(descriptor):
                record = _read(descriptor, name)
                if record is not None:
                    yield record
    except OSError:
        return  # no process has held a card yet, or the folder is not ours to read


def _read(folder: int, name: str) -> CardRecord | None:
    """The record in a file; None where there is none to be believed. Files left by processes that ended are removed."""
    process = process_of(name)
    if not name.startswith(".") and process is None:
        return None  # a card's lock, which its holder must not open a second time
    try:
        # O_NONBLOCK: the file may be another user's pipe.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None  # withdrawn since, or no file
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(stream.fileno())
        age = time.time() - status.st_mtime
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        if process is None:  # being written, or left by a process that was killed meanwhile
            if age > HEARTBEAT:
                _remove(folder, name)
            return None
        text = stream.read(LARGEST)
    if not _is_held(process, status.st_uid, age):
        _remove(folder, name)
        return None
    record = _parse(text)
    if record is None or record.file_name != name:
        return None
    return replace(record, user=_user_name(status.st_uid))


def _parse(text: bytes) -> CardRecord | None:
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            return None  # of another version of this program
        record: CardRecord = parse_table(CardRecord, _harmless(document["card"]), "record")
        return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigurationError):
        return None  # not written by this program


def _harmless(value: Any) -> Any:
    """The value without control characters in its texts, which may come from another user and go to a terminal.

    Raises ValueError for figures that are not finite.
    """
    if isinstance(value, str):
        return "".join(character if character.isprintable() else "?" for character in value)
    if isinstance(value, dict):
        return {key: _harmless(entry) for key, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(value)
    return value


def _is_held(process: ProcessId, owner: int, age: float) -> bool:
    """Whether the process that the record names runs, and is one of the file's owner."""
    if not process.is_visible():
        return age < 3 * HEARTBEAT  # in a container of its own: all that can be seen is that the record is kept
    try:
        if process.is_alive():
            return os.stat(f"/proc/{process.pid}").st_uid == owner
        if Path(f"/proc/{process.pid}").exists():
            return False  # a later process of that number
        os.kill(process.pid, 0)
    except PermissionError:
        return age < 3 * HEARTBEAT  # it runs, but here users see only their own processes in /proc
    except (OSError, OverflowError):
        return False
    return False


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):  # another user's: theirs to remove
        os.unlink(name, dir_fd=folder)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
