"""The selection of the packages of a lock for one target (PEP 751, F-115 to F-124).

First the applicable entries are found by the steps of the standard; then, starting at the roots of
the lock, the wheel of each package is chosen by the support of the target, for only the packages
that the chosen wheels need (F-121). Nothing is resolved, and no index is read (F-123).
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.abi_dependency import KnownVersion, KnownVersions, abi_namespaces, project_of
from wheelfit.core.provider_lookup import Detector, NoPlugins, Plugins
from wheelfit.core.versions import admits_python
from wheelfit.errors import InvalidMarker, InvalidRequirement
from wheelfit.locking.repository import LockedRepository
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.choice_context import ChoiceContext
from wheelfit.resolution.choice_warnings import warnings_about_mixture
from wheelfit.resolution.joint_choice import (
    Attempt,
    ChosenBuild,
    Effort,
    RefusedAttempt,
    choose_agreeing_builds,
)
from wheelfit.resolution.resolution import Edge, Pin, Resolution
from wheelfit_runtime.errors import (
    Fault,
    FileProblem,
    InvalidLock,
    InvalidWheel,
    NetworkError,
    NoCompatibleWheel,
    NoFit,
    UserError,
)
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.version import Version

    from wheelfit.core.agreements import AgreedValue
    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.requirements import Requirement
    from wheelfit.core.target import Target
    from wheelfit.locking.document import Lock, LockedPackage
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.request import InstalledBuild
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files


class PackageChoice(Struct, frozen=True):
    """The wheel chosen for one package of a lock."""

    package: LockedPackage
    choice: ReleaseChoice
    """The verdict on each of its wheels; one is chosen."""
    needs: tuple[NormalizedName, ...] = ()
    """The packages of the lock that the chosen wheel needs, as far as is known."""
    requested: bool = False
    """Whether it is a root of the lock, not only a dependency."""


class LockSelection(Struct, frozen=True):
    """The wheels of a lock for one target."""

    chosen: tuple[PackageChoice, ...]
    """In the order of the lock."""
    left_out: Mapping[NormalizedName, str] = field(default_factory=dict)
    """Packages of the lock that are not selected, with the reason."""
    notes: tuple[str, ...] = ()
    """Problems that did not stop the selection, one sentence each (F-136)."""
    agreements: tuple[AgreementOutcome, ...] = ()
    """The values that all builds agree on, and the builds that gave way for them."""
    roots: tuple[Requirement, ...] | None = None
    """The applicable roots of the lock; None: the lock lists none."""
    context: ChoiceContext = ChoiceContext()

    def resolution(self) -> Resolution:
        """Return the selection as a resolution to install."""
        edges = [Edge(entry.package.name, name) for entry in self.chosen for name in entry.needs]
        pins = (Pin.of(entry.choice, requested=entry.requested) for entry in self._needed_first())
        return Resolution(
            tuple(pins),
            edges=tuple(edges),
            notes=self.notes,
            agreements=self.agreements,
            context=self.context,
        )

    def _needed_first(self) -> Iterator[PackageChoice]:
        """Yield the packages, dependencies before dependents; a cycle has no order."""
        chosen = {entry.package.name: entry for entry in self.chosen}
        seen: set[NormalizedName] = set()
        for start, root in chosen.items():
            path = [] if start in seen else [(start, iter(root.needs))]
            seen.add(start)
            while path:
                name, needs = path[-1]
                needed = next((need for need in needs if need in chosen and need not in seen), None)
                if needed is None:
                    yield chosen[name]
                    path.pop()
                else:
                    seen.add(needed)
                    path.append((needed, iter(chosen[needed].needs)))


def applicable_packages(
    lock: Lock,
    target: Target,
    *,
    extras: Collection[str] = (),
    groups: Collection[str] | None = None,
) -> tuple[LockedPackage, ...]:
    """Return the entries of a lock that apply to a target, by the steps of PEP 751.

    `LockCandidates` chooses among the wheels of an entry.

    :param groups: the requested dependency groups; None: the default groups.
    :raises UserError: the lock was not made for a requested extra or group.
    :raises NoFit: the lock was not made for the target.
    :raises InvalidLock: two packages of one name apply to the target.
    """
    python = target.python_full_version
    # 1. Gather the extras and dependency groups.
    default_groups = lock.default_groups
    chosen_groups = frozenset(default_groups if groups is None else groups)
    _check_known(lock, "extra", extras, lock.extras)
    _check_known(
        lock, "dependency group", chosen_groups, (*lock.dependency_groups, *default_groups)
    )
    environment = _environment(target, extras, chosen_groups)
    _check_conflicts(lock, environment)
    # 2. The version of the file was checked on reading.
    # 3. requires-python
    lock_pythons = lock.requires_python
    if lock_pythons is not None and not admits_python(lock_pythons, python):
        raise NoFit(
            f"the lock is for Python {lock_pythons}, this is {python}",
            where=lock.where,
            hint="name another interpreter with --python, or lock for this one: --python-version",
        )
    # 4. environments: one of them must hold.
    environments = lock.environments
    if environments and not any(_holds(marker, environment, lock.where) for marker in environments):
        raise NoFit(
            f"the lock was not made for {target.name}",
            where=lock.where,
            note="\n".join(f"it is for {marker}" for marker in environments),
            hint="lock again for this environment too",
        )
    # 5. The packages whose marker holds; one for each name.
    by_name: dict[NormalizedName, tuple[int, LockedPackage]] = {}
    for number, package in enumerate(lock.packages):
        marker = package.marker
        if marker is not None and not _holds(marker, environment, lock.where):
            continue
        requires_python = package.requires_python
        if requires_python is not None and not admits_python(requires_python, python):
            raise NoFit(
                f"{package.name} needs Python {requires_python}, this is {python}", where=lock.where
            )
        if package.name in by_name:
            earlier = by_name[package.name][0]
            problem = f"packages[{earlier}] has the same name, {package.name}, and applies too"
            raise InvalidLock([Fault(f"packages[{number}]", problem)], where=lock.where)
        by_name[package.name] = (number, package)
    return tuple(package for _, package in by_name.values())


class LockCandidates:
    """The candidates among a lock's wheels for one target.

    :param machine: detects the properties that the target supports (F-123); None: only
        ``host_detector`` is used.
    :param host_detector: the detector of a host file; it precedes ``machine`` (P-44).
    :param plugins: runs trusted plugins; default: none are run.
    :param files: reads wheels; None: only the metadata in the lock is used.
    :param folder: the folder of the lock file; None: it came from elsewhere.
    :param groups: the requested dependency groups; None: the default groups.
    :param roots: the roots to select; None: those of the lock.
    :param built: returns the wheel that stands for the source of a package, as for
        `LockedRepository`; None: nothing is built from source.
    :raises WheelfitError: as `applicable_packages`.
    """

    def __init__(
        self,
        lock: Lock,
        target: Target,
        machine: Detector | None,
        policy: ChoicePolicy = ChoicePolicy(),
        *,
        host_detector: Detector | None = None,
        plugins: Plugins = NoPlugins(),
        files: Files | None = None,
        folder: Path | None = None,
        extras: Collection[str] = (),
        groups: Collection[str] | None = None,
        roots: Sequence[Requirement] | None = None,
        built: Callable[[LockedPackage], File] | None = None,
    ) -> None:
        packages = applicable_packages(lock, target, extras=extras, groups=groups)
        self.packages = MappingProxyType({package.name: package for package in packages})
        """The packages that apply to the target, by name."""
        self._can_build = built is not None
        repository = LockedRepository(
            packages, name=lock.where, files=files, folder=folder, built=built
        )
        # P-51: the environment will have exactly the versions of the lock.
        lock_versions = {
            package.name: KnownVersion(package.version, "is in the lock")
            for package in packages
            if package.version is not None
        }
        archives = (
            repository.project(entry.name)
            for entry in packages
            if entry.kind == "archive" and entry.source is None
        )
        # F-124: an archive that is a wheel is the only choice, like a wheel that the user named.
        archive_pages = (page for page in archives if page is not None and page.files)
        self.candidates = Candidates(
            repository, target, machine, policy, host_detector=host_detector, plugins=plugins
        ).within(
            ChoiceContext(known_versions=KnownVersions(lock_versions)).with_direct_files(
                *archive_pages
            )
        )
        """The candidates in the lock. As for an index, ``metadata_disagreement`` compares a
        downloaded wheel with its entry (F-93), and after ``reject`` `select` chooses the next.
        """
        self._lock = lock
        if roots is None:
            roots = lock.roots
        default_groups = lock.default_groups
        environment = _environment(target, extras, default_groups if groups is None else groups)
        self._roots: dict[NormalizedName, frozenset[NormalizedName]] | None = None
        """The extras of each applicable root; None: the lock lists no roots."""
        self._requested_roots: tuple[Requirement, ...] | None = None
        if roots is not None:
            self._roots = {}
            self._requested_roots = tuple(root for root in roots if root.applies(environment))
            for root in self._requested_roots:
                self._roots[root.name] = self._roots.get(root.name, frozenset()) | root.extras

    def select(
        self,
        *,
        installed: Mapping[NormalizedName, InstalledBuild] = MappingProxyType({}),
        only: Collection[NormalizedName] | None = None,
        preferred_builds: Mapping[NormalizedName, tuple[Label, PropertySet]] = MappingProxyType({}),
    ) -> LockSelection:
        """Select the wheels; call again after a wheel was rejected.

        Builds agree on the shared requirements of the environment, as in a resolution; no other
        versions are tried, since the lock has one of each.

        :param installed: the installed builds, by name; those that stay must agree with the wheels.
        :param only: choose only these packages and their dependencies; None: choose all.
        :param preferred_builds: label and properties of the build to prefer of each package.
        :raises NoCompatibleWheel: a package that is needed has no wheel for the target; names all
            such packages.
        :raises NoConsistentSet: no builds in the lock agree with each other.
        :raises FileProblem: the lock names files that must not or cannot be read.
        """
        roots = {} if self._roots is None else self._roots
        context = replace(self.candidates.context, preferred_builds=preferred_builds)

        def choose(agreed: tuple[AgreedValue, ...], *_: object) -> Attempt[_Walk] | RefusedAttempt:
            """Implement `Choose`; the effort is ignored, as a package has only one version."""
            candidates = self.candidates.within(replace(context, agreed=agreed))
            walk = self._walked(candidates, only)
            staying = [
                build
                for name, build in installed.items()
                if name not in (self.packages if only is None else walk.choices)
            ]

            declared_properties = partial(self._declared_properties, candidates, walk)
            error = self._no_wheel_error(walk) or self._conflict_error(
                candidates, staying, is_partial=only is not None
            )
            if error is not None:
                return RefusedAttempt(agreed, lambda: error, declared_properties)
            builds = {build.name: ChosenBuild.of_installed(build) for build in staying}
            for name, choice in walk.choices.items():
                builds[name] = ChosenBuild.of_release(choice, choice.chosen_label)
            return Attempt(agreed, builds, declared_properties, walk)

        outcome = choose_agreeing_builds(
            choose,
            self.candidates.policy.agreements,
            self.candidates.policy.binding,
            installed=installed,
            order=roots,
            efforts=[Effort.NOT_OLDER],
        )
        walk, agreements = outcome.solution, outcome.outcomes
        choices = tuple(
            PackageChoice(package, walk.choices[name], tuple(walk.needs[name]), name in roots)
            for name, package in self.packages.items()
            if name in walk.choices
        )
        reason = "no chosen wheel needs it" if only is None else "it is not requested"
        left_out = {name: reason for name in self.packages if name not in walk.choices}
        notes = [
            *warnings_about_mixture(agreements),
            *walk.notes,
            *self._missing_entries(roots, walk),
        ]
        notes += [note for choice in choices for note in choice.choice.notes]
        return LockSelection(
            choices,
            MappingProxyType(left_out),
            tuple(dict.fromkeys(notes)),
            agreements,
            self._requested_roots,
            walk.candidates.context,
        )

    def _missing_entries(self, roots: Iterable[NormalizedName], walk: _Walk) -> Iterator[str]:
        """Yield a note for each entry that is missing from the whole lock, not just here."""
        locked_names = {package.name for package in self._lock.packages}
        for name in roots:
            if name not in locked_names:
                yield f"the lock has no entry for {name}, which it was made for"
        for name in walk.choices:
            for needed in walk.listed_requirements.get(name, ()):
                if needed not in locked_names:
                    yield f"the lock has no entry for {needed}, which {name} needs"

    def _no_wheel_error(self, walk: _Walk) -> NoCompatibleWheel | None:
        """Return the error for packages without a compatible wheel; None if all have one."""
        if not walk.refusals:
            return None
        names = ", ".join(walk.refusals)
        verb = "has" if len(walk.refusals) == 1 else "have"
        return NoCompatibleWheel(
            f"{names} {verb} no wheel in the lock for {self.candidates.target.name}",
            where=self._lock.where,
            note="\n".join(walk.reasons()),
            hint=walk.hint(),
        )

    def _conflict_error(
        self, candidates: Candidates, staying: Iterable[InstalledBuild], *, is_partial: bool
    ) -> NoCompatibleWheel | None:
        """Return the error for a choice that contradicts a build that stays installed."""
        for build in staying:
            objection = candidates.objection(build.properties, is_installed=True)
            if objection is not None:
                situation = "stays" if is_partial else "not in the lock"
                return NoCompatibleWheel(
                    f"{build} is installed and {situation}, and it {objection}",
                    where=self._lock.where,
                )
        return None

    def _declared_properties(self, candidates: Candidates, walk: _Walk) -> Iterator[PropertySet]:
        """Yield the declared properties of the compatible builds of every package on a walk."""
        for name in (*walk.choices, *walk.refusals):
            version = self.packages[name].version
            if version is not None and self.packages[name].wheels:
                choice = candidates.choice(name, version)
                yield from map(choice.declared, choice.offered)

    def _walked(self, candidates: Candidates, only: Collection[NormalizedName] | None) -> _Walk:
        """Walk the lock, and again without each wheel whose ABI dependency is not chosen (P-54).

        All roots are visited in any case: they may require extras of packages in ``only``.
        """
        while True:
            walk = _Walk(candidates, self.packages, can_build=self._can_build)
            if self._roots is None:
                walk.visit_all()
            else:
                walk.visit({**dict.fromkeys(only or (), frozenset()), **self._roots})
            rejected = next(walk.without_abi_dependency(), None)
            if rejected is None:
                if only is not None:
                    walk.narrow(only)
                return walk
            filename, reason = rejected
            candidates = candidates.within(candidates.context.with_excluded({filename: reason}))


_SOURCE_NAMES = {
    "sdist": "source distribution",
    "vcs": "repository",
    "directory": "directory",
    "archive": "source archive",
}


class _Walk:
    """A walk from package to package along the requirements of the chosen wheels."""

    def __init__(
        self,
        candidates: Candidates,
        packages: Mapping[NormalizedName, LockedPackage],
        *,
        can_build: bool,
    ) -> None:
        self.choices: dict[NormalizedName, ReleaseChoice] = {}
        self.needs: dict[NormalizedName, dict[NormalizedName, None]] = {}
        self.listed_requirements: dict[NormalizedName, tuple[NormalizedName, ...]] = {}
        """By package, the applicable requirements that the lock lists for its chosen wheel."""
        self.refusals: dict[NormalizedName, tuple[str, ...]] = {}
        """The reasons by package without a compatible wheel."""
        self.notes: dict[str, None] = {}
        self.candidates = candidates
        self._packages = packages
        self._can_build = can_build
        self._visited_extras: dict[NormalizedName, frozenset[NormalizedName]] = {}

    def visit(self, roots: Mapping[NormalizedName, frozenset[NormalizedName]]) -> None:
        """Add packages and all their dependencies."""
        pending = list(roots.items())
        is_complete = True
        while pending:
            name, extras = pending.pop()
            known_extras = self._visited_extras.get(name)
            if known_extras is not None and extras <= known_extras:
                continue
            self._visited_extras[name] = extras | (known_extras or frozenset())
            if name not in self._packages:
                continue  # its marker is false here, or the writer of the lock left it out
            choice = self._choose(name)
            if choice is None:
                continue
            try:
                needs = self._needed(self._packages[name], choice, self._visited_extras[name])
            except (InvalidWheel, InvalidRequirement) as error:
                if choice.release.is_direct or choice.selection.chosen is None:
                    raise
                reason = f"its metadata cannot be used: {error.message}"
                self.candidates.reject(choice.selection.chosen, reason)
                pending.append((name, self._visited_extras.pop(name)))
                continue
            if needs is None:
                is_complete = False
                continue
            for needed in needs:
                if needed in self._packages:
                    self.needs[name][needed] = None
            pending += needs.items()
        if not is_complete:
            self.visit_all()

    def visit_all(self) -> None:
        """Add every applicable package of the lock, as other installers do (F-121)."""
        for name, package in self._packages.items():
            choice = self.choices.get(name) or self._choose(name)
            if choice is None or package.needs is None:
                continue
            requirements = self._requirements_in_lock(package, choice) or ()
            self.listed_requirements[name] = tuple(requirement.name for requirement in requirements)
            for needed in self.listed_requirements[name]:
                if needed in self._packages:
                    self.needs[name][needed] = None

    def narrow(self, names: Iterable[NormalizedName]) -> None:
        """Remove all but some packages and their dependencies."""
        pending, kept = list(names), set[NormalizedName]()
        while pending:
            name = pending.pop()
            if name not in kept:
                kept.add(name)
                pending += self.needs.get(name, ())
        self.choices = {name: value for name, value in self.choices.items() if name in kept}
        self.refusals = {name: value for name, value in self.refusals.items() if name in kept}

    def without_abi_dependency(self) -> Iterator[tuple[str, str]]:
        """Yield chosen wheels built for a package that is not chosen, with the reason (P-54)."""
        for choice in self.choices.values():
            filename, document = choice.selection.chosen, choice.metadata.document
            if filename is None or document is None:
                continue
            namespaces = abi_namespaces(document.providers)
            for feature, _ in choice.properties.features():
                project = project_of(feature.name) if feature.namespace in namespaces else None
                if project is not None and project not in self.choices:
                    yield filename.text, f"it is built for {project}, which is not installed"

    def reasons(self) -> Iterator[str]:
        """Yield lines with the reasons why no wheel of a package is compatible."""
        for name, lines in self.refusals.items():
            yield f"{name}:"
            for line in lines:
                yield f"  {line}"

    def hint(self) -> str | None:
        """Return the hint for packages that would have to be built; None if there are none."""
        if not any(self._packages[name].kind in _SOURCE_NAMES for name in self.refusals):
            return None
        return (
            "build a wheel and lock it, or lock without it; uv omits a project from its own lock "
            "with --no-emit-project"
        )

    def _choose(self, name: NormalizedName) -> ReleaseChoice | None:
        version = self._version(self._packages[name])
        if version is None:
            kind = self._packages[name].kind
            source = _SOURCE_NAMES.get(kind, kind)
            self.refusals[name] = (f"only a {source} is locked, and nothing is built from source",)
            return None
        choice = self.candidates.choice(name, version)
        if choice.chosen is None:
            self.refusals[name] = choice.refusals() or (choice.reason,)
            return None
        self.choices[name] = choice
        self.needs.setdefault(name, {})
        return choice

    def _version(self, package: LockedPackage) -> Version | None:
        """Return the version of a package; None if it has no wheel and cannot be built."""
        if package.wheels:
            return package.version
        if package.source is None or not self._can_build:
            return None
        listing = self.candidates.listing(package.name)
        return None if listing is None else next(iter(listing.releases), None)

    @staticmethod
    def _requirements_in_lock(
        package: LockedPackage, choice: ReleaseChoice
    ) -> Iterable[Requirement] | None:
        """Return the requirements of the chosen wheel in the lock; None if it lists none."""
        label = choice.selection.chosen.label if choice.selection.chosen else None
        return None if package.needs is None else package.needs.get(label or "")  # F-102

    def _needed(
        self, package: LockedPackage, choice: ReleaseChoice, extras: frozenset[NormalizedName]
    ) -> Mapping[NormalizedName, frozenset[NormalizedName]] | None:
        """Return the requirements of the chosen wheel, with extras; None if unknown."""
        in_lock = self._requirements_in_lock(package, choice)
        requirements = in_lock
        if requirements is None:
            wheel = choice.chosen
            if wheel is None:  # pragma: no cover - only chosen wheels get here
                return {}
            try:
                requirements = self.candidates.core_metadata(wheel).requires
            except (NetworkError, FileProblem) as error:
                note = f"all packages of the lock are used, since the metadata of {package.name} "
                self.notes[f"{note}cannot be read: {error.message}"] = None
                return None
        environment = self.candidates.target.environment
        extras_by_name: dict[NormalizedName, frozenset[NormalizedName]] = {}
        for requirement in requirements:
            try:
                applies = requirement.applies(environment, extras, choice.context())  # F-118
            except InvalidMarker as error:
                self.notes[f"{package.name}: {requirement} is ignored: {error.message}"] = None
                continue
            if applies:
                extras_by_name[requirement.name] = (
                    extras_by_name.get(requirement.name, frozenset()) | requirement.extras
                )
        if in_lock is not None:
            self.listed_requirements[package.name] = tuple(extras_by_name)
        return extras_by_name


def _environment(
    target: Target, extras: Collection[str], groups: Collection[str]
) -> dict[str, str | frozenset[str]]:
    sets = {"extras": frozenset(extras), "dependency_groups": frozenset(groups)}
    return {**target.environment, **sets}


def _holds(marker: Marker, environment: Mapping[str, str | frozenset[str]], where: str) -> bool:
    try:
        return marker.evaluate(environment)
    except InvalidMarker as error:
        error.where = where
        raise


def _check_conflicts(lock: Lock, environment: Mapping[str, str | frozenset[str]]) -> None:
    for members in lock.conflicts:
        requested = [str(member) for member in members if _holds(member, environment, lock.where)]
        if len(requested) > 1:
            # A member is a marker, as `'gpu' in extras`: the name is in its quotation marks.
            quotes = ["'" if "'" in text else '"' for text in requested]
            names = [text.split(quote)[1] for text, quote in zip(requested, quotes, strict=True)]
            raise UserError(
                f"{listed(names)} conflict in this lock, and cannot be installed together",
                where=lock.where,
                hint="request one of them with --extra or --group",
            )


def _check_known(lock: Lock, kind: str, requested: Collection[str], known: Collection[str]) -> None:
    names = {canonicalize_name(name) for name in known}
    unknown = sorted(name for name in set(requested) if canonicalize_name(name) not in names)
    if unknown:
        note = f"it has {', '.join(sorted(known))}" if known else f"it has no {kind}"
        raise UserError(
            f"the lock was not made for the {kind} {', '.join(unknown)}",
            where=lock.where,
            note=note,
            hint="name one that it has, or lock the project with it: `wheelfit lock`",
        )
