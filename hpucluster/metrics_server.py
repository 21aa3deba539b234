"""The HTTP server that Prometheus scrapes, on the loopback interface."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from types import TracebackType

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

from .placement import LOOPBACK

DEFAULT_PORT = 41611
"""The Gaudi Prometheus exporter's port."""


class MetricsServer:
    """Serves `/metrics` while entered, from threads of its own.

    `port`: 0 chooses a free one. Raises OSError where the port cannot be had.
    """

    def __init__(self, port: int, registry: CollectorRegistry) -> None:
        self._server = ThreadingHTTPServer((LOOPBACK, port), MetricsHandler.factory(registry))
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
