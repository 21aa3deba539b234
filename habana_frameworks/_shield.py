"""Our top-level names and the user's: both may have a `device`, `collectives`, `hpucluster` or `launcher`.

A training script often has a `device.py` or `launcher/` of its own beside it, and its `import device` must mean that
one, while this distribution goes on using its own. So ours are imported inside `ours()`, where the names mean ours,
and afterwards leave `sys.modules`; a finder in front of all others then answers an import of such a name with the
user's module where there is one on `sys.path`, and with ours otherwise. This works because our modules import only
at their top, all of it inside `ours()`, and hold what they need from then on.

One case is Python's alone, before PyTorch has loaded us: of a folder without `__init__.py` and an installed package of
the same name, plain Python takes the package.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

NAMES = ("device", "collectives", "hpucluster", "launcher")
ROOT = Path(__file__).resolve().parent.parent

_stash: dict[str, ModuleType] = {}
_lock = threading.RLock()
_depth = 0


def _is_shared_name(name: str) -> bool:
    return name.partition(".")[0] in NAMES


def _is_ours(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    origin = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    return origin is not None and any(Path(origin).is_relative_to(ROOT / name) for name in NAMES)


class _OursOnly(MetaPathFinder):
    """Inside `ours()`: the shared names are looked up in our own folder and nowhere else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in NAMES:
            return None  # submodules are found through their package's path
        return PathFinder.find_spec(fullname, [str(ROOT)])


class _Stashed(Loader):
    """Hands out a module of ours that is already loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import machinery put the looked-up spec there


class _TheirsFirst(MetaPathFinder):
    """Outside `ours()`: the user's module of a shared name where there is one, else ours."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_shared_name(fullname):
            return None
        if "." in fullname:
            parent = sys.modules.get(fullname.rpartition(".")[0])
            if parent is None or not _is_ours(parent):
                return None
        else:
            theirs = _find_theirs(fullname)
            if theirs is not None:
                return theirs
        module = _stash.get(fullname)
        if module is None:
            return None
        spec = importlib.util.spec_from_loader(fullname, _Stashed(module))
        if spec is not None and module.__spec__ is not None:
            spec.submodule_search_locations = module.__spec__.submodule_search_locations
        return spec


def _find_theirs(name: str) -> ModuleSpec | None:
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    spec = PathFinder.find_spec(name, others)
    if spec is None:
        return None
    if spec.origin is not None:
        return None if _is_copy_of_ours(Path(spec.origin)) else spec
    # A folder without __init__.py: a package only if there is Python in it.
    folders = [Path(folder) for folder in spec.submodule_search_locations or []]
    return spec if any(next(folder.glob("*.py"), None) for folder in folders) else None


def _is_copy_of_ours(origin: Path) -> bool:
    """A checkout of this project on the path, beside the installed distribution, is nobody's module of that name."""
    return (origin.parent.parent / "habana_frameworks" / Path(__file__).name).exists()


_ours_only = _OursOnly()
_theirs_first = _TheirsFirst()


def _pop(ours_wanted: bool) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if _is_shared_name(name)]
    return {name: sys.modules.pop(name) for name in names if _is_ours(sys.modules[name]) == ours_wanted}


@contextmanager
def ours() -> Iterator[None]:
    """Within: `import device` and its like mean ours. May be nested and entered from any thread."""
    global _depth
    with _lock:
        theirs = _pop(ours_wanted=False) if _depth == 0 else {}
        if _depth == 0:
            sys.modules.update(_stash)
            sys.meta_path.insert(0, _ours_only)
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
            if _depth == 0:
                sys.meta_path.remove(_ours_only)
                _stash.update(_pop(ours_wanted=True))
                sys.modules.update(theirs)
                if _theirs_first not in sys.meta_path:
                    sys.meta_path.insert(0, _theirs_first)


def load(name: str) -> ModuleType:
    """Import a module of ours by its full name, whatever of that name the user has."""
    with ours():
        return importlib.import_module(name)


def importing() -> bool:
    """Whether a module of ours is being imported at this moment, further up the stack."""
    ours_now = [module for name, module in list(sys.modules.items()) if _is_shared_name(name) and _is_ours(module)]
    return any(getattr(module.__spec__, "_initializing", False) for module in ours_now)


def hide() -> None:
    """From here on the shared names belong to the user's script first; whatever of ours is loaded works on."""
    with ours():
        pass
