"""Log files: levels by variable and at run time, lines, events and statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from device import event_log, flags
from device.errors import ConfigurationError
from device.events import EventId, dispatcher
from device.loggers import FILE, Level, Loggers, level_of


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(flags, "_values", {})
    monkeypatch.setenv("HABANA_LOGS", str(tmp_path))
    monkeypatch.delenv("ID", raising=False)
    return tmp_path


def test_the_nearest_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(Loggers().levels.values()) == {Level.critical}
    monkeypatch.setenv("LOG_LEVEL_ALL", "4")
    monkeypatch.setenv("LOG_LEVEL_ALL_PT", "3")
    monkeypatch.setenv("LOG_LEVEL_PT_BRIDGE", "debug")
    levels = Loggers().levels
    assert (levels["PT_BRIDGE"], levels["PT_LAZY"]) == (Level.debug, Level.warn)


def test_lines_have_their_logger_and_level(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loggers = Loggers()
    loggers.log("PT_BRIDGE", Level.info, "not written")
    loggers.enable("LOG_LEVEL_PT_BRIDGE", Level.info)
    loggers.log("PT_BRIDGE", Level.info, "one")
    monkeypatch.setenv("ID", "3")
    loggers.log("PT_BRIDGE", Level.error, "of rank 3")
    assert (logs / FILE).read_text().count("\n") == 1
    assert "[PT_BRIDGE       ][info    ]" in (logs / FILE).read_text()
    assert "of rank 3" in (logs / "3" / FILE).read_text()


def test_the_console_shows_lines_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ENABLE_CONSOLE", "true")
    Loggers().log("PT_DEVICE", Level.critical, "gone")
    assert "gone" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["7", "loud", "-1"])
def test_a_level_that_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no log level"):
        level_of(text)


def test_a_logger_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="there is no logger 'PT_NONE'"):
        Loggers().enable("PT_NONE", Level.info)


def test_events_are_written_where_their_logger_is_enabled(logs: Path) -> None:
    loggers = Loggers()
    event_log.EventLog(loggers).follow()
    dispatcher.publish(EventId.CPU_FALLBACK, {"op_name": "early"})
    loggers.enable("LOG_LEVEL_PT_FALLBACK", Level.info)
    dispatcher.publish(EventId.CPU_FALLBACK, {"op_name": "eigh"})
    text = (logs / FILE).read_text()
    assert "eigh runs on the host" in text and "early" not in text


def test_statistics_of_graphs(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_PRINT_STATS_DUMP_FREQ", "2")
    event_log.Statistics(Loggers())
    dispatcher.publish(EventId.CACHE_MISS, {"recipe_id": "a"})
    dispatcher.publish(EventId.GRAPH_COMPILATION, {"duration": "1200", "recipe": "graph_a"})
    assert not (logs / FILE).exists()
    dispatcher.publish(EventId.CACHE_HIT, {"recipe_id": "a"})
    text = (logs / FILE).read_text()
    assert "cache_miss 1" in text and "cache_hit 1" in text and "graph_compilation_us 1200" in text
