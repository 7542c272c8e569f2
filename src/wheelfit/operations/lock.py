"""Locking: versions and files for every machine, from which each takes its own wheels."""

from __future__ import annotations

import json
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field, structs
from packaging.utils import canonicalize_name

from wheelfit.core.digests import sha256_of
from wheelfit.errors import SourceOff
from wheelfit.installation.builds.deferred import DeferredBuilding
from wheelfit.locking.freshness import (
    Consulted,
    Validator,
    is_valid,
    request_digest,
    validators,
)
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.environments import cache_of, open_environment_of
from wheelfit.operations.indexes import (
    open_indexes,
    read_settings,
    tell_later,
    telling_later,
    with_families,
)
from wheelfit.operations.named_sources import from_sources, open_named, root_of
from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.projects import open_project, project_request, works_on_project
from wheelfit.operations.requests import (
    BuildingOptions,
    EnvironmentOptions,
    MachineOptions,
    ProjectRequirements,
    VariantOptions,
)
from wheelfit.operations.requirements import limited, read_wanted
from wheelfit.operations.source_builds import (
    code_run,
    consent_of,
    open_building,
    source_policy,
    with_consent,
)
from wheelfit.sources.cache import Store, lock_key
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import Unreachable, WheelfitError
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.building import Building
    from wheelfit.locking.difference import LockChange
    from wheelfit.locking.document import Lock, LockedPackage
    from wheelfit.locking.environments import LockEnvironment, Python
    from wheelfit.locking.held_back import LockHeldBack
    from wheelfit.locking.hosts import HostLock, NamedMachine
    from wheelfit.locking.locking import Report
    from wheelfit.locking.request import LockNeeds
    from wheelfit.locking.solving import Solution
    from wheelfit.operations.context import Context
    from wheelfit.operations.requirements import RequestedRequirements
    from wheelfit.resolution.accelerator_use import AcceleratorUse
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.project_file import ProjectFile
    from wheelfit.resolution.project_sources import ProjectSource
    from wheelfit.resolution.request import GivenSource, GivenWheel
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.sources.repository import Repository

_KIND = "locks"


class LockRequest(
    ProjectRequirements, EnvironmentOptions, BuildingOptions, MachineOptions, VariantOptions
):
    """The requirements to lock, the machines they are locked for, and the file."""

    output: str = "pylock.toml"
    hosts: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()
    python_version: tuple[str, ...] = ()
    upgrade: bool = False
    upgrade_package: tuple[str, ...] = ()
    check: bool = False
    dry_run: bool = False


class WrittenLock(Struct, frozen=True):
    """A lock, and its difference from the existing file."""

    path: Path
    lock: Lock
    """The new lock."""
    old: Lock | None
    """The lock that was there; None: there was none."""
    changes: Sequence[LockChange]
    environments: str
    """The environments that it is for, in words."""
    names: tuple[str, ...]
    """The names of these environments."""
    notes: tuple[str, ...] = ()
    """Warnings about the lock."""
    unmet: tuple[str, ...] = ()
    """Requirements of packages that the lock does not meet, as overrides make it so."""
    held_back: tuple[LockHeldBack, ...] = ()
    """Packages older than the newest requested release, unless they were unchanged."""
    split_reason: str | None = None
    """The reason for a lock for each machine; None: it is for all of them."""
    accelerators: tuple[AcceleratorUse, ...] = ()
    """Accelerator builds that cannot be used, and accelerators left idle, of the named machines or
    else this one. Empty if the lock is unchanged.
    """

    @property
    def is_same(self) -> bool:
        """Whether the file was up to date."""
        return self.old is not None and self.old == self.lock


class LockReport(Struct, frozen=True):
    """The locks that were written, or would be."""

    locks: tuple[WrittenLock, ...]
    """One lock, or one for each machine if they cannot share one."""
    writes: bool
    """Whether files were written, unless they were up to date."""
    notes: tuple[str, ...]
    """Warnings about the locks and the request."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The time that ``resolve`` took, or finding out that nothing has changed."""

    @property
    def split_reason(self) -> str | None:
        """The reason for a lock for each machine; None: there is one for all."""
        return self.locks[0].split_reason

    @property
    def accelerators(self) -> tuple[AcceleratorUse, ...]:
        """Accelerator builds that cannot be used, and accelerators left idle."""
        return tuple(dict.fromkeys(use for one in self.locks for use in one.accelerators))

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "dry_run": not self.writes,
            "seconds": dict(self.seconds),
            "split_reason": self.split_reason,
            "locks": [_mapping(one, writes=self.writes) for one in self.locks],
            "notes": list(self.notes),
            "accelerators": [accelerator.to_mapping() for accelerator in self.accelerators],
        }


