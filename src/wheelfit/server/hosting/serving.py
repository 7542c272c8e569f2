"""Start the server of an index, and run it until it is stopped."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from wheelfit.server.asgi import AsgiApplication, ServedRequest
from wheelfit.server.forwarded import TrustedProxies
from wheelfit.server.hosting.access import OPERATOR
from wheelfit.server.hosting.application import HostedIndex, route_of
from wheelfit.server.hosting.logs import Log, choose_log_format, library_messages, traceback_of
from wheelfit.server.hosting.metrics import Metrics
from wheelfit.server.hosting.public_errors import public_errors
from wheelfit.server.hosting.readers import ReadableIndex
from wheelfit.server.hosting.trusted_publishing import TrustedPublishing
from wheelfit.server.hosting.webhooks import WebhookDelivery
from wheelfit.server.listening import listen_at, listen_on, origin_of, serve
from wheelfit.server.rebinding_guard import HostNames, is_on_loopback
from wheelfit.server.site.site import Site
from wheelfit.server.store.audit import Actor
from wheelfit.server.store.blobs import disk_error, make_folder
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import Store, clean, open_store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import issue_first_token, redact_stage_secrets
from wheelfit.sources.open import open_web
from wheelfit.sources.settings import SourceSettings
from wheelfit.sources.urls import file_path
from wheelfit.wheels.atomic_write import write_file
from wheelfit_runtime.errors import InvalidConfiguration, WheelfitError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping
    from typing import TextIO

    from wheelfit.server.backing_services import Dependency
    from wheelfit.server.hosting.settings import ServerSettings
    from wheelfit.server.messages import Application
    from wheelfit.server.store.records import RecentUpload
    from wheelfit.server.upstream.opening import Mirrors
    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.repository import Index


_TOKEN_FILE = "admin-token"  # noqa: S105 - the name of a file
_FIRST_INHERITED_FD = 3
_UMASK = 0o027
_CLEANING_INTERVAL = 3600.0
_CLEANING_END_TIMEOUT = 5.0
_DEADLINE_CHECK_INTERVAL = 0.1
_MIRROR_ANSWER_TIMEOUT = 120.0
_GRACE = timedelta(days=1)
"""The age from which unused data is removed."""


class ServerAddress(NamedTuple):
    """The address of a started server."""

    origin: str
    """The prefix of its URLs."""
    token_file: Path | None
    """The file with the first token, if it was just written; None: there were tokens before."""
    bridges: tuple[str, ...]
    """The families whose indexes are mirrored, by their names in URLs."""


def run_server(
    settings: ServerSettings,
    environ: Mapping[str, str],
    *,
    started: Callable[[ServerAddress], None],
    log_to: TextIO | None,
) -> None:
    """Serve an index until the process receives a signal to stop.

    :param environ: the environment of the process; systemd may hand over a socket in it.
    :param started: called once requests are answered.
    :raises InvalidConfiguration: a setting is not possible.
    :raises StorageUnavailable: the store cannot be opened.
    """
    metrics = Metrics()
    with (
        _private_files(),
        _logging(settings, log_to) as log,
        open_store(settings.folder, records=settings.database, blobs=settings.storage) as store,
        _listening(settings, environ) as listener,
        _watching(store.probes, log),
        _cleaning(settings, store.with_actor(Actor("server")), log),
        _delivering_to_webhooks(settings, store, log, metrics),
        _mirroring(settings, environ, log, advisories := _advisories(settings, log)) as mirrors,
    ):
        counts = [] if mirrors is None else [mirror.counts for mirror in mirrors.all_mirrors()]
        metrics.watch(counts, _folders_by_purpose(settings))
        stored = StoredIndex(store)
        index: Index = stored
        bridges: Mapping[str, Application] = {}
        if mirrors is not None:
            from wheelfit.server.upstream.families import FamilyIndexes

            index = mirrors.merge_with_uploads(
                index, owners=settings.owners, owns_name=store.records.owns_name
            )
            bridges = {
                name: FamilyIndexes(mirror, wrap=lambda index: ReadableIndex(index, log))
                for name, mirror in mirrors.families.items()
            }

        def recent() -> tuple[RecentUpload, ...]:
            with public_errors(log):
                return stored.recent()

        token_file = _first_token(store, settings.folder)
        url = settings.public_url or origin_of(listener)
        names = _host_names(settings, listener)
        hosted = HostedIndex(
            store,
            log=log,
            metrics=metrics,
            rules=settings.rules,
            site=lambda readable: Site(
                readable,
                public_url=settings.public_url,
                trusts_host=names is not None,
                takes_uploads=True,
                advisories=advisories,
                recent=recent,
            ),
            index=index,
            bridges=bridges,
            publishing=None
            if not settings.publishers
            else TrustedPublishing(
                settings.publishers,
                url,
                open_web(
                    SourceSettings(timeout=5.0, retries=1), cache_folder=None, environ=environ
                ).client,
            ),
            names=names,
            # Changes of upstreams are not announced, so all pages are checked every second.
            generation=None
            if mirrors is None
            else lambda: (store.records.serial(), int(time.monotonic())),
        )

        limits = settings.limits
        if settings.mirrors:  # which have longer deadlines
            limits = replace(limits, response_timeout=_MIRROR_ANSWER_TIMEOUT)
        application = AsgiApplication(
            hosted,
            cached_response=hosted.cached_response,
            limits=limits,
            origin=url,
            on_served=_recorder(log, metrics, access_log=settings.access_log),
            proxies=TrustedProxies(settings.trusted_proxies, settings.proxy_headers)
            if settings.trusted_proxies
            else None,
        )

        def ready() -> None:
            log("started", origin=url)
            started(ServerAddress(url, token_file, tuple(bridges)))
            _notify_systemd(environ, "READY=1")

        serve(
            application,
            listener,
            limits,
            ready=ready,
            shutdown_timeout=settings.shutdown_timeout,
            cancel=(lambda: None) if mirrors is None else mirrors.cancel,
            note=lambda text: log("connections", message=text),
        )
        log("stopped")


@contextmanager
def _private_files() -> Iterator[None]:
    """Set a umask by which only the owner and the group can read new files, for the block.

    Files of the store have such a mode anyway; the umask is for files that libraries create: the
    log of the database, pages of mirrors.
    """
    before = os.umask(_UMASK)
    os.umask(before | _UMASK)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _listening(settings: ServerSettings, environ: Mapping[str, str]) -> Iterator[socket.socket]:
    fd = settings.fd
    if fd is None and environ.get("LISTEN_PID") == str(os.getpid()):
        if environ.get("LISTEN_FDS") != "1":
            raise InvalidConfiguration(
                "systemd must pass exactly one socket",
                where="LISTEN_FDS",
            )
        fd = _FIRST_INHERITED_FD
    with listen_at(settings.host, settings.port) if fd is None else listen_on(fd) as listener:
        yield listener


def _host_names(settings: ServerSettings, listener: socket.socket) -> HostNames | None:
    """Return the host names that the server answers to; None for any.

    If other machines reach it, its addresses and names cannot all be determined.
    """
    if not (settings.allowed_hosts or is_on_loopback(listener)):
        return None
    names = list(settings.allowed_hosts)
    if settings.public_url is not None:
        names.append(urlsplit(settings.public_url).hostname or "")
    if is_on_loopback(listener):
        names.append(settings.host)
    return HostNames(names)


@contextmanager
def _logging(settings: ServerSettings, stream: TextIO | None) -> Iterator[Log]:
    log_format = choose_log_format(settings.log_format, stream)
    log = Log(stream, log_format)
    try:
        with library_messages(log) if log_format == "json" else nullcontext():
            yield log
    finally:
        log.close()


def _recorder(log: Log, metrics: Metrics, *, access_log: bool) -> Callable[[ServedRequest], None]:
    """Return a function that counts and logs answered requests."""

    def log_request(served: ServedRequest) -> None:
        route, path = route_of(served.request.path), redact_stage_secrets(served.request.path)
        metrics.count_request(route, served.status, served.sent, served.seconds)
        if (error := served.error) is not None:
            shown = f"{type(error).__name__}: {error}"
            log("failure", path=path, error=shown, traceback=traceback_of(error))
        if access_log:
            log(
                "request",
                method=served.request.method,
                path=path,
                status=served.status,
                sent=served.sent,
                seconds=round(served.seconds, 4),
                client=served.client or None,
                agent=served.request.headers.get("user-agent"),
            )

    return log_request


@contextmanager
def _watching(probes: Mapping[Dependency, Callable[[], None]], log: Log) -> Iterator[None]:
    """Probe each dependency of the index in a thread of its own, and log its changes."""

    def report(dependency: Dependency) -> None:
        fault, error = dependency.fault, dependency.last_error
        facts: dict[str, str | None] = {}
        if fault and isinstance(error, WheelfitError):
            facts = {"message": error.message, "where": error.where, "hint": error.hint}
        log("dependency", name=dependency.name, state=fault or "ready", **facts)

    def cancel_overdue() -> None:
        while not stop.wait(_DEADLINE_CHECK_INTERVAL):
            for dependency in probes:
                dependency.cancel_overdue()

    stop = threading.Event()
    # Daemons, because a thread that waits in a call cannot be stopped.
    threading.Thread(target=cancel_overdue, name="deadlines", daemon=True).start()
    for dependency, probe in probes.items():
        dependency.on_change = report
        threading.Thread(
            target=dependency.watch, args=(probe, stop), name=dependency.name, daemon=True
        ).start()
    try:
        yield
    finally:
        stop.set()


@contextmanager
def _cleaning(settings: ServerSettings, store: Store, log: Log) -> Iterator[None]:
    """Remove unused data periodically."""
    stop, retention = threading.Event(), timedelta(seconds=settings.audit_retention)

    def run() -> None:
        while True:
            try:
                now = datetime.now(UTC)
                cleaned = clean(store, now=now, grace=_GRACE)
                store.records.audit.prune(timestamp(now - retention))
            except WheelfitError as error:
                log("not-cleaned", message=error.message)
            else:
                if any(cleaned):
                    log("cleaned", **cleaned._asdict())
            if stop.wait(_CLEANING_INTERVAL):
                return

    thread = threading.Thread(target=run, name="cleaning", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_CLEANING_END_TIMEOUT)  # an unresponsive storage must not delay the end


def _folders_by_purpose(settings: ServerSettings) -> Mapping[str, Path]:
    """Return the folders of this machine in which the index keeps files."""
    storages = {"uploads": settings.storage}
    if settings.mirrors:
        storages["mirrors"] = settings.mirror_storage
    return {
        purpose: settings.folder if storage is None else Path(file_path(storage))
        for purpose, storage in storages.items()
        if storage is None or storage.startswith("file:")
    }


def _advisories(settings: ServerSettings, log: Log) -> Advisories | None:
    """Return the vulnerabilities that the operator has records of; None: there are no records."""
    if settings.vulnerabilities is None:
        return None
    from wheelfit.sources.advisories import Advisories

    return Advisories(settings.vulnerabilities, lambda text: log("vulnerabilities", message=text))


@contextmanager
def _delivering_to_webhooks(
    settings: ServerSettings, store: Store, log: Log, metrics: Metrics
) -> Iterator[None]:
    """Notify each webhook of changes, in a thread of its own."""
    stop = threading.Event()
    for webhook in settings.webhooks:
        delivery = WebhookDelivery(webhook, store.records, log=log, count=metrics.count_delivery)
        # A daemon, because an unresponsive receiver must not delay the end; the rest is
        # delivered after the next start.
        threading.Thread(target=delivery.run, args=(stop,), name="webhook", daemon=True).start()
    try:
        yield
    finally:
        stop.set()


@contextmanager
def _mirroring(
    settings: ServerSettings, environ: Mapping[str, str], log: Log, advisories: Advisories | None
) -> Iterator[Mirrors | None]:
    """Yield the mirrors; None if there are none."""
    if not settings.mirrors:
        yield None
        return
    from wheelfit.server.upstream.opening import open_mirrors_in

    mirrors = open_mirrors_in(
        settings.folder,
        settings.mirrors,
        settings.mirror_storage,
        environ=environ,
        note=lambda text: log("mirror", message=text),
        advisories=advisories if settings.denies_vulnerable else None,
    )
    try:
        yield mirrors
    finally:
        mirrors.close()


def _first_token(store: Store, folder: Path) -> Path | None:
    """Create the operator's first token if there is none, and write it to a file."""
    if store.records.tokens():
        return None
    path = folder / _TOKEN_FILE
    try:
        make_folder(folder)
        is_first = issue_first_token(
            store.records.with_actor(Actor("server")),
            OPERATOR,
            ("upload", "admin"),
            now=datetime.now(UTC),
            save=lambda secret: write_file(path, f"{secret}\n".encode(), private=True),
            note="the first one",
        )
    except OSError as error:
        raise disk_error(error, str(path)) from error
    return path if is_first else None


def _notify_systemd(environ: Mapping[str, str], state: str) -> None:
    """Notify systemd of a new state, if ``NOTIFY_SOCKET`` names its socket."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    import socket

    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.send(state.encode())
