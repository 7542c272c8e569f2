"""The wheels of a bundle: those that some machines get from a lock, or all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs
from packaging.utils import canonicalize_name

from wheelfit.core.host_file import HostFile
from wheelfit.core.index_metadata import combine, disagreement, read_wheel_document
from wheelfit.core.labels import DEVICES
from wheelfit.locking.bundles.reduction import Kept, marker_of, reduced
from wheelfit.locking.repository import LockedRepository
from wheelfit.locking.source_entries import STABLE
from wheelfit.locking.stand_ins import archive_of, stand_in_of
from wheelfit.operations.lock_files import naming
from wheelfit.operations.machine import options_in_effect
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.unaccelerated import accelerations, refusal
from wheelfit.sources.urls import without_fragment
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import Fault, InvalidLock, InvalidWheel
from wheelfit_runtime.platforms.scrubbing import Scrubber
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.locking.bundles.manifest import BundledFile
    from wheelfit.locking.document import Lock, LockedPackage
    from wheelfit.locking.selection import LockCandidates, LockSelection
    from wheelfit.operations.lock_files import FromLock, OpenedLock
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files
    from wheelfit_runtime.platforms.features import Detection


@dataclass(frozen=True, slots=True)
class WantedWheel:
    """A wheel for the bundle."""

    filename: WheelFilename
    file: File
    """The file in its source."""
    files: Files
    """The source."""
    confirm: Callable[[bytes | None], str | None]
    """Returns why its ``variant.json`` disagrees with the data it was chosen by (F-93)."""


@dataclass(frozen=True, slots=True)
class WantedArchive:
    """An archive for the bundle; its wheel is built where it is installed."""

    package: NormalizedName
    file: File
    """The file in its source, by its own name."""
    files: Files
    """The source."""

    @classmethod
    def of(cls, package: LockedPackage, stand_in: File, files: Files) -> WantedArchive:
        """Return the archive of an entry of a lock."""
        name = "" if package.source is None else package.source.filename
        url = without_fragment(stand_in.url)
        return cls(
            package.name, structs.replace(stand_in, filename=name, url=url, origin=None), files
        )


class HostChoice:
    """The choice for one machine.

    :param name: the name of its host file in the bundle.
    :param candidates: the wheels to choose from.
    :raises NoFit: it cannot be served; the error names the machine.
    """

    def __init__(self, name: str, machine: ChosenMachine, candidates: LockCandidates) -> None:
        self.name = name
        self.machine = machine
        self.candidates = candidates
        self.selection: LockSelection
        """The wheels that it gets."""
        self.select()

    def select(self) -> None:
        """Choose, or choose again.

        :raises NoFit: the machine cannot be served; the error names it.
        """
        with naming(self.machine.name):
            self.selection = self.candidates.select()

    @property
    def wanted(self) -> dict[str, WantedWheel]:
        """The wheels by file name."""
        candidates = self.candidates.candidates

        return {
            pin.filename.text: WantedWheel(
                pin.filename,
                pin.file,
                candidates.repository,
                partial(candidates.confirm, pin.choice),
            )
            for pin in self.selection.resolution().pins
            if pin.file.origin is None
        }

    @property
    def archives(self) -> dict[str, WantedArchive]:
        """The archives from which it builds wheels, by file name."""
        packages, files = self.candidates.packages, self.candidates.candidates.repository
        return {
            name: WantedArchive.of(packages[pin.name], pin.file, files)
            for pin in self.selection.resolution().pins
            if (name := archive_of(pin, packages))
        }

    def described(self, environ: Mapping[str, str]) -> HostFile:
        """Return its host file, with all inputs of the choice.

        :param environ: environment variables; names of users and folders in them are removed.
        """
        machine, host = self.machine, self.machine.host
        scrub = Scrubber.of(SystemView(environ=environ)).text
        # P-73; options are in the manifest.
        overrides = [text for text in machine.overrides if not text.startswith("--")]
        if host is None:
            asked = {
                name: machine.switched_off(name) or machine.detect(name)
                for name in machine.namespaces
            }
            answers = {**self._answers(), **{n: a for n, a in asked.items() if a is not None}}
            file = HostFile.from_detections(
                answers.values(),
                created_by=f"wheelfit {__version__}",
                origin="this machine",
                overrides=overrides,
                scrub=scrub,
            )
            stated: Mapping[str, str] = {}
        else:
            file, stated = host.file, host.file.environment
            known = {provider.namespace for provider in file.providers}
            more = [one for name, one in self._answers().items() if name not in known]
            added = HostFile.from_detections(more, overrides=overrides, scrub=scrub)
            file = replace(
                file,
                providers=(*file.providers, *added.providers),
                origin=file.origin or host.record,
                overrides=tuple(dict.fromkeys((*file.overrides, *added.overrides))),
            )
        whole = file.with_target(machine.target)
        # The kernel of the machine that makes the bundle has no effect, and would make every bundle
        # different.
        kept = {
            name: value
            for name, value in whole.environment.items()
            if name in stated or name not in {"platform_release", "platform_version"}
        }
        return replace(whole, environment=kept)

    def _answers(self) -> dict[str, Detection]:
        """Return the detections of sources other than the host file, for the chosen releases."""
        return {
            namespace: detection
            for one in self.selection.chosen
            if one.choice.support is not None
            for namespace, detection in sorted(one.choice.support.detections.items())
            if detection.step in {"built-in", "plugin"}
        }


class ForHosts:
    """The wheels that some machines get from a lock.

    :param names: the machines as the user calls them; None is this one.
    :raises NoFit: one cannot be served; the error names it.
    """

    def __init__(self, opened: OpenedLock, names: Sequence[str | None]) -> None:
        self._opened = opened
        request = opened.request
        self.hosts: list[HostChoice] = []
        for name in dict.fromkeys(names):
            machine = opened.machine(name)
            with naming(machine.name):
                candidates = opened.candidates(machine, built=_stand_in(opened))
            file = _host_name(machine, {host.name.casefold() for host in self.hosts})
            self.hosts.append(HostChoice(file, machine, candidates))
        lock = opened.lock
        self.extras = _spelled(request.extra, lock.extras)
        default = lock.default_groups
        known = (*lock.dependency_groups, *default)
        asked = request.group
        self.groups = tuple(sorted(default)) if asked is None else _spelled(asked, known)
        notes = dict.fromkeys(note for host in self.hosts for note in host.selection.notes)
        self.notes = (*notes, *map(_to_be_built, self.archives.values()))

    @property
    def policy(self) -> ChoicePolicy:
        """The policy of the choice, for every machine the same."""
        return self.hosts[0].candidates.candidates.policy

    @property
    def wanted(self) -> dict[str, WantedWheel]:
        """The wheels by file name, each once.

        :raises InvalidLock: two that are not the same have one name.
        """
        wheels: dict[str, WantedWheel] = {}
        for host in self.hosts:
            for one in host.wanted.values():
                _add(wheels, one, self._opened.lock.where)
        return wheels

    @property
    def archives(self) -> dict[str, WantedArchive]:
        """The archives that some machine builds, by file name.

        :raises InvalidLock: two that are not the same have one name.
        """
        each = (one for host in self.hosts for one in host.archives.values())
        return _by_name(each, self._opened.lock.where)

    def refuse(self, filename: str, reason: str) -> None:
        """Choose again without a wheel that contradicts the data it was chosen by (F-93)."""
        for host in self.hosts:
            one = host.wanted.get(filename)
            if one is not None:
                host.candidates.candidates.reject(one.filename, reason)
                host.select()

    def kept(self) -> dict[int, Kept]:
        """Return the entries of the lock that stay, by their position."""
        places = {id(package): index for index, package in enumerate(self._opened.lock.packages)}
        names: dict[int, set[str]] = {}
        built: set[int] = set()
        documents: dict[int, dict[str, VariantDocument]] = {}
        for host in self.hosts:
            for one in host.selection.chosen:
                index = places[id(one.package)]
                chosen = one.choice.chosen
                if chosen is not None and chosen.file.origin is not None:
                    names.setdefault(index, set())
                    built.add(index)
                elif one.choice.selection.chosen is not None:
                    names.setdefault(index, set()).add(one.choice.selection.chosen.text)
                if one.choice.metadata.document is not None:
                    documents.setdefault(index, {})[host.name] = one.choice.metadata.document
        kept = {}
        for index in sorted(names):
            package = self._opened.lock.packages[index]
            document = package.document
            if document is None and index in documents:  # F-122: each judged its own wheels
                document = combine(documents[index].items())
            kept[index] = Kept(package, frozenset(names[index]), document, index in built)
        return kept

    def lock(self, files: Mapping[str, BundledFile]) -> Lock:
        """Return the lock of the bundle."""
        markers = [marker_of(host.machine.target) for host in self.hosts]
        return reduced(
            self._opened.lock,
            self.kept(),
            files,
            extras=self.extras,
            groups=self.groups,
            environments=markers if all(markers) else None,
        )


class Everything:
    """The plan of a bundle with every wheel of a lock."""

    def __init__(self, opened: OpenedLock) -> None:
        self.hosts: list[HostChoice] = []
        self.extras: tuple[str, ...] = ()
        self.groups: tuple[str, ...] = ()
        self._opened = opened
        self._out: set[str] = set()
        left_out = (
            f"{package.name} is left out: only a {_KINDS.get(package.kind, package.kind)} is "
            "locked, which no bundle has"
            for package in opened.lock.packages
            if not (package.wheels or _stand_in(opened)(package))
        )
        self.notes = (*left_out, *map(_to_be_built, self.archives.values()))

    @property
    def policy(self) -> ChoicePolicy:
        """The choice policy without preferences: nothing is chosen."""
        return ChoicePolicy()

    @property
    def wanted(self) -> dict[str, WantedWheel]:
        """The wheels by file name, each once.

        :raises InvalidLock: two that are not the same have one name.
        """
        folder = self._opened.path.absolute().parent
        wheels: dict[str, WantedWheel] = {}
        for package in self._opened.lock.packages:
            files = LockedRepository(
                [package],
                name=self._opened.lock.where,
                files=self._opened.repository,
                folder=folder,
            )
            page = files.project(package.name)
            by_name = {file.filename: file for file in (page.files if page else ())}
            for wheel in package.wheels:
                text = wheel.filename.text
                if text not in self._out:
                    confirm = _confirming(package.document, wheel.filename)
                    one = WantedWheel(wheel.filename, by_name[text], files, confirm)
                    _add(wheels, one, self._opened.lock.where)
        return wheels

    @property
    def archives(self) -> dict[str, WantedArchive]:
        """The archives of the lock, by file name.

        :raises InvalidLock: two that are not the same have one name.
        """
        stand_in, files = _stand_in(self._opened), self._opened.repository
        each = (
            WantedArchive.of(package, file, files)
            for package in self._opened.lock.packages
            if (file := stand_in(package)) is not None
        )
        return _by_name(each, self._opened.lock.where)

    def refuse(self, filename: str, reason: str) -> None:
        """Exclude a wheel that the lock describes wrongly (F-93)."""
        self._out.add(filename)
        self.notes = (*self.notes, f"{filename} is left out: {reason}")

    def kept(self) -> dict[int, Kept]:
        """Return the entries of the lock that stay, by their position."""
        kept = {}
        for index, package in enumerate(self._opened.lock.packages):
            names = frozenset(wheel.filename.text for wheel in package.wheels) - self._out
            has_source = _stand_in(self._opened)(package) is not None
            if names or has_source:
                kept[index] = Kept(package, names, package.document, has_source)
        return kept

    def lock(self, files: Mapping[str, BundledFile]) -> Lock:
        """Return the lock of the bundle."""
        extras = self._opened.lock.extras
        return reduced(self._opened.lock, self.kept(), files, extras=extras)


def check_accelerators(plan: ForHosts | Everything) -> None:
    """Raise if a machine gets a build without an accelerator where the lock has others.

    :raises NoFit: ``no-accelerator``; a machine would get such a build; the error names it.
    """
    for host in plan.hosts:
        resolution = host.selection.resolution()
        refused = refusal(accelerations(resolution, host.candidates.candidates))
        if refused is not None:
            with naming(host.machine.name):
                raise refused


def words_in_effect(request: FromLock) -> tuple[str, ...]:
    """Return the options that wheels are chosen by, as they can be given again anywhere.

    A shorthand of the user's own is unknown elsewhere, so its meaning is returned.
    """
    words: list[str] = []
    for text in options_in_effect(request):
        option, _, value = text.partition(" ")
        own = [shorthand for shorthand in request.shorthands if shorthand.name == value]
        if option == "--variant" and own:
            for key in ("prefer", "require", "forbid"):
                words += [word for wish in getattr(own[0], key) for word in (f"--{key}", str(wish))]
        else:
            words += [option, value] if value else [option]
    return tuple(words)


def _host_name(machine: ChosenMachine, taken: set[str]) -> str:
    """Return a name for the host file that every file system takes."""
    called = "this-machine" if machine.host is None else machine.host.record
    stem = called.removesuffix(".toml")
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", stem).strip("-.")[:60] or "host"
    if plain.partition(".")[0].lower() in DEVICES:
        plain = f"host-{plain}"
    names = (plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name.casefold() not in taken)


def _spelled(asked: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the requested names as the lock spells them."""
    names = {canonicalize_name(name) for name in asked}
    return tuple(sorted({name for name in known if canonicalize_name(name) in names}))


