"""The plan of a bundle: the wheels that some machines get from a lock."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.core.host_file import HostFile
from wheelfit.core.index_metadata import combine
from wheelfit.core.labels import RESERVED_NAMES
from wheelfit.locking.bundles.reduction import KeptEntry, marker_of, reduce_lock
from wheelfit.operations.lock_files import LockChoiceRequest, OpenedLock, naming_machine_in_errors
from wheelfit.operations.machine import ChosenMachine, options_in_effect
from wheelfit.resolution.unaccelerated import accelerations, no_accelerator_error
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import Fault, InvalidLock
from wheelfit_runtime.platforms.scrubbing import Scrubber
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.locking.bundles.manifest import BundledFile
    from wheelfit.locking.document import Lock
    from wheelfit.locking.selection import LockCandidates, LockSelection
    from wheelfit.resolution.candidates import ChoicePolicy
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files
    from wheelfit_runtime.platforms.features import Detection


@dataclass(frozen=True, slots=True)
class WheelToBundle:
    """A wheel for the bundle."""

    filename: WheelFilename
    file: File
    """The file in its source."""
    files: Files
    """The source."""
    metadata_disagreement: Callable[[bytes | None], str | None]
    """Returns why its ``variant.json`` contradicts the data it was chosen by (F-93), or None."""


class HostChoice:
    """The choice of wheels for one machine.

    :param name: the name of its host file in the bundle.
    :raises NoFit: it cannot be served; the error names the machine.
    """

    def __init__(self, name: str, machine: ChosenMachine, candidates: LockCandidates) -> None:
        self.name = name
        self.machine = machine
        self.candidates = candidates
        self.selection: LockSelection
        """The selected wheels."""
        self.select()

    def select(self) -> None:
        """Select wheels that are not rejected.

        :raises NoFit: the machine cannot be served; the error names it.
        """
        with naming_machine_in_errors(self.machine.name):
            self.selection = self.candidates.select()

    @property
    def wheels(self) -> dict[str, WheelToBundle]:
        """The selected wheels by file name."""
        candidates = self.candidates.candidates
        return {
            pin.filename.text: WheelToBundle(
                pin.filename,
                pin.file,
                candidates.repository,
                partial(candidates.metadata_disagreement, pin.choice),
            )
            for pin in self.selection.resolution().pins
        }

    def to_host_file(self, environ: Mapping[str, str]) -> HostFile:
        """Return the machine as a host file, with all inputs of the choice.

        :param environ: environment variables; names of users and folders in them are removed.
        """
        machine, host = self.machine, self.machine.host
        scrub = Scrubber.of(SystemView(environ=environ)).text
        # P-73; options are in the manifest.
        overrides = [text for text in machine.overrides if not text.startswith("--")]
        detections = self._provider_detections()
        if host is None:
            for name in machine.namespaces:
                if detection := machine.disabled_detection(name) or machine.detect(name):
                    detections[name] = detection
            file = HostFile.from_detections(
                detections.values(),
                created_by=f"wheelfit {__version__}",
                origin="this machine",
                overrides=overrides,
                scrub=scrub,
            )
            stated: Mapping[str, str] = {}
        else:
            file, stated = host.file, host.file.environment
            stated_namespaces = {provider.namespace for provider in file.providers}
            for namespace in stated_namespaces:
                detections.pop(namespace, None)
            added = HostFile.from_detections(detections.values(), overrides=overrides, scrub=scrub)
            file = replace(
                file,
                providers=(*file.providers, *added.providers),
                origin=file.origin or host.public_name,
                overrides=tuple(dict.fromkeys((*file.overrides, *added.overrides))),
            )
        complete = file.with_target(machine.target)
        # The kernel of the machine that makes the bundle has no effect, and would make every bundle
        # different.
        environment = {
            name: value
            for name, value in complete.environment.items()
            if name in stated or name not in {"platform_release", "platform_version"}
        }
        return replace(complete, environment=environment)

    def _provider_detections(self) -> dict[str, Detection]:
        """Return the detections of providers for the selected releases, by namespace."""
        return {
            namespace: detection
            for selected in self.selection.chosen
            if selected.choice.support is not None
            for namespace, detection in sorted(selected.choice.support.detections.items())
            if detection.step in {"built-in", "plugin"}
        }


class BundlePlan:
    """The plan of a bundle with the wheels that some machines get from a lock.

    :param names: the machines as the user calls them; None is this one.
    :raises NoFit: a machine cannot be served; the error names it.
    """

    def __init__(self, opened_lock: OpenedLock, names: Sequence[str | None]) -> None:
        self._opened_lock = opened_lock
        request = opened_lock.request
        self.hosts: list[HostChoice] = []
        for name in dict.fromkeys(names):
            machine = opened_lock.machine(name)
            with naming_machine_in_errors(machine.name):
                candidates = opened_lock.candidates(machine)
            file = _host_name(machine, {host.name.casefold() for host in self.hosts})
            self.hosts.append(HostChoice(file, machine, candidates))
        lock = opened_lock.lock
        self.extras = _as_in_lock(request.extra, lock.extras)
        if request.group is None:
            self.groups = tuple(sorted(lock.default_groups))
        else:
            names_in_lock = (*lock.dependency_groups, *lock.default_groups)
            self.groups = _as_in_lock(request.group, names_in_lock)
        notes = dict.fromkeys(note for host in self.hosts for note in host.selection.notes)
        self.notes = tuple(notes)

    @property
    def policy(self) -> ChoicePolicy:
        """The policy of the choice, for every machine the same."""
        return self.hosts[0].candidates.candidates.policy

    @property
    def wheels(self) -> dict[str, WheelToBundle]:
        """The wheels by file name, each once.

        :raises InvalidLock: two different wheels have one name.
        """
        by_name: dict[str, WheelToBundle] = {}
        for wheel in (wheel for host in self.hosts for wheel in host.wheels.values()):
            name = wheel.file.filename
            earlier, hashes = by_name.setdefault(name, wheel).file.hashes, wheel.file.hashes
            common = earlier.keys() & hashes.keys()
            if not common or any(earlier[key] != hashes[key] for key in common):
                fault = Fault("packages", f"two different files are called {name}")
                raise InvalidLock([fault], where=self._opened_lock.lock.where)
        return by_name

    def exclude(self, filename: str, reason: str) -> None:
        """Select again without a wheel that contradicts the data it was chosen by (F-93)."""
        for host in self.hosts:
            wheel = host.wheels.get(filename)
            if wheel is not None:
                host.candidates.candidates.reject(wheel.filename, reason)
                host.select()

    def entries(self) -> dict[int, KeptEntry]:
        """Return the parts of the lock that the bundle has, by the position of their entry."""
        positions = {
            id(package): index for index, package in enumerate(self._opened_lock.lock.packages)
        }
        names: dict[int, set[str]] = {}
        documents: dict[int, dict[str, VariantDocument]] = {}
        for host in self.hosts:
            for selected in host.selection.chosen:
                index = positions[id(selected.package)]
                choice = selected.choice
                if choice.selection.chosen is not None:
                    names.setdefault(index, set()).add(choice.selection.chosen.text)
                if choice.metadata.document is not None:
                    documents.setdefault(index, {})[host.name] = choice.metadata.document
        entries = {}
        for index in sorted(names):
            package = self._opened_lock.lock.packages[index]
            document = package.document
            if document is None and index in documents:  # F-122: wheels with documents of their own
                document = combine(documents[index].items())
            entries[index] = KeptEntry(package, frozenset(names[index]), document)
        return entries

    def lock(self, files: Mapping[str, BundledFile]) -> Lock:
        """Return the lock of the bundle."""
        markers = [marker_of(host.machine.target) for host in self.hosts]
        return reduce_lock(
            self._opened_lock.lock,
            self.entries(),
            files,
            extras=self.extras,
            groups=self.groups,
            environments=markers if all(markers) else None,
        )


def check_accelerators(plan: BundlePlan) -> None:
    """Raise if a machine gets a build without an accelerator where the lock has others.

    :raises NoFit: ``no-accelerator``; the error names the machine.
    """
    for host in plan.hosts:
        resolution = host.selection.resolution()
        error = no_accelerator_error(accelerations(resolution, host.candidates.candidates))
        if error is not None:
            with naming_machine_in_errors(host.machine.name):
                raise error


def words_in_effect(request: LockChoiceRequest) -> tuple[str, ...]:
    """Return the options that decide on wheels, as words of a command for any machine.

    A shorthand of the user is unknown elsewhere, so the options that it stands for are returned.
    """
    words: list[str] = []
    for text in options_in_effect(request):
        option, _, value = text.partition(" ")
        own = [shorthand for shorthand in request.shorthands if shorthand.name == value]
        if option == "--variant" and own:
            for key in ("prefer", "require", "forbid"):
                for preference in getattr(own[0], key):
                    words += [f"--{key}", str(preference)]
        else:
            words += [option, value] if value else [option]
    return tuple(words)


def _host_name(machine: ChosenMachine, taken: set[str]) -> str:
    """Return a file name for the host that is valid on every file system."""
    name = (
        "this-machine" if machine.host is None else machine.host.public_name.removesuffix(".toml")
    )
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")[:60] or "host"
    if stem.partition(".")[0].lower() in RESERVED_NAMES:
        stem = f"host-{stem}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name.casefold() not in taken)


def _as_in_lock(names: Iterable[str], names_in_lock: Iterable[str]) -> tuple[str, ...]:
    """Return names as the lock spells them; unknown ones are left out."""
    normalized = {canonicalize_name(name) for name in names}
    return tuple(sorted({name for name in names_in_lock if canonicalize_name(name) in normalized}))
