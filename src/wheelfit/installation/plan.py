"""Plan the changes of an environment, by pure functions."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.installation.installed import Installed
    from wheelfit.resolution.resolution import Pin, Resolution


class Plan(Struct, frozen=True):
    """The distributions that are added, removed and kept."""

    install: tuple[Pin, ...] = ()
    remove: tuple[Installed, ...] = ()
    """Distributions to remove, those that are replaced included."""
    keep: tuple[Installed, ...] = ()
    """Distributions that satisfy the request as they are."""
    reasons: Mapping[NormalizedName, str] = field(default_factory=lambda: MappingProxyType({}))
    """Why distributions go though nothing takes their place, as clauses; as far as there is one."""

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

    The resolver has kept usable installed builds (F-96); a pin for the installed version means that
    the wheel was selected again, on request or because the machine cannot use the old one. It stays
    if it is the same wheel. A wheel the user named by a file or URL is always installed.

    :param reinstall: replace even identical wheels.
    :param by_hash: keep a wheel named by a file or URL, if the installed one is known to be that
        file.
    """
    present: dict[NormalizedName, list[Installed]] = {}
    for entry in installed:
        present.setdefault(entry.name, []).append(entry)
    install: list[Pin] = []
    remove: list[Installed] = []
    keep = [present[kept.name][0] for kept in resolution.kept if kept.name in present]
    for pin in resolution.pins:
        entries = present.get(pin.name, [])
        if entries and not reinstall and _is_same(entries[0], pin, by_hash=by_hash):
            keep.append(entries[0])
            continue
        install.append(pin)
        # What lies outside stays and is hidden by the new one, as pip does it.
        remove += [entry for entry in entries if not entry.outside]
    for name in sorted(resolution.leaving):
        remove += [entry for entry in present.get(name, ()) if not entry.outside]
    keep.sort(key=lambda entry: entry.name)
    return Plan(tuple(install), tuple(remove), tuple(keep), resolution.leaving)


def plan_sync(
    resolution: Resolution,
    installed: Iterable[Installed],
    *,
    spared: Container[NormalizedName] | None = None,
    leaving: Container[NormalizedName] = frozenset(),
) -> Plan:
    """Return the changes from the installed distributions to a lock.

    :param spared: names that stay though the lock does not list them; editable installs, and
        distributions in folders the environment only reads, always stay. None: only replaced ones
        are removed.
    :param leaving: names to remove though they point to a source tree, since a lock had them.
    """
    entries = tuple(installed)
    planned = plan(resolution, entries, by_hash=True)
    if spared is None:
        return planned
    named = {pin.name for pin in resolution.pins}
    strangers = (
        entry
        for entry in entries
        if entry.name not in named
        and entry.name not in spared
        and not entry.outside
        and (not entry.editable or entry.name in leaving)
    )
    return replace(planned, remove=(*planned.remove, *strangers))


def _is_same(entry: Installed, pin: Pin, *, by_hash: bool) -> bool:
    origin = pin.file.origin
    if by_hash and origin is not None and origin.direct_url is not None:
        return _is_of(entry.direct_url, origin.direct_url)
    return (
        (not pin.is_given or (by_hash and _agree(entry, pin)))
        and not entry.editable
        and entry.version == pin.version
        and entry.label == pin.label
        and not _contradict(entry, pin)
    )


def _is_of(there: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Return whether two records are of the same source, whose content is fixed or used itself."""
    if there is None or there.get("url") != wanted["url"]:
        return False
    if there.get("subdirectory", "") != wanted.get("subdirectory", ""):
        return False
    if "vcs_info" in wanted:
        same: bool = _of(there, "vcs_info").get("commit_id") == wanted["vcs_info"]["commit_id"]
        return same
    if "archive_info" in wanted:
        hashes = _of(there, "archive_info").get("hashes", {})
        return bool(hashes) and dict(hashes) == dict(wanted["archive_info"]["hashes"])
    editable = wanted["dir_info"].get("editable") is True
    return editable and _of(there, "dir_info").get("editable") is True


def _of(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = record.get(key)
    return part if isinstance(part, dict) else {}


def _agree(entry: Installed, pin: Pin) -> bool:
    """Return whether the hashes prove that it is the same wheel."""
    common = entry.hashes.keys() & pin.file.hashes.keys()
    return bool(common) and not _contradict(entry, pin)


def _contradict(entry: Installed, pin: Pin) -> bool:
    """Return whether two known hashes of the wheel differ; an unknown one is ignored."""
    promised = pin.file.hashes
    common = entry.hashes.keys() & promised.keys()
    return any(entry.hashes[name] != promised[name] for name in common)


def plan_uninstall(
    names: Iterable[NormalizedName], installed: Iterable[Installed]
) -> tuple[Plan, tuple[NormalizedName, ...]]:
    """Return the distributions to remove.

    :return: the plan, and the names that are not installed.
    """
    wanted = tuple(dict.fromkeys(names))
    remove: dict[NormalizedName, list[Installed]] = {name: [] for name in wanted}
    for entry in installed:
        if entry.name in remove:
            remove[entry.name].append(entry)
    missing = tuple(name for name, entries in remove.items() if not entries)
    chosen: list[Installed] = []
    for entries in remove.values():
        # Only if nothing else is left, what lies outside is named, and then refused.
        chosen += [entry for entry in entries if not entry.outside] or entries
    return Plan(remove=tuple(chosen)), missing