def lock(request: LockRequest, context: Context) -> LockReport:
    """Resolve for every environment or machine, and write the lock.

    :param request: the requirements, and the machines.
    :param context: the environment variables and the reporter.
    :raises LockOutdated: the lock is to be checked, and is not up to date.
    :raises WheelfitError: there is no solution, or a file cannot be read or written.
    """
    return lock_project(request, context, None)


def lock_project(
    request: LockRequest,
    context: Context,
    project: ProjectFile | None,
    bounded: Callable[[Lock], ProjectFile] | None = None,
) -> LockReport:
    """Lock a project, whose edited file may not be written yet.

    :param project: the content of its file; None: read from the disk.
    :param bounded: returns the project with bounds that the locked versions satisfy; None: there
        are none to add. They cause no new resolution.
    """
    from wheelfit.errors import LockOutdated
    from wheelfit.locking.document import write_lock
    from wheelfit.operations.files import write_atomically
    from wheelfit.operations.step_durations import StepDurations

    locking = _Locking(request, context, project)
    writes = not (request.check or request.dry_run)
    durations = StepDurations()
    with (
        locking,
        telling_later(locking.repository.pool, context.reporter),
        context.reporter.steps("resolving") as step,
        durations.measure("resolve"),
    ):
        known = locking.unchanged() if bounded is None else None
        locks = (
            (known,)
            if known is not None
            else tuple(
                locking.compared(one)
                for one in locking.locks(
                    lambda machine: step(f"resolving for {machine.name}"), bounded
                )
            )
        )
        locking.refuse_substitutes(locks)
        for one in locks:
            if writes and not one.is_same:
                write_atomically(str(one.path), write_lock(one.lock))
        if known is None:
            locking.remember(locks)
            locking.tell_later(locks)
    names = {package.name for one in locks for package in one.lock.packages}
    durations.report(f"Resolved {count_of(len(names), 'package')}", "resolve", context.reporter)
    outdated = [one for one in locks if not one.is_same]
    if request.check and outdated:
        changed = [change for one in outdated for change in one.changes]
        raise LockOutdated(
            "the lock is out of date" if outdated[0].old else "the lock file does not exist yet",
            where=", ".join(str(one.path) for one in outdated),
            note="\n".join(map(str, changed)) or "something besides its packages is different",
            hint="run the same command without --check",
            details=[change.to_mapping() for change in changed],
        )
    notes = dict.fromkeys(note for one in locks for note in one.notes)
    notes |= dict.fromkeys((*locking.leftovers(locks), *locking.idle_upgrades(locks)))
    notes |= dict.fromkeys(locking.unbuilt(locks))
    return LockReport(locks, writes, tuple(notes), durations.to_json())


def labels_of(package: LockedPackage) -> Sequence[str]:
    """Return the labels of a locked package, the plain wheel last; none without variants."""
    found = {wheel.filename.label for wheel in package.wheels}
    labels = sorted(label for label in found if label is not None)
    return [*labels, *(["plain"] if labels and None in found else [])]


