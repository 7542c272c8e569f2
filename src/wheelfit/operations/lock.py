"""Locking: versions and files for every machine, from which each takes its own wheels."""

from __future__ import annotations

import json
import re
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field, structs
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.digests import sha256_of
from wheelfit.errors import LockOutdated, SourceBuildNotAllowed, UsageError
from wheelfit.installation.builds.repository import BuildingRepository
from wheelfit.locking.document import Lock, LockedPackage, is_lock_name, lock_name, write_lock
from wheelfit.locking.freshness import (
    RecordingRepository,
    Validator,
    is_valid,
    read_validators,
    request_digest,
)
from wheelfit.locking.request import LockNeeds, Root
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.environments import cache_of, open_environment_of
from wheelfit.operations.indexes import (
    open_indexes,
    read_settings,
    warn_of_later_indexes,
    warning_of_later_indexes,
    with_family_hints,
)
from wheelfit.operations.lock_files import CACHE_KIND, load_lock
from wheelfit.operations.named_sources import open_locked_source, source_root, with_project_sources
from wheelfit.operations.pip_rules import read_rules
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.projects import open_project, project_request, works_on_project
from wheelfit.operations.requests import (
    EnvironmentOptions,
    MachineOptions,
    ProjectRequirementOptions,
    ResolutionBuildOptions,
    VariantOptions,
)
from wheelfit.operations.requirements import read_requirements, with_pip_constraints
from wheelfit.operations.source_builds import (
    code_in_words,
    consent_of,
    open_builder,
    source_policy,
    with_consent,
)
from wheelfit.sources.cache import Store, lock_key
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import FileProblem, InvalidLock, Unreachable, WheelfitError
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.installation.builds.building import WheelBuilder
    from wheelfit.locking.difference import LockChange
    from wheelfit.locking.environments import Python
    from wheelfit.locking.held_back import LockHeldBack
    from wheelfit.locking.hosts import HostLock, NamedMachine
    from wheelfit.locking.locking import EnvironmentCallback
    from wheelfit.operations.context import Context
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.project_file import ProjectFile
    from wheelfit.resolution.request import DirectSource, DirectWheel
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.repository import Repository


class LockRequest(
    ProjectRequirementOptions,
    EnvironmentOptions,
    ResolutionBuildOptions,
    MachineOptions,
    VariantOptions,
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
    """The existing lock; None: there is none."""
    changes: Sequence[LockChange]
    environments: str
    """The environments of the lock, in words."""
    names: tuple[str, ...]
    """The names of the environments."""
    notes: tuple[str, ...] = ()
    """Warnings about the lock."""
    unmet: tuple[str, ...] = ()
    """Requirements of packages that the lock does not meet because of overrides."""
    held_back: tuple[LockHeldBack, ...] = ()
    """Packages older than the newest requested release, unless they were unchanged."""
    split_reason: str | None = None
    """The reason for one lock for each machine; None: the lock is for all of them."""

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
    """The time of the step ``resolve``, by name."""

    @property
    def split_reason(self) -> str | None:
        """The reason for a lock for each machine; None: there is one for all."""
        return self.locks[0].split_reason

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "seconds split_reason notes",
            dry_run=not self.writes,
            locks=[_to_json(written_lock, writes=self.writes) for written_lock in self.locks],
        )


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
    add_bounds: Callable[[Lock], ProjectFile] | None = None,
) -> LockReport:
    """Lock a project, whose edited file may not be written yet.

    :param project: the content of its file; None: read from the disk.
    :param add_bounds: returns the project with version bounds that the lock meets, so that they
        cause no new resolution; None: no bounds are added.
    """
    from wheelfit.operations.files import write_files
    from wheelfit.operations.step_durations import StepDurations

    session = _LockSession(request, context, project)
    durations = StepDurations()
    with (
        session,
        warning_of_later_indexes(session.repository, context.reporter),
        context.reporter.steps("resolving") as step,
        durations.measure("resolve"),
    ):
        unchanged = session.unchanged_lock() if add_bounds is None else None
        if unchanged is None:
            host_locks = session.locks(
                lambda machine: step(f"resolving for {machine.name}"), add_bounds
            )
            locks = tuple(map(session.compare_with_existing, host_locks))
        else:
            locks = (unchanged,)
        session.refuse_substitutes(locks)
        outdated = [written_lock for written_lock in locks if not written_lock.is_same]
        if session.writes:
            write_files({str(each.path): write_lock(each.lock) for each in outdated})
        if unchanged is None:
            session.record_inputs(locks)
            session.warn_of_later_indexes(locks)
    names = {package.name for written_lock in locks for package in written_lock.lock.packages}
    durations.report(f"Resolved {count_of(len(names), 'package')}", "resolve", context.reporter)
    if request.check and outdated:
        changed = [change for written_lock in outdated for change in written_lock.changes]
        raise LockOutdated(
            "the lock is out of date" if outdated[0].old else "the lock file does not exist yet",
            where=", ".join(str(written_lock.path) for written_lock in outdated),
            note="\n".join(map(str, changed))
            or "something besides versions and files is different",
            hint="run the same command without --check",
            details=[change.to_mapping() for change in changed],
        )
    notes = [note for written_lock in locks for note in written_lock.notes]
    notes += session.warnings_of_older_locks(locks)
    notes += session.warnings_of_unused_upgrades(locks)
    notes += session.build_hints(locks)
    return LockReport(locks, session.writes, tuple(dict.fromkeys(notes)), durations.to_json())


