"""The entries of a lock for tools without variant support (PEP 751).

``packages`` has these entries: for each release the plain wheels, else the null variant under its
file name without the label. Dependencies of other variants are left out. The complete entry of such
a release is in ``tool.wheelfit.packages``, and wheelfit reads it instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import NULL, Label
from wheelfit.core.versions import parse_version
from wheelfit.locking.validation import PACKAGES, TOOL, VARIANTS, file_name_of, tool_table
from wheelfit.sources.page import BRIDGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from packaging.version import Version


Entry = dict[str, Any]
_NO_PLAIN_WHEEL = "py3-none-needs_variants"
"""Tags that no installer supports, for the stand-in of a release without a plain wheel."""


def fallback_labels(
    labels: Collection[Label | None], *, is_chosen: bool = False
) -> frozenset[Label | None]:
    """Return the label whose wheels tools without variant support get; empty: there is none.

    >>> fallback_labels(["cu128", "null", None]), fallback_labels(["cu128", "null"])
    (frozenset({None}), frozenset({'null'}))

    :param labels: the labels of the listed wheels; None is the plain wheel.
    :param is_chosen: whether the wheels were chosen for one machine; then any single label is used.
    """
    for label in (None, NULL):
        if label in labels:
            return frozenset([label])
    return frozenset(labels if is_chosen and len(labels) == 1 else ())


def plain_entry(entry: Mapping[str, Any], filenames: Collection[str]) -> Entry | None:
    """Return an entry for tools without variant support.

    If it has no wheel for them, it gets a stand-in that no installer supports, so that their errors
    name the package.

    :param filenames: the wheels for such tools, by name. Those of a bridge are left out: they are
        not files, and only stand for their requirements.
    :return: None if all of these wheels are of a bridge.
    """
    wheels: dict[str, Entry] = {}
    chosen = [wheel for wheel in entry.get("wheels", ()) if file_name_of(wheel) in filenames]
    for wheel in chosen:
        filename = parse_wheel_filename(file_name_of(wheel) or "")
        if filename.label is None:
            wheels[filename.text] = dict(wheel)
        elif not is_bridged(wheel):
            wheels.setdefault(filename.plain, {**wheel, "name": filename.plain})
    if chosen and not wheels:
        return None
    plain = {key: value for key, value in entry.items() if key != VARIANTS}
    if wheels:
        plain["wheels"] = list(wheels.values())
        _set_version(plain, wheels)
    elif "sdist" in entry:
        plain.pop("wheels", None)
    elif "wheels" in entry:
        plain["wheels"] = [_stand_in(entry)]
    if plain != entry:
        plain.pop("tool", None)
    return plain


def put_entries(
    table: Entry, entries: Iterable[Mapping[str, Any]], plain: Iterable[Mapping[str, Any]]
) -> None:
    """Set ``packages`` and ``tool.wheelfit.packages`` of a lock.

    :param table: the lock, as plain data; changed.
    :param entries: the entries for wheelfit.
    :param plain: the entries for other tools.
    """
    packages: dict[tuple[str, str], list[Entry]] = {}
    for entry in plain:
        packages.setdefault(entry_key(entry), []).append(dict(entry))
    entries = list(entries)
    different = {
        entry_key(entry) for entry in entries if entry not in packages.get(entry_key(entry), ())
    }
    own = [dict(entry) for entry in entries if entry_key(entry) in different]
    table["packages"] = [entry for group in packages.values() for entry in group]
    tool = table.setdefault("tool", {})
    tool[TOOL] = {key: value for key, value in tool_table(table).items() if key != PACKAGES}
    if own:
        tool[TOOL][PACKAGES] = own
    if not tool[TOOL]:
        del tool[TOOL]
    if not tool:
        del table["tool"]


def effective_entries(table: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the entries that wheelfit reads: its own replace those for other tools.

    :param table: a checked lock, as plain data.
    """
    own = tool_table(table).get(PACKAGES, ())
    replaced = set(map(entry_key, own))
    others = [entry for entry in table["packages"] if entry_key(entry) not in replaced]
    return sorted((*others, *own), key=lambda entry: str(entry["name"])) if own else others


def entry_key(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key of a release: the same for all its entries, whatever builds they list."""
    version = entry.get("version")
    if version is None and (versions := _versions(map(file_name_of, entry.get("wheels", ())))):
        version = min(versions)
    return str(entry.get("name")), str(version).partition("+")[0]


def is_bridged(wheel: Mapping[str, Any]) -> bool:
    """Return whether a wheel belongs to a bridge, and does not exist as a file."""
    return str(wheel.get("url", "")).startswith(BRIDGE)


def _set_version(plain: Entry, filenames: Iterable[str]) -> None:
    """Set the version of an entry to that of its wheels, which may have a local version.

    Other tools refuse wheels with a version other than that of the entry. So if the wheels have
    several versions, the entry gets none.
    """
    if "version" not in plain:
        return
    versions = _versions(filenames)
    if len(versions) > 1:
        del plain["version"]
    elif parse_version(plain["version"]) not in versions:
        plain["version"] = str(min(versions))


def _versions(filenames: Iterable[str | None]) -> set[Version]:
    return {parse_wheel_filename(text).version for text in filenames if text}


def _stand_in(entry: Mapping[str, Any]) -> Entry:
    """Return the entry of the first wheel, under a name that no tool supports."""
    first = entry["wheels"][0]
    name, version = parse_wheel_filename(file_name_of(first) or "").plain.split("-")[:2]
    if "version" in entry and "+" not in str(entry["version"]):
        version = version.partition("+")[0]  # only its builds have a local version
    return {**first, "name": f"{name}-{version}-{_NO_PLAIN_WHEEL}.whl"}
