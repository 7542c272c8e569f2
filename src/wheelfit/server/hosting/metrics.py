"""Count what a server does, for Prometheus; the only importer of `prometheus_client`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wheelfit.errors import NeedsExtra

if TYPE_CHECKING:
    from collections.abc import Callable


_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class Metrics:
    """The counters of one server.

    :raises NeedsExtra: the library is not installed.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        try:
            import prometheus_client as prometheus  # noqa: PLC0415 - an extra
        except ImportError:
            raise NeedsExtra("server", "prometheus-client") from None
        registry = prometheus.CollectorRegistry()
        requests = prometheus.Counter(
            "wheelfit_requests", "Requests, by what was asked", ["route", "status"],
            registry=registry,
        )  # fmt: skip
        seconds = prometheus.Histogram(
            "wheelfit_request_seconds", "Seconds until an answer was sent", ["route"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._sent = prometheus.Counter(
            "wheelfit_sent_bytes", "Bytes of the bodies of answers", registry=registry
        )
        self._uploads = prometheus.Counter(
            "wheelfit_uploads", "Uploads, by what became of them", ["outcome"], registry=registry
        )
        self._webhooks = prometheus.Counter(
            "wheelfit_webhooks", "Messages to webhooks, by what became of them", ["outcome"],
            registry=registry,
        )  # fmt: skip
        prometheus.ProcessCollector(registry=registry)
        # Both come from small sets: a client cannot make more of them.
        self._request: Callable[[str, int], Any] = lru_cache(None)(
            lambda route, status: requests.labels(route, str(status))
        )
        self._seconds: Callable[[str], Any] = lru_cache(None)(seconds.labels)
        self._write: Callable[[], bytes] = lambda: prometheus.generate_latest(registry)

    def served(self, route: str, status: int, sent: int, seconds: float) -> None:
        """Count a request."""
        self._request(route, status).inc()
        self._seconds(route).observe(seconds)
        self._sent.inc(sent)

    def uploaded(self, outcome: str) -> None:
        """Count an upload.

        :param outcome: ``accepted``, ``repeated`` or ``refused``.
        """
        self._uploads.labels(outcome).inc()

    def told_webhook(self, outcome: str) -> None:
        """Count an attempt to tell a webhook.

        :param outcome: ``delivered``, ``failed`` or ``lost``.
        """
        self._webhooks.labels(outcome).inc()

    def written(self) -> bytes:
        """Return all counters, as monitoring reads them."""
        return self._write()
