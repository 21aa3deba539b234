"""Host arrays for the tensors of one call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from device import interop
from device.fences import Extent

from ..data_movement import moves_data
from ..errors import CollectiveError
from ..reduction import flat_array


class Staging:
    """From tensors to 1-D arrays over host memory, in the dtype's storage form.

    A contiguous tensor's own memory is used, others go through a contiguous copy. `finish` collects what
    copies results back; `is_on_card` becomes True with the first hpu tensor, `extents` is the card memory that they
    cover.
    """

    def __init__(self) -> None:
        self._device: str | None = None
        self.finish: list[Callable[[], object]] = []
        self.is_on_card = False
        self.extents: list[Extent] = []

    def source(self, tensor: torch.Tensor) -> np.ndarray:
        """Elements to read."""
        return flat_array(self._host(tensor).contiguous())

    def target(self, tensor: torch.Tensor, keep: bool = False) -> np.ndarray:
        """Elements to write; with `keep` they also hold the tensor's values (in-place operations)."""
        return flat_array(self.contiguous(tensor, keep))

    def contiguous(self, tensor: torch.Tensor, keep: bool = False) -> torch.Tensor:
        """The same as a contiguous tensor in host memory."""
        host = self._host(tensor)
        if host.is_contiguous():
            return host
        staged = host.contiguous() if keep else torch.empty(host.shape, dtype=host.dtype)
        if moves_data(tensor.nbytes, self.is_on_card):
            self.finish.append(lambda: host.copy_(staged))
        return staged

    def _host(self, tensor: torch.Tensor) -> torch.Tensor:
        kind = tensor.device.type
        if self._device not in (None, kind):
            raise CollectiveError(
                f"a collective was given tensors on {self._device} and on {kind}; move them together, tensor.to('hpu')"
            )
        self._device = kind
        if tensor.requires_grad:
            tensor = tensor.detach()
        if kind == "cpu":
            return tensor
        self.is_on_card = True
        extent = interop.extent_of(tensor) if tensor.numel() else None
        if extent is not None:
            self.extents.append(extent)
        return interop.host_view(tensor, extent)
