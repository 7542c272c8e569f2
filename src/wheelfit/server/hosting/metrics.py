"""Metrics of a server for Prometheus; the only importer of `prometheus_client`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wheelfit.errors import NeedsExtra
from wheelfit.wheels.disk_space import disk_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.server.upstream.counts import MirrorCounts


_DURATION_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class Metrics:
    """The counters of one server.

    :raises NeedsExtra: the library is not installed.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise NeedsExtra("server", "prometheus-client") from None
        registry = prometheus.CollectorRegistry()
        requests = prometheus.Counter(
            "wheelfit_requests", "Requests, by route", ["route", "status"], registry=registry
        )
        seconds = prometheus.Histogram(
            "wheelfit_request_seconds", "Seconds until a response was sent", ["route"],
            buckets=_DURATION_BUCKETS, registry=registry,
        )  # fmt: skip
        self._sent = prometheus.Counter(
            "wheelfit_sent_bytes", "Bytes of the bodies of responses", registry=registry
        )
        self._uploads = prometheus.Counter(
            "wheelfit_uploads", "Uploads, by outcome", ["outcome"], registry=registry
        )
        self._webhooks = prometheus.Counter(
            "wheelfit_webhooks", "Messages to webhooks, by outcome", ["outcome"], registry=registry
        )
        prometheus.ProcessCollector(registry=registry)
        # Routes and statuses are from small sets, which clients cannot extend.
        self._request: Callable[[str, int], Any] = lru_cache(None)(
            lambda route, status: requests.labels(route, str(status))
        )
        self._seconds: Callable[[str], Any] = lru_cache(None)(seconds.labels)
        self._register = registry.register
        self._write: Callable[[], bytes] = lambda: prometheus.generate_latest(registry)

    def count_request(self, route: str, status: int, sent: int, seconds: float) -> None:
        """Count a request."""
        self._request(route, status).inc()
        self._seconds(route).observe(seconds)
        self._sent.inc(sent)

    def count_upload(self, outcome: str) -> None:
        """Count an upload.

        :param outcome: ``accepted``, ``repeated`` or ``refused``.
        """
        self._uploads.labels(outcome).inc()

    def count_delivery(self, outcome: str) -> None:
        """Count an attempt to deliver to a webhook.

        :param outcome: ``delivered``, ``failed`` or ``lost``.
        """
        self._webhooks.labels(outcome).inc()

    def watch(self, mirrors: Iterable[MirrorCounts], folders: Mapping[str, Path]) -> None:
        """Register counts of mirrors and the space on disks, which are read at each scrape.

        :param folders: folders by their purpose.
        """
        self._register(_WatchedCounts(tuple(mirrors), folders))

    def exposition(self) -> bytes:
        """Return all counters, in the text format of Prometheus."""
        return self._write()


@dataclass(frozen=True, slots=True, eq=False)
class _WatchedCounts:
    """A collector of counts of mirrors and disks."""

    mirrors: tuple[MirrorCounts, ...]
    folders: Mapping[str, Path]

    def collect(self) -> Iterator[Any]:
        """Yield all counts in their present state."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        files = CounterMetricFamily(
            "wheelfit_mirror_files",
            "Requests for mirrored files, and transfers that failed",
            labels=["mirror", "outcome"],
        )
        pages = CounterMetricFamily(
            "wheelfit_mirror_pages",
            "Requests to upstreams for pages, by outcome",
            labels=["mirror", "outcome"],
        )
        sizes = CounterMetricFamily(
            "wheelfit_mirror_bytes",
            "Bytes of files from upstreams, and to clients",
            labels=["mirror", "direction"],
        )
        families = {"file": files, "page": pages, "bytes": sizes}
        for mirror in self.mirrors:
            for key, count in mirror.read().items():
                family, outcome = key.split()  # as "file hit"
                families[family].add_metric([mirror.name, outcome], count)
        yield from families.values()
        disks = GaugeMetricFamily(
            "wheelfit_disk_bytes", "Bytes of disks", labels=["place", "state"]
        )
        for purpose, folder in self.folders.items():
            try:
                used, free = disk_space(folder)
            except OSError:  # `Dependency.probe` reports it
                continue
            disks.add_metric([purpose, "used"], used)
            disks.add_metric([purpose, "free"], free)
        yield disks
