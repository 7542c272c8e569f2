"""The proxy that `wheelfit proxy` and `wheelfit run` start, opened from their options."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelfit.cli.asked import choice_policy
from wheelfit.cli.cache_folder import cache_folder_in_use
from wheelfit.cli.configuration import home
from wheelfit.cli.environments import open_environment_of
from wheelfit.cli.hosts import own_hosts
from wheelfit.cli.indexes import open_indexes
from wheelfit.cli.machine import choose_machine
from wheelfit.cli.output import Output
from wheelfit.core.shorthands import combined, find_shorthand
from wheelfit.errors import InvalidConfiguration, UnknownHost, UnknownShorthand
from wheelfit.server.admission import Admission
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.proxy.application import Proxy
from wheelfit.server.proxy.profiles import Profile
from wheelfit.server.proxy.upstream import Upstream
from wheelfit.sources.open import is_protected, open_web
from wheelfit.sources.urls import origin, redact
from wheelfit.values import replace

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from wheelfit.install.environment import Environment
    from wheelfit.server.messages import Application
    from wheelfit.sources.open import Web
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.settings import SourceSettings

__all__ = ["OpenedProxy", "open_proxy", "serving"]


def __dir__() -> list[str]:
    return __all__


_LONGEST_NAME = 200
_LOOK_AGAIN = 30.0
"""Seconds after which this machine is looked at anew: its driver may be another one."""


class OpenedProxy:
    """Hold a proxy and what it was opened with.

    :param application: answers requests.
    :param webs: what fetches for it.
    :param repository: where plugins come from.
    :param has_logins: whether an index behind it is asked with a login.
    """

    def __init__(
        self, application: Proxy, webs: Iterable[Web], repository: Remembered, *, has_logins: bool
    ) -> None:
        self.application = application
        """Answers requests."""
        self.has_logins = has_logins
        """Whether an index behind it is asked with a login."""
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
        self.application.close()
        for web in self._webs:
            web.close()
        self._repository.close()


def open_proxy(
    arguments: Namespace, settings: SourceSettings, environ: Mapping[str, str], output: Output
) -> OpenedProxy:
    """Open a proxy; no index is asked yet.

    :param arguments: the options of `wheelfit.cli.options.add_proxying`.
    :param settings: which indexes are behind it, and how they are asked.
    :param environ: the environment of the process.
    :param output: told what people should know.
    :raises InvalidConfiguration: no index is left that can be asked.
    """
    upstreams = []
    for url in dict.fromkeys(settings.index_urls):
        try:
            is_web = origin(url).scheme in {"http", "https"}
        except ValueError:
            is_web = False
            if ":" not in url and not Path(url).exists():
                raise InvalidConfiguration(
                    f"{url} is no URL of an index", hint="as https://wheels.example.org/simple/"
                ) from None
        if not is_web:
            # Beside the proxy, installers still look there themselves.
            tell = output.warn if arguments.full else output.detail
            tell(f"{redact(url)} is left out: a proxy stands in front of servers only")
        elif not is_protected(url, settings):
            output.warn(
                f"{redact(url)} is left out: it is not https; "
                f"--trusted-host {origin(url).host} uses it all the same"
            )
        else:
            upstreams.append(_upstream(url, arguments, settings, environ, output))
    if not upstreams:
        raise InvalidConfiguration(
            "there is no index to stand in front of", hint="name one with --index-url"
        )
    repository = open_indexes(arguments, settings, environ, output)
    environment = open_environment_of(arguments, environ)
    profiles = _Profiles(arguments, settings, environment, repository, environ, output)
    profiles("")  # what is wrong with the options shows now
    proxy = Proxy(
        upstreams,
        profiles,
        mode="full" if arguments.full else "additive",
        catalogue=arguments.catalogue,
        in_locks_of_uv=arguments.in_uv_locks,
        note=output.warn,
    )
    has_logins = any(one.wants_login(f"{one.url}/") for one in upstreams)
    return OpenedProxy(
        proxy, (upstream.web for upstream in upstreams), repository, has_logins=has_logins
    )


def serving(application: Application, *, host: str = "127.0.0.1", port: int = 0) -> LoopbackServer:
    """Return a server that is to be entered.

    :param application: what it serves.
    :param host: address to listen at.
    :param port: port to listen at; 0 takes a free one.
    :raises InvalidConfiguration: it cannot listen there.
    """
    try:
        return LoopbackServer(application, host=host, port=port)
    except OSError as error:
        raise InvalidConfiguration(
            f"nothing can be served there: {error.strerror or type(error).__name__}",
            where=f"{host}:{port}",
            hint="choose another --port"
            if error.errno in (errno.EADDRINUSE, errno.EACCES)
            else "--host is an address of this machine, as 127.0.0.1",
        ) from None


def _upstream(
    url: str,
    arguments: Namespace,
    settings: SourceSettings,
    environ: Mapping[str, str],
    output: Output,
) -> Upstream:
    web = open_web(
        replace(settings, index_url=url, extra_index_urls=(), find_links=(), no_index=False),
        cache_folder=cache_folder_in_use(arguments, environ),
        environ=environ,
        home=home(),
        offline=arguments.offline,
        note=output.warn,
        admits=Admission.of(url, arguments.link_host),
    )
    if arguments.no_bridges:
        return Upstream(url, web)
    from wheelfit.server.proxy.bridged import BridgedUpstream
    from wheelfit.sources.bridges.shelf import Shelf

    return BridgedUpstream(url, web, Shelf(arguments.bridge))


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