def _add(wheels: dict[str, WantedWheel], wanted_wheel: WantedWheel, where: str) -> None:
    """Add a wheel, unless it is present; a folder has one file of a name."""
    text = wanted_wheel.filename.text
    before, promised = wheels.setdefault(text, wanted_wheel).file.hashes, wanted_wheel.file.hashes
    common = before.keys() & promised.keys()
    if not common or any(before[name] != promised[name] for name in common):
        fault = Fault("packages", f"two different files are called {text}")
        raise InvalidLock([fault], where=where)


def _stand_in(opened: OpenedLock) -> Callable[[LockedPackage], File | None]:
    """Return the function that makes wheels for archives; None for folders and repositories."""
    stand_in = stand_in_of(opened.path.absolute().parent)

    def archive(package: LockedPackage) -> File | None:
        source = package.source
        return stand_in(package) if source is not None and source.kind in STABLE else None

    return archive


_KINDS = {"vcs": "repository", "directory": "folder"}


def _by_name(archives: Iterable[WantedArchive], where: str) -> dict[str, WantedArchive]:
    by_name: dict[str, WantedArchive] = {}
    for archive in archives:
        name = archive.file.filename
        if by_name.setdefault(name, archive).file.hashes != archive.file.hashes:
            fault = Fault("packages", f"two different files are called {name}")
            raise InvalidLock([fault], where=where)
    return by_name


def _to_be_built(archive: WantedArchive) -> str:
    name = archive.package
    return (
        f"{archive.file.filename} must be built where it is installed, with `wheelfit sync "
        f"--allow-source {name}`; what its build needs is not in the bundle"
    )


def _confirming(
    document: VariantDocument | None, filename: WheelFilename
) -> Callable[[bytes | None], str | None]:
    def confirm(data: bytes | None) -> str | None:
        if document is None or filename.label is None:
            return None
        try:
            own = read_wheel_document(data, filename.label, where=filename.text)
        except InvalidWheel as error:
            return error.message
        return disagreement(own, document, filename.label)

    return confirm
