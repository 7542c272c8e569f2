"""Serve variants to other installers, with a proxy for each machine."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
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
from wheelfit.operations.indexes import families_that_count, open_indexes, read_settings
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
from wheelfit.server.proxy.serving import serve_to_others
from wheelfit.server.proxy.upstream import BridgedUpstream, FolderUpstream, Upstream
from wheelfit.server.rebinding_guard import RebindingGuard
from wheelfit.sources.cooldown import Cooldown
from wheelfit.sources.find_links import LinkPage
from wheelfit.sources.open import is_protected, open_web
from wheelfit.sources.urls import file_path, is_loopback, origin, redact
from wheelfit_runtime.errors import InvalidConfiguration, UnknownHost
from wheelfit_runtime.platforms.cache_folder import usable_cache_folder
from wheelfit_runtime.platforms.presets import compose, is_preset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wheelfit.installation.environment import Environment
    from wheelfit.server.messages import Application
    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.open import Web
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import FamilyHosts, SourceSettings


_LONGEST_NAME = 200
_PATIENCE = 60.0
"""Total seconds that a page of an index may take."""
_LOOK_AGAIN = 30.0
"""Seconds after which this machine is detected again: its driver may have changed."""


class ProxiedRequest(SourceOptions, EnvironmentOptions, MachineOptions, VariantOptions):
    """The indexes behind a proxy, and the machine for which it chooses."""

    full: bool = False
    all_variants: bool = False
    uv_lock: bool = False
    allow_private_host: tuple[str, ...] = ()


class OpenedProxy:
    """A proxy, and the resources opened for it.

    :param proxies: the proxies by their path.
    :param webs: the connections that they fetch with; may grow.
    :param has_logins: whether an index behind it gets a login.
    """

    def __init__(
        self,
        application: Application,
        proxies: Iterable[Proxy],
        webs: Iterable[Web],
        repository: MemoizedRepository,
        *,
        has_logins: bool,
    ) -> None:
        self.application = application
        """Answers requests."""
        self.has_logins = has_logins
        """Whether an index behind it gets a login."""
        self._proxies = tuple(proxies)
        self._webs = webs
        self._repository = repository

    def cut(self) -> None:
        """Abort every transfer in progress."""
        for web in self._webs:
            web.cut()
        self._repository.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._proxies:
            proxy.close()
        for web in self._webs:
            web.close()
        self._repository.close()


def open_proxy(
    request: ProxiedRequest,
    settings: SourceSettings,
    context: Context,
    *,
    below: Mapping[str, SourceSettings] = MappingProxyType({}),
    denied: Advisories | None = None,
) -> OpenedProxy:
    """Open a proxy; no request is sent yet.

    :param below: further proxies below paths, each with the settings of its own indexes.
    :param denied: vulnerabilities whose releases are not offered; None: all releases are.
    :raises InvalidConfiguration: no usable index is left.
    """
    upstreams = _Upstreams(request, context, OfferRules(settings.cooldown or Cooldown(), denied))
    behind = {name: upstreams.of(own) for name, own in {"": settings, **below}.items()}
    if not any(behind.values()):
        raise InvalidConfiguration("no index is configured", hint="name one with --index-url")
    repository = open_indexes(request, settings, context)
    environment = open_environment_of(request, context.environ, may_be_own=True)
    profiles = _Profiles(request, settings, environment, repository, context)
    profiles("")  # faults of the options show now
    proxies = {
        name: Proxy(
            of_one,
            profiles,
            mode="full" if request.full else "additive",
            all_variants=request.all_variants,
            in_locks_of_uv=request.uv_lock,
            note=context.reporter.warn,
        )
        for name, of_one in behind.items()
    }
    usual = proxies.pop("")
    return OpenedProxy(
        PathRouter(usual, proxies) if proxies else usual,
        (usual, *proxies.values()),
        upstreams.webs,
        repository,
        has_logins=any(one.has_login for one in upstreams.opened),
    )


def serving(
    application: Application, *, port: int = 0, names: Iterable[str] = ()
) -> LoopbackServer:
    """Return a small server for this machine that is to be entered.

    :param names: as for `wheelfit.server.rebinding_guard.HostNames`.
    :param port: port to listen at; 0 takes a free one.
    :raises InvalidConfiguration: it cannot listen there.
    """
    try:
        return LoopbackServer(RebindingGuard(application, names), port=port)
    except OSError as error:
        raise InvalidConfiguration(
            f"the server cannot listen at this address: {error.strerror or type(error).__name__}",
            where=f"127.0.0.1:{port}",
            hint="choose another --port",
        ) from None


class _Upstreams:
    """The indexes behind a proxy; each is opened once.

    :param rules: the files that are offered, of any index.
    """

    def __init__(self, request: ProxiedRequest, context: Context, rules: OfferRules) -> None:
        self._request = request
        self._context = context
        self._rules = rules
        self._told: set[str] = set()
        self._known: dict[tuple[str, tuple[str, ...]], Upstream] = {}
        self.webs: list[Web] = []
        """The connections to them, and to the indexes of families queried since."""

    @property
    def opened(self) -> tuple[Upstream, ...]:
        """The opened upstreams."""
        return tuple(self._known.values())

    def of(self, settings: SourceSettings) -> tuple[Upstream, ...]:
        """Return the indexes of some settings, in their order."""
        upstreams = []
        for url in dict.fromkeys(settings.index_urls):
            key = (url, settings.trusted_hosts)
            known = self._known.get(key) or self._open(url, settings)
            if known is not None:
                self._known[key] = known
                upstreams.append(known)
        return tuple(upstreams)

    def _open(self, url: str, settings: SourceSettings) -> Upstream | None:
        folder = _folder(url)
        if folder is not None:
            return FolderUpstream(folder, self._web(url, settings), self._rules)
        try:
            where = origin(url)
        except ValueError:
            raise InvalidConfiguration(
                f"{redact(url)} is not a URL of an index",
                hint="as https://wheels.example.org/simple/",
            ) from None
        if where.scheme not in {"http", "https"}:
            self._leave_out(url, "a proxy stands in front of folders and web servers only")
            return None
        if not is_protected(url, settings):
            self._leave_out(url, f"it is not https; --trusted-host {where.host} uses it anyway")
            return None
        web = self._web(url, settings)
        plain = Upstream(url, web, rules=self._rules, note=self._tell)
        shelf = families_that_count(self._request, settings, self._context.environ)
        if not shelf:
            return plain

        def open_index(url: str, *, is_page: bool, hosts: FamilyHosts | None) -> Repository:
            web = self._web(url, structs.replace(settings, hosts=hosts))
            if is_page:
                page = LinkPage(url, web.files, pages=web.pages, note=self._tell)
                return OfferedRepository(page, self._rules)
            return Upstream(url, web, rules=self._rules, note=self._tell)

        return BridgedUpstream(plain, shelf, open_index)

    def _leave_out(self, url: str, why: str) -> None:
        self._tell(f"{redact(url)} is left out: {why}")

    def _tell(self, note: str) -> None:
        if note not in self._told:
            self._told.add(note)
            self._context.reporter.warn(note)

    def _web(self, url: str, settings: SourceSettings) -> Web:
        request = self._request
        is_folder = _folder(url) is not None
        web = open_web(
            structs.replace(
                settings, index_url=url, extra_index_urls=(), find_links=(), no_index=False
            ),
            cache_folder=usable_cache_folder(
                cache_folder_in_use(request, self._context.environ),
                lambda _text: None,  # `open_indexes` reports its faults, once
            ),
            environ=self._context.environ,
            home=home(),
            offline=request.offline,
            note=self._context.reporter.warn,
            is_allowed_address=(lambda _host, _address: False)
            if is_folder
            else AddressRules.of(url, request.allow_private_host),
            patience=_PATIENCE,
        )
        self.webs.append(web)
        return web


def _folder(url: str) -> Path | None:
    """Return the folder of a local index; None for other indexes."""
    if url.startswith("file:"):
        try:
            return Path(file_path(url))
        except ValueError:
            return None
    return Path(url) if "://" not in url and Path(url).exists() else None


class _Profiles:
    """Machines by the names in URLs; a name is never that of a file."""

    def __init__(
        self,
        request: ProxiedRequest,
        settings: SourceSettings,
        environment: Environment,
        repository: MemoizedRepository,
        context: Context,
    ) -> None:
        self._request = request
        self._settings = settings
        self._environment = environment
        self._repository = repository
        self._context = context
        self._own = own_hosts(context.environ)
        self._known: dict[str, tuple[float, Profile]] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str) -> Profile:
        """Return a profile."""
        with self._lock:
            since, known = self._known.get(name, (0.0, None))
            now = time.monotonic()
            if known is not None and now - since < _LOOK_AGAIN:
                return known
            if known is not None and (name or self._request.host):
                return known  # a description does not change
            profile = self._find(name)
            while len(self._known) >= 256:
                del self._known[next(iter(self._known))]  # the oldest
            self._known[name] = (now, profile)
            # Remarks on options and overrides are made once.
            self._context = Context(self._context.environ)
            return profile

    def _find(self, name: str) -> Profile:
        if not name:
            return self._of_machine(self._request)
        if len(name) > _LONGEST_NAME or "/" in name or os.sep in name or name.endswith(".toml"):
            raise UnknownHost("the profile is none that there could be")
        problem = None
        try:
            if name not in self._own and is_preset(name):
                compose([name])  # there is such a one
            if name in self._own or is_preset(name):
                return self._of_machine(self._request.with_options(host=name))
        except UnknownHost as error:
            problem = error
        try:
            shorthand = find_shorthand(name, self._request.shorthands)
        except UnknownShorthand:
            raise problem or UnknownHost(
                f"{name[:80]!r} is not a profile",
                hint="there are presets (`wheelfit host list`), as cuda-12.8-sm90, and "
                "shorthands, as cuda12 and cpu",
            ) from None
        profile = self._of_machine(self._request)
        wishes = combine_preferences([shorthand], profile.policy.preferences)
        return replace(
            profile, name=name, policy=structs.replace(profile.policy, preferences=wishes)
        )

    def _of_machine(self, request: ProxiedRequest) -> Profile:
        machine = choose_machine(request, self._environment.target(), self._context)
        return Profile(
            machine.name,
            machine.target,
            machine.detector,
            machine.user_lists,
            choice_policy(request, machine.policy),
            machine.plugins(self._environment, self._repository, self._settings, request),
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
        """Return the report as plain data."""
        return plain_report(self, "full all_variants", url=self.index_url)


def proxy(
    request: ProxyRequest, context: Context, *, started: Callable[[ServedProxy], None]
) -> None:
    """Serve a proxy until the process is interrupted.

    :raises InvalidConfiguration: it cannot listen there, or has no index behind it.
    :raises NeedsExtra: it is to be reached by other machines, and the libraries are missing.
    """
    secret = context.environ.get(SECRET, "")
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{16,200}", secret):
        raise InvalidConfiguration(
            f"{SECRET} needs 16 letters or digits and more, nothing else but - and _"
        )
    settings = read_settings(request, context.environ)
    denied = None
    if request.deny_vulnerable is not None:
        from wheelfit.sources.advisories import Advisories

        denied = Advisories(Path(request.deny_vulnerable), context.reporter.warn)
    if denied is not None and not request.full:
        context.reporter.warn(
            "--deny-vulnerable holds for what the proxy lists, and not for what installers take "
            "from the index beside it: serve everything with --full"
        )
    if settings.cooldown is not None and not request.full:
        context.reporter.warn(
            "--uploaded-prior-to holds for what the proxy lists, and not for what installers take "
            "from the index beside it: give them the option too, or serve everything with --full"
        )
    with open_proxy(request, settings, context, denied=denied) as opened:
        if not secret and opened.has_logins:
            context.reporter.warn(
                "an index behind the proxy is asked with your login, so whoever reaches the "
                f"proxy sees what you see there; {SECRET} keeps others out"
            )
        if not is_loopback(request.listen_at):
            context.reporter.warn(
                f"others may reach the proxy at {request.listen_at}; it speaks plain HTTP, so "
                "put a server with TLS in front of it where the network is not yours"
            )
        if secret:
            opened.application = SecretPathGuard(opened.application, secret)

        def ready(origin: str) -> None:
            base = f"{origin}/{secret}" if secret else origin
            started(ServedProxy(base, request.full, request.all_variants))

        try:
            _serve(opened, request, context, ready)
        finally:
            opened.cut()


def _serve(
    opened: OpenedProxy, request: ProxyRequest, context: Context, ready: Callable[[str], None]
) -> None:
    """Serve until interrupted; without the extra, for this machine only, by a small server."""
    host, port = request.listen_at, request.port
    try:
        serve_to_others(
            opened.application,
            host=host,
            port=port,
            names=request.allowed_host,
            ready=ready,
            failed=context.reporter.warn,
            cancel=opened.cut,
        )
    except NeedsExtra:
        if not is_loopback(host):
            raise
        with serving(opened.application, port=port, names=request.allowed_host) as server:
            ready(server.origin)
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            opened.cut()
