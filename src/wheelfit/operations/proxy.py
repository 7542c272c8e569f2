"""Serve variants to other installers, with a proxy for each machine."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from msgspec import structs

from wheelfit.core.shorthands import combine_preferences, find_shorthand
from wheelfit.errors import NeedsExtra, UnknownShorthand
from wheelfit.operations.cache_folder import cache_folder_in_use
from wheelfit.operations.context import Context
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.hosts import own_hosts
from wheelfit.operations.indexes import families_in_effect, open_indexes, read_settings
from wheelfit.operations.machine import choose_machine
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.requests import (
    EnvironmentOptions,
    MachineOptions,
    SourceOptions,
    VariantOptions,
)
from wheelfit.operations.user_folders import home
from wheelfit.server.allowed_addresses import AddressRules
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.offering import OfferedRepository, OfferRules
from wheelfit.server.proxy.application import PathRouter, Proxy, SecretPathGuard
from wheelfit.server.proxy.profiles import Profile
from wheelfit.server.proxy.serving import serve_on_network
from wheelfit.server.proxy.upstream import BridgedUpstream, FolderUpstream, Upstream
from wheelfit.server.rebinding_guard import RebindingGuard
from wheelfit.sources.cooldown import Cooldown
from wheelfit.sources.find_links import LinkPage
from wheelfit.sources.open import Web, is_protected_index, open_web
from wheelfit.sources.urls import file_path, is_loopback, origin, redact
from wheelfit_runtime.errors import InvalidConfiguration, UnknownHost, os_reason
from wheelfit_runtime.platforms.cache_folder import usable_cache_folder
from wheelfit_runtime.platforms.presets import compose, is_preset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit.installation.environment import Environment
    from wheelfit.server.messages import Application
    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import FamilyHosts, SourceSettings

_PAGE_MAX_AGE = 60.0
"""Seconds after which a page of a family's owner is requested again; if its server declares it
fresh for longer, the cached page is used."""
_MAX_NAME_LENGTH = 200
_PAGE_TIMEOUT = 60.0
"""Total seconds that a page of an index may take."""
_UNREACHABLE_PAUSE = 5.0
"""Seconds for which an unreachable index is not contacted again; installers repeat requests."""
_DETECTION_LIFETIME = 30.0
"""Seconds after which this machine is detected again, since its driver may have changed."""


class ProxiedRequest(SourceOptions, EnvironmentOptions, MachineOptions, VariantOptions):
    """The indexes behind a proxy, and the machine for which it chooses."""

    full: bool = False
    all_variants: bool = False
    uv_lock: bool = False
    allow_private_host: tuple[str, ...] = ()


@dataclass(slots=True)
class ProxySession:
    """A proxy with its connections and sources; a context manager that closes them."""

    application: Application
    proxies: Sequence[Proxy]
    webs: Sequence[Web]
    """The connections of the proxies; more may be added later."""
    repository: MemoizedRepository
    has_logins: bool
    """Whether an index behind it gets a login."""

    def cancel(self) -> None:
        """Abort every transfer in progress."""
        for web in self.webs:
            web.cancel()
        self.repository.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self.proxies:
            proxy.close()
        for web in self.webs:
            web.close()
        self.repository.close()


def open_proxy(
    request: ProxiedRequest,
    settings: SourceSettings,
    context: Context,
    *,
    by_path: Mapping[str, SourceSettings] = MappingProxyType({}),
    denied: Advisories | None = None,
) -> ProxySession:
    """Open a proxy; no request is sent yet.

    :param by_path: the settings of further proxies, by the path at which each is served.
    :param denied: vulnerabilities whose releases are not offered; None: all releases are.
    :raises InvalidConfiguration: there is no usable index.
    """
    upstreams = _Upstreams(request, context, OfferRules(settings.cooldown or Cooldown(), denied))
    indexes = {
        name: upstreams.for_settings(index_settings)
        for name, index_settings in {"": settings, **by_path}.items()
    }
    if not any(indexes.values()):
        raise InvalidConfiguration("no index is configured", hint="name one with --index-url")
    repository = open_indexes(request, settings, context)
    environment = open_environment_of(request, context.environ, may_be_own=True)
    host_files = own_hosts(context.environ)
    profiles = _Profiles(request, settings, environment, repository, context, host_files)
    profiles("")  # raises on invalid options
    proxies = {
        name: Proxy(
            path_indexes,
            profiles,
            mode="full" if request.full else "additive",
            all_variants=request.all_variants,
            allows_uv_locks=request.uv_lock,
            note=context.reporter.warn,
        )
        for name, path_indexes in indexes.items()
    }
    root_proxy = proxies.pop("")
    return ProxySession(
        PathRouter(root_proxy, proxies) if proxies else root_proxy,
        (root_proxy, *proxies.values()),
        upstreams.webs,
        repository,
        has_logins=any(
            index.has_login for path_indexes in indexes.values() for index in path_indexes
        ),
    )


def open_loopback_server(
    application: Application, *, port: int, names: Iterable[str] = ()
) -> LoopbackServer:
    """Return a server that other machines cannot reach; it starts as a context manager.

    :param port: the port to listen at; 0 takes a free one.
    :param names: as for `wheelfit.server.rebinding_guard.HostNames`.
    :raises InvalidConfiguration: it cannot listen there.
    """
    try:
        return LoopbackServer(RebindingGuard(application, names), port=port)
    except OSError as error:
        raise InvalidConfiguration(
            f"the server cannot listen at this address: {os_reason(error)}",
            where=f"127.0.0.1:{port}",
            hint="choose another --port",
        ) from None


@dataclass(slots=True)
class _Upstreams:
    """The indexes behind a proxy; each is opened once.

    :param rules: the rules by which files of any index are offered.
    """

    request: ProxiedRequest
    context: Context
    rules: OfferRules
    _reported: set[str] = field(default_factory=set, init=False)
    _upstreams: dict[tuple[str, tuple[str, ...]], Upstream] = field(
        default_factory=dict, init=False
    )
    webs: list[Web] = field(default_factory=list, init=False)
    """The connections to these indexes, and to those of each family, opened when first needed."""

    def for_settings(self, settings: SourceSettings) -> tuple[Upstream, ...]:
        """Return the indexes of some settings, in their order."""
        upstreams = []
        for url in dict.fromkeys(settings.index_urls):
            key = (url, settings.trusted_hosts)
            upstream = self._upstreams.get(key) or self._open(url, settings)
            if upstream is not None:
                self._upstreams[key] = upstream
                upstreams.append(upstream)
        return tuple(upstreams)

    def _open(self, url: str, settings: SourceSettings) -> Upstream | None:
        folder = _folder(url)
        if folder is not None:
            return FolderUpstream(folder, self._web(url, settings), self.rules)
        try:
            address = origin(url)
        except ValueError:
            raise InvalidConfiguration(
                f"{redact(url)} is not a URL of an index",
                hint="as https://wheels.example.org/simple/",
            ) from None
        if address.scheme not in {"http", "https"}:
            self._warn_ignored(url, "a proxy serves folders and web servers only")
            return None
        if not is_protected_index(url, settings):
            self._warn_ignored(
                url, f"it is not https; --trusted-host {address.host} uses it anyway"
            )
            return None
        web = self._web(url, settings)
        plain = Upstream(url, web, rules=self.rules, note=self._warn_once)
        catalogue = families_in_effect(self.request, settings, self.context.environ)
        if not catalogue:
            return plain

        def open_index(url: str, *, is_page: bool, hosts: FamilyHosts | None) -> Repository:
            web = self._web(url, structs.replace(settings, hosts=hosts))
            if is_page:
                page = LinkPage(
                    url, web.files, pages=web.pages, note=self._warn_once, max_age=_PAGE_MAX_AGE
                )
                return OfferedRepository(page, self.rules)
            return Upstream(url, web, rules=self.rules, note=self._warn_once)

        return BridgedUpstream(plain, catalogue, open_index)

    def _warn_ignored(self, url: str, why: str) -> None:
        self._warn_once(f"{redact(url)} is ignored: {why}")

    def _warn_once(self, note: str) -> None:
        if note not in self._reported:
            self._reported.add(note)
            self.context.reporter.warn(note)

    def _web(self, url: str, settings: SourceSettings) -> Web:
        request = self.request
        is_allowed_address: Callable[[str, str], bool] = _refuse_address
        if _folder(url) is None:
            is_allowed_address = AddressRules.of(url, request.allow_private_host)
        web = open_web(
            structs.replace(
                settings, index_url=url, extra_index_urls=(), find_links=(), no_index=False
            ),
            cache_folder=usable_cache_folder(
                cache_folder_in_use(request, self.context.environ),
                lambda _text: None,  # `open_indexes` reports its faults, once
            ),
            environ=self.context.environ,
            home=home(),
            offline=request.offline,
            note=self.context.reporter.warn,
            is_allowed_address=is_allowed_address,
            response_timeout=_PAGE_TIMEOUT,
            unreachable_pause=_UNREACHABLE_PAUSE,
        )
        self.webs.append(web)
        return web


def _refuse_address(_host: str, _address: str) -> bool:
    """Return False for any server, since a local folder needs none."""
    return False


def _folder(url: str) -> Path | None:
    """Return the folder of a local index; None for other indexes."""
    if url.startswith("file:"):
        try:
            return Path(file_path(url))
        except ValueError:
            return None
    return Path(url) if "://" not in url and Path(url).exists() else None


@dataclass(slots=True)
class _Profiles:
    """The machines and shorthands by their names in URLs; no name is read as a path."""

    request: ProxiedRequest
    settings: SourceSettings
    environment: Environment
    repository: MemoizedRepository
    context: Context
    own_hosts: Mapping[str, Path]
    """The user's host files, by name."""
    _profiles: dict[str, tuple[float, Profile]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, name: str) -> Profile:
        """Return a profile."""
        with self._lock:
            now = time.monotonic()
            if name in self._profiles:
                detected_at, profile = self._profiles[name]
                is_described = bool(name or self.request.host)  # a description does not change
                if is_described or now - detected_at < _DETECTION_LIFETIME:
                    return profile
            profile = self._find(name)
            while len(self._profiles) >= 256:
                del self._profiles[next(iter(self._profiles))]  # the oldest
            self._profiles[name] = (now, profile)
            # The first profile has reported options and overrides, so later ones report nothing.
            self.context = Context(self.context.environ)
            return profile

    def _find(self, name: str) -> Profile:
        """Return the profile of a host file, a preset or a shorthand, in this order of precedence.

        :param name: the name; empty: this machine.
        :raises UnknownHost: there is none of that name.
        """
        if not name:
            return self._machine_profile(self.request)
        if len(name) > _MAX_NAME_LENGTH or "/" in name or os.sep in name or name.endswith(".toml"):
            raise UnknownHost("this name cannot be that of a profile")
        preset_error = None
        is_own_host = name in self.own_hosts
        if is_own_host or is_preset(name):
            try:
                if not is_own_host:
                    compose([name])  # raises on unknown parts of the name
                return self._machine_profile(self.request.with_options(host=name))
            except UnknownHost as error:
                preset_error = error  # raised if there is no shorthand of that name either
        try:
            shorthand = find_shorthand(name, self.request.shorthands)
        except UnknownShorthand:
            raise preset_error or UnknownHost(
                f"{name[:80]!r} is not a profile",
                hint="there are presets (`wheelfit host list`), as cuda-12.8-sm90, and "
                "shorthands, as cuda12 and cpu",
            ) from None
        profile = self._machine_profile(self.request)
        preferences = combine_preferences([shorthand], profile.policy.preferences)
        return replace(
            profile, name=name, policy=structs.replace(profile.policy, preferences=preferences)
        )

    def _machine_profile(self, request: ProxiedRequest) -> Profile:
        machine = choose_machine(request, self.environment.target, self.context)
        return Profile(
            machine.name,
            machine.target,
            machine.detector,
            machine.host_detector,
            choice_policy(request, machine.policy),
            machine.plugins(self.environment, self.repository, self.settings, request),
        )


