"""The differences between two locks, package by package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.utils import NormalizedName

    from wheelfit.locking.document import Lock, LockedPackage


_UNKNOWN = " ?"
"""The text after a name without a known version."""


@dataclass(frozen=True, slots=True)
class LockChange:
    """The change of one project between two locks."""

    name: NormalizedName
    before: tuple[str, ...]
    """Its versions in the older lock, oldest first, or ``?``; empty: that lock lacks it."""
    after: tuple[str, ...]
    """Its versions in the newer lock; empty: that lock lacks it."""
    details: str = ""
    """The other differences, as clauses."""

    def __str__(self) -> str:
        before, after = ", ".join(self.before), ", ".join(self.after)
        if not self.before:
            return f"+ {self.name} {after}".removesuffix(_UNKNOWN)
        if not self.after:
            return f"- {self.name} {before}".removesuffix(_UNKNOWN)
        if self.before != self.after:
            return f"~ {self.name} {before} -> {after}"
        return f"~ {self.name} {after}: {self.details}"

    def to_mapping(self) -> dict[str, object]:
        """Return the change as plain data, for ``--json``."""
        return {
            "name": self.name,
            "before": list(self.before),
            "after": list(self.after),
            "details": self.details or None,
        }


def changes(old_lock: Lock | None, new_lock: Lock) -> tuple[LockChange, ...]:
    """Return the differences between the packages of two locks, by name.

    :param old_lock: the older lock; None: there is none.
    """
    before, after = _by_name(old_lock), _by_name(new_lock)
    lock_changes = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, []), after.get(name, [])
        change = LockChange(name, _versions(old), _versions(new), "; ".join(_details(old, new)))
        if change.before != change.after or change.details:
            lock_changes.append(change)
    return tuple(lock_changes)


def _by_name(lock: Lock | None) -> dict[NormalizedName, list[LockedPackage]]:
    by_name: dict[NormalizedName, list[LockedPackage]] = {}
    for package in () if lock is None else lock.packages:
        by_name.setdefault(package.name, []).append(package)
    return by_name


def _versions(packages: list[LockedPackage]) -> tuple[str, ...]:
    versions = sorted({package.version for package in packages if package.version is not None})
    return tuple(map(str, versions)) or (("?",) if packages else ())  # a folder has no version


def _details(old: list[LockedPackage], new: list[LockedPackage]) -> Iterator[str]:
    if _versions(old) != _versions(new):
        return
    old_names = {wheel.filename.text for package in old for wheel in package.wheels}
    new_names = {wheel.filename.text for package in new for wheel in package.wheels}
    old_labels, new_labels = _labels(old), _labels(new)
    for label in sorted(old_labels ^ new_labels):
        yield f"{'with' if label in new_labels else 'without'} {label}"
    if old_labels == new_labels and old_names != new_names:
        is_same_count = len(new_names) == len(old_names)
        counts = f"{count_of(len(new_names), 'wheel')} instead of {len(old_names)}"
        yield "wheels with other names" if is_same_count else counts
    if {str(package.marker) for package in old} != {str(package.marker) for package in new}:
        markers = " / ".join(str(package.marker) for package in new if package.marker is not None)
        yield f"if {markers}" if markers else "always"
    if old_names == new_names and _files(old) != _files(new):
        yield "the locations or hashes of files differ"


def _labels(packages: list[LockedPackage]) -> set[str]:
    labels = {wheel.filename.label for package in packages for wheel in package.wheels}
    return {str(label) for label in labels if label is not None}


def _files(packages: list[LockedPackage]) -> set[tuple[object, ...]]:
    wheels = {
        (wheel.filename.text, wheel.url, wheel.path, *sorted(wheel.hashes.items()))
        for package in packages
        for wheel in package.wheels
    }
    sources = [package.source for package in packages if package.source is not None]
    return wheels | {
        (source.kind, source.url, source.path, source.commit, *sorted(source.hashes.items()))
        for source in sources
    }
