"""Remove packages from an environment; their dependencies stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import UNINSTALL

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output


OPTIONS = (UNINSTALL, ENVIRONMENT)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Remove what was named."""
    from wheelfit.install.plan import plan_uninstall
    from wheelfit.install.uninstall import uninstall
    from wheelfit.operations.environments import (
        mend_first,
        open_environment_of,
        tell_interruption,
        tell_unnamed_environment,
    )
    from wheelfit.operations.pip_rules import check_changes, read_rules

    environment = open_environment_of(arguments, environ)
    if arguments.dry_run:
        tell_interruption(environment, output)
    else:
        rules = read_rules(environ, environment.interpreter.prefix, "uninstall")
        check_changes(rules, environment)
        mend_first(environment, output)
    tell_unnamed_environment(arguments, environ, environment, output)
    names = [_name(text) for text in arguments.names]
    from wheelfit.operations.own_modules import check_own_requirements, settle_modules, touches_us

    plan, _ = plan_uninstall(names, environment.installed())
    check_own_requirements(plan, environment)
    if not arguments.dry_run and touches_us(environment, (), plan.remove):
        settle_modules(environment)
    applied = uninstall(
        names,
        environment,
        dry_run=arguments.dry_run,
        break_system_packages=arguments.break_system_packages,
    )
    chosen = applied.removed
    output.result_json(
        {
            "version": 1,
            "dry_run": arguments.dry_run,
            "removed": [
                {"name": entry.name, "version": str(entry.version), "label": entry.label}
                for entry in chosen
            ],
            "breaks": [one.to_mapping() for one in applied.breaks],
        }
    )
    for note in applied.notes:
        output.say(f"note: {note}", "dim")
    for one in applied.breaks:
        output.warn(str(one))
    verb = "would remove" if arguments.dry_run else "removed"
    for entry in chosen:
        output.result(f"{verb} {entry}")
    return 0


def _name(text: str) -> NormalizedName:
    from packaging.utils import InvalidName, canonicalize_name

    from wheelfit.errors import InvalidRequirement

    try:
        return canonicalize_name(text, validate=True)
    except InvalidName:
        raise InvalidRequirement("this is not the name of a package", source=text) from None
