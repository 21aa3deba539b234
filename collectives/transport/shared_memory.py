"""Segments of shared memory: files in /dev/shm that lose their name as soon as every rank has mapped them."""

from __future__ import annotations

import ctypes
import errno
import glob
import itertools
import mmap
import os
import re

import numpy as np

from ..errors import SharedMemoryError

DIRECTORY = "/dev/shm"
MIB = 1024 * 1024
_serial = itertools.count()


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:60]


def segment_name(group: str, purpose: str) -> str:
    """A new file name: `hpucluster-<job>-<group>-<purpose>-<pid>-<serial>`; the job is HPUCLUSTER_JOB_ID or `job`."""
    job = os.environ.get("HPUCLUSTER_JOB_ID") or "job"
    return f"hpucluster-{_plain(job)}-{_plain(group)}-{_plain(purpose)}-{os.getpid()}-{next(_serial)}"


def remove_leftovers(job: str) -> int:
    """Remove the segments of a job whose ranks were all killed while they mapped one; returns how many there were.

    A segment has a name for some milliseconds only, so usually there is nothing. Call it when no rank runs any more.
    """
    names = glob.glob(f"{DIRECTORY}/hpucluster-{glob.escape(_plain(job))}-*")
    for name in names:
        os.unlink(name)
    return len(names)


def _free_bytes() -> int:
    status = os.statvfs(DIRECTORY)
    return status.f_bavail * status.f_frsize


class Segment:
    """`nbytes` of memory that several processes map.

    `memory` is it as bytes (uint8, shape [nbytes]); `address` its place in this process. The mapping ends
    when the last view of it is gone.
    """

    def __init__(self, name: str, mapping: mmap.mmap, nbytes: int) -> None:
        self.name = name
        self.nbytes = nbytes
        self._mapping = mapping
        self._anchor = ctypes.c_char.from_buffer(mapping)
        self.address = ctypes.addressof(self._anchor)
        self.memory: np.ndarray = np.frombuffer(mapping, dtype=np.uint8)

    @classmethod
    def create(cls, name: str, nbytes: int) -> Segment:
        """Make a segment and reserve its memory, filled with zeros.

        Raises:
            SharedMemoryError: /dev/shm is missing, not writable or full (wanted and free bytes and the remedy
            are named).
        """
        path = f"{DIRECTORY}/{name}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SharedMemoryError(
                f"cannot create {path}: {error.strerror}; ranks of one machine exchange data through {DIRECTORY}, "
                "which must be a writable tmpfs"
            ) from error
        try:
            # Reserve now: a page that cannot be had later would be a bus error in the middle of a collective.
            os.posix_fallocate(descriptor, 0, nbytes)
            return cls(name, mmap.mmap(descriptor, nbytes), nbytes)
        except OSError as error:
            os.unlink(path)
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise SharedMemoryError(
                    f"{DIRECTORY} is full: {nbytes:,} bytes wanted for {name}, {_free_bytes():,} bytes free. "
                    f"Use smaller "
                    f"buffers (HPUCLUSTER_SHM_MB={max(1, nbytes // MIB // 2)}), delete files there, or enlarge it "
                    f"(mount -o remount,size=2G {DIRECTORY}; in Docker: --shm-size=2g)"
                ) from error
            raise SharedMemoryError(f"cannot reserve {nbytes:,} bytes in {path}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    @classmethod
    def attach(cls, name: str, nbytes: int) -> Segment:
        """Map the segment that another rank made.

        Raises:
            SharedMemoryError: it cannot be opened, or has another size.
        """
        path = f"{DIRECTORY}/{name}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise SharedMemoryError(
                f"cannot open {path}: {error.strerror}; the ranks of a group must run as one user and "
                f"share {DIRECTORY} "
                "(containers: --ipc=host, or one container for all ranks)"
            ) from error
        try:
            size = os.fstat(descriptor).st_size
            if size != nbytes:
                raise SharedMemoryError(f"{path} has {size} bytes, {nbytes} were announced")
            return cls(name, mmap.mmap(descriptor, nbytes), nbytes)
        finally:
            os.close(descriptor)

    def unlink(self) -> None:
        """Take the name away; the memory lives as long as a process maps it."""
        os.unlink(f"{DIRECTORY}/{self.name}")
