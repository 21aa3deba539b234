"""A Python that has loaded PyTorch, without our device, and waits for scripts: each runs in a fork of it.

A script that starts so finds PyTorch loaded, and loads the device as `import torch` would have; else it runs as with
`python script.py`, to the interpreter's own end. It saves most of what a process costs. Not for tests of imports, of
starting, or of what differs from one Python to the next, such as the order of a set.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

READ_AT_START = ("PYTHON", "OMP_", "MKL_", "GOMP_", "KMP_", "LD_", "TORCH_", "XDG_")
"""Variables that Python, the loader or PyTorch's libraries read once: their names begin so."""


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(READ_AT_START)}


class WarmPython:
    """Client: starts the process with the first script, and anew after one that did not end in time."""

    def __init__(self) -> None:
        self._environ: dict[str, str] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def can_run(self, environ: Mapping[str, str]) -> bool:
        """Whether a script would find in PyTorch's libraries what its environment says."""
        return _settings(environ) == _settings(os.environ)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return ours

    def run(
        self, path: Path, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run([python, path, *arguments], capture_output=True, text=True, ...)`."""
        if self._server is not None and self._server.poll() is not None:
            self.close()  # a script has taken it along, by a signal to its process group
        if self._socket is None:
            self._socket = self._start()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = pickle.dumps((str(path), list(arguments), str(folder), dict(environ)))
            try:
                self._socket.settimeout(timeout)
                socket.send_fds(self._socket, [len(request).to_bytes(8, "little")], [out.fileno(), err.fileno()])
                self._socket.sendall(request)
                answer = self._socket.recv(8)
                if not answer:
                    raise RuntimeError(f"{__file__} has ended early: it has written why")
                status = int.from_bytes(answer, "little", signed=True)
            except TimeoutError:
                self.close()
                raise subprocess.TimeoutExpired([str(path), *arguments], timeout) from None
            except BaseException:
                self.close()
                raise
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return subprocess.CompletedProcess([str(path), *arguments], status, *texts)

    def close(self) -> None:
        """End the process, and a script that still runs."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None


# ---- the process itself


def _next_script(connection: socket.socket) -> tuple[str, list[str], str, dict[str, str]] | None:
    """Serve until the connection ends (None); in a fork, return what it is to run."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, 8, 2)
        if not head:
            return None
        body = b""
        while len(body) < int.from_bytes(head, "little"):
            body += connection.recv(1 << 20)
        child = os.fork()
        if child == 0:
            connection.close()
            for number, descriptor in enumerate(descriptors, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            request: tuple[str, list[str], str, dict[str, str]] = pickle.loads(body)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))


def _become(path: str, arguments: list[str], folder: str, environ: dict[str, str]) -> Any:
    """Have this process look as if Python had just been started with a script; returns its code."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv[:] = [path, *arguments]
    sys.path[0] = str(Path(path).parent)
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    return compile(Path(path).read_text(), path, "exec")


if __name__ == "__main__":
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    import torch._dynamo  # by the first optimizer

    with socket.socket(fileno=int(sys.argv[1])) as connection:
        gc.freeze()
        script = _next_script(connection)
    if script is not None:
        code = _become(*script)
        torch._import_device_backends()
        exec(code, sys.modules["__main__"].__dict__)
