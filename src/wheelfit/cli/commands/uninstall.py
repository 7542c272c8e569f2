"""Remove packages from an environment; their dependencies stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.cli.options import add_environment

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.install.environment import Environment
    from wheelfit.install.installed import Installed


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="name of an installed package")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="accepted for pip's sake; nothing is ever asked"
    )
    parser.add_argument(
        "--break-system-packages", action="store_true", help="even in a managed environment"
    )
    add_environment(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Remove what was named."""
    from wheelfit.install.environment import open_environment
    from wheelfit.install.uninstall import uninstall

    environment = open_environment(
        arguments.python,
        environ=environ,
        prefix=Path(arguments.prefix) if arguments.prefix else None,
        root=Path(arguments.root) if arguments.root else None,
        target=Path(arguments.target) if arguments.target else None,
    )
    chosen = _find(arguments.names, environment)
    if not arguments.dry_run:
        environment.check_allowed(break_system_packages=arguments.break_system_packages)
        environment.check_writable()
        uninstall(chosen, environment)
    output.result_json(
        {
            "version": 1,
            "dry_run": arguments.dry_run,
            "removed": [
                {"name": entry.name, "version": str(entry.version), "label": entry.label}
                for entry in chosen
            ],
        }
    )
    verb = "would remove" if arguments.dry_run else "removed"
    for entry in chosen:
        output.result(f"{verb} {entry}")
    return 0


def _find(names: list[str], environment: Environment) -> list[Installed]:
    from packaging.utils import InvalidName, canonicalize_name

    from wheelfit.errors import InvalidRequirement, NotInstalled

    installed = environment.by_name()
    missing = []
    chosen = {}
    for text in names:
        try:
            name = canonicalize_name(text, validate=True)
        except InvalidName:
            raise InvalidRequirement("this is not the name of a package", source=text) from None
        if name in installed and not installed[name].outside:
            chosen[name] = installed[name]
        else:
            missing.append(text)
    if missing:
        raise NotInstalled(
            f"not installed: {', '.join(missing)}",
            where=environment.name,
            hint="nothing was removed; wheelfit list shows what is installed",
        )
    return list(chosen.values())
