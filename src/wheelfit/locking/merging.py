"""One lock from the solutions of its environments."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import NULL
from wheelfit.core.requirements import Requirement
from wheelfit.errors import reporting_os_errors
from wheelfit.locking.conflicts import RequestMarkers
from wheelfit.locking.marker_writer import MarkerWriter
from wheelfit.locking.reachable_releases import combine_markers, markers_by_project
from wheelfit.locking.release import lock_release
from wheelfit.locking.without_variants import WithoutVariants, dependencies
from wheelfit.resolution.release_metadata import ReleaseMetadata, read_release_metadata
from wheelfit.resolution.version_set import VersionSet
from wheelfit.sources.urls import file_path
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import NoFit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.locking.environments import MarkerValues
    from wheelfit.locking.listed_wheels import ListedEnvironment, ListedProject, Needs
    from wheelfit.locking.request import Fork
    from wheelfit.locking.solving import Solver
    from wheelfit.resolution.listing import Release, Wheel


@dataclass(frozen=True, slots=True)
class MergedEntries:
    """The entries of a lock for all its environments."""

    packages: tuple[dict[str, Any], ...]
    """As plain data, for ``wheelfit.locking.locking.new_lock``."""
    plain: tuple[dict[str, Any], ...]
    """The entries for tools without variant support."""
    notes: tuple[str, ...] = ()
    """The parts left out, each with the reason, one sentence each."""


_MAX_FETCHED = 16
"""The most wheels that are fetched only for their hashes; further ones are not locked."""


@dataclass(slots=True)
class _Entry:
    """One release, as it is listed in all environments that have it."""

    markers: RequestMarkers
    listings: list[tuple[ListedEnvironment, ListedProject]] = field(default_factory=list)


class Merging:
    """The merge of the solutions of some environments."""

    def __init__(
        self,
        listed_environments: Sequence[ListedEnvironment],
        solver: Solver,
        folder: Path | None,
    ) -> None:
        self._listed_environments = listed_environments
        self._forks = [listed.fork for listed in listed_environments]
        self._request = solver.request
        self._repository = solver.repository
        self._policy = solver.policy.metadata
        self._folder = folder
        self._marker_writer = MarkerWriter(listed.environment for listed in listed_environments)
        self._entries: dict[tuple[NormalizedName, Version], _Entry] = {}
        self._entry_counts: Counter[str] = Counter()
        """By the name of a project."""
        self._notes: dict[str, None] = {}
        self._fallback_notes: dict[str, dict[str, None]] = {}
        """Notes on releases, with the environments where they hold."""
        self._fetched = 0

    def merged(self) -> MergedEntries:
        """Return the entries of a lock for all environments.

        :raises NoFit: two environments that no marker distinguishes need different versions.
        """
        for listed in self._listed_environments:
            self._add(listed)
        self._entry_counts.update(str(name) for name, _ in self._entries)
        self._check_versions()
        tables = {
            (str(name), str(version)): self._table(entry)
            for (name, version), entry in self._entries.items()
        }
        for note, names in self._fallback_notes.items():
            self._notes[f"{note} ({'; '.join(names)})"] = None
        plain = WithoutVariants(
            self._listed_environments, self._request, self._marker_writer, tables
        ).tables()
        return MergedEntries(tuple(tables.values()), tuple(plain), tuple(self._notes))

    def _add(self, listed: ListedEnvironment) -> None:
        values = listed.environment.marker_values
        markers = markers_by_project(listed, self._request, lambda project: project.needs)
        for project in listed.projects.values():
            key = project.name, project.version
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(RequestMarkers(self._forks))
            entry.listings.append((listed, project))
            entry.markers.add(values, listed.fork, markers.get(project.name, frozenset()))

    def _check_versions(self) -> None:
        """Raise if environments that no marker distinguishes need different versions."""
        seen: dict[tuple[NormalizedName, MarkerValues, Fork], tuple[Version, str]] = {}
        for (name, version), entry in self._entries.items():
            for listed, _ in entry.listings:
                environment = listed.environment
                key = name, environment.marker_values, listed.fork
                earlier_version, earlier_name = seen.setdefault(key, (version, environment.name))
                if earlier_version != version:
                    raise NoFit(
                        f"{earlier_name} needs {name} {earlier_version}, "
                        f"{environment.name} needs {version}, and no marker of a lock file "
                        "distinguishes the two",
                        hint="lock them one by one, each into its own file: -o pylock.NAME.toml",
                    )

    def _table(self, entry: _Entry) -> dict[str, Any]:
        release = self._release(entry)
        metadata = ReleaseMetadata()
        variants = [wheel for wheel in release.wheels if wheel.filename.is_variant]
        if variants:
            metadata = read_release_metadata(release, variants, self._repository, self._policy)
        locked = lock_release(
            release,
            metadata,
            needs=self._needs(entry),
            marker=self._marker_writer.marker(entry.markers.by_environment()),
            requires_python=_requires_python(entry),
            index=_index(release),
            folder=self._folder,
            strict=self._policy.strict,
        )
        self._notes |= dict.fromkeys(locked.notes)
        self._add_versions(locked.table, entry)
        return locked.table

    def _release(self, entry: _Entry) -> Release:
        """Return the release with every wheel that may be locked, by name."""
        wheels: dict[str, Wheel] = {}
        refused: dict[str, str] = {}
        for _, project in entry.listings:
            refused.update(project.refused)
            for wheel in project.release.wheels:
                if wheel.filename.text in project.wheels:
                    wheels.setdefault(wheel.filename.text, wheel)
        _, first_project = entry.listings[0]
        release = first_project.release
        reasons: dict[str, dict[str, None]] = {}
        for text, reason in sorted(refused.items()):
            label = parse_wheel_filename(text).label or "the plain wheel"
            reasons.setdefault(reason, {})[label] = None
        for reason, labels in reasons.items():
            note = f"{release.name} {release.version}: {', '.join(labels)} not locked: {reason}"
            self._notes[note] = None
        lockable = [self._hashed(wheels[text]) for text in sorted(wheels) if text not in refused]
        self._note_lost_fallback(entry, {wheel.filename.text for wheel in lockable})
        return replace(release, wheels=tuple(lockable))

    def _hashed(self, wheel: Wheel) -> Wheel:
        """Add the computed hash to a local or bridged wheel for which no index promises one."""
        if wheel.file.hashes or wheel.is_named_source:
            return wheel
        if wheel.file.is_local:
            return _with_hash(wheel, Path(file_path(wheel.file.url)))
        # An index of a bridge may lack hashes; wheels of other indexes are left out without one.
        if wheel.file.declared_document is None or self._fetched == _MAX_FETCHED:
            return wheel
        import tempfile

        self._fetched += 1
        with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder:
            return _with_hash(wheel, self._repository.download(wheel.file, Path(folder)))

    def _note_lost_fallback(self, entry: _Entry, kept: Collection[str]) -> None:
        """Note releases whose wheels for machines without a compatible label are not locked."""
        for listed, project in entry.listings:
            had_fallback = any(map(_is_fallback, project.refused))
            has_fallback = any(map(_is_fallback, project.wheels.intersection(kept)))
            if had_fallback and not has_fallback:
                note = (
                    f"{project.name} {project.version}: no wheel is locked for machines without a "
                    "compatible label"
                )
                self._fallback_notes.setdefault(note, {})[listed.environment.name] = None

    def _needs(self, entry: _Entry) -> dict[str, set[str]]:
        """Return the requirements by label, with markers of extras and environments."""
        by_label: dict[str, list[tuple[ListedEnvironment, Needs]]] = {}
        for listed, project in entry.listings:
            for label, needs in project.needs.items():
                by_label.setdefault(label or "", []).append((listed, needs))
        return {
            label: set(self._requirement_texts(needs_of_label))
            for label, needs_of_label in by_label.items()
        }

    def _requirement_texts(
        self, needs_by_environment: Sequence[tuple[ListedEnvironment, Needs]]
    ) -> Iterator[str]:
        """Yield requirements without versions, since the entries pin these."""
        by_text: dict[str, dict[MarkerValues, frozenset[str]]] = {}
        for listed, needs in needs_by_environment:
            for extra, requirement in needs:
                # A requirement that applies without an extra needs no marker of one.
                markers = frozenset(() if extra is None else [f"extra == '{extra}'"])
                for needed in self._request.effective_requirements(
                    requirement, listed.environment.target
                ):
                    if needed.name in listed.projects:
                        by_environment = by_text.setdefault(
                            str(Requirement(needed.name, needed.extras)), {}
                        )
                        values = listed.environment.marker_values
                        by_environment[values] = combine_markers(
                            by_environment.get(values), markers
                        )
        marker_writer = MarkerWriter(listed.environment for listed, _ in needs_by_environment)
        for text, by_environment in by_text.items():
            marker = marker_writer.marker(by_environment)
            yield text if marker is None else f"{text}; {marker}"

    def _add_versions(self, table: dict[str, Any], entry: _Entry) -> None:
        """Add versions to dependencies on names that several entries have."""
        versions = {
            item["name"]: {
                str(listed.projects[item["name"]].version)
                for listed, _ in entry.listings
                if item["name"] in listed.projects
            }
            for item in table.get("dependencies", ())
        }
        entries = dependencies(versions, self._entry_counts)
        if entries:
            table["dependencies"] = entries


def _requires_python(entry: _Entry) -> str | None:
    """Return the ``requires-python`` of a release if it distinguishes micro versions."""
    ranges = {
        str(specifiers)
        for listed, project in entry.listings
        for specifiers in project.pythons
        if not specifiers.contains("{}.{}.0".format(*listed.environment.python))
    }
    return str(VersionSet.of(",".join(sorted(ranges)))) if ranges else None


def _is_fallback(filename: str) -> bool:
    """Return whether a wheel fits every machine with its tags: a plain wheel or null variant."""
    return parse_wheel_filename(filename).label in (None, NULL)


def _index(release: Release) -> str | None:
    sources = {wheel.file.source for wheel in release.wheels}
    source = sources.pop() if len(sources) == 1 else ""  # an entry can have only one index
    return source if source.startswith(("https://", "http://")) else None


def _with_hash(wheel: Wheel, path: Path) -> Wheel:
    with reporting_os_errors("the wheel cannot be read", where=str(path)):
        digest, size = sha256_of_file(path), path.stat().st_size
    return replace(wheel, file=replace(wheel.file, hashes={"sha256": digest}, size=size))
