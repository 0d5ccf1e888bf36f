# SPDX-License-Identifier: Apache-2.0
"""Serve Prometheus metrics at `/metrics` and a health check at `/health`.

Each connection has its own daemon thread, a timeout and a total time limit. The number of connections is limited: a new
connection at the limit closes the oldest one. So silent or slow clients block neither other clients nor the shutdown.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.server import ThreadingHTTPServer
from logging import getLogger
from typing import Any
from urllib.parse import urlsplit

from zenlake.errors import LinkError, ZenlakeError
from zenlake.link.base import describe

__all__ = ["Figure", "MetricsPage"]

Figure = tuple[str, str, Mapping[str, str], float]
"""Name, description, labels and value of a metric. A name that ends in `_total` is a counter."""

MAX_CONNECTIONS = 16
TIMEOUT = 5.0  # seconds that one read or write of a connection may take
MAX_SECONDS = 10.0  # of a whole connection: a client that sends one byte per second is slow, not silent
POLL = 0.1  # seconds between two checks for expired connections and for the shutdown

log = getLogger("zenlake.runtime")


class _Server(ThreadingHTTPServer):
    """An HTTP server that limits the number and the age of connections."""

    daemon_threads = True
    block_on_close = False  # the shutdown does not wait for clients

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._open: dict[socket.socket, float] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            surplus = list(self._open)[: max(0, len(self._open) + 1 - MAX_CONNECTIONS)]
            self._open[request] = time.monotonic()
        self._end(surplus)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections that exceed MAX_SECONDS. The server loop calls this every POLL seconds."""
        oldest = time.monotonic() - MAX_SECONDS
        with self._lock:
            expired = [request for request, since in self._open.items() if since < oldest]
        self._end(expired)

    def end_all(self) -> None:
        with self._lock:
            requests = list(self._open)
        self._end(requests)

    def _end(self, requests: list[socket.socket]) -> None:
        """Wake the threads that read from or write to these sockets. Each thread then closes its own socket."""
        for request in requests:
            with self._lock:
                self._open.pop(request, None)
            with suppress(OSError):  # the client or the thread was faster
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log one line without a traceback, and nothing for a client that disconnected."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            log.error("metrics request of %s failed: %s: %s", client_address[0], type(error).__name__, error)


class MetricsPage:
    """An HTTP server of metrics that runs until `close`.

    Args:
        address: `HOST:PORT`, or `:PORT` for this machine only.
        figures: Called for each request of `/metrics`.
        trouble: Called for each request of `/health`. Returns the problem, or an empty text.

    Threading: `figures` and `trouble` run on the thread of each request.
    """

    def __init__(
        self, address: str, figures: Callable[[], Iterable[Figure]], trouble: Callable[[], str] = lambda: ""
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry, MetricsHandler
        except ModuleNotFoundError:
            raise ZenlakeError("metrics need the package `prometheus-client`: pip install 'zenlake[metrics]'") from None
        pages = CollectorRegistry()
        collector: Any = _Collector(figures)
        pages.register(collector)

        class Handler(MetricsHandler):
            registry = pages
            timeout = TIMEOUT

            def do_GET(self) -> None:
                try:
                    self._get()
                except Exception:
                    self.send_error(500)
                    raise

            def _get(self) -> None:
                path = urlsplit(self.path).path
                if path in ("/", "/metrics"):
                    super().do_GET()
                elif path == "/health":
                    problem = trouble()
                    self._reply(503 if problem else 200, problem or "ok")
                else:
                    self._reply(404, "not found; expected /metrics or /health")

            def _reply(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.end_headers()
                self.wfile.write(text.encode(errors="backslashreplace") + b"\n")

        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise ZenlakeError(
                f"metrics address `{address}` is invalid; expected HOST:PORT, like 127.0.0.1:9100 or :9100"
            )
        try:
            self._server = _Server((host or "127.0.0.1", int(port)), Handler)
        except OSError as error:
            raise LinkError(f"http://{address}", describe(error)) from None
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL,), name="zenlake-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the server and close every connection, without waiting for a client."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.end_all()


class _Collector:
    """A collector for prometheus-client."""

    def __init__(self, figures: Callable[[], Iterable[Figure]]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[object]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {}
        for name, what, labels, value in self._figures():
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = families[name] = kind(name, what, labels=list(labels))
            family.add_metric(list(labels.values()), value)
        return families.values()
