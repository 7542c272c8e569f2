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


@dataclass(frozen=True, slots=True)
class LockChange:
    """The change of one project between two locks."""

    name: NormalizedName
    before: tuple[str, ...]
    """Its versions in the older lock, oldest first, or ``?``; empty: it was not there."""
    after: tuple[str, ...]
    """Its versions now; empty: it is not there any more."""
    what: str = ""
    """The other differences, in clauses."""

    def __str__(self) -> str:
        before, after = ", ".join(self.before), ", ".join(self.after)
        if not self.before:
            return f"+ {self.name} {after}".removesuffix(_UNKNOWN)
        if not self.after:
            return f"- {self.name} {before}".removesuffix(_UNKNOWN)
        if self.before != self.after:
            return f"~ {self.name} {before} -> {after}"
        return f"~ {self.name} {after}: {self.what}"

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            "name": self.name,
            "before": list(self.before),
            "after": list(self.after),
            "what": self.what or None,
        }


def changes(old: Lock | None, new: Lock) -> tuple[LockChange, ...]:
    """Return the differences between the packages of two locks, by name.

    :param old: None: there was none.
    :param new: the other.
    """
    before, after = _by_name(old), _by_name(new)
    lock_changes = []
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name, []), after.get(name, [])
        change = LockChange(name, _versions(one), _versions(other), "; ".join(_details(one, other)))
        if change.before != change.after or change.what:
            lock_changes.append(change)
    return tuple(lock_changes)


def _by_name(lock: Lock | None) -> dict[NormalizedName, list[LockedPackage]]:
    by_name: dict[NormalizedName, list[LockedPackage]] = {}
    for package in () if lock is None else lock.packages:
        by_name.setdefault(package.name, []).append(package)
    return by_name


def _versions(packages: list[LockedPackage]) -> tuple[str, ...]:
    known = sorted({package.version for package in packages if package.version is not None})
    return tuple(map(str, known)) or (("?",) if packages else ())  # a folder has none


def _details(old: list[LockedPackage], new: list[LockedPackage]) -> Iterator[str]:
    """Yield the differences between entries of the same versions."""
    if _versions(old) != _versions(new):
        return
    had = {wheel.filename.text for package in old for wheel in package.wheels}
    has = {wheel.filename.text for package in new for wheel in package.wheels}
    labels = {
        str(wheel.filename.label): wheel.filename.text in has
        for package in (*old, *new)
        for wheel in package.wheels
        if wheel.filename.label is not None and wheel.filename.text in had ^ has
    }
    for label in sorted(labels):
        yield f"{'with' if labels[label] else 'without'} {label}"
    if not labels and had != has:
        yield f"{count_of(len(has), 'wheel')} instead of {len(had)}"
    if {str(one.marker) for one in old} != {str(one.marker) for one in new}:
        told = " / ".join(str(one.marker) for one in new if one.marker is not None)
        yield f"if {told}" if told else "always"
    if had == has and _files(old) != _files(new):
        yield "files in other places or with other hashes"


def _files(packages: list[LockedPackage]) -> set[tuple[object, ...]]:
    return {
        (wheel.filename.text, wheel.url, wheel.path, *sorted(wheel.hashes.items()))
        for package in packages
        for wheel in package.wheels
    }
