"""`apex.amp`: superseded by `torch.autocast`, which it cannot be mapped to from outside a model."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"apex.amp.{name} rewrites a model for CUDA; use torch.autocast('hpu', dtype=torch.bfloat16) around the forward"
    )


def initialize(*arguments: Any, **options: Any) -> NoReturn:
    """Not here.

    Raises:
        NotImplementedError: always; it names the alternative.
    """
    _refuse("initialize")


def scale_loss(*arguments: Any, **options: Any) -> NoReturn:
    """Not here.

    Raises:
        NotImplementedError: always; it names the alternative.
    """
    _refuse("scale_loss")
