"""The part of a lock for tools without variant support: pip, uv and others (PEP 751).

They get the plain wheel of each release, else its null variant, and the requirements of these. They
get a member of a bridged family under its own name only, so they never get two of one family.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.locking.conflicts import RequestMarkers
from wheelfit.locking.plain_entries import fallback_labels, is_bridged, plain_entry
from wheelfit.locking.reachable_releases import markers_by_project

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.core.labels import Label
    from wheelfit.locking.environments import MarkerValues
    from wheelfit.locking.listed_wheels import ListedEnvironment, ListedProject
    from wheelfit.locking.marker_writer import MarkerWriter
    from wheelfit.locking.request import LockNeeds

_Release = tuple[str, str]
"""Name and version."""


def dependencies(versions: dict[str, set[str]], entry_counts: Counter[str]) -> list[dict[str, str]]:
    """Return ``packages.dependencies``, with versions where several entries have a name."""
    items: list[dict[str, str]] = []
    for name in sorted(versions):
        if entry_counts[name] > 1:
            items += [{"name": name, "version": version} for version in sorted(versions[name])]
        else:
            items.append({"name": name})
    return items


@dataclass(slots=True)
class _Entry:
    """One release, as tools without variant support need it in all environments."""

    markers: RequestMarkers
    filenames: set[str] = field(default_factory=set)
    needs: dict[str, set[str]] = field(default_factory=dict)


class WithoutVariants:
    """The entries of a lock for tools without variant support.

    :param tables: the entries for wheelfit, by name and version.
    """

    def __init__(
        self,
        listed_environments: Sequence[ListedEnvironment],
        request: LockNeeds,
        marker_writer: MarkerWriter,
        tables: Mapping[_Release, dict[str, Any]],
    ) -> None:
        self._listed_environments = listed_environments
        self._forks = [listed.fork for listed in listed_environments]
        self._request = request
        self._marker_writer = marker_writer
        self._tables = tables
        self._labels: dict[_Release, dict[str, Label | None]] = {}
        self._bridged: set[str] = set()
        for key, table in self._tables.items():
            wheels = table.get("wheels", ())
            names = [wheel["name"] for wheel in wheels]
            self._labels[key] = {name: parse_wheel_filename(name).label for name in names}
            self._bridged |= {wheel["name"] for wheel in wheels if is_bridged(wheel)}
        self._labels_by_environment: dict[tuple[_Release, MarkerValues], set[Label | None]] = {}
        self._entries: dict[_Release, _Entry] = {}

    def tables(self) -> Iterator[dict[str, Any]]:
        """Yield an entry for each release that a tool without variant support needs."""
        if not any(any(labels.values()) for labels in self._labels.values()):
            yield from self._tables.values()
            return
        for listed in self._listed_environments:
            for project in listed.projects.values():
                release = _release(project)
                labels = {self._labels[release][name] for name in self._wheels(project)}
                self._labels_by_environment.setdefault(
                    (release, listed.environment.marker_values), set()
                ).update(labels or {None})  # a wheel built from source has no label
        for listed in self._listed_environments:
            self._add(listed)
        entry_counts = Counter(name for name, _ in self._entries)
        for release, entry in self._entries.items():
            table = self._with_marker(release, entry, entry_counts)
            plain = plain_entry(table, entry.filenames)
            if plain is None:
                continue
            if plain != self._tables[release]:
                plain.pop("tool", None)
            yield plain

    def _add(self, listed: ListedEnvironment) -> None:
        """Add the wheels of one environment."""
        values, target = listed.environment.marker_values, listed.environment.target

        def labels_of(project: ListedProject) -> frozenset[Label | None]:
            labels = self._labels_by_environment[_release(project), values]
            return fallback_labels(labels, is_chosen=listed.environment.is_machine)

        by_project = markers_by_project(listed, self._request, labels_of)
        for name, markers in by_project.items():
            project = listed.projects[name]
            release, labels = _release(project), labels_of(project)
            label_of = self._labels[release]
            filenames = {
                filename for filename in self._wheels(project) if label_of[filename] in labels
            }
            if filenames and filenames <= self._bridged:
                continue  # the distribution of the member has an entry of its own
            entry = self._entries.get(release)
            if entry is None:
                entry = self._entries[release] = _Entry(RequestMarkers(self._forks))
            entry.markers.add(values, listed.fork, markers)
            entry.filenames |= filenames
            for label in labels:
                for _, requirement in project.needs.get(label, ()):
                    for needed in self._request.effective_requirements(requirement, target):
                        if needed.name in listed.projects:
                            versions = entry.needs.setdefault(str(needed.name), set())
                            versions.add(str(listed.projects[needed.name].version))

    def _wheels(self, project: ListedProject) -> Iterable[str]:
        """Return the file names of a release that are locked for an environment."""
        return project.wheels & self._labels[_release(project)].keys()

    def _with_marker(
        self, release: _Release, entry: _Entry, entry_counts: Counter[str]
    ) -> dict[str, Any]:
        """Return the entry for wheelfit, with marker and dependencies for the other tools."""
        versions = {name: needed for name, needed in entry.needs.items() if name in entry_counts}
        changed = {
            "marker": self._marker_writer.marker(entry.markers.by_environment()),
            "dependencies": dependencies(versions, entry_counts) or None,
        }
        table = self._tables[release]
        order = dict.fromkeys(("name", "version", "marker", "requires-python", "dependencies"))
        merged = {**order, **table, **changed}
        return {name: value for name, value in merged.items() if value is not None}


def _release(project: ListedProject) -> _Release:
    return str(project.name), str(project.version)