SECRET = "WHEELFIT_PROXY_SECRET"  # noqa: S105 - the name of a variable
"""The environment variable with a secret that is part of every URL's path."""


class ProxyRequest(ProxiedRequest):
    """The proxy to serve."""

    listen_at: str = "127.0.0.1"
    port: int = 8941
    allowed_host: tuple[str, ...] = ()
    deny_vulnerable: str | None = None


@dataclass(frozen=True, slots=True)
class ServedProxy:
    """A proxy that answers requests."""

    base: str
    """The beginning of its URLs, with the secret."""
    full: bool
    all_variants: bool

    @property
    def index_url(self) -> str:
        """The URL for installers on this machine."""
        return f"{self.base}/simple/"

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "full all_variants", url=self.index_url)


def proxy(
    request: ProxyRequest, context: Context, *, started: Callable[[ServedProxy], None]
) -> None:
    """Serve a proxy until the process is interrupted.

    :raises InvalidConfiguration: it cannot listen there, or has no index behind it.
    :raises NeedsExtra: it listens for other machines, and the libraries for that are missing.
    """
    secret = context.environ.get(SECRET, "")
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{16,200}", secret):
        raise InvalidConfiguration(
            f"{SECRET} must have at least 16 characters, all of them letters, digits, - or _"
        )
    settings = read_settings(request, context.environ)
    denied = None
    if request.deny_vulnerable is not None:
        from wheelfit.sources.advisories import Advisories

        denied = Advisories(Path(request.deny_vulnerable), context.reporter.warn)
        if not request.full:
            context.reporter.warn(
                "--deny-vulnerable applies to files that the proxy lists, not to those that "
                "installers fetch from another index: --full serves all files through the proxy"
            )
    if settings.cooldown is not None and not request.full:
        context.reporter.warn(
            "--uploaded-prior-to applies to files that the proxy lists, not to those that "
            "installers fetch from another index: set it for them too, or serve all files through "
            "the proxy with --full"
        )
    with open_proxy(request, settings, context, denied=denied) as session:
        if not secret and session.has_logins:
            context.reporter.warn(
                "the proxy sends your login to an index, so anyone who can reach the proxy can "
                f"read what you can read there; set {SECRET} to restrict access"
            )
        if not is_loopback(request.listen_at):
            context.reporter.warn(
                f"other machines can reach the proxy at {request.listen_at} over plain HTTP: put a "
                "server with TLS in front of it in a network that you do not trust"
            )
        if secret:
            session.application = SecretPathGuard(session.application, secret)

        def ready(origin: str) -> None:
            base = f"{origin}/{secret}" if secret else origin
            started(ServedProxy(base, request.full, request.all_variants))

        try:
            _serve(session, request, context, ready)
        finally:
            session.cancel()


def _serve(
    session: ProxySession, request: ProxyRequest, context: Context, ready: Callable[[str], None]
) -> None:
    """Serve until interrupted; without the extra, on the loopback interface only."""
    host, port = request.listen_at, request.port
    try:
        serve_on_network(
            session.application,
            host=host,
            port=port,
            host_names=request.allowed_host,
            ready=ready,
            note=context.reporter.warn,
            cancel=session.cancel,
        )
    except NeedsExtra:
        if not is_loopback(host):
            raise
        with open_loopback_server(
            session.application, port=port, names=request.allowed_host
        ) as server:
            ready(server.origin)
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            session.cancel()
