"""Build and load the native bridge.

The C++ sources in `csrc/` are compiled on first use with the machine's compiler against the installed PyTorch, and
kept in a cache folder keyed by source, PyTorch, Python and platform. So the distribution is pure Python and works
with every supported PyTorch, CPU-built or CUDA-built. Environments that hold the same PyTorch share a bridge: it names
PyTorch's libraries without saying where they lie, and finds those that `import torch` has loaded.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

import torch

from ..errors import BuildError
from . import compilation

SOURCES = Path(__file__).parent / "csrc"
PYTHON_SOURCES = ("cluster.cpp", "ddp_timer.cpp", "executable.cpp", "module.cpp")  # those with the larger headers
FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden"]


def _torch_root() -> Path:
    return Path(torch.__file__).parent


def _cxx11_abi() -> int:
    return int(torch._C._GLIBCXX_USE_CXX11_ABI)


def build_key() -> str:
    """Hash of everything that the built file depends on; the folder that PyTorch lies in is nothing of it."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    built = f"{torch.__version__} {torch.version.git_version} {torch.version.cuda} {_cxx11_abi()}"
    abi = f"{built} {sys.version} {platform.machine()} {FLAGS}"
    digest.update(abi.encode())
    return digest.hexdigest()[:20]


def library_path() -> Path:
    """The built bridge of this PyTorch and Python, whether or not it exists yet."""
    return compilation.cache_root() / build_key() / "_bridge.so"


def _units() -> list[list[Path]]:
    """The sources in two translation units: most of the time goes into PyTorch's headers, which are then read twice
    instead of a dozen times."""
    sources = sorted(SOURCES.glob("*.cpp"))
    with_python = [source for source in sources if source.name in PYTHON_SOURCES]
    return [with_python, [source for source in sources if source not in with_python]]


def _build(target: Path) -> None:
    cxx = compilation.compiler("the hpu device", "its bridge to PyTorch")
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
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={_cxx11_abi()}"
    with tempfile.TemporaryDirectory(prefix="hpucluster-build-") as folder:
        jobs = []
        objects = []
        for number, sources in enumerate(_units()):
            unit = Path(folder) / f"unit{number}.cpp"
            unit.write_text("".join(f'#include "{source}"\n' for source in sources))
            objects.append(str(unit.with_suffix(".o")))
            jobs.append([cxx, *FLAGS, abi, *includes, "-c", str(unit), "-o", objects[-1]])
        compilation.run_all(jobs)
        libraries = ["-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
        compilation.run_all([[cxx, "-shared", "-o", str(target), *objects, f"-L{root / 'lib'}", *libraries]])


def ensure_built() -> Path:
    """Path of the built bridge; builds it where it is missing. Ranks that start together wait for one of them.

    Raises:
        BuildError: no compiler, no headers, or a compiler error.
    """
    target = library_path()
    return compilation.ensure(target, _build, f"the hpu bridge for PyTorch {torch.__version__} (once, half a minute)")


def load(path: Path) -> ModuleType:
    """Import the built bridge."""
    loader = importlib.machinery.ExtensionFileLoader("_bridge", str(path))
    spec = importlib.util.spec_from_file_location("_bridge", path, loader=loader)
    if spec is None:
        raise BuildError(f"{path} is not an extension module; delete it and try again")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
