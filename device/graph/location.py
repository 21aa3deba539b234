"""The user's source line behind an operator.

The innermost frame that is neither PyTorch's nor ours; for the backward pass the line that called `backward()`. In a
thread without Python frames (PyTorch's engine, when another thread asks for gradients) it is the main thread's line.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType

import torch

_ROOT = Path(__file__).resolve().parent.parent.parent
_FOREIGN = (
    str(Path(torch.__file__).parent),
    *(
        str(_ROOT / name)
        for name in ("device", "collectives", "hpucluster", "launcher", "habana_frameworks", "habana_dataloader")
    ),
    "<frozen",
    "<eval_with_key>",  # code that PyTorch's compiler wrote
    str(Path(threading.__file__)),
)
_verdicts: dict[str, bool] = {}
_known = threading.local()
_TRACED = re.compile(r'File "([^"]+)", line (\d+)')


def _is_users(filename: str) -> bool:
    verdict = _verdicts.get(filename)
    if verdict is None:
        verdict = _verdicts[filename] = not filename.startswith(_FOREIGN)
    return verdict


def _describe(frame: FrameType | None) -> str:
    while frame is not None:
        filename = frame.f_code.co_filename
        if _is_users(filename):
            return f"{Path(filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def traced(stack: str) -> str:
    """The user's line in the text of a stack, as a compiler has kept it with an operator; "" where there is none."""
    for filename, line in reversed(_TRACED.findall(stack)):
        if _is_users(filename):
            return f"{Path(filename).name}:{line}"
    return ""


def say(line: str) -> None:
    """What this thread records from here on stands on that line, whatever its stack is; "": ask the stack again."""
    _known.line = line


def said() -> str:
    """What `say` was told last in this thread."""
    line: str = getattr(_known, "line", "")
    return line


def locate() -> str:
    """`train.py:31`, or an empty string where no user code is on the stack."""
    line = said()
    if line:
        return line
    found = _describe(sys._getframe().f_back)
    if found:
        return found
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main) if main is not None else None
    return _describe(frame)
