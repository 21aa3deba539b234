"""Device type, addresses, and what memory is for."""

from __future__ import annotations

import enum
import warnings
from typing import Any

import torch

from device.backend import runtime
from device.card import current_card
from device.events import dispatcher
from device.memory.usage import Category
from device.spec import chosen_card


class synDeviceType(enum.IntEnum):
    """Kinds of card; the numbers are the driver's (public header of its API)."""

    synDeviceGaudi = 2
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5

    __str__ = enum.Enum.__str__


def _is_available() -> bool:
    """Whether there is a card; acquires it."""
    if runtime.device_count() == 0:
        return False
    runtime.card()
    return True


def _get_device_type() -> synDeviceType:
    """The kind of card. Asking does not acquire it."""
    return synDeviceType[chosen_card().device_type]


def _is_fp16_supported() -> bool:
    """Whether the card computes in float16: every one but the first Gaudi."""
    return _get_device_type() != synDeviceType.synDeviceGaudi


def _data_ptr(t: torch.Tensor) -> int:
    """Device address of a tensor; 0 for an empty one, or one that is not on hpu."""
    if not isinstance(t, torch.Tensor) or t.device.type != "hpu" or t.numel() == 0:
        return 0
    return t.data_ptr()


def _compute_stream() -> int:
    """The number of the stream that computes: the default one."""
    return 0


def _record_param(
    name: str,
    t_start: int,
    t_size: int,
    is_param: bool = False,
    is_grad: bool = False,
    is_optim_state: bool = False,
) -> None:
    """Say what the memory at an address is for; the report of memory by category shows it."""
    card = current_card()
    if card is None:
        return
    chosen = ((is_param, Category.WEIGHTS), (is_grad, Category.GRADIENTS), (is_optim_state, Category.OPTIMIZER_STATE))
    for is_this, category in chosen:
        if is_this:
            card.memory.label(t_start, category)


def _record_params(model: Any = None, optimizer: Any = None, force_model_update: bool = False) -> None:
    """Say what the memory of a model and an optimizer is for."""
    if model is not None:
        runtime.labeller.label_module(model)
        for module in model.modules():
            runtime.labeller.label_module(module)
    if optimizer is not None:
        runtime.labeller.label_optimizer(optimizer)


def _set_profiler_tracer_memory(device_id: int) -> int:
    """Set memory of the card aside for traces. Traces here take none of it: 0."""
    return 0


def _reset_device_memory() -> None:
    """For tests of the bridge: run what was recorded, drop the workspace's records, and end all subscriptions."""
    warnings.warn("_reset_device_memory is for tests only; it ends all subscriptions to events", stacklevel=2)
    card = runtime.card()
    card.flush_and_wait("reset of the memory")
    card.memory.reset_accumulated()
    dispatcher.unsubscribe_all()
