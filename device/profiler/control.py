"""The session of this process: what the environment asks for, and the calls by which a script profiles parts of a run.

HABANA_PROFILE=0 refuses all of it. Without a session that traces by itself, `start` and `stop` write the files that the
settings name. Nothing is done, and nothing costs anything, before the card is used.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from ..card import Card, current_card
from ..events import EventId, dispatcher
from .configuration import ProfilerConfig, configuration_from_environment
from .session import Session

REFUSED = (
    "HABANA_PROFILE=0: profiling of the card is off, and nothing of it is recorded; unset HABANA_PROFILE, or set it to "
    "1 or to a template of hl-prof-config"
)
_WHOLE_RUN = (
    "HABANA_PROFILE has the profiler trace by itself (phase %s): calls that start and stop it have no effect; use the "
    "template profile_api, or hl-prof-config --phase profileApi, to trace between them"
)

_logger = logging.getLogger(__name__)
_session: Session | None = None
_started = False
_told: set[str] = set()


def is_refused() -> bool:
    """Whether HABANA_PROFILE=0."""
    return os.environ.get("HABANA_PROFILE", "").strip() == "0"


def session() -> Session | None:
    """The session of the card of this process, or None while the card is unused or profiling is refused."""
    return _session


def start() -> None:
    """Trace from here on, or from the first use of the card."""
    global _started
    if _refuses():
        return
    _started = True
    if _session is not None:
        _session.start()


def stop() -> None:
    """Trace no further; the trace so far is complete on disk."""
    global _started
    if _refuses():
        return
    _started = False
    card = current_card()
    if _session is not None and card is not None:
        try:
            card.flush_and_wait("synchronize")  # what was recorded in the range belongs to it
        finally:
            _session.stop()  # a graph that fails ends the range too


def flush() -> None:
    """Complete the trace so far on disk, and go on."""
    if _started:
        stop()
        start()


def _refuses() -> bool:
    if is_refused():
        _tell(REFUSED)
        return True
    if _session is not None and not _session.by_calls:
        _tell(_WHOLE_RUN, _session.config.phase)
        return True
    return False


def _tell(message: str, *arguments: object) -> None:
    if message not in _told:
        _told.add(message)
        _logger.warning(message, *arguments)


def _begin(stamp: float, parameters: dict[str, Any]) -> None:
    global _session
    card: Card | None = current_card()
    if card is None or is_refused():
        return
    config = configuration_from_environment(os.environ) or ProfilerConfig(phase="profileApi")
    _session = Session(config, card)
    if _started and _session.by_calls:
        _session.start()


def _finish(stamp: float, parameters: dict[str, Any]) -> None:
    if _session is not None:
        _session.finish()


dispatcher.subscribe(EventId.DEVICE_ACQUIRED, _begin)
dispatcher.subscribe(EventId.PROCESS_EXIT, _finish)
