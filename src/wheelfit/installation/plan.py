"""Plan the changes of an environment, by pure functions."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from wheelfit.installation.installed import ambiguous_names

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.installation.installed import Installed
    from wheelfit.resolution.resolution import Pin, Resolution


class Plan(Struct, frozen=True):
    """The distributions that are added, removed and kept."""

    install: tuple[Pin, ...] = ()
    remove: tuple[Installed, ...] = ()
    """Distributions to remove, including those that are replaced."""
    keep: tuple[Installed, ...] = ()
    """Distributions that satisfy the request as they are."""
    reasons: Mapping[NormalizedName, str] = field(default_factory=lambda: MappingProxyType({}))
    """The reasons for removals without a replacement, as clauses; not every one has a reason."""

    def __bool__(self) -> bool:
        return bool(self.install or self.remove)

    def to_mapping(self) -> dict[str, object]:
        """Return the plan as plain data: the contract of ``install --dry-run --json``."""
        return {
            "install": [
                {
                    "name": pin.name,
                    "version": str(pin.version),
                    "filename": _filename(pin),
                    "label": pin.label,
                    "url": pin.file.url,
                    "size": pin.file.size,
                    "hashes": dict(pin.file.hashes),
                    "built_from": None if pin.file.origin is None else pin.file.origin.name,
                    "reason": pin.reason,
                }
                for pin in self.install
            ],
            "remove": [
                {**_installed(entry), "reason": self.reasons.get(entry.name)}
                for entry in self.remove
            ],
            "keep": [_installed(entry) for entry in self.keep],
        }


def _filename(pin: Pin) -> str | None:
    """Return the file name of a wheel; None before it is built."""
    origin = pin.file.origin
    return pin.filename.text if origin is None or origin.is_built else None


def _installed(entry: Installed) -> dict[str, object]:
    return {"name": entry.name, "version": str(entry.version), "label": entry.label}


def plan(
    resolution: Resolution,
    installed: Iterable[Installed],
    *,
    reinstall: bool = False,
    by_hash: bool = False,
) -> Plan:
    """Return the changes from the installed distributions to a resolution.

    The resolver has kept usable installed builds (F-96). If a pin has the installed version, its
    wheel was selected on request, or because the machine cannot use the installed one; the
    installed distribution is kept only if it is the same wheel. A wheel named by a file or URL is
    always installed.

    :param reinstall: replace even identical wheels.
    :param by_hash: keep an installed distribution that is known to be the same as a wheel named by
        a file or URL.
    """
    by_name: dict[NormalizedName, list[Installed]] = {}
    for entry in installed:
        by_name.setdefault(entry.name, []).append(entry)
    install: list[Pin] = []
    remove: list[Installed] = []
    keep = [by_name[kept.name][0] for kept in resolution.kept if kept.name in by_name]
    for pin in resolution.pins:
        entries = by_name.get(pin.name, [])
        may_keep = entries and not (reinstall or ambiguous_names(entries))  # as uv does
        if may_keep and _is_same(entries[0], pin, by_hash=by_hash):
            keep.append(entries[0])
            continue
        install.append(pin)
        # As in pip, a distribution outside the environment stays, and the new one shadows it.
        remove += [entry for entry in entries if not entry.outside]
    for name in sorted(resolution.superseded):
        remove += [entry for entry in by_name.get(name, ()) if not entry.outside]
    keep.sort(key=lambda entry: entry.name)
    return Plan(tuple(install), tuple(remove), tuple(keep), resolution.superseded)


def plan_sync(
    resolution: Resolution,
    installed: Iterable[Installed],
    *,
    staying: Container[NormalizedName] | None = None,
    editable_removals: Container[NormalizedName] = frozenset(),
) -> Plan:
    """Return the changes from the installed distributions to a lock.

    Editable installs, and distributions in folders that the environment only reads, always stay.

    :param staying: names of others that stay although the lock does not list them; None: all that
        are not replaced.
    :param editable_removals: names of editable installs to remove all the same, because an earlier
        lock listed them.
    """
    entries = tuple(installed)
    planned = plan(resolution, entries, by_hash=True)
    if staying is None:
        return planned
    resolved_names = {pin.name for pin in resolution.pins}
    extraneous = (
        entry
        for entry in entries
        if entry.name not in resolved_names
        and entry.name not in staying
        and not entry.outside
        and (not entry.editable or entry.name in editable_removals)
    )
    return replace(planned, remove=(*planned.remove, *extraneous))


def _is_same(entry: Installed, pin: Pin, *, by_hash: bool) -> bool:
    """Return whether an installed distribution may stay in place of a chosen wheel."""
    origin = pin.file.origin
    if by_hash and origin is not None and origin.direct_url is not None:
        return _is_same_source(entry.direct_url, origin.direct_url)
    return (
        (not pin.is_direct or (by_hash and _is_proven_same(entry, pin)))
        and not entry.editable
        and entry.version == pin.version
        and entry.label == pin.label
        and not _hashes_differ(entry, pin)
    )


def _is_same_source(recorded: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> bool:
    """Return whether two ``direct_url.json`` records prove the same content (PEP 610)."""
    if recorded is None or recorded.get("url") != expected["url"]:
        return False
    if recorded.get("subdirectory", "") != expected.get("subdirectory", ""):
        return False
    if "vcs_info" in expected:
        same: bool = (
            _table(recorded, "vcs_info").get("commit_id") == expected["vcs_info"]["commit_id"]
        )
        return same
    if "archive_info" in expected:
        hashes = _table(_table(recorded, "archive_info"), "hashes")
        return bool(hashes) and hashes == dict(expected["archive_info"]["hashes"])
    editable = expected["dir_info"].get("editable") is True
    return editable and _table(recorded, "dir_info").get("editable") is True


def _table(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = record.get(key)
    return part if isinstance(part, dict) else {}


def _is_proven_same(entry: Installed, pin: Pin) -> bool:
    """Return whether the hashes prove that it is the same wheel."""
    common = entry.hashes.keys() & pin.file.hashes.keys()
    return bool(common) and not _hashes_differ(entry, pin)


def _hashes_differ(entry: Installed, pin: Pin) -> bool:
    """Return whether any hash that both wheels have is different."""
    pin_hashes = pin.file.hashes
    common = entry.hashes.keys() & pin_hashes.keys()
    return any(entry.hashes[name] != pin_hashes[name] for name in common)


def plan_uninstall(
    names: Iterable[NormalizedName], installed: Iterable[Installed]
) -> tuple[Plan, tuple[NormalizedName, ...]]:
    """Return the plan to remove distributions, and the names that are not installed."""
    requested = tuple(dict.fromkeys(names))
    remove: dict[NormalizedName, list[Installed]] = {name: [] for name in requested}
    for entry in installed:
        if entry.name in remove:
            remove[entry.name].append(entry)
    missing = tuple(name for name, entries in remove.items() if not entries)
    entries_to_remove: list[Installed] = []
    for entries in remove.values():
        # One outside the environment is planned only if there is no other; it is refused later.
        entries_to_remove += [entry for entry in entries if not entry.outside] or entries
    return Plan(remove=tuple(entries_to_remove)), missing
