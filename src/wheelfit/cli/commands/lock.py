"""Write a lock: versions and files for every machine, from which each takes its own wheels.

Nothing is looked at on this machine but its Python's version, and only if no other is named. With
--for the lock is for the machines that are named, with their wheels and no others.

What an older lock has stays as long as it will do; --upgrade starts anew.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.locking import LOCKING
from wheelfit.cli.options.table.machine import MACHINES
from wheelfit.cli.options.table.requirements import PROJECT, REQUIREMENTS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wheelfit.cli.output import Output
    from wheelfit.core.target import Target
    from wheelfit.lock.difference import LockChange
    from wheelfit.lock.document import Lock, LockedPackage
    from wheelfit.lock.environments import Python
    from wheelfit.lock.hosts import HostLock, NamedMachine
    from wheelfit.lock.locking import Report
    from wheelfit.lock.request import LockRequest
    from wheelfit.resolve.requirements_file import RequirementsFile
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.sources.repository import Repository


OPTIONS = (REQUIREMENTS, PROJECT, LOCKING, INTERPRETER, SOURCES, MACHINES, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Resolve for every environment or machine, and write the lock."""
    from wheelfit.errors import LockOutdated
    from wheelfit.lock.document import write_lock
    from wheelfit.operations.files import write_atomically

    opened = _Opening(arguments, environ, output)
    with opened.repository, _followed(output) as report:
        made = [_compared(one, opened) for one in opened.locks(report)]
    writes = not (arguments.check or arguments.dry_run)
    for one in made:
        if writes and not one.is_same:
            write_atomically(str(one.path), write_lock(one.lock))
    outdated = [one for one in made if not one.is_same]
    if arguments.check and outdated:
        changed = [change for one in outdated for change in one.changes]
        raise LockOutdated(
            "the lock is out of date" if outdated[0].old else "there is no lock yet",
            where=", ".join(str(one.path) for one in outdated),
            note="\n".join(map(str, changed)) or "something besides its packages is different",
            hint="run the same command without --check",
            details=[change.to_mapping() for change in changed],
        )
    _report(made, [*opened.leftovers(made), *opened.idle_upgrades(made)], output, writes=writes)
    return 0


@contextmanager
def _followed(output: Output) -> Iterator[Report]:
    """Show for what is resolved: on a terminal as long as it takes, elsewhere with --verbose."""
    if not output.animate:
        yield lambda environment: output.detail(f"resolving for {environment.name}")
        return
    from wheelfit.cli.progress import start_bars

    bars = start_bars(output)
    task = bars.add_task("resolving", total=None)
    try:
        yield lambda environment: bars.update(task, description=f"resolving for {environment.name}")
    finally:
        bars.stop()


class _Made(NamedTuple):
    """Hold one lock, and how it differs from the one that is there."""

    path: Path
    host_lock: HostLock
    old: Lock | None
    changes: Sequence[LockChange]

    @property
    def lock(self) -> Lock:
        return self.host_lock.locked.lock

    @property
    def is_same(self) -> bool:
        return self.old is not None and self.old == self.lock


def _compared(one: HostLock, opened: _Opening) -> _Made:
    from wheelfit.lock.difference import changes

    path, old = opened.path, opened.old
    if one.apart is not None:
        (machine,) = one.machines
        path, old = opened.path_for(machine.environment.name), machine.old
    return _Made(path, one, old, changes(old, one.locked.lock))