class _Locking:
    """The requirements, the sources and the earlier lock; nothing is resolved yet."""

    def __init__(self, request: LockRequest, context: Context, project: ProjectFile | None) -> None:
        from wheelfit.core.provider_lookup import ProviderPolicy
        from wheelfit.errors import UsageError
        from wheelfit.operations.pip_rules import read_rules

        if request.hosts and (request.platform or request.python_version):
            raise UsageError(
                "--for says for which machines the lock is; --platform and --python-version do "
                "not go with it",
                hint="a host file names its Python: `wheelfit host new --python 3.12 -o FILE HOST`",
            )
        self._begun = time.time()
        self._request = request
        self._context = context
        self._path = Path(request.output)
        self._old = _old_lock(self._path, lambda: cache_of(request, context.environ))
        self._environment = open_environment_of(request, context.environ, may_be_own=True)
        prefix = self._environment.interpreter.prefix
        rules = read_rules(context.environ, prefix)
        self._rules, self._project = rules, project
        self._may_ask = not (request.check or request.dry_run)
        self._wanted = wanted = _wanted(request, context, rules)
        self._settings = read_settings(request, context.environ, wanted.files, prefix=prefix)
        providers = ProviderPolicy(abi_dependency=not request.no_abi_dependency)
        self._policy = structs.replace(
            with_families(
                choice_policy(request, providers, wanted.hashes, wanted.labels),
                request,
                context.environ,
            ),
            sources=source_policy(request, wanted, rules),
        )
        named = frozenset(map(canonicalize_name, request.upgrade_package))
        self._free = None if request.upgrade else named
        self.repository = open_indexes(request, self._settings, context, wanted.urls_with_logins)
        self._building = DeferredBuilding(self.repository, self._open_building)
        self._consulted = Consulted(self._building)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._building.close()
        self.repository.close()

    def _open_building(self) -> Building:
        from wheelfit.operations.machine import choose_machine

        machine = choose_machine(self._request, self._environment.target(), self._context)
        return open_building(
            self._request,
            self._context,
            self.repository,
            self._settings,
            self._environment,
            machine,
            self._policy,
            self._wanted,
            requires_hashes=False,
            hashes_required_by="",
        )

    @cached_property
    def _roots(self) -> LockNeeds:
        """The requirements of the lock; named projects are opened."""
        folder = self._path.absolute().parent

        def opened(source: GivenSource) -> GivenWheel:
            return open_named(source, self._building.given, self._old, folder, self._free)

        return _roots(self._request, self._wanted, self._rules, opened, self._project)

    def _approved(self, resolved: Callable[[], Resolution], candidates: Candidates) -> Resolution:
        """Return a resolution with the user's consent to the builds it needs."""
        try:
            return with_consent(
                resolved,
                self._building,
                candidates,
                self._context.reporter,
                may_ask=self._may_ask,
                lacking=self._lacking,
            )
        except SourceOff:
            self._may_ask = False  # other environments lack the same
            raise

    def _lacking(self, resolution: Resolution) -> Sequence[Pin]:
        """Return pins that need a build that is off, or have unknown requirements."""
        building = self._building
        return [
            pin
            for pin in resolution.pins
            if building.needs_consent(pin.file)
            and (building.mode == "never" or not building.knows_needs(pin.file))
        ]

    def unchanged(self) -> WrittenLock | None:
        """Return the existing lock if no input of it has changed.

        :return: None if that is unknown and resolving is needed.
        """
        if self._old is None or self._free != frozenset():
            return None
        entry = self._store.read(_KIND, self._key())
        if entry is None:
            return None
        known = json.loads(entry.body)
        expected = {name: Validator(*parts) for name, parts in known["validators"].items()}
        lasting = min((one.fresh for one in expected.values() if one.fresh), default=0.0)
        is_fresh = 0 <= self._begun - known["asked"] < lasting

        def is_reliable(name: NormalizedName) -> bool:
            return is_fresh and self.repository.pool.only_index(name) is not None

        try:
            if not is_valid(self._old, expected, self.repository, is_reliable):
                return None
        except (WheelfitError, OSError):
            return None  # the resolution reports the fault
        if lasting and not is_fresh:
            known["asked"] = self._begun
            self._store.write(_KIND, self._key(), {}, json.dumps(known).encode())
        return WrittenLock(
            self._path,
            self._old,
            self._old,
            (),
            known["environments"],
            tuple(known["names"]),
            tuple(known["notes"]),
            tuple(known["unmet"]),
        )

    def remember(self, locks: Sequence[WrittenLock]) -> None:
        """Record the inputs of a lock, if it was written and is for all machines."""
        one = locks[0]
        is_there = one.is_same or not (self._request.check or self._request.dry_run)
        if not (self._store.keeps and is_there):
            return
        try:
            listed = validators(one.lock, self._consulted.names, self.repository)
        except (WheelfitError, OSError):
            return
        known = {
            "validators": listed,
            "asked": self._begun,
            "notes": one.notes,
            "unmet": one.unmet,
            "names": one.names,
            "environments": one.environments,
        }
        # Packages built with consent are known without it: their metadata is in the cache, and
        # nothing runs.
        keys = [self._key()]
        if self._request.allow_source:
            keys.append(self._key(with_consent=False))
        for key in keys:
            self._store.write(_KIND, key, {}, json.dumps(known).encode())

    @cached_property
    def _store(self) -> Store:
        keeps = self._settings.cache and not self._request.hosts
        return Store(
            cache_folder(self._request.cache_dir, self._context.environ) if keeps else None
        )

    def _key(self, *, with_consent: bool = True) -> str:
        """Return the key of the validators: all inputs of the lock besides the sources.

        :param with_consent: whether consent to builds is part of it.
        """
        request = self._request.with_options(check=False, dry_run=False, upgrade=False)
        request = request.with_options(upgrade_package=())
        policy = self._policy
        if not with_consent:
            request = request.with_options(allow_source=())
            sources = policy.sources and structs.replace(policy.sources, exceptions=frozenset())
            policy = structs.replace(policy, sources=sources)
        given = [wheel.file for wheel in self._roots.wheels if wheel.file.origin is not None]
        asked = request_digest(
            vars(request),
            self._roots,
            self._settings,
            policy,
            self._named_pythons,  # these and the request give the environments
            [self._building.metadata(file).decode(errors="replace") for file in given],
        )
        return lock_key(__version__, asked, sha256_of(self._path.read_bytes()).hex())

    @cached_property
    def _named_pythons(self) -> Sequence[Python]:
        return self._pythons()

    def _environments(self) -> Sequence[LockEnvironment]:
        from wheelfit.locking.environments import environments_for

        wanted = self._roots.requires_python
        return environments_for(self._request.platform, self._named_pythons, wanted)

    def locks(
        self, report: Report, bounded: Callable[[Lock], ProjectFile] | None = None
    ) -> Sequence[HostLock]:
        """Return the locks: a single one, or one for each machine where they cannot share it.

        :param report: takes each machine before it is resolved for.
        :param bounded: as for `lock_project`; of a lock for environments.
        """
        from wheelfit.errors import UsageError
        from wheelfit.locking.hosts import HostLock, lock_for_hosts
        from wheelfit.locking.locking import build_lock, lock_everywhere
        from wheelfit.locking.solving import JoinedBuilds, Solver

        request = self._request
        roots = self._roots
        solver = Solver(
            roots,
            self._consulted if request.hosts else JoinedBuilds(self._consulted, roots.builds),
            self._policy,
            knows_needs=self._building.knows_needs,
            approve=self._approved,
        )
        where, folder = str(self._path), self._path.absolute().parent
        if request.hosts:
            if self._roots.conflicts:
                raise UsageError(
                    "extras and groups that conflict cannot be locked together for named machines",
                    hint="name one of them with --extra or --group",
                )
            return lock_for_hosts(
                solver,
                [self._machine(name) for name in dict.fromkeys(request.hosts)],
                old=self._old,
                upgrade=self._free,
                where=where,
                folder=folder,
                report=report,
            )
        locked = lock_everywhere(
            solver,
            self._environments(),
            old=self._old,
            upgrade=self._free,
            every_platform=bool(request.platform),
            every_python=bool(request.python_version) or len(self._named_pythons) == 1,
            where=where,
            folder=folder,
            report=report,
        )
        if bounded is not None:
            self._project = bounded(locked.lock)
            del self._roots
            again = build_lock(
                locked.settled,
                solver.asking(self._roots),
                where=where,
                folder=folder,
                old=self._old,
            )
            locked = structs.replace(locked, lock=again.lock)
        return [HostLock(locked, ())]

    def compared(self, host_lock: HostLock) -> WrittenLock:
        """Return a lock with its difference from the existing file."""
        from wheelfit.locking.difference import changes
        from wheelfit.locking.environments import in_words
        from wheelfit.locking.held_back import held_back

        path, old = self._path, self._old
        if host_lock.split_reason is not None:
            (machine,) = host_lock.machines
            path, old = self._path_for(machine.environment.name), machine.old
        lock, settled = host_lock.locked.lock, host_lock.locked.settled
        resolutions = [each.solution.resolution for each in settled]
        environments = [each.environment for each in settled]
        return WrittenLock(
            path,
            lock,
            old,
            changes(old, lock),
            in_words(environments),
            tuple(environment.name for environment in environments),
            host_lock.locked.notes,
            tuple(dict.fromkeys(text for each in resolutions for text in each.unmet)),
            tuple(held_back(settled)),
            host_lock.split_reason,
            tuple(self._accelerators([each.solution for each in settled])),
        )

    def _accelerators(self, solutions: Sequence[Solution]) -> Iterator[AcceleratorUse]:
        """Yield accelerator builds that machines cannot use, and accelerators left idle."""
        from wheelfit.locking.environments import LockEnvironment
        from wheelfit.operations.accelerator_remarks import report_accelerator_use, use_on_platform
        from wheelfit.operations.context import Context, Reporter
        from wheelfit.operations.machine import choose_machine

        if self._request.hosts:
            for solution in solutions:
                yield from report_accelerator_use(
                    solution.resolution,
                    [pin.name for pin in solution.resolution.pins],
                    solution.candidates,
                    Reporter(),
                )
            return
        target = self._environment.target()
        here = LockEnvironment("", target).platform
        silent = Context(self._context.environ)
        for solution in solutions:
            if solution.environment.platform == here:
                yield from use_on_platform(
                    solution.resolution,
                    solution.common,
                    solution.candidates,
                    lambda: choose_machine(self._request, target, silent),
                )
                return

    def tell_later(self, locks: Sequence[WrittenLock]) -> None:
        """Warn of newer releases in later indexes of packages in some locks."""
        packages = {
            (package.name, package.version): package
            for one in locks
            for package in one.lock.packages
            if package.version is not None and package.kind in ("wheels", "sdist")
        }
        tell_later(
            ((name, version, one.has_variants) for (name, version), one in packages.items()),
            self.repository.pool,
            self._context.reporter,
        )

    def refuse_substitutes(self, locks: Sequence[WrittenLock]) -> None:
        """Raise where an owner's index is out of reach: a lock lasts longer than that.

        :raises Unreachable: the registry's builds would be locked instead.
        """
        bridged = self.repository.bridged
        missed = {} if bridged is None else bridged.missed
        names = {package.name for one in locks for package in one.lock.packages}
        if lost := sorted(names & missed.keys()):
            raise Unreachable(
                f"{listed(lost)} cannot be locked without the index of the owner",
                note="\n".join(dict.fromkeys(missed[name] for name in lost)),
                hint="try again later; --bridge NAME@URL names a mirror of the index; --no-bridges "
                "locks what the registry has",
            )

    def leftovers(self, locks: Sequence[WrittenLock]) -> Iterator[str]:
        """Yield warnings of older locks for these machines, which could still be synced from."""
        written = {one.path for one in locks}
        for path in dict.fromkeys((self._path, *map(self._path_for, self._request.hosts))):
            if path not in written and path.exists():
                yield f"{path} is of an earlier time and stays; delete it if nobody uses it"

    def idle_upgrades(self, locks: Sequence[WrittenLock]) -> Iterator[str]:
        """Yield warnings of packages to upgrade that are not locked: likely misspelt."""
        known = {
            package.name
            for one in locks
            for each in (one.old, one.lock)
            if each is not None
            for package in each.packages
        }
        for name in sorted((self._free or frozenset()) - known):
            yield f"--upgrade-package {name} has no effect: {name} is not needed"

    def unbuilt(self, locks: Sequence[WrittenLock]) -> Iterator[str]:
        """Yield installation hints for locked sources, which must be built."""
        allowed = consent_of(self._request)
        if allowed.mode == "always":
            return
        kinds = {
            package.name: package.source.kind
            for one in locks
            for package in one.lock.packages
            if package.source is not None and package.name not in allowed.names
        }
        if kinds:
            names = sorted(kinds)
            options = " ".join(f"--allow-source {name}" for name in names)
            code = code_run(kind == "directory" for kind in kinds.values())
            command = f"`wheelfit sync {options}`"
            yield f"{listed(names)} must be built from source: {command} runs {code}"

    def _path_for(self, host: str) -> Path:
        """Return the path of the lock of one machine that cannot share one with others."""
        from wheelfit.locking.document import lock_name

        hosts = list(dict.fromkeys(self._request.hosts))
        names = [_simple(Path(one).name.removesuffix(".toml")) for one in hosts]
        place = hosts.index(host)
        name = names[place]
        if names.count(name) > 1:
            name = f"{name}-{place + 1}"
        own = self._path.name.removeprefix("pylock.").removesuffix("toml").rstrip(".")
        return self._path.with_name(lock_name(f"{own}-{name}" if own else name))

    def _pythons(self) -> Sequence[Python]:
        from wheelfit.locking.environments import known_pythons, python_of

        if self._request.python_version:
            return tuple(map(python_of, self._request.python_version))
        if self._roots.requires_python is not None:
            return known_pythons(self._roots.requires_python)
        version = self._environment.target().python_full_version
        self._context.reporter.note(
            f"locking for Python {version.major}.{version.minor}; --python-version names others"
        )
        return ((version.major, version.minor),)

    def _machine(self, name: str) -> NamedMachine:
        from wheelfit.locking.environments import LockEnvironment
        from wheelfit.locking.hosts import NamedMachine
        from wheelfit.locking.selection import LockCandidates
        from wheelfit.operations.machine import choose_machine
        from wheelfit.resolution.candidates import Candidates

        request = self._request.with_options(host=name)
        machine = choose_machine(request, self._environment.target(), self._context)
        policy = structs.replace(self._policy, providers=machine.policy)
        plugins = machine.plugins(self._environment, self.repository, self._settings, request)

        def candidates(repository: Repository) -> Candidates:
            return Candidates(
                repository,
                machine.target,
                machine.detector,
                policy,
                user_lists=machine.user_lists,
                plugins=plugins,
                knows_needs=self._building.knows_needs,
            )

        def chooser(lock: Lock) -> LockCandidates:
            return LockCandidates(
                lock,
                machine.target,
                machine.detector,
                policy,
                user_lists=machine.user_lists,
                plugins=plugins,
                folder=self._path.absolute().parent,
                extras=lock.extras,
                groups=lock.dependency_groups or None,
                built=stand_in_of(self._path.absolute().parent),
            )

        return NamedMachine(
            LockEnvironment(name, machine.target),
            candidates,
            chooser,
            _old_lock(self._path_for(name), lambda: self._store),
        )


