"""A check of wheelfit's own requirements that imports none of them.

Any of them may be broken. The metadata of wheelfit and of all its direct and indirect requirements
is read with `importlib.metadata`.
"""

from __future__ import annotations

import csv
import os
from email.parser import HeaderParser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.installation.isolated.interpreter import marker_values
from wheelfit_runtime.errors import InvalidPage
from wheelfit_runtime.libraries.versions import (
    Requirement,
    parse_requirement,
    parse_version,
    satisfies,
)
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OWN_NAME = "wheelfit"
_CODE_SUFFIXES = (".py", ".so", ".pyd", ".dll", ".dylib")
"""Endings of files whose loss can break imports of a package."""
_RELEASE = pattern(r"v?[0-9]{1,20}(?:\.[0-9]{1,20})*")


class DependencyRelease(NamedTuple):
    """A release of wheelfit or of one of its dependencies, installed or to be installed."""

    version: str
    requires: tuple[str, ...] = ()
    """Its ``Requires-Dist`` entries."""


class UnmetRequirement(NamedTuple):
    """A requirement of wheelfit, or of its dependencies, that no installed package meets."""

    dependent: str
    """Name and version of the distribution that has the requirement."""
    requirement: str
    """The requirement, such as ``urllib3>=2.8,<3``."""
    installed_version: str | None
    """The installed version; None: the package is not installed."""
    missing_file: str | None = None
    """A file of the installed package that is missing."""

    @property
    def name(self) -> str:
        """The normalised name of the required package."""
        return parse_requirement(self.requirement).project

    @property
    def to_install(self) -> str:
        """The requirement to install, such as ``urllib3>=2.8,<3``."""
        if self.missing_file is not None and self.installed_version is not None:
            return f"{self.name}=={self.installed_version}"
        return self.requirement

    def __str__(self) -> str:
        if self.missing_file is not None:
            release = f"{self.name} {self.installed_version}"
            return f"files of {release} are missing, such as {self.missing_file}"
        is_missing = self.installed_version is None
        state = "is not installed" if is_missing else f"{self.installed_version} is installed"
        return f"{self.dependent} requires {self.requirement}, but {self.name} {state}"


def unmet_requirements(
    changes: Mapping[str, DependencyRelease | None] | None = None, *, files: bool = False
) -> tuple[UnmetRequirement, ...]:
    """Return the unmet requirements of wheelfit, in breadth-first order.

    Optional requirements (extras) are left out: the commands that use them report their absence.

    :param changes: releases to assume in place of those installed, by normalised name; None: the
        package is removed.
    :param files: whether to check for missing files, too.
    """
    return tuple(_unmet({} if changes is None else changes, files=files))


def _unmet(
    changes: Mapping[str, DependencyRelease | None], *, files: bool
) -> Iterator[UnmetRequirement]:
    markers = marker_values()
    releases = _ReleaseFinder(changes)
    own_release = releases.release(OWN_NAME)
    if own_release is None:  # it runs from a source tree that is not installed, or is removed
        return
    # Each release is checked once for each set of extras with which it is required.
    pending: list[tuple[str, DependencyRelease, frozenset[str]]] = [
        (OWN_NAME, own_release, frozenset())
    ]
    seen = {(OWN_NAME, frozenset[str]())}
    checked: set[str] = set()
    if files:
        yield from releases.missing_files(OWN_NAME, checked)
    while pending:
        dependent, release, extras = pending.pop(0)
        for requirement in _requirements(release, extras, markers):
            name = requirement.project
            installed = releases.release(name)
            if installed is None or not _satisfies(installed.version, requirement.specifier):
                version = None if installed is None else installed.version
                yield UnmetRequirement(f"{dependent} {release.version}", str(requirement), version)
                continue
            if files:
                yield from releases.missing_files(name, checked)
            key = (name, frozenset(requirement.extras))
            if key not in seen:
                seen.add(key)
                pending.append((name, installed, key[1]))


class _ReleaseFinder:
    """A finder of the releases that Python imports, or will import after a change."""

    def __init__(self, changes: Mapping[str, DependencyRelease | None]) -> None:
        self._changes = changes
        self._distributions: dict[str, tuple[Distribution, DependencyRelease] | None] = {}

    def release(self, name: str) -> DependencyRelease | None:
        """Return the release of a distribution; None if there is none."""
        if name in self._changes:
            return self._changes[name]
        installed = self._installed(name)
        return None if installed is None else installed[1]

    def _installed(self, name: str) -> tuple[Distribution, DependencyRelease] | None:
        if name not in self._distributions:
            self._distributions[name] = _find_distribution(name)
        return self._distributions[name]

    def missing_files(self, name: str, checked: set[str]) -> Iterator[UnmetRequirement]:
        """Yield an unmet requirement if a file of a distribution's code is missing.

        It is a requirement of the distribution on itself: reinstalling it restores the file.

        :param checked: names of distributions that were checked; the name is added.
        """
        pair = None if name in checked or name in self._changes else self._installed(name)
        checked.add(name)
        if pair is None:
            return
        installed, release = pair
        root = str(installed.locate_file(""))
        try:
            rows = list(csv.reader((installed.read_text("RECORD") or "").splitlines()))
        except (UnicodeDecodeError, csv.Error):
            return  # the diagnosis of packages reports it
        for row in rows:
            if (
                row
                and row[0].endswith(_CODE_SUFFIXES)
                and not os.path.exists(os.path.join(root, row[0]))  # noqa: PTH110, PTH118 - many
            ):
                version = release.version
                yield UnmetRequirement(f"{name} {version}", f"{name}=={version}", version, row[0])
                return


def _find_distribution(name: str) -> tuple[Distribution, DependencyRelease] | None:
    """Return the distribution that Python imports; None if it is missing or damaged."""
    try:
        installed = distribution(name)
        metadata_text = installed.read_text("METADATA")
        # A distribution may have a single file ``NAME.egg-info`` in place of a folder of metadata:
        # then the empty name reads that file.
        text = metadata_text or installed.read_text("PKG-INFO") or installed.read_text("") or ""
    except (PackageNotFoundError, ValueError):  # ValueError: also text that is not UTF-8
        return None
    # Only the headers are parsed, since the description after them is long.
    metadata = HeaderParser().parsestr(text.partition("\n\n")[0])
    if not metadata["Version"]:
        return None  # a folder that an incomplete removal left
    requires = (
        metadata.get_all("Requires-Dist")
        or (installed.requires if metadata_text is None else ())
        or ()
    )
    return installed, DependencyRelease(metadata["Version"], tuple(requires))


def _requirements(
    release: DependencyRelease, extras: frozenset[str], markers: Mapping[str, str]
) -> Iterator[Requirement]:
    """Yield the requirements that apply in this environment; invalid ones are left out."""
    for text in release.requires:
        try:
            requirement = parse_requirement(text)
            applies = any(
                requirement.applies({**markers, "extra": extra}) for extra in ("", *sorted(extras))
            )
        except InvalidPage:  # the runtime's error for an invalid requirement
            continue
        if applies:
            yield requirement


def _satisfies(version: str, specifier: str) -> bool:
    """Return whether a version satisfies a specifier; True if one of them cannot be read."""
    # A pre-release or a local version is treated as its release.
    match = _RELEASE.match(version)
    numbers = None if match is None else parse_version(match[0])
    if numbers is None:
        return True
    try:
        return satisfies(numbers, specifier)
    except InvalidPage:
        return True
