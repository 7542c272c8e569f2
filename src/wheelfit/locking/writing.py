"""A new lock, from entries that were built one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from wheelfit.core.versions import parse_version
from wheelfit.locking.document import Lock
from wheelfit.locking.plain_entries import put_entries
from wheelfit.locking.validation import CONFLICTS, ROOTS, TOOL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def new_lock(
    packages: Iterable[Mapping[str, Any]],
    *,
    plain: Iterable[Mapping[str, Any]] | None = None,
    roots: Iterable[str] | None = None,
    requires_python: str | None = None,
    environments: Sequence[str] = (),
    extras: Iterable[str] = (),
    dependency_groups: Iterable[str] = (),
    default_groups: Iterable[str] = (),
    conflicts: Iterable[Sequence[str]] = (),
    where: str = "",
) -> Lock:
    """Build a lock; the order of what is given does not matter, but for environments.

    :param packages: entries of `wheelfit.locking.release.lock_release`, or of another lock.
    :param plain: the same for tools that know no variants; None: there is no difference.
    :param roots: the requirements that the lock is made for, with markers where an extra
        or a group asks for them, as ``rich ; 'dev' in dependency_groups``; None: not
        recorded, and then everything is installed everywhere.
    :param requires_python: which Pythons it is for.
    :param environments: markers of the environments that it is for, as asked for.
    :param extras: that may be asked for.
    :param dependency_groups: groups that may be asked for.
    :param default_groups: those that count when none is asked for.
    :param conflicts: extras and groups of which at most one may be asked for, as markers.
    :param where: the file, for messages.
    :raises InvalidLock: something is wrong; says everything at once.
    """
    table: dict[str, Any] = {"lock-version": "1.0"}
    if environments:
        table["environments"] = list(environments)
    if requires_python is not None:
        table["requires-python"] = requires_python
    lists = (
        ("extras", extras),
        ("dependency-groups", dependency_groups),
        ("default-groups", default_groups),
    )
    distinct = {key: sorted(set(items)) for key, items in lists}
    table |= {key: items for key, items in distinct.items() if items}
    table["created-by"] = "wheelfit"
    table["packages"] = []
    own: dict[str, Any] = {} if roots is None else {ROOTS: sorted(set(roots))}
    if apart := [list(one) for one in conflicts]:
        own[CONFLICTS] = apart
    if own:
        table["tool"] = {TOOL: own}
    entries = sorted(packages, key=_order)
    put_entries(table, entries, entries if plain is None else sorted(plain, key=_order))
    return Lock.of(table, where=where)


def _order(package: Mapping[str, Any]) -> tuple[str, Version, str]:
    """Sort entries of one name by version, then by marker."""
    try:
        version = parse_version(str(package.get("version", "0")))
    except InvalidVersion:
        version = Version("0")  # whoever checks the lock says so
    return str(package.get("name")), version, str(package.get("marker", ""))
