"""Building native libraries on first use, into a cache folder, under a lock."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import BuildError


def cache_root() -> Path:
    """Where built libraries are kept: HPUCLUSTER_CACHE, else XDG_CACHE_HOME/hpucluster, else ~/.cache/hpucluster."""
    own = os.environ.get("HPUCLUSTER_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpucluster"


def compiler(user: str, purpose: str) -> str:
    """The C++ compiler: CXX, else g++ or clang++. Messages say that `user` needs it to build `purpose`.

    Raises:
        BuildError: there is none; the message has the install command.
    """
    for candidate in (os.environ.get("CXX"), "g++", "clang++"):
        if candidate and shutil.which(candidate):
            return candidate
    wanted = os.environ.get("CXX")
    detail = f"CXX={wanted!r} is not a program on PATH, and neither " if wanted else "neither "
    raise BuildError(
        f"{user} needs a C++ compiler once, to build {purpose}: {detail}g++ nor clang++ was found. "
        "Install one (Debian/Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; conda: conda install gxx) "
        "or name it in CXX."
    )


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[:30])
        raise BuildError(f"building a native library failed: {' '.join(command)}\n{tail}")


def run_all(commands: Sequence[Sequence[str]]) -> None:
    """Run compiler commands, as many at a time as there are cores.

    Raises:
        BuildError: one failed; it and the beginning of its complaints are in the message.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(_run, commands))


def ensure(target: Path, build: Callable[[Path], None], what: str) -> Path:
    """`target` itself, once it exists: where it is missing, `build(path)` makes it at a path beside it.

    Processes that start together wait for one of them. `what` says on the console what is built.

    Raises:
        BuildError: from `build`, or the folder cannot be written.
    """
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = open(target.parent / "lock", "w")  # noqa: SIM115 (held until the build is over)
    except OSError as error:
        raise BuildError(
            f"{what} cannot be kept in {target.parent}: {error}. Set HPUCLUSTER_CACHE to a folder that can be written."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            started = time.monotonic()
            print(f"hpucluster: building {what} ...", file=sys.stderr, flush=True)
            aside = target.with_name(f".{target.name}.{os.getpid()}")
            build(aside)
            os.replace(aside, target)
            seconds = time.monotonic() - started
            print(f"hpucluster: built in {seconds:.0f} s: {target}", file=sys.stderr, flush=True)
    return target
