"""What a command that chooses wheels works with, opened from its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from wheelfit.cli.asked import choice_policy, limited, read_wanted
from wheelfit.cli.environments import open_environment_of
from wheelfit.cli.indexes import open_indexes, read_settings
from wheelfit.cli.machine import choose_machine
from wheelfit.cli.pip_rules import check_choice, read_rules
from wheelfit.resolve.candidates import Candidates

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from types import TracebackType

    from wheelfit.cli.asked import Wanted
    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output
    from wheelfit.install.builds.building import Building
    from wheelfit.install.environment import Environment
    from wheelfit.resolve.request import GivenWheel
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.sources.remembered import Remembered


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
    requires_hashes: bool = False
    """Whether everything must have a promised hash, whoever says so."""
    building: Building | None = None
    """Builds what may be built; None: nothing may."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.building is not None:
            self.building.close()
        self.repository.close()

    def wheels(self) -> tuple[GivenWheel, ...]:
        """Return what the user named by path or URL; projects as the wheels they stand for.

        :raises WheelfitError: a project cannot be had, or its metadata not be found out.
        """
        if self.building is None:
            return self.wanted.wheels
        environment = self.candidates.target.environment
        return self.wanted.wheels + tuple(
            self.building.given(source)
            for source in self.wanted.sources
            if source.marker is None or source.marker.evaluate(environment)
        )


def open_for_choice(
    arguments: Namespace, environ: Mapping[str, str], output: Output, *, changes: bool
) -> Opened:
    """Open what the options name; no source is asked and nothing is detected yet.

    :param arguments: every group of options of `wheelfit.cli.options`.
    :param environ: the environment of the process.
    :param output: told of everything that deserves notice.
    :param changes: whether something will be installed. Otherwise code of a project is run only
        with ``--allow-source`` for its name.
    """
    wanted = read_wanted(arguments, environ)
    environment = open_environment_of(arguments, environ, may_be_new=True)
    rules = read_rules(environ, environment.interpreter.prefix)
    check_choice(rules)
    if rules.constraints:
        wanted = limited(wanted, rules.constraints, environ, rules.said_by("constraint"))
    machine = choose_machine(arguments, environment.target(), environ, output)
    environment = environment.to_be_taken_to(machine.target)
    policy = choice_policy(arguments, machine.policy, wanted.hashes)
    settings = read_settings(
        arguments, environ, wanted.files, prefix=environment.interpreter.prefix
    )
    requires_hashes = (
        getattr(arguments, "require_hashes", False) or rules.require_hashes
    ) or wanted.requires_hashes
    repository = open_indexes(
        arguments,
        settings,
        environ,
        output,
        wanted.given_urls,
        by_content=requires_hashes or wanted.has_promises,
    )
    building = None
    if wanted.sources or arguments.allow_source:  # the user agreed that something is built
        from wheelfit.cli.building import open_building

        building = open_building(
            arguments,
            environ,
            output,
            repository,
            settings,
            environment,
            machine,
            policy,
            wanted,
            requires_hashes=requires_hashes,
            hashes_required_by=rules.said_by("require-hashes") if rules.require_hashes else "",
            builds_named=changes,
        )
    candidates = Candidates(
        building or repository,
        machine.target,
        machine.detector,
        policy,
        user_lists=machine.user_lists,
        plugins=machine.plugins(environment, repository, settings, arguments, output),
    )
    prereleases = arguments.pre or rules.pre or any(file.pre for file in wanted.files)
    return Opened(
        environment,
        machine,
        repository,
        candidates,
        wanted,
        rules,
        prereleases,
        requires_hashes,
        building,
    )
