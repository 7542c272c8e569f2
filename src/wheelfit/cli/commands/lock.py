"""Write a lock: versions and files for every machine, from which each takes its own wheels.

Nothing is looked at on this machine but its Python's version, and only if no other is named. With
--for the lock is for the machines that are named, with their wheels and no others.

What an older lock has stays as long as it will do; --upgrade starts anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options import (
    add_choice,
    add_machine,
    add_requirements,
    add_sources,
    given,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wheelfit.cli.output import Output
    from wheelfit.core.target import Target
    from wheelfit.lock.changes import LockChange
    from wheelfit.lock.document import Lock, LockedPackage
    from wheelfit.lock.environments import Python
    from wheelfit.lock.locking import Locked
    from wheelfit.lock.request import LockRequest
    from wheelfit.resolve.requirements_file import RequirementsFile
    from wheelfit.sources.pip_configuration import InstallRules


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_requirements(parser)
    group = parser.add_argument_group("lock")
    group.add_argument(
        "-o",
        "--output",
        type=given,
        default="pylock.toml",
        metavar="FILE",
        help="write this file: pylock.toml (the default) or pylock.NAME.toml",
    )
    group.add_argument(
        "--python-version",
        action="append",
        default=[],
        metavar="X.Y",
        help="lock for this Python; may be given several times",
    )
    group.add_argument(
        "--platform",
        action="append",
        default=[],
        metavar="PLATFORM",
        help="lock for this platform, as linux-x86_64; may be given several times "
        "(default: 64-bit Linux on x86 and Arm, macOS on Arm, Windows)",
    )
    group.add_argument(
        "-U", "--upgrade", action="store_true", help="take the newest versions of everything"
    )
    group.add_argument(
        "-P",
        "--upgrade-package",
        action="append",
        default=[],
        metavar="NAME",
        help="take the newest version of this package",
    )
    group.add_argument(
        "--check", action="store_true", help="write nothing; fail if the lock is out of date"
    )
    group.add_argument("--dry-run", action="store_true", help="only say what would be written")
    group = parser.add_argument_group("environment (default: the active one)")
    group.add_argument(
        "--python",
        type=given,
        metavar="PYTHON",
        help="an interpreter, or the folder of a virtual environment, whose version counts",
    )
    parser.set_defaults(prefix=None, target=None, root=None)
    add_sources(parser)
    add_machine(parser, several=True)
    add_choice(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Resolve for every environment, and write the lock."""
    from pathlib import Path

    from wheelfit.cli.files import write_atomically
    from wheelfit.errors import LockOutdated
    from wheelfit.lock.changes import changes
    from wheelfit.lock.document import write_lock

    path = Path(arguments.output)
    old = _old_lock(path)
    locked = _lock(arguments, path, old, output, environ)
    data = write_lock(locked.lock)
    changed = changes(old, locked.lock)
    is_same = old is not None and old == locked.lock
    if not is_same and not arguments.check and not arguments.dry_run:
        write_atomically(str(path), data)
    _report(locked, changed, path, output, arguments, is_same=is_same)
    if arguments.check and not is_same:
        raise LockOutdated(
            "there is no lock yet" if old is None else "the lock is out of date",
            where=str(path),
            note="\n".join(map(str, changed)) or "something besides its packages is different",
            hint="run the same command without --check",
        )
    return 0


def _old_lock(path: Path) -> Lock | None:
    """Return the lock that is there; None if there is none."""
    from wheelfit.cli.locks import load_lock
    from wheelfit.errors import UsageError
    from wheelfit.lock.document import is_lock_name

    if not is_lock_name(path.name):
        raise UsageError(
            f"a lock file cannot be called {path.name!r}",
            hint="it is called pylock.toml or pylock.NAME.toml (PEP 751)",
        )
    return load_lock(path) if path.exists() else None


