"""The HTTP server that Prometheus scrapes, on the loopback interface unless another is asked for."""

from __future__ import annotations

import sys
import threading
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

from .placement import LOOPBACK

DEFAULT_PORT = 41611
"""The Gaudi Prometheus exporter's port."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away before its answer has come is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class MetricsServer:
    """Serves `/metrics` while entered, from threads of its own.

    `port`: 0 chooses a free one. `host`: name or address of the interface. Raises OSError where they cannot be had.
    """

    def __init__(self, port: int, registry: CollectorRegistry, host: str = LOOPBACK) -> None:
        self._server = _Server((host, port), MetricsHandler.factory(registry))
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="hpucluster-metrics", daemon=True
        )

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
