"""Taking a card of the machine: one process holds it until it ends, however it ends.

A process locks the card's file beside the public records of held cards; the kernel gives the lock up with the process.
Processes forked from the holder have no part in it. The boxes of an `hpurun` job are its own: its cards are not those
of another job; so are those of processes that HPUCLUSTER_MACHINE puts on a machine of their own. With
HPUCLUSTER_SHARED_CARDS=1, or where no folder can be had, processes share the cards.

A process that says which card it wants, by HLS_MODULE_ID or a local rank within HABANA_VISIBLE_MODULES, gets that one
or none. Any other takes the first free one of those it may use, its local rank's first. A holder may be about to end,
so that a refusal takes a moment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from . import modules
from .card_records import CardRecord, folders, held_cards, prepare
from .environment import flag
from .errors import HpuError

SHARED_VARIABLE = "HPUCLUSTER_SHARED_CARDS"
JOB_VARIABLE = "HPUCLUSTER_JOB_ID"
MACHINE_VARIABLE = "HPUCLUSTER_MACHINE"

PATIENCE = 2.5
"""Seconds after which a card that stays held is refused."""

_held: list[int] = []  # descriptors; closing one would give the card up


class AcquireError(HpuError):
    """The card is held by another process."""


def take(kind: str, environ: Mapping[str, str] | None = None) -> int:
    """Module id of the card that this process holds from now on. `kind`: of card, such as `gaudi2`.

    Raises:
        AcquireError: another process holds it, or all that this one may use; the message says which one.
        ConfigurationError: no card is visible.
    """
    environ = os.environ if environ is None else environ
    wanted = modules.own_module(environ)
    if flag(SHARED_VARIABLE, False):
        return wanted
    named = "HLS_MODULE_ID" in environ or ("HABANA_VISIBLE_MODULES" in environ and "LOCAL_RANK" in environ)
    others = [] if named else [module for module in modules.visible_modules(environ) if module != wanted]
    end = time.monotonic() + PATIENCE
    while True:
        for module in [wanted, *others]:
            if _lock(_file_name(kind, module, environ)):
                return module
        if time.monotonic() > end:
            raise AcquireError(_refusal(wanted, named, kind))
        time.sleep(PATIENCE / 50)


def _file_name(kind: str, module: int, environ: Mapping[str, str]) -> str:
    machine = [environ.get(name, "").replace(os.sep, "_") for name in (JOB_VARIABLE, MACHINE_VARIABLE)]
    return "-".join([kind, str(modules.slot(module, environ)), *filter(None, machine)]) + ".lock"


def _lock(name: str) -> bool:
    """Whether the card is this process's now."""
    problem: OSError | None = None
    for folder in folders():
        try:
            prepare(folder)
            descriptor = _open(folder / name)
        except OSError as error:
            problem = problem or error
            continue
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            problem = problem or error
            continue
        _held.append(descriptor)
        return True
    print(f"hpu: other processes cannot see that this card is taken: {problem}", file=sys.stderr)
    return True


def _open(path: Path) -> int:
    # Without O_CREAT first: in a shared folder the kernel may refuse it for a file of another user's.
    options = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, options)
    descriptor = os.open(path, options | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):  # another user has just made it
        os.fchmod(descriptor, 0o666)  # whatever the umask
    return descriptor


def _refusal(wanted: int, named: bool, kind: str) -> str:
    # Numbers and texts of the driver's two refusals, as users have seen them.
    status = "synStatus=20 [Device already acquired]" if named else "synStatus=26 [Generic failure]"
    held = [record for record in held_cards() if record.kind.name == kind]
    mine = [record for record in held if record.module == modules.slot(wanted)] if named else held
    which = f"card {wanted} is held" if named else "every card that this process may use is held"
    by = ", ".join(_holder(record) for record in mine)
    return (
        f"{status} Device acquire failed. In other words: {which} by {by or 'another process'} (hl-smi shows all). "
        "End it, choose another card (HABANA_VISIBLE_MODULES), "
        f"or let processes share the emulated cards ({SHARED_VARIABLE}=1)"
    )


def _holder(record: CardRecord) -> str:
    return f"{record.command} (process {record.process.pid}, {record.user}, card {record.module})"
