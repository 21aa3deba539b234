"""Base classes of a user's reader."""

from __future__ import annotations

from ...unavailable import Unavailable


class media_ext_reader_op_impl(Unavailable):
    """A reader's implementation, to be derived from. Making one raises `NotImplementedError`."""


class media_ext_reader_op_tensor_info:
    """Shape and type of one output of a reader. `shape`: outermost dimension last, as the pipeline counts."""

    def __init__(self, dtype: str, shape: list[int], layout: str) -> None:
        self.dtype = dtype
        self.shape = shape
        self.layout = layout