def _simple(name: str) -> str:
    """Return a name as part of a lock's file name: without dots."""
    import re

    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "host"


def _old_lock(path: Path, store: Callable[[], Store]) -> Lock | None:
    """Return the existing lock; None if there is none.

    :param store: opens the cache.
    """
    from wheelfit.errors import UsageError
    from wheelfit.locking.document import is_lock_name
    from wheelfit_runtime.errors import FileProblem, InvalidLock

    if not is_lock_name(path.name):
        raise UsageError(
            f"a lock file cannot be called {path.name!r}",
            hint="it is called pylock.toml or pylock.NAME.toml (PEP 751)",
        )
    if not path.exists():
        if not path.parent.is_dir():
            raise FileProblem("the folder for the lock does not exist", where=str(path.parent))
        return None
    from wheelfit.operations.lock_files import load_lock

    try:
        return load_lock(path, store=store())
    except InvalidLock as error:
        error.hint = error.hint or "delete it to lock anew, or name another file with --output"
        raise


def _wanted(request: LockRequest, context: Context, rules: InstallRules) -> RequestedRequirements:
    """Return the requirements that are named, without those of a project."""
    wanted = read_wanted(request, context.environ, may_be_empty=works_on_project(request))
    if rules.constraints:
        return limited(wanted, rules.constraints, context.environ, rules.origin_of("constraint"))
    return wanted


