"""Build and load the native bridge.

The C++ sources in `csrc/` are compiled on first use with the machine's compiler against the installed PyTorch, and
kept in a cache folder keyed by source, PyTorch, Python and platform. So the distribution is pure Python and works
with every supported PyTorch, CPU-built or CUDA-built.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import torch

from ..errors import BuildError

SOURCES = Path(__file__).parent / "csrc"
PYTHON_SOURCES = ("ddp_timer.cpp", "executable.cpp", "module.cpp")  # those with the larger headers
FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden"]


def cache_root() -> Path:
    """Where built bridges are kept: HPUCLUSTER_CACHE, else XDG_CACHE_HOME/hpucluster, else ~/.cache/hpucluster."""
    own = os.environ.get("HPUCLUSTER_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpucluster"


def _torch_root() -> Path:
    return Path(torch.__file__).parent


def build_key() -> str:
    """Hash of everything that the built file depends on."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    abi = f"{torch.__version__} {_torch_root()} {sys.version} {platform.machine()} {FLAGS}"
    digest.update(abi.encode())
    return digest.hexdigest()[:20]


def library_path() -> Path:
    """The built bridge of this PyTorch and Python, whether or not it exists yet."""
    return cache_root() / build_key() / "_bridge.so"


def compiler() -> str:
    """The C++ compiler: CXX, else g++ or clang++.

    Raises:
        BuildError: there is none; the message has the install command.
    """
    for candidate in (os.environ.get("CXX"), "g++", "clang++"):
        if candidate and shutil.which(candidate):
            return candidate
    wanted = os.environ.get("CXX")
    detail = f"CXX={wanted!r} is not a program on PATH, and neither " if wanted else "neither "
    raise BuildError(
        f"the hpu device needs a C++ compiler once, to build its bridge to PyTorch: {detail}g++ nor clang++ was found. "
        "Install one (Debian/Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; conda: conda install gxx) "
        "or name it in CXX."
    )


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[:30])
        raise BuildError(f"building the hpu bridge failed: {' '.join(command)}\n{tail}")


def _units() -> list[list[Path]]:
    """The sources in two translation units: most of the time goes into PyTorch's headers, which are then read twice
    instead of a dozen times."""
    sources = sorted(SOURCES.glob("*.cpp"))
    with_python = [source for source in sources if source.name in PYTHON_SOURCES]
    return [with_python, [source for source in sources if source not in with_python]]


def _build(target: Path) -> None:
    cxx = compiler()
    root = _torch_root()
    python_include = sysconfig.get_paths()["include"]
    if not (Path(python_include) / "Python.h").exists():
        raise BuildError(
            f"the hpu device needs Python's headers to build its bridge: {python_include}/Python.h is missing. "
            "Install them (Debian/Ubuntu: apt-get install python3-dev)."
        )
    includes = [
        f"-I{root / 'include'}",
        f"-I{root / 'include/torch/csrc/api/include'}",
        f"-I{python_include}",
    ]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    with tempfile.TemporaryDirectory(prefix="hpucluster-build-") as folder:
        jobs = []
        objects = []
        for number, sources in enumerate(_units()):
            unit = Path(folder) / f"unit{number}.cpp"
            unit.write_text("".join(f'#include "{source}"\n' for source in sources))
            objects.append(str(unit.with_suffix(".o")))
            jobs.append([cxx, *FLAGS, abi, *includes, "-c", str(unit), "-o", objects[-1]])
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            list(pool.map(_compile, jobs))
        libraries = ["-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
        finished = target.with_name(f".{target.name}.{os.getpid()}")
        search = [f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}"]
        _compile([cxx, "-shared", "-o", str(finished), *objects, *search, *libraries])
        os.replace(finished, target)


def ensure_built() -> Path:
    """Path of the built bridge; builds it where it is missing. Ranks that start together wait for one of them.

    Raises:
        BuildError: no compiler, no headers, or a compiler error.
    """
    target = library_path()
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = open(target.parent / "lock", "w")  # noqa: SIM115 (held until the build is over)
    except OSError as error:
        raise BuildError(
            f"the hpu bridge cannot be kept in {target.parent}: {error}. "
            "Set HPUCLUSTER_CACHE to a folder that can be written."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            started = time.monotonic()
            print(
                f"hpucluster: building the hpu bridge for PyTorch {torch.__version__} (once, half a minute) ...",
                file=sys.stderr,
                flush=True,
            )
            _build(target)
            print(
                f"hpucluster: built in {time.monotonic() - started:.0f} s: {target}",
                file=sys.stderr,
                flush=True,
            )
    return target


def load(path: Path) -> ModuleType:
    """Import the built bridge."""
    loader = importlib.machinery.ExtensionFileLoader("_bridge", str(path))
    spec = importlib.util.spec_from_file_location("_bridge", path, loader=loader)
    if spec is None:
        raise BuildError(f"{path} is not an extension module; delete it and try again")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
