"""Where ``wheelfit build`` lets backends run: opened from its arguments."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from wheelfit.operations.source_builds import open_building, open_places

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from wheelfit.cli.output import Output
    from wheelfit.install.builds.environments import IsolatedPlaces, OwnPlaces
    from wheelfit.resolve.request import Asked, GivenWheel
    from wheelfit.sources.repository import Repository


@contextmanager
def open_build_places(
    arguments: Namespace, environ: Mapping[str, str], output: Output
) -> Iterator[IsolatedPlaces | OwnPlaces]:
    """Give what makes the places in which build backends run.

    :param arguments: of ``wheelfit build``.
    :param environ: the environment of the process.
    :param output: told of everything that deserves notice.
    """
    from wheelfit.operations.asked import choice_policy, limited, read_wanted, source_of
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.operations.indexes import open_indexes, read_settings
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.pip_rules import read_rules

    wanted = read_wanted(arguments, environ, or_project=True)
    environment = open_environment_of(arguments, environ)
    prefix = environment.interpreter.prefix
    rules = read_rules(environ, prefix)
    if rules.constraints:
        wanted = limited(wanted, rules.constraints, environ, rules.said_by("constraint"))
    machine = choose_machine(arguments, environment.target(), environ, output)
    policy = choice_policy(arguments, machine.policy, wanted.hashes)
    settings = read_settings(arguments, environ, wanted.files, prefix=prefix)
    required = rules.require_hashes or wanted.requires_hashes
    by = rules.said_by("require-hashes") if rules.require_hashes else ""
    with ExitStack() as stack:
        repository: Repository = stack.enter_context(
            open_indexes(arguments, settings, environ, output, by_content=required)
        )
        # What the project's backend is told is nothing to those of what it needs.
        others = type(arguments)(**{**vars(arguments), "config_settings": []})
        building = open_building(
            others, environ, output, repository, settings, environment, machine, policy,
            wanted, requires_hashes=required, hashes_required_by=by,
        )  # fmt: skip
        stack.callback(building.close)

        def given(asked: Asked) -> GivenWheel | None:
            """Build what the project names by a URL, as forks of backends are; it is trusted."""
            source = source_of(asked)
            if source is None:
                return None
            output.say(f"building needs {source}", "dim")
            return building.given(source)

        yield open_places(
            arguments, environ, lambda: building, environment, machine, policy, wanted,
            requires_hashes=required, hashes_required_by=by, given=given,
        )  # fmt: skip