def _roots(
    request: LockRequest,
    wanted: RequestedRequirements,
    rules: InstallRules,
    opened: Callable[[GivenSource], GivenWheel],
    file: ProjectFile | None,
) -> LockNeeds:
    """Return the requirements of the lock, those of a project included."""
    from wheelfit.locking.request import LockNeeds, Root

    project = LockNeeds()
    sources: Mapping[NormalizedName, Sequence[ProjectSource]] = {}
    if works_on_project(request):
        file = file or open_project(request.project or ".")
        project, sources = project_request(request, file), file.sources
    named = [Root(asked.requirement, asked.where) for asked in wanted.requirements]
    named += [Root(one.requirement(), one.where, wheel=one) for one in wanted.wheels]
    return structs.replace(
        project,
        roots=(
            *(
                requirement
                for root in project.roots
                for requirement in from_sources(root, sources, opened)
            ),
            *named,
            *(root_of(source, opened) for source in wanted.sources),
        ),
        constraints=wanted.constraints,
        overrides=wanted.overrides,
        excluded=wanted.excluded,
        hashes=wanted.hashes,
        prereleases=request.pre or rules.pre or any(file.pre for file in wanted.files),
        dependencies=not request.no_deps,
    )


def _mapping(written_lock: WrittenLock, *, writes: bool) -> dict[str, object]:
    return {
        "path": str(written_lock.path),
        "written": writes and not written_lock.is_same,
        "up_to_date": written_lock.is_same,
        "for": list(written_lock.names),
        "requires_python": written_lock.lock.to_mapping()["requires-python"],
        "packages": [
            {
                "name": package.name,
                "version": str(package.version),
                "marker": None if package.marker is None else str(package.marker),
                "wheels": len(package.wheels),
                "labels": list(labels_of(package)),
            }
            for package in written_lock.lock.packages
        ],
        "changes": [change.to_mapping() for change in written_lock.changes],
        "held_back": [old.to_mapping() for old in written_lock.held_back],
    }
