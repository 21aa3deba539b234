"""`hltv`: the trace in a real browser, from this machine alone; and its one-line answers to mistakes."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.hltv import command

from .chromium import Chromium
from .sample_trace import SampleTrace

ROOT = Path(__file__).resolve().parents[2]

TRACK = "Array.from(document.querySelectorAll('.pf-track__title-popup')).find(e => /^{name}( |$)/.test(e.textContent))"
"""The title of a track in Perfetto's page, an element; events are drawn on a canvas behind it."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten steps: a GEMM, then an activation."""
    sample = SampleTrace()
    for step in range(10):
        start = step * 100.0
        sample.host("launch", start, 20)
        sample.kernel("MME", "gemm", start + 20, 50, user_node_name="linear/addmm", dataType="bf16", recipeName="r0")
        sample.kernel("TPC", "relu_fwd", start + 70, 20, user_node_name="act/relu", dataType="bf16")
    return sample.write(tmp_path / "my run.json")


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """A running `hltv`; its address. Ends it by Ctrl-C, which it must take in good order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "launcher.hltv", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, line
        yield line[line.index("http://") :].split()[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def refused(*arguments: str) -> str:
    """The one line that the command answers to a mistake."""
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1
    return result.output


def test_shows_the_trace_in_a_browser(trace: Path, tmp_path: Path) -> None:
    with serving(str(trace), "--port", "0") as url, Chromium(tmp_path) as browser:
        browser.open(url)
        for name in ("MME", "TPC", "host", "MME0", "TPC0"):  # processes, opened to their threads
            browser.wait_for(TRACK.format(name=name))
        assert "import error" not in browser.evaluate("document.body.innerText")
        # A click on the first event of MME0 tells what it is. Times begin right of the titles, which are 250 wide; the
        # event lies at 20 to 70 of 990 us.
        box = f"(r => [r.top, r.height])({TRACK.format(name='MME0')}.getBoundingClientRect())"
        top, height = browser.evaluate(box)
        width = browser.evaluate("window.innerWidth") - 250
        browser.click(250 + width * 45 / 990, top + height / 2)
        for text in ("linear/addmm", "gemm", "bf16", "r0"):
            browser.wait_for(f"document.body.innerText.includes('{text}')")
        asked = [address for address in browser.requested() if not address.startswith((url, "data:", "blob:"))]
        blocked = " ".join(browser.complaints())
        assert all(address in blocked for address in asked), asked


def test_serves_the_trace_and_the_page_only(trace: Path) -> None:
    def get(path: str, **headers: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers)) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""

    with serving(str(trace), "--port", "0") as url:
        assert get("trace/my%20run.json") == (200, trace.read_bytes())
        assert b"Perfetto" in get("perfetto/")[1]
        for path in ("perfetto/..%2f__init__.py", "perfetto/%2fetc/passwd", "my%20run.json", "perfetto/none"):
            assert get(path)[0] == 404
        assert get("trace/my%20run.json", Host="elsewhere.example")[0] == 403
        assert get("perfetto/%00")[0] == get("", Host="[::1")[0] == 400


@contextlib.contextmanager
def with_browser(trace: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A running `hltv` that may open a browser, on a machine without a screen."""
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "launcher.hltv", str(trace), "--port", "0"],
        env=environment | {"PYTHONPATH": str(ROOT)} | environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def test_opens_the_browser(trace: Path, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    with with_browser(trace, BROWSER=f"sh -c 'echo %s > {noted}'") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        deadline = time.monotonic() + 20
        while not (noted.exists() and noted.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert noted.read_text().strip() in line


def test_without_a_screen_the_way_from_another_machine_is_told(trace: Path) -> None:
    with with_browser(trace) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert "ssh -L " in process.stdout.readline()


def test_takes_another_port_where_its_own_is_in_use(trace: Path) -> None:
    with serving(str(trace)) as first, serving(str(trace)) as second:
        assert first != second


def test_compressed_trace_is_taken(trace: Path, tmp_path: Path) -> None:
    compressed = tmp_path / "trace.json.gz"
    compressed.write_bytes(gzip.compress(trace.read_bytes()))
    with serving(str(compressed), "--port", "0") as url:
        assert urllib.request.urlopen(url + "trace/trace.json.gz").read() == compressed.read_bytes()


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"PK\3\4", "is no trace in JSON"),
        ("folder", "is a directory"),
        ("pipe", "is no regular file"),
    ],
)
def test_bad_file(tmp_path: Path, content: bytes | str | None, remedy: str) -> None:
    path = tmp_path / "trace.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    answer = refused(str(path))
    assert str(path) in answer
    assert remedy in answer


def test_chosen_port_in_use(trace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = refused(str(trace), "--port", str(port), "--no-browser")
        assert f"--port {port}: in use by" in answer
        assert f"(pid {os.getpid()})" in answer


def test_address_of_another_machine(trace: Path) -> None:
    assert "--bind 192.0.2.1: " in refused(str(trace), "--bind", "192.0.2.1", "--no-browser")


def test_page_not_installed(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'hpucluster[viewer]'" in refused(str(trace))