class _Opening:
    """Open what the options name; no source is asked and nothing is detected yet."""

    def __init__(self, arguments: Namespace, environ: Mapping[str, str], output: Output) -> None:
        from pathlib import Path

        from packaging.utils import canonicalize_name

        from wheelfit.core.provider_steps import ProviderPolicy
        from wheelfit.errors import UsageError
        from wheelfit.operations.environments import open_environment_of
        from wheelfit.operations.indexes import open_indexes, read_settings
        from wheelfit.operations.pip_rules import check_choice, read_rules
        from wheelfit.operations.preferences import choice_policy

        if arguments.hosts and (arguments.platform or arguments.python_version):
            raise UsageError(
                "--for says for which machines the lock is; --platform and --python-version do "
                "not go with it",
                hint="write the Python into a host file: wheelfit host write",
            )
        self._arguments = arguments
        self._environ = environ
        self._output = output
        self.path = Path(arguments.output)
        self.old = _old_lock(self.path)
        self._environment = open_environment_of(arguments, environ)
        prefix = self._environment.interpreter.prefix
        rules = read_rules(environ, prefix)
        check_choice(rules)
        self._request, files, given_urls = _request(arguments, environ, rules)
        self._settings = read_settings(arguments, environ, files, prefix=prefix)
        providers = ProviderPolicy(abi_dependency=not arguments.no_abi_dependency)
        self._policy = choice_policy(arguments, providers, self._request.hashes)
        named = frozenset(map(canonicalize_name, arguments.upgrade_package))
        self._free = None if arguments.upgrade else named
        self.repository = open_indexes(arguments, self._settings, environ, output, given_urls)

    def locks(self, report: Report) -> Sequence[HostLock]:
        """Make the lock; of machines that do not go together, one for each.

        :param report: told what is begun.
        """
        from wheelfit.lock.environments import environments_for
        from wheelfit.lock.hosts import HostLock, lock_for_hosts
        from wheelfit.lock.locking import lock_everywhere
        from wheelfit.lock.solving import Solver

        solver = Solver(self._request, self.repository, self._policy)
        where, folder = str(self.path), self.path.absolute().parent
        if self._arguments.hosts:
            names = dict.fromkeys(self._arguments.hosts)
            return lock_for_hosts(
                solver,
                [self._machine(name) for name in names],
                old=self.old,
                upgrade=self._free,
                where=where,
                folder=folder,
                report=report,
            )
        pythons = _pythons(self._arguments, self._request, self._environment.target(), self._output)
        locked = lock_everywhere(
            solver,
            environments_for(self._arguments.platform, pythons, self._request.requires_python),
            old=self.old,
            upgrade=self._free,
            every_platform=bool(self._arguments.platform),
            every_python=bool(self._arguments.python_version) or len(pythons) == 1,
            where=where,
            folder=folder,
            report=report,
        )
        return [HostLock(locked, ())]

    def path_for(self, host: str) -> Path:
        """Return where the lock of one machine goes that cannot share one with others.

        :param host: as the user calls it.
        """
        from pathlib import Path

        from wheelfit.lock.document import lock_name

        hosts = list(dict.fromkeys(self._arguments.hosts))
        names = [_simple(Path(one).name.removesuffix(".toml")) for one in hosts]
        place = hosts.index(host)
        name = names[place]
        if names.count(name) > 1:
            name = f"{name}-{place + 1}"
        own = self.path.name.removeprefix("pylock.").removesuffix("toml").rstrip(".")
        return self.path.with_name(lock_name(f"{own}-{name}" if own else name))

    def leftovers(self, made: Sequence[_Made]) -> Iterator[str]:
        """Yield warnings of older locks for these machines, from which somebody may still sync.

        :param made: what is locked now.
        """
        written = {one.path for one in made}
        for path in dict.fromkeys((self.path, *map(self.path_for, self._arguments.hosts))):
            if path not in written and path.exists():
                yield f"{path} is of an earlier time and stays; delete it if nobody uses it"

    def idle_upgrades(self, made: Sequence[_Made]) -> Iterator[str]:
        """Yield warnings of names that were to be upgraded and are not there: slips, likely.

        :param made: what is locked now.
        """
        locks = [lock for one in made for lock in (one.old, one.lock) if lock is not None]
        known = {package.name for lock in locks for package in lock.packages}
        for name in sorted((self._free or frozenset()) - known):
            yield f"--upgrade-package {name} changes nothing: {name} is not needed"

    def _machine(self, name: str) -> NamedMachine:
        from argparse import Namespace
        from dataclasses import replace

        from wheelfit.lock.environments import LockEnvironment
        from wheelfit.lock.hosts import NamedMachine
        from wheelfit.lock.selection import LockCandidates
        from wheelfit.operations.machine import choose_machine
        from wheelfit.resolve.candidates import Candidates

        arguments = Namespace(**{**vars(self._arguments), "host": name})
        machine = choose_machine(arguments, self._environment.target(), self._environ, self._output)
        policy = replace(self._policy, providers=machine.policy)
        plugins = machine.plugins(
            self._environment, self.repository, self._settings, arguments, self._output
        )

        def candidates(repository: Repository) -> Candidates:
            return Candidates(
                repository,
                machine.target,
                machine.detector,
                policy,
                user_lists=machine.user_lists,
                plugins=plugins,
            )

        def chooser(lock: Lock) -> LockCandidates:
            return LockCandidates(
                lock,
                machine.target,
                machine.detector,
                policy,
                user_lists=machine.user_lists,
                plugins=plugins,
                folder=self.path.absolute().parent,
                extras=lock.pylock.extras or (),
                groups=lock.pylock.dependency_groups,
            )

        return NamedMachine(
            LockEnvironment(name, machine.target),
            candidates,
            chooser,
            _old_lock(self.path_for(name)),
        )


def _simple(name: str) -> str:
    """Return a name as it may stand in that of a lock: without dots."""
    import re

    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "host"


