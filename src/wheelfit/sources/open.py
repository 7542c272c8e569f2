"""Open the repository that settings describe."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from wheelfit.sources.cache import Store
from wheelfit.sources.cached_pages import CachedPages
from wheelfit.sources.certificates import check_named, unverified_context, verifying_context
from wheelfit.sources.client import UNREACHABLE_PAUSE, Client
from wheelfit.sources.credentials import Credentials, read_netrc
from wheelfit.sources.download_limits import ConnectionLimits
from wheelfit.sources.file_readers import AllFiles
from wheelfit.sources.find_links import DirectoryIndex, FileIndex, LinkPage
from wheelfit.sources.http_index import HttpIndex
from wheelfit.sources.keyring_access import open_keyring
from wheelfit.sources.memoized import MemoizedRepository
from wheelfit.sources.merged import Pool
from wheelfit.sources.proxies import ProxyRules, is_proxy_url
from wheelfit.sources.remote_files import RemoteFiles
from wheelfit.sources.retries import RetryPolicy
from wheelfit.sources.transport import Interrupted, OnDemandTransport, Transport
from wheelfit.sources.urls import file_path, is_protected, origin, redact
from wheelfit.sources.wheel_store import WheelStore
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.sources.bridges.repository import BridgedRepository
    from wheelfit.sources.repository import Files, Repository
    from wheelfit.sources.settings import PinnedProject, SourceSettings


def open_sources(
    settings: SourceSettings,
    *,
    cache_folder: Path | None,
    environ: Mapping[str, str],
    home: Path | None = None,
    working_folder: Path | None = None,
    offline: bool = False,
    refresh: bool = False,
    urls_with_logins: Iterable[str] = (),
    note: Callable[[str], None] = lambda _text: None,
    max_download: int | None = None,
    by_content: bool = False,
    direct_urls: Iterable[str] = (),
    fetches_direct_urls_whole: bool = False,
) -> OpenedSources:
    """Return the repository that settings describe.

    No request is sent yet, so a server that is down is noticed when it is first needed. Parameters
    that are not listed here are those of `RemoteFiles`.

    :param cache_folder: the cache folder; None keeps nothing.
    :param environ: for proxies, certificates, netrc and keyring.
    :param home: the home folder with netrc; the user's by default.
    :param working_folder: the base of relative paths; the current folder by default.
    :param offline: contact no server; use folders and the cache.
    :param refresh: revalidate even fresh pages.
    :param urls_with_logins: URLs from requirements as they were written; their logins are used.
    :param note: called, once each, with notes for users (F-136).
    :param by_content: whether cached wheels are verified byte by byte before they are used.
    :raises InvalidConfiguration: a certificate cannot be read, or an index is not a URL.
    """
    note = _NotesOnce(note)
    web = open_web(
        settings,
        cache_folder=cache_folder,
        environ=environ,
        home=home,
        offline=offline,
        refresh=refresh,
        urls_with_logins=urls_with_logins,
        note=note,
        max_download=max_download,
        by_content=by_content,
        direct_urls=direct_urls,
        fetches_direct_urls_whole=fetches_direct_urls_whole,
    )
    trusted = _TrustedHosts(settings.trusted_hosts)
    files = web.files
    opener = _Opener(web.pages, files, trusted, settings, working_folder or Path.cwd(), note)
    links = list(opener.find_links(settings.find_links))
    indexes = list(opener.indexes(settings.index_urls))
    pins, markers = _open_pinned(settings, opener)
    pool = Pool(
        [index for index, _ in indexes],
        links=[source for source, _ in links],
        pins=pins,
        markers=markers,
        strategy=settings.index_strategy,
        local=[repository.name for repository, is_local in (*links, *indexes) if is_local],
        others=files,
        note=note,
    )
    return OpenedSources(pool, pool, web.close, web.cancel)


class OpenedSources(MemoizedRepository):
    """The sources of a command, with results cached in memory.

    :param bridged: the wrapper that presents families as variants; None: there is none.
    """

    def __init__(
        self,
        repository: Repository,
        pool: Pool,
        close: Callable[[], None] = lambda: None,
        cancel: Callable[[], None] = lambda: None,
        bridged: BridgedRepository | None = None,
    ) -> None:
        super().__init__(repository, close, cancel)
        self.pool = pool
        self.bridged = bridged


def _open_pinned(
    settings: SourceSettings, opener: _Opener
) -> tuple[
    Mapping[NormalizedName, Sequence[Repository]],
    Mapping[NormalizedName, Sequence[tuple[str, str]]],
]:
    """Return the indexes of each pinned project, and the markers of its pins.

    :return: the indexes by project, none if no index is read; and, for projects with markers, pairs
        of an index's name and a marker.
    :raises InvalidConfiguration: a pin names an index that is not configured.
    """
    if not settings.pins:
        return {}, {}
    from packaging.utils import canonicalize_name

    urls = {index.name: index.url for index in reversed(settings.indexes)}
    opened: dict[str, list[Repository]] = {}
    pinned: dict[NormalizedName, list[Repository]] = {}
    markers: dict[NormalizedName, list[tuple[str, str]]] = {}
    for pin in settings.pins:
        if pin.index not in urls:
            raise _unknown_index(pin, urls)
        name = canonicalize_name(pin.project)
        indexes = pinned.setdefault(name, [])
        if settings.no_index:
            continue
        if pin.index not in opened:
            opened[pin.index] = [index for index, _ in opener.indexes([urls[pin.index]])]
        for index in opened[pin.index]:
            if index not in indexes:
                indexes.append(index)
            markers.setdefault(name, []).append((index.name, pin.marker))
    with_markers = {
        name: pairs for name, pairs in markers.items() if any(marker for _, marker in pairs)
    }
    return pinned, with_markers


def _unknown_index(pin: PinnedProject, known: Iterable[str]) -> InvalidConfiguration:
    from difflib import get_close_matches

    close = get_close_matches(pin.index, known, n=1)
    return InvalidConfiguration(
        f"{pin.project} is pinned to the index {pin.index!r}, which is not configured",
        hint=f"did you mean {close[0]!r}?"
        if close
        else f'add an [[index]] table with name = "{pin.index}" and its url',
    )


class Web(Struct, frozen=True):
    """The client, caches and settings with which pages and files are fetched."""

    pages: CachedPages
    files: Files
    wheels: WheelStore
    remove_uncached: Callable[[], None]
    """Removes fetched wheels that no cache keeps."""

    @property
    def client(self) -> Client:
        """The client that sends the requests."""
        return self.pages.client

    @property
    def store(self) -> Store:
        """The cache."""
        return self.pages.store

    def close(self) -> None:
        """End workers, close every connection, and release locks on cache entries."""
        self.wheels.close()
        self.remove_uncached()
        self.client.close()
        self.store.close()

    def cancel(self) -> None:
        """Cancel running requests and the tasks of workers, from any thread."""
        self.wheels.close()
        self.client.cancel()


def open_web(
    settings: SourceSettings,
    *,
    cache_folder: Path | None,
    environ: Mapping[str, str],
    home: Path | None = None,
    offline: bool = False,
    refresh: bool = False,
    urls_with_logins: Iterable[str] = (),
    note: Callable[[str], None] = lambda _text: None,
    max_download: int | None = None,
    is_allowed_address: Callable[[str, str], bool] = lambda _host, _address: True,
    is_allowed_url: Callable[[str], bool] = lambda _url: True,
    response_timeout: float | None = None,
    unreachable_pause: float = UNREACHABLE_PAUSE,
    by_content: bool = False,
    direct_urls: Iterable[str] = (),
    fetches_direct_urls_whole: bool = False,
) -> Web:
    """Return the fetcher of pages and files that settings describe.

    Parameters that are not listed here are those of `open_sources`.

    :param is_allowed_address: returns whether requests to a host at a resolved address are allowed.
    :param is_allowed_url: returns whether a URL may be requested.
    :param response_timeout: seconds for the head of a response, and as many for the body of a page;
        None: no limit while bytes arrive.
    :param unreachable_pause: seconds for which an unreachable server is not contacted again.
    :raises InvalidConfiguration: a certificate cannot be read.
    """
    trusted = _TrustedHosts(settings.trusted_hosts)
    home = home or Path.home()
    logins = Credentials(
        (
            *settings.index_urls,
            *(index.url for index in settings.indexes),
            *settings.find_links,
            *urls_with_logins,
        ),
        logins=read_netrc(environ, home, note=note),
        keyring=open_keyring(settings.keyring, environ=environ, note=note),
        is_trusted=trusted.contains,
    )
    client = _client(
        settings, trusted, logins, environ, is_allowed_address, is_allowed_url, response_timeout,
        unreachable_pause,
    )  # fmt: skip
    store = Store(cache_folder if settings.cache else None, note=note)
    pages = CachedPages(
        client,
        store,
        offline=offline,
        refresh=refresh,
        may_cache=lambda url: is_protected(origin(url), trusted.contains),
    )
    wheels = WheelStore(store, note=note, by_content=by_content, has_workers=True)
    remote = RemoteFiles(
        pages,
        store,
        note=note,
        max_download=max_download,
        wheels=wheels,
        connections=ConnectionLimits(settings.connections),
        direct_urls=direct_urls,
        fetches_direct_urls_whole=fetches_direct_urls_whole,
    )
    return Web(pages, AllFiles(remote, wheels), wheels, remote.close)


def _client(
    settings: SourceSettings,
    trusted: _TrustedHosts,
    credentials: Credentials,
    environ: Mapping[str, str],
    is_allowed_address: Callable[[str, str], bool],
    is_allowed_url: Callable[[str], bool],
    response_timeout: float | None,
    unreachable_pause: float,
) -> Client:
    check_named(settings.cert, settings.client_cert, environ=environ)
    proxies = _proxy_rules(settings, environ)

    def is_allowed(url: str) -> bool:
        if settings.hosts is None:
            return is_allowed_url(url)
        server = origin(url)
        if server.host not in settings.hosts.names:
            raise _foreign_host(server.host, settings.hosts.family)
        return server.scheme == "https" and is_allowed_url(url)

    def connect() -> Transport:
        # A command that needs only folders and the cache saves a tenth of a second: it neither
        # imports urllib3 nor reads certificates.
        from wheelfit.sources.urllib3_transport import Urllib3Transport

        return Urllib3Transport(
            context=verifying_context(settings.cert, settings.client_cert, environ=environ),
            insecure=unverified_context(settings.client_cert) if trusted else None,
            is_trusted=trusted.contains,
            proxy=proxies.proxy_for,
            timeout=settings.timeout,
            is_allowed_address=is_allowed_address,
            is_allowed_url=is_allowed,
            response_timeout=response_timeout,
        )

    return Client(
        OnDemandTransport(connect),
        credentials=credentials,
        policy=RetryPolicy(settings.retries),
        resume_policy=RetryPolicy(settings.resume_retries),
        is_trusted=trusted.contains,
        response_timeout=response_timeout,
        unreachable_pause=unreachable_pause,
    )


def _foreign_host(host: str, family: str) -> Interrupted:
    """Return the error of a request to a host that the bridge of a family does not list."""
    from wheelfit.sources.bridges.catalogue import shipped_file

    path = shipped_file(family)
    file = "its file" if path is None else f"a copy of {path}"
    return Interrupted(
        f"the bridge {family} does not list this host",
        retry_chance="none",
        hint="run `wheelfit bridges update`; if the host is still missing and is the owner's, "
        f'add "{host}" to hosts = [...] in {file}, and pass that file with --bridge',
    )


def _proxy_rules(settings: SourceSettings, environ: Mapping[str, str]) -> ProxyRules:
    if settings.proxy is not None:
        rules = ProxyRules.for_all(settings.proxy)
        for url in rules.by_scheme.values():
            if not is_proxy_url(url):
                raise InvalidConfiguration(
                    "the proxy is not an http, https or SOCKS URL with a host", where=redact(url)
                )
        return rules
    if settings.no_proxy_env:
        return ProxyRules({})
    system = None
    if sys.platform in {"win32", "darwin"}:
        from urllib.request import getproxies  # 50 ms; it reads the proxy settings of the system

        system = getproxies()
    return ProxyRules.from_environ(environ, system)


class _NotesOnce:
    """A function for notes that forwards each text only once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        with self._lock:
            if text in self._seen:
                return
            self._seen.add(text)
        self._note(text)


