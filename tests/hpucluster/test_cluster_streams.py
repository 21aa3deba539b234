"""The ranks' output: whole lines, prefixed, whatever the pieces in which it arrives."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpucluster.streams import BAR_PERIOD, LONGEST_LINE, LineAssembler, StreamPump


def assemble(pieces: list[bytes], prefix: bytes = b"> ", seconds: float = 0.0) -> bytes:
    """All output for `pieces` that arrive `seconds` apart."""
    lines = LineAssembler(prefix)
    out = b"".join(lines.feed(piece, index * seconds) for index, piece in enumerate(pieces))
    return out + lines.finish()


@given(st.lists(st.text("ab\r\n", max_size=12).map(str.encode), max_size=6))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert assemble(pieces) == assemble([b"".join(pieces)])


@given(st.lists(st.binary(max_size=8).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b""))))
def test_every_line_arrives_with_its_prefix(lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert assemble([data]) == b"".join(b"> " + line + b"\n" for line in lines)


def test_what_lacks_a_line_end_is_completed() -> None:
    assert assemble([b"a\nb"]) == b"> a\n> b\n"
    assert assemble([b"a\r\nb\r\n"]) == b"> a\n> b\n"
    assert assemble([b""]) == b""


def test_progress_bar_shows_its_latest_states_only() -> None:
    bar = [f"\r{percent}%".encode() for percent in range(0, 101, 10)]
    fast = assemble([*bar, b"\n"], seconds=BAR_PERIOD / 100)
    assert fast == b"> 0%\n> 100%\n"
    slow = assemble([*bar, b"\n"], seconds=BAR_PERIOD)
    assert slow == b"".join(f"> {percent}%\n".encode() for percent in range(0, 101, 10))


def test_endless_line_is_cut() -> None:
    out = assemble([b"x" * LONGEST_LINE, b"y\n"])
    assert out == b"> " + b"x" * LONGEST_LINE + b"\n> y\n"


def test_pump_keeps_lines_of_many_writers_whole() -> None:
    source, sink = os.pipe()
    pump = StreamPump()
    pump.start()
    writers = [pump.open_pipe(f"[{number}] ", sink) for number in range(4)]

    def write(number: int, descriptor: int) -> None:
        for line in range(200):
            os.write(descriptor, f"{number} line {line} ".encode())
            os.write(descriptor, b"end\n")
        os.close(descriptor)

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(writers)]
    collected: list[bytes] = []
    reader = threading.Thread(target=lambda: collected.extend(iter(lambda: os.read(source, 65536), b"")))
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    pump.finish()
    os.close(sink)
    reader.join()
    lines = b"".join(collected).decode().splitlines()
    for number in range(4):
        own = [line for line in lines if line.startswith(f"[{number}] ")]
        assert own == [f"[{number}] {number} line {line} end" for line in range(200)]
    assert len(lines) == 800


def test_pump_notices_that_nobody_reads() -> None:
    source, sink = os.pipe()
    os.close(source)
    pump = StreamPump()
    pump.start()
    descriptor = pump.open_pipe("", sink)
    os.write(descriptor, b"lost\n")
    assert pump.broken.wait(30)
    os.close(descriptor)
    pump.finish()
    os.close(sink)


def test_finish_does_not_wait_for_a_process_that_keeps_its_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    pump = StreamPump()
    pump.start()
    descriptor = pump.open_pipe("", 1)
    os.write(descriptor, b"whole\npart")
    pump.finish()
    assert capfd.readouterr().out == "whole\npart\n"
    with pytest.raises(BrokenPipeError):
        os.write(descriptor, b"too late")
    os.close(descriptor)
