"""The native data plane: built and loaded on first use, called through ctypes, which lets other threads run meanwhile.

The sources in `csrc/` know nothing of PyTorch or Python, so they compile in seconds, once per compiler flags and
machine type. The loops over data are compiled for several instruction sets and chosen when the library is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import tempfile
from pathlib import Path

from device.backend import compilation

SOURCES = Path(__file__).parent / "csrc"
FLAGS = ["-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-ffp-contract=off"]
KERNELS = "kernels.cpp"
LEVELS: dict[str, list[str]] = {"base": []}
"""Instruction sets that the kernels are compiled for, with the compiler's options."""
if platform.machine() == "x86_64":
    LEVELS["avx2"] = ["-mavx2", "-mf16c"]
    LEVELS["avx512"] = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mf16c"]

MIB = 1024 * 1024
SMALL_BYTES = 16 * 1024
"""What can go with the headers, for each rank."""
LARGE_BYTES = 6 * MIB
"""Buffers of the larger operations, unless HPUCLUSTER_SHM_MB says otherwise: what the caches hold, not more."""
SLOT_BYTES = 128 * 1024
"""Of them, what is filled at a time."""

DONE, DELAYED, DISAGREED, NEEDS_BUFFERS = 0, 1, 2, 3
"""What a call returns."""
ALL = -1
NOTHING, REDUCE, MOVE = 0, 1, 2
"""Kinds of plan."""


class Plan(ctypes.Structure):
    """What moves in the collective under way; see `csrc/plane.h`."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("operation", ctypes.c_int32),
        ("publisher", ctypes.c_int32),
        ("consumer", ctypes.c_int32),
        ("is_distinct", ctypes.c_int32),
        ("is_uneven", ctypes.c_int32),
        ("segment_count", ctypes.c_int32),
        ("element_bytes", ctypes.c_uint64),
        ("longest", ctypes.c_uint64),
        ("segments", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
    )


class Plane(ctypes.Structure):
    """One rank's view of its group's shared memory; see `csrc/plane.h`."""

    _fields_ = (
        ("own", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("looks", ctypes.c_int32),
        ("phase", ctypes.c_int32),
        ("signals", ctypes.c_void_p),
        ("boards", ctypes.c_void_p),
        ("small", ctypes.c_void_p),
        ("large", ctypes.c_void_p),
        ("board_bytes", ctypes.c_uint64),
        ("small_bytes", ctypes.c_uint64),
        ("large_bytes", ctypes.c_uint64),
        ("slot_limit", ctypes.c_uint64),
        ("key_bytes", ctypes.c_uint64),
        ("arrival_offset", ctypes.c_uint64),
        ("shape_offset", ctypes.c_uint64),
        ("table_offset", ctypes.c_uint64),
        ("steps", ctypes.c_uint64),
        ("shown", ctypes.c_uint64),
        ("arrivals", ctypes.c_void_p),
        ("plan", Plan),
        ("progress", ctypes.c_uint64 * 8),
    )


def library_path() -> Path:
    """The built library, whether or not it exists yet."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    digest.update(f"{platform.machine()} {FLAGS} {LEVELS}".encode())
    return compilation.cache_root() / digest.hexdigest()[:20] / "_collectives.so"


def _build(target: Path) -> None:
    cxx = compilation.compiler("the hccl process group", "its shared-memory data plane")
    with tempfile.TemporaryDirectory(prefix="hpucluster-build-") as folder:
        units: list[tuple[Path, str, list[str]]] = [
            (source, source.stem, []) for source in sorted(SOURCES.glob("*.cpp")) if source.name != KERNELS
        ]
        units += [
            (SOURCES / KERNELS, f"kernels_{level}", [*options, f"-DHCCL_LEVEL=kernels_{level}"])
            for level, options in LEVELS.items()
        ]
        objects = [f"{folder}/{name}.o" for _, name, _ in units]
        compilation.run_all(
            [
                [cxx, *FLAGS, *options, "-c", str(source), "-o", made]
                for (source, _, options), made in zip(units, objects, strict=True)
            ]
        )
        compilation.run_all([[cxx, "-shared", "-o", str(target), *objects]])


def ensure_built() -> Path:
    """Path of the built library; builds it where it is missing.

    Raises:
        BuildError: no compiler, or a compiler error.
    """
    return compilation.ensure(library_path(), _build, "the shared-memory data plane (once, some seconds)")


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded. Raises as `ensure_built`."""
    loaded = ctypes.CDLL(str(ensure_built()))
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "hccl_signals_bytes": (size, [number]),
        "hccl_run": (
            number,
            [address, ctypes.c_uint64, *[ctypes.c_char_p] * 4, size],
        ),
        "hccl_move": (number, [address]),
        "hccl_continue": (number, [address]),
        "hccl_missing": (number, [address, address]),
        "hccl_wait": (number, [address, ctypes.c_uint64, number]),
        "hccl_post": (None, [address, ctypes.c_uint64]),
        "hccl_reduce": (None, [number, number, address, address, size, size]),
        "hccl_reduce_with": (number, [number, number, number, address, address, size, size]),
        "hccl_passes": (None, [number, number, address, size, size, address, size, number]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def looks(ranks: int) -> int:
    """How often a waiter looks before it lets others run: often only where every rank has a core to itself."""
    return 2000 if ranks <= len(os.sched_getaffinity(0)) else 0
