# SPDX-License-Identifier: Apache-2.0
"""A page of figures for Prometheus (`/metrics`) and one for whoever watches over processes (`/health`)."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from zenlake.errors import LinkError, ZenlakeError
from zenlake.link.base import describe

__all__ = ["Figure", "MetricsPage"]

Figure = tuple[str, str, Mapping[str, str], float]
"""Name, what it counts, labels, value. A name that ends in `_total` only grows."""


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """A page that is asked for every few seconds is no news."""


class MetricsPage:
    """Serves until it is closed. `figures` is asked at each request; `trouble` says what is wrong, or nothing."""

    def __init__(
        self, address: str, figures: Callable[[], Iterable[Figure]], trouble: Callable[[], str] = lambda: ""
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ModuleNotFoundError:
            raise ZenlakeError("figures need the package `prometheus-client`: pip install 'zenlake[metrics]'") from None
        registry = CollectorRegistry()
        registry.register(_Collector(figures))  # type: ignore[arg-type]
        metrics = make_wsgi_app(registry)

        def page(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if environ["PATH_INFO"] == "/health":
                wrong = trouble()
                start("503 Service Unavailable" if wrong else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
                return [(wrong or "well").encode() + b"\n"]
            if environ["PATH_INFO"] in ("/", "/metrics"):
                answer: Iterable[bytes] = metrics(environ, start)
                return answer
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"there are /metrics and /health\n"]

        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise ZenlakeError(f"metrics address `{address}` is not like 127.0.0.1:9100 or :9100")
        try:
            self._server = make_server(host or "127.0.0.1", int(port), page, handler_class=Quiet)  # type: ignore[arg-type]
        except OSError as error:
            raise LinkError(f"http://{address}", describe(error)) from None
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="zenlake-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Collector:
    """What prometheus-client asks for."""

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
