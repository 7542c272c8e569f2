"""What a command that chooses wheels works with, opened from its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.asked import choice_policy, limited, read_wanted
from wheelfit.cli.environments import open_environment_of
from wheelfit.cli.indexes import open_indexes, read_settings
from wheelfit.cli.machine import choose_machine
from wheelfit.cli.pip_rules import check_choice, read_rules
from wheelfit.resolve.candidates import Candidates
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.asked import Wanted
    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output
    from wheelfit.install.environment import Environment
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.sources.remembered import Remembered

__all__ = ["Opened", "open_for_choice"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Opened:
    """Hold everything a choice is made with."""

    environment: Environment
    machine: ChosenMachine
    repository: Remembered
    candidates: Candidates
    wanted: Wanted
    rules: InstallRules
    """What pip is told about installing."""
    prereleases: bool
    """Whether pre-releases count, whoever says so."""


def open_for_choice(arguments: Namespace, environ: Mapping[str, str], output: Output) -> Opened:
    """Open what the options name; no source is asked and nothing is detected yet.

    :param arguments: every group of options of `wheelfit.cli.options`.
    :param environ: the environment of the process.
    :param output: told of everything that deserves notice.
    """
    wanted = read_wanted(arguments, environ)
    environment = open_environment_of(arguments, environ)
    rules = read_rules(environ, environment.interpreter.prefix)
    check_choice(rules)
    if rules.constraints:
        wanted = limited(wanted, rules.constraints, environ, rules.said_by("constraint"))
    machine = choose_machine(arguments, environment.target(), environ, output)
    policy = choice_policy(arguments, machine.policy, wanted.hashes)
    settings = read_settings(
        arguments, environ, wanted.files, prefix=environment.interpreter.prefix
    )
    repository = open_indexes(arguments, settings, environ, output, wanted.given_urls)
    candidates = Candidates(
        repository,
        machine.target,
        machine.detector,
        policy,
        user_lists=machine.user_lists,
        plugins=machine.plugins(environment, repository, settings, arguments, output),
    )
    prereleases = arguments.pre or rules.pre or any(file.pre for file in wanted.files)
    return Opened(environment, machine, repository, candidates, wanted, rules, prereleases)