def labels_of(package: LockedPackage) -> Sequence[str]:
    """Return the labels of a locked package, the plain wheel last; none without variants."""
    labels = {wheel.filename.label for wheel in package.wheels}
    names = sorted(label for label in labels if label is not None)
    return [*names, "plain"] if names and None in labels else names


class _LockSession:
    """The sources, requirements and existing lock of one operation."""

    def __init__(self, request: LockRequest, context: Context, project: ProjectFile | None) -> None:
        from wheelfit.core.provider_lookup import ProviderPolicy

        if request.hosts and (request.platform or request.python_version):
            raise UsageError(
                "--for cannot be combined with --platform or --python-version",
                hint="a host file names its Python: `wheelfit host new --python 3.12 -o FILE HOST`",
            )
        self._started = time.time()
        self._request = request
        self._context = context
        self._path = Path(request.output)
        self._old = _existing_lock(self._path, lambda: cache_of(request, context.environ))
        self._environment = open_environment_of(request, context.environ, may_be_own=True)
        prefix = self._environment.interpreter.prefix
        rules = read_rules(context.environ, prefix)
        self._rules, self._project = rules, project
        self.writes = not (request.check or request.dry_run)
        self._may_ask = self.writes
        requirement_set = read_requirements(
            request, context.environ, may_be_empty=works_on_project(request)
        )
        requirement_set = with_pip_constraints(requirement_set, rules, context.environ)
        self._requirement_set = requirement_set
        self._settings = read_settings(
            request, context.environ, requirement_set.files, prefix=prefix
        )
        providers = ProviderPolicy(abi_dependency=not request.no_abi_dependency)
        self._policy = structs.replace(
            with_family_hints(
                choice_policy(request, providers, requirement_set.hashes, requirement_set.labels),
                request,
                context.environ,
            ),
            sources=source_policy(request, requirement_set, rules),
        )
        upgraded = frozenset(map(canonicalize_name, request.upgrade_package))
        self._upgradable = None if request.upgrade else upgraded
        self.repository = open_indexes(
            request, self._settings, context, requirement_set.urls_with_logins
        )
        self._building = BuildingRepository(self.repository, self._open_builder)
        self._consulted = RecordingRepository(self._building)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._building.close()
        self.repository.close()

    def _open_builder(self, build_requirements: Repository) -> WheelBuilder:
        from wheelfit.operations.machine import choose_machine

        machine = choose_machine(self._request, self._environment.target, self._context)
        return open_builder(
            self._request,
            self._context,
            self.repository,
            build_requirements,
            self._settings,
            self._environment,
            machine,
            self._policy,
            self._requirement_set,
        )

    @cached_property
    def _roots(self) -> LockNeeds:
        """The requirements of the lock, those of a project included; named projects are opened."""
        request, requirement_set = self._request, self._requirement_set
        folder = self._path.absolute().parent

        def open_source(source: DirectSource) -> DirectWheel:
            return open_locked_source(
                source, self._building.direct_wheel, self._old, folder, self._upgradable
            )

        roots: list[Root] = []
        project = LockNeeds()
        if works_on_project(request):
            file = self._project or open_project(request.project or ".")
            project = project_request(request, file)
            for root in project.roots:
                roots += with_project_sources(root, file.sources, open_source)
        roots += [Root(item.requirement, item.where) for item in requirement_set.requirements]
        roots += [
            Root(wheel.requirement(), wheel.where, wheel=wheel) for wheel in requirement_set.wheels
        ]
        roots += [source_root(source, open_source) for source in requirement_set.sources]
        files = requirement_set.files
        return structs.replace(
            project,
            roots=tuple(roots),
            constraints=requirement_set.constraints,
            overrides=requirement_set.overrides,
            excluded=requirement_set.excluded,
            hashes=requirement_set.hashes,
            prereleases=request.pre or self._rules.pre or any(file.pre for file in files),
            dependencies=not request.no_deps,
        )

    def _with_consent(
        self, resolve: Callable[[], Resolution], candidates: Candidates
    ) -> Resolution:
        """Return a resolution with the user's consent to the builds it needs."""
        try:
            return with_consent(
                resolve,
                self._building,
                candidates,
                self._context.reporter,
                may_ask=self._may_ask,
                pins_without_consent=self._pins_without_consent,
            )
        except SourceBuildNotAllowed:
            self._may_ask = False  # other environments lack the same
            raise

    def _pins_without_consent(self, resolution: Resolution) -> Sequence[Pin]:
        """Return pins without consent, if builds are off or requirements unknown before them."""
        building = self._building
        return [
            pin
            for pin in resolution.pins
            if building.needs_consent(pin.file)
            and (building.mode == "never" or not building.has_requirements(pin.file))
        ]

    def unchanged_lock(self) -> WrittenLock | None:
        """Return the existing lock if none of its inputs has changed; None: resolving is needed."""
        if self._old is None or self._upgradable != frozenset():
            return None  # an upgrade may find other versions on unchanged pages
        entry = self._store.read(CACHE_KIND, self._key())
        if entry is None:
            return None
        record = json.loads(entry.body)
        expected = {name: Validator(*parts) for name, parts in record["validators"].items()}
        # Indexes are not asked again while the shortest of the lifetimes that they state lasts.
        lifetimes = [item.fresh_seconds for item in expected.values() if item.fresh_seconds]
        lifetime = min(lifetimes, default=0.0)
        is_fresh = 0 <= self._started - record["asked"] < lifetime

        def is_fresh_page(name: NormalizedName) -> bool:
            return is_fresh and self.repository.pool.only_index(name) is not None

        try:
            if not is_valid(self._old, expected, self.repository, is_fresh_page):
                return None
        except (WheelfitError, OSError):
            return None  # the resolution reports the fault
        if lifetime and not is_fresh:
            record["asked"] = self._started
            self._store.write(CACHE_KIND, self._key(), {}, json.dumps(record).encode())
        return WrittenLock(
            self._path,
            self._old,
            self._old,
            (),
            record["environments"],
            tuple(record["names"]),
            tuple(record["notes"]),
            tuple(record["unmet"]),
        )

    def record_inputs(self, locks: Sequence[WrittenLock]) -> None:
        """Record the inputs of a lock in the cache, if its file exists and is for all machines."""
        first = locks[0]
        exists = first.is_same or self.writes
        if not (self._store.is_enabled and exists):
            return
        try:
            by_project = read_validators(first.lock, self._consulted.names, self.repository)
        except (WheelfitError, OSError):
            return
        record = {
            "validators": by_project,
            "asked": self._started,
            "notes": first.notes,
            "unmet": first.unmet,
            "names": first.names,
            "environments": first.environments,
        }
        # The next run needs no consent to the same builds: their metadata is in the cache, and
        # nothing runs.
        keys = [self._key()]
        if self._request.allow_source:
            keys.append(self._key(with_consent=False))
        for key in keys:
            self._store.write(CACHE_KIND, key, {}, json.dumps(record).encode())

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
        request = self._request.with_options(
            check=False, dry_run=False, upgrade=False, upgrade_package=()
        )
        policy = self._policy
        if not with_consent:
            request = request.with_options(allow_source=())
            sources = policy.sources and structs.replace(policy.sources, exceptions=frozenset())
            policy = structs.replace(policy, sources=sources)
        built_files = [wheel.file for wheel in self._roots.wheels if wheel.file.origin is not None]
        digest = request_digest(
            vars(request),
            self._roots,
            self._settings,
            policy,
            self._pythons,  # these and the request give the environments
            [self._building.metadata(file).decode(errors="replace") for file in built_files],
        )
        return lock_key(__version__, digest, sha256_of(self._path.read_bytes()).hex())

    def locks(
        self, report: EnvironmentCallback, add_bounds: Callable[[Lock], ProjectFile] | None
    ) -> Sequence[HostLock]:
        """Return the locks: a single one, or one for each machine where they cannot share it.

        :param report: called with each machine before the resolution for it.
        :param add_bounds: as for `lock_project`; not used for named machines.
        """
        from wheelfit.locking.environments import environments_for
        from wheelfit.locking.hosts import HostLock, lock_for_hosts
        from wheelfit.locking.locking import build_lock, lock_everywhere
        from wheelfit.locking.solving import JoinedRepository, Solver

        request = self._request
        roots = self._roots
        solver = Solver(
            roots,
            self._consulted
            if request.hosts
            else JoinedRepository(self._consulted, roots.projects_with_requested_build),
            self._policy,
            has_requirements=self._building.has_requirements,
            approve=self._with_consent,
        )
        path, folder = str(self._path), self._path.absolute().parent
        if request.hosts:
            if roots.conflicts:
                raise UsageError(
                    "extras and groups that conflict cannot be locked together for named machines",
                    hint="name one of them with --extra or --group",
                )
            return lock_for_hosts(
                solver,
                [self._machine(name) for name in dict.fromkeys(request.hosts)],
                old=self._old,
                upgrade=self._upgradable,
                where=path,
                folder=folder,
                report=report,
            )
        locked = lock_everywhere(
            solver,
            environments_for(request.platform, self._pythons, roots.requires_python),
            old=self._old,
            upgrade=self._upgradable,
            every_platform=bool(request.platform),
            every_python=bool(request.python_version) or len(self._pythons) == 1,
            where=path,
            folder=folder,
            report=report,
        )
        if add_bounds is not None:
            self._project = add_bounds(locked.lock)
            del self._roots  # those of the changed project are read when they are next used
            bounded = build_lock(
                locked.environments,
                solver.with_request(self._roots),
                where=path,
                folder=folder,
                old=self._old,
            )
            locked = structs.replace(locked, lock=bounded.lock)
        return [HostLock(locked, ())]

    def compare_with_existing(self, host_lock: HostLock) -> WrittenLock:
        """Return a lock with its difference from the existing file."""
        from wheelfit.locking.difference import changes
        from wheelfit.locking.environments import describe_environments
        from wheelfit.locking.held_back import held_back

        path, old = self._path, self._old
        if host_lock.split_reason is not None:
            (machine,) = host_lock.machines
            path, old = self._path_for(machine.environment.name), machine.old
        lock, listed_environments = host_lock.result.lock, host_lock.result.environments
        resolutions = [solved.solution.resolution for solved in listed_environments]
        environments = [solved.environment for solved in listed_environments]
        return WrittenLock(
            path,
            lock,
            old,
            changes(old, lock),
            describe_environments(environments),
            tuple(environment.name for environment in environments),
            host_lock.result.notes,
            tuple(dict.fromkeys(text for resolution in resolutions for text in resolution.unmet)),
            tuple(held_back(listed_environments)),
            host_lock.split_reason,
        )

    def warn_of_later_indexes(self, locks: Sequence[WrittenLock]) -> None:
        """Warn of newer releases in later indexes of packages in some locks."""
        packages = {
            (package.name, package.version): package
            for written_lock in locks
            for package in written_lock.lock.packages
            if package.version is not None and package.kind in ("wheels", "sdist")
        }
        warn_of_later_indexes(
            [(*key, package.has_variants) for key, package in packages.items()],
            self.repository,
            self._context.reporter,
        )

    def refuse_substitutes(self, locks: Sequence[WrittenLock]) -> None:
        """Raise if the registry's builds would be locked since an owner's index is unreachable.

        A lock lasts longer than such a failure.
        """
        bridged = self.repository.bridged
        reasons = {} if bridged is None else bridged.unreachable_owners
        names = {package.name for written_lock in locks for package in written_lock.lock.packages}
        unreachable = sorted(names & reasons.keys())
        if unreachable:
            raise Unreachable(
                f"{listed(unreachable)} cannot be locked without the index of the owner",
                note="\n".join(dict.fromkeys(reasons[name] for name in unreachable)),
                hint="try again later; --bridge NAME@URL names a mirror of the index; --no-bridges "
                "locks the files of the registry",
            )

    def warnings_of_older_locks(self, locks: Sequence[WrittenLock]) -> Iterator[str]:
        """Yield warnings of older locks of these machines, which `sync` would still accept."""
        paths = {written_lock.path for written_lock in locks}
        for path in dict.fromkeys((self._path, *map(self._path_for, self._request.hosts))):
            if path not in paths and path.exists():
                yield f"{path} is an older lock that was not updated; delete it if it is not used"

    def warnings_of_unused_upgrades(self, locks: Sequence[WrittenLock]) -> Iterator[str]:
        """Yield warnings of packages to upgrade that are not locked: likely misspelt."""
        locked = {
            package.name
            for written_lock in locks
            for lock in (written_lock.old, written_lock.lock)
            if lock is not None
            for package in lock.packages
        }
        for name in sorted((self._upgradable or frozenset()) - locked):
            yield f"--upgrade-package {name} has no effect: {name} is not needed"

    def build_hints(self, locks: Sequence[WrittenLock]) -> Iterator[str]:
        """Yield installation hints for locked sources, which must be built."""
        consent = consent_of(self._request)
        if consent.mode == "always":
            return
        kinds = {
            package.name: package.source.kind
            for written_lock in locks
            for package in written_lock.lock.packages
            if package.source is not None and package.name not in consent.names
        }
        if kinds:
            names = sorted(kinds)
            options = " ".join(f"--allow-source {name}" for name in names)
            code = code_in_words(kind == "directory" for kind in kinds.values())
            command = f"`wheelfit sync {options}`"
            has_wheels = all(
                package.wheels
                for written_lock in locks
                for package in written_lock.lock.packages
                if package.name in kinds and package.source is not None
            )
            where = " where no locked wheel fits" if has_wheels else ""
            yield f"{listed(names)} must be built from source{where}: {command} runs {code}"

    def _path_for(self, host: str) -> Path:
        """Return the path of the lock of one machine that cannot share one with others."""
        hosts = list(dict.fromkeys(self._request.hosts))
        names = [_lock_name_part(Path(name).name.removesuffix(".toml")) for name in hosts]
        position = hosts.index(host)
        name = names[position]
        folded_names = list(map(str.casefold, names))  # many file systems ignore case
        if folded_names.count(name.casefold()) > 1:
            name += f"-{position + 1}"
            while name.casefold() in folded_names:
                name += f"-{position + 1}"
        stem = self._path.name.removeprefix("pylock.").removesuffix("toml").rstrip(".")
        return self._path.with_name(lock_name(f"{stem}-{name}" if stem else name))

    @cached_property
    def _pythons(self) -> Sequence[Python]:
        """The Pythons of the options, of the project, or of the environment."""
        from wheelfit.locking.environments import known_pythons, python_of

        if self._request.python_version:
            return tuple(map(python_of, self._request.python_version))
        if self._roots.requires_python is not None:
            return known_pythons(self._roots.requires_python)
        version = self._environment.target.python_full_version
        self._context.reporter.note(
            f"locking for Python {version.major}.{version.minor}; --python-version names others"
        )
        return ((version.major, version.minor),)

    def _machine(self, name: str) -> NamedMachine:
        """Return a machine of ``--for`` with what it chooses from, and its existing lock."""
        from wheelfit.locking.environments import LockEnvironment
        from wheelfit.locking.hosts import NamedMachine
        from wheelfit.locking.selection import LockCandidates
        from wheelfit.operations.machine import choose_machine
        from wheelfit.resolution.candidates import Candidates

        request = self._request.with_options(host=name)
        machine = choose_machine(request, self._environment.target, self._context)
        policy = structs.replace(self._policy, providers=machine.policy)
        plugins = machine.plugins(self._environment, self.repository, self._settings, request)

        def candidates(repository: Repository) -> Candidates:
            return Candidates(
                repository,
                machine.target,
                machine.detector,
                policy,
                host_detector=machine.host_detector,
                plugins=plugins,
                has_requirements=self._building.has_requirements,
            )

        def chooser(lock: Lock) -> LockCandidates:
            return LockCandidates(
                lock,
                machine.target,
                machine.detector,
                policy,
                host_detector=machine.host_detector,
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
            _existing_lock(self._path_for(name), lambda: self._store),
        )


