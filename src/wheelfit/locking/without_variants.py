"""The part of a lock for tools without variant support: pip, uv and others (PEP 751).

They get the plain wheel of each release, else its null variant, and the requirements of these. A
member of a bridged family is required by its own name, so they never get two of one family.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.locking.conflicts import Kinds
from wheelfit.locking.plain_entries import fallback, is_bridged, plain_entry
from wheelfit.locking.reachable_releases import kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.core.labels import Label
    from wheelfit.locking.conditions import Conditions, Place
    from wheelfit.locking.listed_wheels import ListedEnvironment, ListedProject
    from wheelfit.locking.request import LockNeeds

_Key = tuple[str, str]


def dependencies(versions: dict[str, set[str]], entries: Counter[str]) -> list[dict[str, str]]:
    """Return ``packages.dependencies``, with versions where several entries have a name.

    :param versions: the versions of each project that is needed.
    :param entries: the number of entries of each name.
    """
    listed: list[dict[str, str]] = []
    for name in sorted(versions):
        if entries[name] > 1:
            listed += [{"name": name, "version": version} for version in sorted(versions[name])]
        else:
            listed.append({"name": name})
    return listed


@dataclass(slots=True)
class _Entry:
    """The parts of one release from all environments in which such a tool needs it."""

    kinds: Kinds
    filenames: set[str] = field(default_factory=set)
    needs: dict[str, set[str]] = field(default_factory=dict)


class WithoutVariants:
    """The entries of a lock for tools without variant support.

    :param settled: the solution of each environment.
    :param request: the request.
    :param conditions: writes the markers of the lock.
    :param tables: the entries for wheelfit, by name and version.
    """

    def __init__(
        self,
        settled: Sequence[ListedEnvironment],
        request: LockNeeds,
        conditions: Conditions,
        tables: Mapping[_Key, dict[str, Any]],
    ) -> None:
        self._settled = settled
        self._forks = [listed.fork for listed in settled]
        self._request = request
        self._conditions = conditions
        self._tables = tables
        self._labels: dict[_Key, dict[str, Label | None]] = {}
        self._bridged: set[str] = set()
        for key, table in self._tables.items():
            wheels = table.get("wheels", ())
            names = [wheel["name"] for wheel in wheels]
            self._labels[key] = {name: parse_wheel_filename(name).label for name in names}
            self._bridged |= {wheel["name"] for wheel in wheels if is_bridged(wheel)}
        self._at_place: dict[tuple[_Key, Place], set[Label | None]] = {}
        self._entries: dict[_Key, _Entry] = {}

    def tables(self) -> Iterator[dict[str, Any]]:
        """Yield an entry for each release that such a tool needs."""
        if not any(any(labels.values()) for labels in self._labels.values()):
            yield from self._tables.values()
            return
        for listed in self._settled:
            for part in listed.parts.values():
                at_place = self._at_place.setdefault(
                    (_key(part), listed.environment.marker_values), set()
                )
                labels = {self._labels[_key(part)][text] for text in self._wheels(part)}
                at_place.update(labels or {None})  # a wheel built from source has no label
        for listed in self._settled:
            self._add(listed)
        names = Counter(name for name, _ in self._entries)
        for key, entry in self._entries.items():
            plain = plain_entry(self._with_marker(key, entry, names), entry.filenames)
            if plain is not None:
                is_unchanged = plain == self._tables[key]
                yield plain if is_unchanged else {k: v for k, v in plain.items() if k != "tool"}

    def _add(self, listed: ListedEnvironment) -> None:
        """Add the wheels of one environment."""

        def labels_of(part: ListedProject) -> frozenset[Label | None]:
            labels = self._at_place[_key(part), listed.environment.marker_values]
            return fallback(labels, is_chosen=not listed.environment.platform_name)

        place, target = listed.environment.marker_values, listed.environment.target
        for name, kinds in kinds_of(listed, self._request, labels_of).items():
            part = listed.parts[name]
            key, fallback_labels = _key(part), labels_of(part)
            labels = self._labels[key]
            filenames = {text for text in self._wheels(part) if labels[text] in fallback_labels}
            if filenames and filenames <= self._bridged:
                continue  # its member is required directly
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(Kinds(self._forks))
            entry.kinds.add(place, listed.fork, kinds)
            entry.filenames |= filenames
            for label in fallback_labels:
                for _, requirement in part.needs.get(label, ()):
                    for needed in self._request.apply_to(requirement, target):
                        if needed.name in listed.parts:
                            versions = entry.needs.setdefault(str(needed.name), set())
                            versions.add(str(listed.parts[needed.name].version))

    def _wheels(self, part: ListedProject) -> Iterable[str]:
        """Return the file names of a release that are locked for an environment."""
        return part.wheels & self._labels[_key(part)].keys()

    def _with_marker(self, key: _Key, entry: _Entry, names: Counter[str]) -> dict[str, Any]:
        """Return the entry for wheelfit, with marker and dependencies for such a tool."""
        versions = {name: version for name, version in entry.needs.items() if name in names}
        changed = {
            "marker": self._conditions.marker(entry.kinds.by_place()),
            "dependencies": dependencies(versions, names) or None,
        }
        table = self._tables[key]
        order = dict.fromkeys(("name", "version", "marker", "requires-python", "dependencies"))
        whole = {**order, **table, **changed}
        return {name: value for name, value in whole.items() if value is not None}


def _key(part: ListedProject) -> _Key:
    return str(part.name), str(part.version)
