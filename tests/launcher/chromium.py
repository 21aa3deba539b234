"""A headless Chromium for tests, driven over the DevTools protocol through a pair of pipes.

Chromium reads commands from file descriptor 3 and answers on 4, JSON ended by a zero byte
(`--remote-debugging-pipe`), so no web socket and no package is needed.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = "chromium"

_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # as root it starts with no sandbox only; the page is ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1400,900",
)


def program() -> str:
    """Path of the browser. Raises FileNotFoundError where there is none."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise FileNotFoundError(f"there is no {PROGRAM}: run python tests/system_packages.py")
    return path


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are above those that Chromium wants."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    for end in low:
        os.close(end)
    return high[0], high[1]


class Chromium:
    """One page of a headless Chromium. A context manager; `folder` holds its profile."""

    def __init__(self, folder: Path) -> None:
        read_commands, self._commands = _pipe()
        self._answers, write_answers = _pipe()
        self._folder = folder
        self._log = (folder / "chromium.log").open("wb")
        environment = os.environ | {"HOME": str(folder)}
        # The shell moves the pipes to where Chromium looks for them.
        script = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "-", program(), *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        page = next(target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.page(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._log.close()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer. Raises RuntimeError with the browser's message."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(60)
            if answer.get("id") == number:
                break
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def page(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the page."""
        return self.call(method, self._session, **parameters)

    def open(self, url: str) -> None:
        """Go to `url`."""
        self.page("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.page("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60) -> None:
        """Wait until a JavaScript expression is true.

        Raises:
            TimeoutError: with the page's text, and a picture of the page beside the browser's profile.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):  # the page is not there yet, or is being replaced
                if self.evaluate(f"!!({expression})"):
                    return
            time.sleep(0.2)
        text = self.evaluate("document.body.innerText")
        self.screenshot(self._folder / "page.png")
        raise TimeoutError(f"{expression} did not become true; the page says:\n{text}")

    def click(self, x: float, y: float) -> None:
        """Click at a point of the page, in pixels from its upper left corner."""
        for kind, buttons in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
            self.page("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1)

    def requested(self) -> list[str]:
        """Addresses that the page has asked the network for."""
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [request["request"]["url"] for request in sent]

    def complaints(self) -> list[str]:
        """What the page and the browser reported as errors."""
        logged = [event["params"]["entry"] for event in self.events if event.get("method") == "Log.entryAdded"]
        thrown = [event["params"] for event in self.events if event.get("method") == "Runtime.exceptionThrown"]
        return [entry["text"] for entry in logged if entry["level"] == "error"] + [str(one) for one in thrown]

    def screenshot(self, path: Path) -> None:
        """Write what the page shows as PNG."""
        picture = self.page("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(picture["data"]))

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._answers, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError(f"Chromium says nothing; its log is in {self._log.name}")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer
