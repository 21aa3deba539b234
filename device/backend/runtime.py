"""The native bridge and the card of this process, made on first use."""

from __future__ import annotations

import atexit
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .. import acquisition, event_log, modules, strict
from ..card import Card, acquire, current_card
from ..environment import Settings, at_first_use, read_settings
from ..errors import ConfigurationError
from ..events import EventId, dispatcher
from ..graph.location import locate
from ..marks import Marks
from ..memory import Hbm, read_limits
from ..memory.labelling import Labeller
from ..presence import Presence
from ..report_file import ReportThread, report_folder
from ..spec import CardSpec, chosen_card
from ..startup import announce, refuse_unknown_variables
from . import (
    add_relu,
    autocast,
    complex_numbers,
    fused_cells,
    hpu_ops,
    native,
    operators,
    quantization,
    set_data,
    sync_batch_norm,
)
from .overflow import OverflowCheck
from .overwritten import OverwrittenCheck
from .untraced import untraced

_bridge: ModuleType | None = None
_settings: Settings | None = None
_waiting_seed: int | None = None
_narrow: frozenset[torch.dtype] = frozenset()  # types that the card holds in 32 bits
_reports: ReportThread | None = None
_operators: hpu_ops.Registry | None = None
_libraries: list[torch.library.Library | hpu_ops.Registry] = []  # registrations last as long as these


def settings() -> Settings:
    """The environment as it was when the device was registered, what is not fixed then as when the card was made."""
    global _settings
    if _settings is None:
        _settings = read_settings()
        strict.follow_environment()
    return _settings


def is_loaded() -> bool:
    return _bridge is not None


def bridge() -> Any:
    """The native bridge; built and loaded by the first call."""
    if _bridge is None:
        _load(native.ensure_built())
    return _bridge


def _flush(reason: str) -> None:
    if reason.startswith("aten::"):
        operators.check_fallback(reason)
    card().on_flush(reason)


def _load(path: Path) -> None:
    global _bridge
    module = native.load(path)
    module.set_callbacks(
        flush=untraced(_flush),
        transfer=untraced(lambda *copy: card().on_transfer(*copy)),
        immediate=untraced(lambda *event: card().on_immediate(*event)),
        recorded=untraced(lambda: card().on_recorded()),
        locate=untraced(locate),
        refuse=strict.refuse,
        guard=untraced(lambda what, *numbers: getattr(marks, what)(*numbers)),
    )
    module.set_device_count(device_count())
    module.set_numerics(settings().numerics)
    if not settings().lazy:
        module.notify_after(1)
    operators.register(module)
    autocast.register(module)
    if strict.enabled():
        module.refuse_mixed(True)
        OverflowCheck(autocast.lower_precision_operators()).__enter__()  # for the rest of the process, like the next
        OverwrittenCheck().__enter__()
    _libraries.extend([fused_cells.register(), set_data.register(), sync_batch_norm.register()])
    register_operators()
    _libraries.extend([add_relu.register(), complex_numbers.register(), *quantization.register()])
    if _waiting_seed is not None:
        module.default_generator().manual_seed(_waiting_seed)
    _bridge = module


def register_operators() -> None:
    """Make `torch.ops.hpu` known to PyTorch; a second call does nothing."""
    global _operators
    if _operators is None:
        _operators = hpu_ops.register()


def seed_later(seed: int) -> None:
    """Seed the card's generator as soon as there is a bridge."""
    global _waiting_seed
    _waiting_seed = seed


def device_count() -> int:
    """Cards that this process may use."""
    return len(modules.visible_modules())


def holds_in_32_bits(dtype: torch.dtype) -> bool:
    """Whether the card's numbers of that type are narrower than their name: float64, and int64 where unsupported.

    False for all while the process has no card.
    """
    return dtype in _narrow


def _int64_support(spec: CardSpec) -> bool:
    """Whether int64 keeps 64 bits: as PT_ENABLE_INT64_SUPPORT says; unset, in eager mode, but on the first Gaudi."""
    if os.environ.get("PT_ENABLE_INT64_SUPPORT", "").strip():
        return settings().int64_support
    return settings().int64_support and spec.device_name != "GAUDI"


def _make_card() -> Card:
    global _settings, _narrow
    _settings = at_first_use(settings())
    spec = chosen_card()
    if device_count() == 0:
        raise ConfigurationError("no card is visible (HABANA_VISIBLE_DEVICES=none); name one, or use 'all'")
    refuse_unknown_variables()
    native_bridge = bridge()
    for dtype in spec.dtypes.refused:
        native_bridge.refuse_dtype(dtype)
    wide = _int64_support(spec)
    _narrow = frozenset([torch.float64] if wide else [torch.float64, torch.int64])
    native_bridge.set_narrowing(integers=not wide, check=settings().range_check, refuse_wrapping=strict.enabled())
    native_bridge.set_e4m3_largest(spec.dtypes.e4m3_largest)
    native_bridge.set_initialized()
    event_log.start()
    limits = read_limits(spec)
    return Card(spec, settings(), native_bridge, acquisition.take(spec.name), limits)


def card() -> Card:
    """The card of this process; the first call acquires it."""
    global _reports
    found = current_card()
    if found is None:
        folder = report_folder()  # as of now: the script may change its environment and its working folder
        found = acquire(_make_card)
        announce()
        Presence(found.spec, found.module, found.figures).start()
        if folder is not None:
            _reports = ReportThread(found, folder)
            _reports.start()
    return found


def _memory() -> Hbm | None:
    found = current_card()
    return None if found is None else found.memory


def _count_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    labeller.label_optimizer(optimizer)
    found = current_card()
    if found is not None:
        found.end_step()


def _at_exit() -> None:
    found = current_card()
    if found is None or os.getpid() != _owner:
        return
    try:
        found.close()
    except Exception as error:
        print(f"hpu: the last graph could not run: {error}", file=sys.stderr)
    if _reports is not None:
        try:
            _reports.finish()
        except OSError as error:
            print(f"hpu: the report cannot be written to {_reports.folder}: {error.strerror}", file=sys.stderr)
    dispatcher.publish(EventId.PROCESS_EXIT, {})
    # Engine threads of a backward pass in another thread may be waiting for the interpreter to drop their last objects.
    time.sleep(0.002)


marks = Marks(card)
_owner = os.getpid()
labeller = Labeller(_memory)
labeller.install()
register_optimizer_step_post_hook(_count_step)
atexit.register(_at_exit)