def _lock_name_part(name: str) -> str:
    """Return a name as part of a lock's file name, which may not have dots."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "host"


def _existing_lock(path: Path, store: Callable[[], Store]) -> Lock | None:
    """Return the existing lock; None if there is none.

    :param store: opens the cache.
    """
    if not is_lock_name(path.name):
        raise UsageError(
            f"{path.name!r} is not a valid name for a lock file",
            hint="it is called pylock.toml or pylock.NAME.toml (PEP 751)",
        )
    if not path.exists():
        if not path.parent.is_dir():
            raise FileProblem("the folder for the lock does not exist", where=str(path.parent))
        return None
    try:
        return load_lock(path, store=store())
    except InvalidLock as error:
        error.hint = error.hint or "delete it to lock anew, or name another file"
        raise


def _to_json(written_lock: WrittenLock, *, writes: bool) -> dict[str, object]:
    packages = [
        plain_fields(
            package,
            "name marker",
            version=str(package.version),
            wheels=len(package.wheels),
            labels=labels_of(package),
        )
        for package in written_lock.lock.packages
    ]
    return {
        **plain_fields(written_lock, "path changes held_back"),
        "written": writes and not written_lock.is_same,
        "up_to_date": written_lock.is_same,
        "for": list(written_lock.names),
        "requires_python": written_lock.lock.to_mapping()["requires-python"],
        "packages": packages,
    }
