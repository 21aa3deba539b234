"""Segments of shared memory: files in /dev/shm that have no name, so nothing is left however the ranks end.

The other ranks open such a file through /proc/<pid>/fd of the rank that made it. Where that is not possible (another
PID namespace, a file system without nameless files) the file gets a name until every rank has mapped it.
"""

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
_NO_NAMELESS_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
_serial = itertools.count()


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:60]


def segment_name(group: str, purpose: str) -> str:
    """A new name: `hpucluster-<job>-<group>-<purpose>-<pid>-<serial>`; the job is HPUCLUSTER_JOB_ID or `job`."""
    job = os.environ.get("HPUCLUSTER_JOB_ID") or "job"
    return f"hpucluster-{_plain(job)}-{_plain(group)}-{_plain(purpose)}-{os.getpid()}-{next(_serial)}"


def remove_leftovers(job: str) -> int:
    """Remove the segments of a job whose ranks were all killed while they mapped one; returns how many there were.

    Segments have names only where they cannot do without, and then for some milliseconds, so usually there is nothing.
    Call it when no rank runs any more.
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

    `memory` is it as bytes (uint8, shape [nbytes]); `address` its place in this process; `path` is where others find
    it until `close`, and `inode` how they know that it is the same file. The mapping ends when the last view of it is
    gone.
    """

    def __init__(self, name: str, path: str, descriptor: int, nbytes: int) -> None:
        self.name = name
        self.path = path
        self.nbytes = nbytes
        self.inode = os.fstat(descriptor).st_ino
        self._descriptor = descriptor
        mapping = mmap.mmap(descriptor, nbytes)
        self._anchor = ctypes.c_char.from_buffer(mapping)
        self.address = ctypes.addressof(self._anchor)
        self.memory: np.ndarray = np.frombuffer(mapping, dtype=np.uint8)

    @classmethod
    def create(cls, name: str, nbytes: int) -> Segment:
        """Make a segment and reserve its memory, filled with zeros. `name` is for messages, and for a name if need be.

        Raises:
            SharedMemoryError: /dev/shm is missing, not writable or full (wanted and free bytes and the remedy are
                named).
        """
        path, flags = f"{DIRECTORY}/{name}", os.O_RDWR | os.O_CLOEXEC
        try:
            try:
                descriptor = os.open(DIRECTORY, flags | os.O_TMPFILE, 0o600)
                path = f"/proc/{os.getpid()}/fd/{descriptor}"
            except OSError as error:
                if error.errno not in _NO_NAMELESS_FILES:
                    raise
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise SharedMemoryError(
                f"cannot create a file in {DIRECTORY}: {error.strerror}; ranks of one machine exchange data through "
                "it, so it must be a writable tmpfs"
            ) from error
        try:
            # Reserve now: a page that cannot be had later would be a bus error in the middle of a collective.
            os.posix_fallocate(descriptor, 0, nbytes)
            return cls(name, path, descriptor, nbytes)
        except OSError as error:
            os.close(descriptor)
            if path.startswith(DIRECTORY):
                os.unlink(path)
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise SharedMemoryError(
                    f"{DIRECTORY} is full: {nbytes:,} bytes wanted for {name}, {_free_bytes():,} bytes free. Use "
                    f"smaller buffers (HPUCLUSTER_SHM_MB={max(1, nbytes // MIB // 2)}), delete files there, or "
                    f"enlarge it (mount -o remount,size=2G {DIRECTORY}; in Docker: --shm-size=2g)"
                ) from error
            raise SharedMemoryError(f"cannot reserve {nbytes:,} bytes for {name}: {error.strerror}") from error

    def give_name(self) -> bool:
        """Give the file a name in /dev/shm; False if it has one."""
        path = f"{DIRECTORY}/{self.name}"
        if self.path == path:
            return False
        # Only with a folder's descriptor (unused, as the path is absolute) does Python follow the link to the file.
        source = f"/proc/self/fd/{self._descriptor}"
        try:
            os.link(source, path, src_dir_fd=self._descriptor, follow_symlinks=True)
        except OSError as error:
            raise SharedMemoryError(f"cannot make {path}: {error.strerror}") from error
        self.path = path
        return True

    def close(self) -> None:
        """Every rank has mapped it: nobody finds it any more. The memory lives as long as a process maps it."""
        if self.path.startswith(DIRECTORY):
            os.unlink(self.path)
        os.close(self._descriptor)

    @classmethod
    def attach(cls, name: str, path: str, nbytes: int, inode: int) -> Segment:
        """Map the segment that another rank made.

        Raises:
            SharedMemoryError: it cannot be opened, or is another file (a process number means another process in
                another PID namespace).
        """
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            found = os.fstat(descriptor)
            if (found.st_size, found.st_ino) != (nbytes, inode):
                raise SharedMemoryError(
                    f"{path} has {found.st_size} bytes and inode {found.st_ino}; announced were {nbytes} and {inode}"
                )
            return cls(name, path, descriptor, nbytes)
        except OSError as error:
            raise SharedMemoryError(
                f"cannot open {path}: {error.strerror}; the ranks of a group must run as one user and share "
                f"{DIRECTORY} (containers: --ipc=host, or one container for all ranks)"
            ) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
