"""The proxy that `wheelfit proxy` and `wheelfit run` start, opened from their options."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from wheelfit.cli.output import Output
from wheelfit.core.shorthands import combined, find_shorthand
from wheelfit.errors import InvalidConfiguration, UnknownHost, UnknownShorthand
from wheelfit.operations.asked import choice_policy
from wheelfit.operations.cache_folder import cache_folder_in_use
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.hosts import own_hosts
from wheelfit.operations.indexes import open_indexes
from wheelfit.operations.machine import choose_machine
from wheelfit.operations.user_folders import home
from wheelfit.platforms.cache_folder import usable_cache_folder
from wheelfit.server.admission import Admission
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.origins import Addressed
from wheelfit.server.proxy.application import Proxy
from wheelfit.server.proxy.folder_upstream import FolderUpstream
from wheelfit.server.proxy.mounting import Mounted
from wheelfit.server.proxy.profiles import Profile
from wheelfit.server.proxy.upstream import Upstream
from wheelfit.sources.open import is_protected, open_web
from wheelfit.sources.urls import file_path, origin, redact

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from wheelfit.install.environment import Environment
    from wheelfit.server.messages import Application
    from wheelfit.sources.open import Web
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.settings import SourceSettings

_LONGEST_NAME = 200
_PATIENCE = 60.0
"""Seconds that a page of an index may take, however slowly it comes."""
_LOOK_AGAIN = 30.0
"""Seconds after which this machine is looked at anew: its driver may be another one."""


class OpenedProxy:
    """Hold a proxy and what it was opened with.

    :param application: answers requests.
    :param proxies: those that answer behind it.
    :param webs: what fetches for them.
    :param repository: where plugins come from.
    :param has_logins: whether an index behind it is asked with a login.
    """

    def __init__(
        self,
        application: Application,
        proxies: Iterable[Proxy],
        webs: Iterable[Web],
        repository: Remembered,
        *,
        has_logins: bool,
    ) -> None:
        self.application = application
        """Answers requests."""
        self.has_logins = has_logins
        """Whether an index behind it is asked with a login."""
        self._proxies = tuple(proxies)
        self._webs = tuple(webs)
        self._repository = repository

    def cut(self) -> None:
        """Break off what is under way."""
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
    arguments: Namespace,
    settings: SourceSettings,
    environ: Mapping[str, str],
    output: Output,
    *,
    below: Mapping[str, SourceSettings] = MappingProxyType({}),
) -> OpenedProxy:
    """Open a proxy; no index is asked yet.

    :param arguments: the options of `options.table.proxying.PROXIED`.
    :param settings: which indexes are behind it, and how they are asked.
    :param environ: the environment of the process.
    :param output: told what people should know.
    :param below: further proxies below paths, each with the settings of its own indexes.
    :raises InvalidConfiguration: no index is left that can be asked.
    """
    upstreams = _Upstreams(arguments, environ, output)
    behind = {name: upstreams.of(own) for name, own in {"": settings, **below}.items()}
    if not any(behind.values()):
        raise InvalidConfiguration(
            "there is no index to stand in front of", hint="name one with --index-url"
        )
    repository = open_indexes(arguments, settings, environ, output)
    environment = open_environment_of(arguments, environ)
    profiles = _Profiles(arguments, settings, environment, repository, environ, output)
    profiles("")  # what is wrong with the options shows now
    proxies = {
        name: Proxy(
            of_one,
            profiles,
            mode="full" if arguments.full else "additive",
            catalogue=arguments.catalogue,
            in_locks_of_uv=arguments.in_uv_locks,
            note=output.warn,
        )
        for name, of_one in behind.items()
    }
    usual = proxies.pop("")
    return OpenedProxy(
        Mounted(usual, proxies) if proxies else usual,
        (usual, *proxies.values()),
        (one.web for one in upstreams.opened),
        repository,
        has_logins=any(one.has_login for one in upstreams.opened),
    )


def serving(
    application: Application, *, port: int = 0, names: Iterable[str] = ()
) -> LoopbackServer:
    """Return a small server for this machine that is to be entered.

    :param application: what it serves.
    :param names: as for `wheelfit.server.origins.Names`.
    :param port: port to listen at; 0 takes a free one.
    :raises InvalidConfiguration: it cannot listen there.
    """
    try:
        return LoopbackServer(Addressed(application, names), port=port)
    except OSError as error:
        raise InvalidConfiguration(
            f"nothing can be served there: {error.strerror or type(error).__name__}",
            where=f"127.0.0.1:{port}",
            hint="choose another --port",
        ) from None


class _Upstreams:
    """Open each index once, whoever asks it."""

    def __init__(self, arguments: Namespace, environ: Mapping[str, str], output: Output) -> None:
        self._arguments = arguments
        self._environ = environ
        self._output = output
        self._told: set[str] = set()
        self._known: dict[tuple[str, tuple[str, ...]], Upstream] = {}

    @property
    def opened(self) -> tuple[Upstream, ...]:
        """All that were opened."""
        return tuple(self._known.values())

    def of(self, settings: SourceSettings) -> tuple[Upstream, ...]:
        """Return the indexes of some settings, in their order."""
        found = []
        for url in dict.fromkeys(settings.index_urls):
            key = (url, settings.trusted_hosts)
            known = self._known.get(key) or self._open(url, settings)
            if known is not None:
                self._known[key] = known
                found.append(known)
        return tuple(found)

    def _open(self, url: str, settings: SourceSettings) -> Upstream | None:
        folder = _folder(url)
        if folder is not None:
            return FolderUpstream(folder, self._web(url, settings))
        try:
            where = origin(url)
        except ValueError:
            raise InvalidConfiguration(
                f"{redact(url)} is no URL of an index", hint="as https://wheels.example.org/simple/"
            ) from None
        if where.scheme not in {"http", "https"}:
            self._leave_out(url, "a proxy stands in front of folders and web servers only")
            return None
        if not is_protected(url, settings):
            self._leave_out(
                url, f"it is not https; --trusted-host {where.host} uses it all the same"
            )
            return None
        if self._arguments.no_bridges:
            return Upstream(url, self._web(url, settings))
        from wheelfit.server.proxy.bridged import BridgedUpstream
        from wheelfit.sources.bridges.shelf import Shelf

        return BridgedUpstream(url, self._web(url, settings), Shelf(self._arguments.bridge))

    def _leave_out(self, url: str, why: str) -> None:
        if url not in self._told:
            self._told.add(url)
            self._output.warn(f"{redact(url)} is left out: {why}")

    def _web(self, url: str, settings: SourceSettings) -> Web:
        arguments = self._arguments
        is_folder = _folder(url) is not None
        return open_web(
            replace(settings, index_url=url, extra_index_urls=(), find_links=(), no_index=False),
            cache_folder=usable_cache_folder(
                cache_folder_in_use(arguments, self._environ),
                lambda _text: None,  # `open_indexes` tells of its faults, once
            ),
            environ=self._environ,
            home=home(),
            offline=arguments.offline,
            note=self._output.warn,
            admits=(lambda _host, _address: False)
            if is_folder
            else Admission.of(url, arguments.link_host),
            patience=_PATIENCE,
        )


def _folder(url: str) -> Path | None:
    """Return the folder that an index is; None if it is none."""
    if url.startswith("file:"):
        try:
            return Path(file_path(url))
        except ValueError:
            return None
    return Path(url) if "://" not in url and Path(url).exists() else None


class _Silent(Output):
    """Say nothing: it was said before."""

    def warn(self, text: str) -> None:
        """Say nothing."""


class _Profiles:
    """Find machines by the names that URLs have; a name never becomes that of a file."""

    def __init__(
        self,
        arguments: Namespace,
        settings: SourceSettings,
        environment: Environment,
        repository: Remembered,
        environ: Mapping[str, str],
        output: Output,
    ) -> None:
        self._arguments = arguments
        self._settings = settings
        self._environment = environment
        self._repository = repository
        self._environ = environ
        self._output = output
        self._own = own_hosts(environ)
        self._known: dict[str, tuple[float, Profile]] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str) -> Profile:
        """Return a profile."""
        with self._lock:
            since, known = self._known.get(name, (0.0, None))
            now = time.monotonic()
            if known is not None and now - since < _LOOK_AGAIN:
                return known
            if known is not None and (name or self._arguments.host):
                return known  # what is described does not change
            found = self._find(name)
            while len(self._known) >= 256:
                del self._known[next(iter(self._known))]  # whoever asks for many has had his
            self._known[name] = (now, found)
            # Who looks again need not hear again what is in effect.
            self._output = _Silent(json=False, verbosity=-1)
            return found

    def _find(self, name: str) -> Profile:
        from wheelfit.platforms.presets import compose, is_preset

        if not name:
            return self._of_machine(self._arguments)
        if len(name) > _LONGEST_NAME or "/" in name or os.sep in name or name.endswith(".toml"):
            raise UnknownHost("the profile is none that there could be")
        problem = None
        try:
            if name not in self._own and is_preset(name):
                compose([name])  # there is such a one
            if name in self._own or is_preset(name):
                return self._of_machine(_with(self._arguments, host=name))
        except UnknownHost as error:
            problem = error
        try:
            shorthand = find_shorthand(name, self._arguments.shorthands)
        except UnknownShorthand:
            raise problem or UnknownHost(
                f"{name[:80]!r} is no profile",
                hint="there are presets (`wheelfit host list`), as cuda-12.8-sm90, and "
                "shorthands, as cuda12 and cpu",
            ) from None
        profile = self._of_machine(self._arguments)
        wishes = combined([shorthand], profile.policy.preferences)
        return replace(profile, name=name, policy=replace(profile.policy, preferences=wishes))

    def _of_machine(self, arguments: Namespace) -> Profile:
        target = self._environment.target()
        machine = choose_machine(arguments, target, self._environ, self._output)
        return Profile(
            machine.name,
            machine.target,
            machine.detector,
            machine.user_lists,
            choice_policy(arguments, machine.policy),
            machine.plugins(
                self._environment, self._repository, self._settings, arguments, self._output
            ),
        )


def _with(arguments: Namespace, **changes: object) -> Namespace:
    return type(arguments)(**{**vars(arguments), **changes})