def _lock(
    arguments: Namespace,
    path: Path,
    old: Lock | None,
    output: Output,
    environ: Mapping[str, str],
) -> Locked:
    from packaging.utils import canonicalize_name

    from wheelfit.cli.asked import metadata_policy, read_preferences
    from wheelfit.cli.environments import open_environment_of
    from wheelfit.cli.indexes import open_indexes, read_settings
    from wheelfit.cli.pip_rules import check_choice, read_rules
    from wheelfit.core.support import ProviderPolicy
    from wheelfit.lock.environments import environments_for
    from wheelfit.lock.locking import lock_everywhere
    from wheelfit.lock.solving import Solver
    from wheelfit.resolve.candidates import ChoicePolicy

    environment = open_environment_of(arguments, environ)
    rules = read_rules(environ, environment.interpreter.prefix)
    check_choice(rules)
    request, files, given_urls = _request(arguments, environ, rules)
    pythons = _pythons(arguments, request, environment.target(), output)
    settings = read_settings(arguments, environ, files, prefix=environment.interpreter.prefix)
    policy = ChoicePolicy(
        providers=ProviderPolicy(abi_dependency=not arguments.no_abi_dependency),
        preferences=read_preferences(arguments),
        metadata=metadata_policy(arguments),
        hashes=request.hashes,
    )
    free = (
        None if arguments.upgrade else frozenset(map(canonicalize_name, arguments.upgrade_package))
    )
    with open_indexes(arguments, settings, environ, output, given_urls) as repository:
        return lock_everywhere(
            Solver(request, repository, policy),
            environments_for(arguments.platform, pythons),
            old=old,
            upgrade=free,
            required=bool(arguments.platform),
            policy=policy.metadata,
            where=str(path),
            folder=path.absolute().parent,
            report=lambda one: output.detail(f"resolving for {one.name}"),
        )


def _request(
    arguments: Namespace, environ: Mapping[str, str], rules: InstallRules
) -> tuple[LockRequest, Sequence[RequirementsFile], Sequence[str]]:
    """Return what the lock is for, the files that may name sources, and URLs with logins."""
    from wheelfit.cli.asked import limited, read_wanted
    from wheelfit.errors import UsageError
    from wheelfit.lock.request import LockRequest, Root

    wanted = read_wanted(arguments, environ)
    if rules.constraints:
        wanted = limited(wanted, rules.constraints, environ, rules.said_by("constraint"))
    if wanted.wheels:
        raise UsageError(
            f"{wanted.wheels[0].file.filename} is a single wheel, and a lock is for releases",
            hint="put it into a folder, and name that with --find-links",
        )
    request = LockRequest(
        roots=tuple(Root(asked.requirement, asked.where) for asked in wanted.requirements),
        constraints=wanted.constraints,
        hashes=wanted.hashes,
        prereleases=arguments.pre or rules.pre or any(file.pre for file in wanted.files),
    )
    return request, wanted.files, wanted.given_urls


def _pythons(
    arguments: Namespace, request: LockRequest, current: Target, output: Output
) -> Sequence[Python]:
    from wheelfit.lock.environments import known_pythons, python_of

    if arguments.python_version:
        return tuple(map(python_of, arguments.python_version))
    if request.requires_python is not None:
        return known_pythons(request.requires_python)
    version = current.python_full_version
    output.say(
        f"locking for Python {version.major}.{version.minor}; --python-version names others", "dim"
    )
    return ((version.major, version.minor),)


def _report(
    locked: Locked,
    changed: Sequence[LockChange],
    path: Path,
    output: Output,
    arguments: Namespace,
    *,
    is_same: bool,
) -> None:
    lock = locked.lock
    written = not (is_same or arguments.check or arguments.dry_run)
    output.result_json(
        {
            "version": 1,
            "dry_run": arguments.dry_run or arguments.check,
            "locks": [
                {
                    "path": str(path),
                    "written": written,
                    "is_same": is_same,
                    "hosts": [],
                    "environments": [one.environment.name for one in locked.settled],
                    "packages": [
                        {
                            "name": package.name,
                            "version": None if package.version is None else str(package.version),
                            "marker": None if package.marker is None else str(package.marker),
                            "wheels": len(package.wheels),
                            "labels": list(_labels(package)),
                        }
                        for package in lock.packages
                    ],
                    "changes": [change.to_mapping() for change in changed],
                }
            ],
            "notes": list(locked.notes),
        }
    )
    for note in locked.notes:
        output.warn(note)
    for change in changed:
        output.result(str(change))
    for package in lock.packages:
        labels = _labels(package)
        if labels:
            output.result(f"{package.name} {package.version}: {', '.join(labels)}")
    names = ", ".join(one.environment.name for one in locked.settled)
    count = len({package.name for package in lock.packages})
    packages = "1 package" if count == 1 else f"{count} packages"
    if is_same:
        output.result(f"{path} is up to date: {packages} for {names}")
    elif not arguments.check:
        verb = "would lock" if arguments.dry_run else "locked"
        output.result(f"{verb} {packages} for {names} in {path}")


def _labels(package: LockedPackage) -> Sequence[str]:
    """Return the labels that an entry lists, the plain wheel last."""
    found = {wheel.filename.label for wheel in package.wheels}
    labels = sorted(label for label in found if label is not None)
    return [*labels, *(["plain"] if labels and None in found else [])]
