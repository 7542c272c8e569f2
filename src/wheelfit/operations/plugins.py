"""Plugins for one command: the rules of trust, and their runner."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.trust import PluginRules, SitePolicy
from wheelfit.operations.requests import CacheOptions, MachineOptions, SourceOptions, request_like
from wheelfit.operations.trust_store import read_trust_file, trust_file
from wheelfit.operations.user_folders import home
from wheelfit_runtime.errors import PolicyRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.core.providers import PluginQuestion
    from wheelfit.core.target import Target
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.interpreter import Interpreter
    from wheelfit.installation.plugins.environments import PluginEnvironments
    from wheelfit.installation.plugins.trusted_plugins import TrustedPlugins
    from wheelfit.operations.context import Context
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import SourceSettings
    from wheelfit_runtime.platforms.features import Detection


def read_plugin_rules(
    request: MachineOptions, site: SitePolicy, context: Context, *, system: str = os.name
) -> PluginRules:
    """Return the rules by which a plugin may run.

    :param context: warned when everything is trusted, and when the user's file is ignored.
    :param system: as ``os.name``.
    :raises PolicyRefusal: the option trusts everything, and a policy forbids that.
    :raises InvalidConfiguration: the user's file is invalid.
    """
    trust = read_trust_file(
        trust_file(context.environ, sys.platform, home()), context.reporter.warn
    )
    reason = None
    if system != "posix":
        reason = "plugins are not run on this system, which cannot confine them"
    if request.host is not None:
        reason = "no plugin is asked about another machine"
    if request.no_plugins:
        reason = "plugins are switched off (no-plugins)"
    if request.trust_all_plugins and reason is None:
        if site.forbids_trust_all is not None:
            where, key = site.forbids_trust_all
            raise PolicyRefusal(
                "--trust-all-plugins is forbidden by a policy", where=where, note=f"it sets {key}"
            )
        context.reporter.warn(
            "--trust-all-plugins: code of any package that some wheel names is installed and run"
        )
    return PluginRules(trust, site, trusts_all=request.trust_all_plugins, disabled_reason=reason)


class OnDemandPlugins(Struct, eq=False):
    """Plugins whose installer is loaded when one first runs."""

    rules: PluginRules
    interpreter: Interpreter
    """The Python that plugins are installed for."""
    target: Target
    open_sources: Callable[[], Repository]
    """Opens the sources of wheels, when a plugin must be installed."""
    request: MachineOptions
    """The options of detection and the cache."""
    context: Context
    """Its environment variables are those of the plugins."""
    keep_installed: Callable[[], bool] = lambda: True
    """Returns whether installed plugins are kept for the next command."""
    _plugins: TrustedPlugins | None = None

    def refusal(self, question: PluginQuestion) -> str | None:
        """Return the reason why a plugin may not run, one clause; None when it may (P-14)."""
        return self.rules.judge(question).refusal

    def ask(self, question: PluginQuestion) -> Detection:
        """Return the supported values by a plugin that may run (P-15)."""
        if self._plugins is None:
            from wheelfit.installation.plugins.trusted_plugins import TrustedPlugins

            self._plugins = TrustedPlugins(
                self.rules,
                self.interpreter,
                self.target,
                self.open_sources,
                self._environments,
                environ=self.context.environ,
                deadline=self.request.plugin_timeout,
                note=self.context.reporter.warn,
                tell=self.context.reporter.note,
            )
        return self._plugins.ask(question)

    def _environments(self) -> PluginEnvironments:
        from wheelfit.installation.plugins.environments import PluginEnvironments

        environ = self.context.environ
        folder = plugin_folder(self.request, environ) if self.keep_installed() else None
        return PluginEnvironments(folder, environ, self.context.reporter.warn)


def plugin_folder(request: CacheOptions, environ: Mapping[str, str]) -> Path:
    """Return the folder of installed plugins, whether it exists or not."""
    from wheelfit.installation.plugins.environments import FOLDER
    from wheelfit.operations.cache_folder import cache_folder

    return cache_folder(request.cache_dir, environ).absolute() / FOLDER


@contextmanager
def open_plugins(
    rules: PluginRules, environment: Environment, request: MachineOptions, context: Context
) -> Iterator[OnDemandPlugins]:
    """Yield the client of plugins for a command without sources; pip's configuration names them."""
    with ExitStack() as stack:
        options = request_like(SourceOptions, request)

        def settings() -> SourceSettings:
            # Imported when a plugin runs, which is rare.
            from wheelfit.operations.indexes import read_settings

            return read_settings(options, context.environ, prefix=environment.interpreter.prefix)

        def sources() -> MemoizedRepository:
            from wheelfit.operations.indexes import open_indexes

            return stack.enter_context(open_indexes(options, settings(), context))

        yield OnDemandPlugins(
            rules,
            environment.interpreter,
            environment.target,
            sources,
            request=request,
            context=context,
            keep_installed=lambda: settings().cache,
        )
