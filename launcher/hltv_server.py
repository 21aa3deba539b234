"""The web server behind `hltv`: Perfetto's page and one trace, from this machine to a browser.

`/` leads to the page with the trace's address in its `url` parameter, which is how Perfetto is told what to open
(https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui). The page stands in a folder of its own because it
installs a service worker, 45 MB in the browser's cache for every port, where it finds itself at the top.

Nothing leaves the machine: the page is served with a policy that lets it talk to this server alone. A request under
another host name is refused, or any web page could read the trace through a name that it points at this machine.
"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import urllib.parse
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path

PAGE = "/perfetto/"
TRACE = "/trace/"

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # its start is an inline script; WebAssembly counts as eval
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self' blob: data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
    )
)

_STARTUP_COMMANDS = [
    {"id": "dev.perfetto.ExpandTracksByRegex", "args": ["^(DMA|MME|TPC|NIC|host|/device:HPU:0)( .*)?$"]}
]

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",  # else the browser cannot compile it while it loads
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_OTHER_TYPE = "application/octet-stream"


class TraceServer(http.server.ThreadingHTTPServer):
    """Serves the trace at `trace` with the page in the folder `perfetto`.

    Raises:
        OSError: the port is taken, or the address is none of this machine's.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, trace: Path, perfetto: Path, address: str, port: int) -> None:
        self.trace = trace
        self.perfetto = perfetto
        self.hosts = _hosts(address)
        super().__init__((address, port), _Handler)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the trace."""
        host = str(self.server_address[0])
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of a transfer is no error."""


def _hosts(address: str) -> frozenset[str] | None:
    """Host names under which the server answers; None: any, because the user opened it to other machines."""
    return None if address == "0.0.0.0" else frozenset({address, "127.0.0.1", "localhost"})


class _Handler(http.server.BaseHTTPRequestHandler):
    server: TraceServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        try:
            self._answer()
        except ValueError:  # a host or a path that is none
            self.send_error(HTTPStatus.BAD_REQUEST)

    def _answer(self) -> None:
        host = self.headers.get("Host", "")
        name = urllib.parse.urlsplit(f"//{host}").hostname or ""
        if self.server.hosts is not None and name not in self.server.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, "this server answers to its own address only")
            return
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path == "/":
            self._lead(host)
        elif path.startswith(TRACE):
            self._send(self.server.trace, _OTHER_TYPE)
        elif path.startswith(PAGE):
            self._send_page(path[len(PAGE) :] or "index.html")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _lead(self, host: str) -> None:
        # The last part is what the page shows as the trace's name, as it stands: so only what ends a path is quoted.
        trace = f"http://{host}{TRACE}{re.sub('[%?#]', '_', self.server.trace.name)}"
        parameters = {"url": trace, "hideSidebar": "true", "startupCommands": json.dumps(_STARTUP_COMMANDS)}
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", f"{PAGE}#!/?{urllib.parse.urlencode(parameters, quote_via=urllib.parse.quote)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_page(self, name: str) -> None:
        folder = self.server.perfetto.resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._send(path, _TYPES.get(path.suffix, _OTHER_TYPE), (("Content-Security-Policy", _POLICY),))

    def _send(self, path: Path, kind: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        try:
            file = path.open("rb")
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with file:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            for header in headers:
                self.send_header(*header)
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line each."""
