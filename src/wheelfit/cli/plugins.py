"""Plugins for one command: what is trusted and allowed, and who asks them."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from wheelfit.cli.configuration import home
from wheelfit.cli.trust_store import read_trust_file, trust_file
from wheelfit.core.trust import PluginRules
from wheelfit.errors import PolicyRefusal

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.cli.output import Output
    from wheelfit.core.providers import PluginQuestion
    from wheelfit.core.target import Target
    from wheelfit.core.trust import SitePolicy
    from wheelfit.install.environment import Environment
    from wheelfit.install.interpreter import Interpreter
    from wheelfit.install.plugins.asking import TrustedPlugins
    from wheelfit.install.plugins.environments import PluginEnvironments
    from wheelfit.platforms.features import Detection
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import SourceSettings


def read_rules_about_plugins(
    arguments: Namespace,
    environ: Mapping[str, str],
    site: SitePolicy,
    output: Output,
    *,
    system: str = os.name,
) -> PluginRules:
    """Return what decides whether a plugin may be asked.

    :param arguments: the options of `options.table.machine.MACHINE`.
    :param environ: the environment of the process.
    :param site: what the site allows.
    :param output: told when everything is trusted, and when the user's file does not count.
    :param system: as ``os.name``.
    :raises PolicyRefusal: everything is to be trusted, and a policy forbids that.
    :raises InvalidConfiguration: the user's file cannot be understood.
    """
    trust = read_trust_file(trust_file(environ, sys.platform, home()), output.warn)
    off = None
    if system != "posix":  # nothing would be gained by installing one
        off = "plugins are not run on this system, which cannot confine them"
    if arguments.host is not None:
        off = "no plugin is asked about another machine"
    if arguments.no_plugins:
        off = "plugins are switched off (no-plugins)"
    if arguments.trust_all_plugins and off is None:
        forbidden = site.forbids_trust_all
        if forbidden is not None:
            where, key = forbidden
            raise PolicyRefusal(
                "--trust-all-plugins is forbidden by a policy", where=where, note=f"it says {key}"
            )
        output.warn(
            "--trust-all-plugins: code of any package that some wheel names is installed and run"
        )
    return PluginRules(trust, site, everything=arguments.trust_all_plugins, off=off)


class OnDemandPlugins:
    """Judge at once, and load what installs and asks plugins only when one may be asked.

    :param rules: what is trusted and allowed.
    :param interpreter: which Python plugins are installed for.
    :param target: the same, as the resolver sees it.
    :param open_sources: opens where wheels come from.
    :param arguments: the options of `options.table.machine.MACHINE`; those of
        `options.table.sources.SOURCES` count if they are there.
    :param environ: the environment of the process.
    :param output: told what people should know.
    :param keep: whether what is installed is kept for the next command.
    """

    def __init__(
        self,
        rules: PluginRules,
        interpreter: Interpreter,
        target: Target,
        open_sources: Callable[[], Repository],
        *,
        arguments: Namespace,
        environ: Mapping[str, str],
        output: Output,
        keep: Callable[[], bool] = lambda: True,
    ) -> None:
        self._rules = rules
        self._interpreter = interpreter
        self._target = target
        self._open_sources = open_sources
        self._arguments = arguments
        self._environ = environ
        self._output = output
        self._keep = keep
        self._plugins: TrustedPlugins | None = None

    def refusal(self, question: PluginQuestion) -> str | None:
        """Return why a plugin may not be asked, one clause; None when it may (P-14)."""
        return self._rules.judge(question).refusal

    def ask(self, question: PluginQuestion) -> Detection:
        """Return what a plugin that may be asked says is supported (P-15)."""
        if self._plugins is None:
            from wheelfit.install.plugins.asking import TrustedPlugins

            self._plugins = TrustedPlugins(
                self._rules,
                self._interpreter,
                self._target,
                self._open_sources,
                self._environments,
                environ=self._environ,
                deadline=self._arguments.plugin_deadline,
                note=self._output.warn,
                tell=lambda text: self._output.say(text, "dim"),
            )
        return self._plugins.ask(question)

    def _environments(self) -> PluginEnvironments:
        from wheelfit.install.plugins.environments import PluginEnvironments

        folder = plugin_folder(self._arguments, self._environ) if self._keep() else None
        return PluginEnvironments(folder, self._environ, self._output.warn)


def plugin_folder(arguments: Namespace, environ: Mapping[str, str]) -> Path:
    """Return where plugins are installed, whether it exists or not.

    :param arguments: the options of `options.table.sources.SOURCES`, if the command has them.
    :param environ: the environment of the process.
    """
    from wheelfit.cli.cache_folder import cache_folder
    from wheelfit.install.plugins.environments import FOLDER

    return cache_folder(getattr(arguments, "cache_dir", None), environ).absolute() / FOLDER


@contextmanager
def plugins_by_themselves(
    rules: PluginRules,
    environment: Environment,
    arguments: Namespace,
    environ: Mapping[str, str],
    output: Output,
) -> Iterator[OnDemandPlugins]:
    """Give who asks plugins for a command that has no sources; pip's configuration has them.

    :param rules: what is trusted and allowed.
    :param environment: whose interpreter runs the plugins.
    :param arguments: the options of `options.table.machine.MACHINE`.
    :param environ: the environment of the process.
    :param output: told what people should know.
    """
    with ExitStack() as stack:

        def settings() -> tuple[Namespace, SourceSettings]:
            # Imported when a plugin is asked, which hardly ever happens.
            from wheelfit.cli.indexes import read_settings
            from wheelfit.cli.options.arguments import OptionParser
            from wheelfit.cli.options.table.sources import SOURCES

            defaults = OptionParser("plugins", (SOURCES,)).parse_args([])
            prefix = environment.interpreter.prefix
            return defaults, read_settings(defaults, environ, prefix=prefix)

        def sources() -> Remembered:
            from wheelfit.cli.indexes import open_indexes

            return stack.enter_context(open_indexes(*settings(), environ, output))

        yield OnDemandPlugins(
            rules,
            environment.interpreter,
            environment.target(),
            sources,
            arguments=arguments,
            environ=environ,
            output=output,
            keep=lambda: settings()[1].cache,
        )