def _old_lock(path: Path) -> Lock | None:
    """Return the lock that is there; None if there is none."""
    from wheelfit.errors import FileProblem, InvalidLock, UsageError
    from wheelfit.lock.document import is_lock_name

    if not is_lock_name(path.name):
        raise UsageError(
            f"a lock file cannot be called {path.name!r}",
            hint="it is called pylock.toml or pylock.NAME.toml (PEP 751)",
        )
    if not path.exists():
        if not path.parent.is_dir():
            raise FileProblem("there is no folder for the lock", where=str(path.parent))
        return None
    from wheelfit.operations.locks import load_lock

    try:
        return load_lock(path)
    except InvalidLock as error:
        error.hint = error.hint or "delete it to lock anew, or name another file with --output"
        raise


def _request(
    arguments: Namespace, environ: Mapping[str, str], rules: InstallRules
) -> tuple[LockRequest, Sequence[RequirementsFile], Sequence[str]]:
    """Return what the lock is for, the files that may name sources, and URLs with logins."""
    from dataclasses import replace

    from wheelfit.lock.request import LockRequest, Root
    from wheelfit.operations.projects import project_request, works_on_project
    from wheelfit.operations.requirements import limited, read_wanted

    is_project = works_on_project(arguments)
    wanted = read_wanted(arguments, environ, or_project=is_project)
    if wanted.sources:
        from wheelfit.errors import UserError

        raise UserError(
            "a lock is made of wheels, and this would have to be built",
            where=wanted.sources[0].where or None,
            note="\n".join(map(str, wanted.sources)),
            hint="build a wheel of it and lock that; or install it beside: wheelfit install",
        )
    if rules.constraints:
        wanted = limited(wanted, rules.constraints, environ, rules.said_by("constraint"))
    project = project_request(arguments) if is_project else LockRequest()
    named = [Root(asked.requirement, asked.where) for asked in wanted.requirements]
    named += [Root(wheel.requirement(), wheel.where) for wheel in wanted.wheels]
    request = replace(
        project,
        roots=(*project.roots, *named),
        wheels=wanted.wheels,
        constraints=wanted.constraints,
        overrides=wanted.overrides,
        excluded=wanted.excluded,
        hashes=wanted.hashes,
        prereleases=arguments.pre or rules.pre or any(file.pre for file in wanted.files),
        dependencies=not arguments.no_deps,
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


def _report(made: Sequence[_Made], remarks: Sequence[str], output: Output, *, writes: bool) -> None:
    from wheelfit.lock.environments import in_words
    from wheelfit.wording import count_of

    notes = dict.fromkeys(note for one in made for note in one.host_lock.locked.notes)
    notes |= dict.fromkeys(remarks)
    apart = made[0].host_lock.apart
    if output.json:
        output.result_json(
            {
                "version": 1,
                "dry_run": not writes,
                "apart": apart,
                "locks": [_mapping(one, writes=writes) for one in made],
                "notes": list(notes),
            }
        )
    for note in notes:
        output.warn(note)
    settled = [each for one in made for each in one.host_lock.locked.settled]
    for text in dict.fromkeys(one for each in settled for one in each.solution.resolution.unmet):
        output.say(f"note: {text}", "dim")
    for one in made:
        for change in one.changes:
            output.result(str(change))
        for package in one.lock.packages:
            labels = _labels(package)
            if labels:
                output.result(f"{package.name} {package.version}: {', '.join(labels)}")
    if apart is not None:
        output.warn(f"one lock cannot be for all of these machines, so each has its own: {apart}")
    for one in made:
        names = in_words([each.environment for each in one.host_lock.locked.settled])
        count = len({package.name for package in one.lock.packages})
        packages = count_of(count, "package")
        if one.is_same:
            output.result(f"{one.path} is up to date: {packages} for {names}")
        else:
            verb = "locked" if writes else "would lock"
            output.result(f"{verb} {packages} for {names} in {one.path}")


def _mapping(one: _Made, *, writes: bool) -> dict[str, object]:
    settled = one.host_lock.locked.settled
    return {
        "path": str(one.path),
        "written": writes and not one.is_same,
        "up_to_date": one.is_same,
        "for": [each.environment.name for each in settled],
        "requires_python": one.lock.to_mapping()["requires-python"],
        "packages": [
            {
                "name": package.name,
                "version": str(package.version),
                "marker": None if package.marker is None else str(package.marker),
                "wheels": len(package.wheels),
                "labels": list(_labels(package)),
            }
            for package in one.lock.packages
        ],
        "changes": [change.to_mapping() for change in one.changes],
    }


def _labels(package: LockedPackage) -> Sequence[str]:
    """Return the labels that an entry lists, the plain wheel last."""
    found = {wheel.filename.label for wheel in package.wheels}
    labels = sorted(label for label in found if label is not None)
    return [*labels, *(["plain"] if labels and None in found else [])]
