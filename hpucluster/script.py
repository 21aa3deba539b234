"""Runs the user's script as `python script.py` or `python -m module` would: as a real `__main__` module.

A real module, so that pickling, `multiprocessing` with spawn (it imports `__main__.__file__` again) and
`if __name__ == "__main__"` behave as under plain python.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import runpy
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

MAIN = "__main__"


def compile_script(path: str) -> types.CodeType:
    """Compile the script at `path`. Raises SyntaxError as python does, OSError where it cannot be read."""
    full = os.path.abspath(path)
    with io.open_code(full) as file:
        return compile(file.read(), full, "exec", dont_inherit=True)


@contextmanager
def fresh_main() -> Iterator[types.ModuleType]:
    """Put an empty `__main__` module in place, and restore the former one afterwards."""
    former = sys.modules[MAIN]
    module = types.ModuleType(MAIN)
    module.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules[MAIN] = module
    try:
        yield module
    finally:
        sys.modules[MAIN] = former


def run_script(path: str, arguments: list[str], main: types.ModuleType) -> None:
    """Run the script at `path` in the module `main`. What it raises passes through, SystemExit too."""
    full = os.path.abspath(path)
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(full)))
    main.__dict__.update(
        __file__=full,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader(MAIN, full),
    )
    exec(compile_script(path), main.__dict__)


def run_module(name: str, arguments: list[str]) -> None:
    """Run the module `name` as `python -m` does, in the `__main__` module that is in place."""
    sys.argv[:] = ["-m", *arguments]
    sys.path.insert(0, os.getcwd())
    # What the interpreter itself calls for -m; runpy.run_module would leave __main__ as it is.
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def user_traceback(error: BaseException) -> types.TracebackType | None:
    """The traceback of what a script raised, without the frames of this module and of its callers."""
    step = error.__traceback__
    while step is not None and not _is_ours(step):
        step = step.tb_next
    while step is not None and _is_ours(step):
        step = step.tb_next
    if isinstance(error, SyntaxError) and step is None:
        return None
    return step


def _is_ours(step: types.TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename == __file__