class _TrustedHosts:
    """The hosts of ``--trusted-host``, as in pip.

    :param texts: ``host``, ``host:port``, ``[address]:port``.
    :raises InvalidConfiguration: a text has another form.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._hosts = frozenset(_host_and_port(text) for text in texts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def contains(self, host: str, port: int | None) -> bool:
        """Return whether a server is trusted; a host without a port is trusted on all ports."""
        host = host.lower()
        return (host, None) in self._hosts or (host, port) in self._hosts


def _host_and_port(text: str) -> tuple[str, int | None]:
    is_bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    try:
        parts = urlsplit(f"//[{text}]" if is_bare_ipv6 else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise InvalidConfiguration(
            f"trusted-host {text!r} is not a host", hint="use the form HOST or HOST:PORT"
        )
    return host, port


def is_protected_index(url: str, settings: SourceSettings) -> bool:
    """Return whether the connection prevents forged responses, or the host is trusted."""
    return is_protected(origin(url), _TrustedHosts(settings.trusted_hosts).contains)


_LOGIN = pattern(r"[^/\\\s]+:[^/\\\s]*@")
"""The beginning of a URL with a login and without a scheme."""


class _Opener(Struct, frozen=True):
    """An opener of find-links locations and indexes, with the same settings for all."""

    pages: CachedPages
    files: Files
    trusted: _TrustedHosts
    settings: SourceSettings
    working_folder: Path
    note: Callable[[str], None]

    def find_links(self, locations: Iterable[str]) -> Iterable[tuple[Repository, bool]]:
        """Yield the sources of ``--find-links``, and whether each is on this machine.

        :param locations: paths and URLs.
        """
        for location in locations:
            path = self._path(location)
            if path is None:
                self._check_web_url(location, "find-links")
                if self._is_safe(location):
                    yield LinkPage(location, self.files, pages=self.pages, note=self.note), False
            elif path.is_dir():
                yield DirectoryIndex(path, self.files), True
            elif path.is_file():
                yield LinkPage(path, self.files), True
            else:
                self.note(f"{path}, named by find-links, does not exist")

    def indexes(self, urls: Iterable[str]) -> Iterable[tuple[Repository, bool]]:
        """Yield the indexes, and whether each is on this machine."""
        for url in dict.fromkeys(urls):
            path = self._path(url)
            if path is None:
                self._check_web_url(url, "the index URL")
                if self._is_safe(url):
                    index = HttpIndex(
                        url,
                        self.pages,
                        self.files,
                        requires_pages_below_url=self.settings.requires_pages_below_url,
                        note=self.note,
                    )
                    yield self._with_cooldown(index), False
            else:
                if not path.is_dir():
                    self.note(f"{path}, named as an index, does not exist")
                yield FileIndex(path, self.files), True

    def _with_cooldown(self, index: HttpIndex) -> Repository:
        if self.settings.cooldown is None:
            return index
        from wheelfit.sources.cooldown import UploadedBefore

        return UploadedBefore(index, self.settings.cooldown, self.note)

    def _path(self, text: str) -> Path | None:
        """Return the path that a text names; None for a URL of a server."""
        if text.startswith("file:"):
            try:
                return Path(file_path(text))
            except ValueError as error:
                raise InvalidConfiguration(str(error), where=redact(text)) from error
        if "://" in text:
            return None
        path = self.working_folder / os.path.expanduser(text)  # noqa: PTH111 # an unknown user is no error
        if _LOGIN.match(text.lstrip("/")) and not path.exists():
            # As the name of a folder, it would appear in messages with its password.
            raise InvalidConfiguration(
                "a URL with a user name and a password has no scheme",
                hint="begin it with https://",
            )
        return path

    @staticmethod
    def _check_web_url(url: str, setting: str) -> None:
        try:
            is_web_url = origin(url).scheme in {"http", "https"}
        except ValueError:
            is_web_url = False
        if not is_web_url:
            raise InvalidConfiguration(
                f"{setting} is neither a folder nor an http or https URL", where=redact(url)
            )

    def _is_safe(self, url: str) -> bool:
        """Return whether a server may be contacted: as in pip, over plain HTTP only if trusted."""
        server = origin(url)
        if is_protected(server, self.trusted.contains):
            return True
        self.note(
            f"{redact(url)} is ignored: it uses plain HTTP; "
            f"--trusted-host {server.host} uses it anyway"
        )
        return False
