"""The packages that one machine gets from a lock, with the data for an export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.locking.export.license import License, license_of
from wheelfit.sources.concurrency import map_concurrently
from wheelfit_runtime.errors import FileProblem, IntegrityError, NetworkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.target import Target
    from wheelfit.locking.document import SourceKind
    from wheelfit.locking.selection import LockSelection
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin

_MAX_CONCURRENT_READS = 8
"""The most files whose metadata is read at the same time."""


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """The description of the machine that an export is for."""

    name: str
    """The value of ``--for``, without folders; ``this machine`` without that option."""
    description: str
    """Its description; empty: none."""
    python: str
    """Its Python, such as ``CPython 3.13.1``."""
    platform: str
    """Its best platform tag."""
    overrides: tuple[str, ...] = ()
    """The overrides of its detection, as on a command line."""

    @classmethod
    def of(
        cls, target: Target, name: str, description: str = "", overrides: Sequence[str] = ()
    ) -> TargetDescription:
        """Describe a target."""
        environment = target.environment
        python = environment.get("platform_python_implementation") or environment.get(
            "implementation_name", "Python"
        )
        # A tag that names a C library has more information than one without.
        platforms = sorted(target.platforms, key=lambda name: name.startswith("linux_"))
        return cls(
            name,
            description,
            f"{python} {target.python_full_version}",
            platforms[0] if platforms else "any",
            tuple(overrides),
        )


@dataclass(frozen=True, slots=True)
class ExportedPackage:
    """A package of an export: the wheel for the machine, or the source to build one from."""

    pin: Pin
    version: Version | None
    """None: it is unknown before a build."""
    source: SourceKind | None
    """The kind of source it must be built from; None: it is a wheel."""
    needs: tuple[NormalizedName, ...]
    """The packages of the export that it needs, by name."""
    license: License | None = None
    """Its declared licence; None: it was not read."""
    read_failure: str = ""
    """The reason its metadata cannot be read; empty: it was read, or need not be read."""

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        pin = self.pin
        return {
            "name": pin.name,
            "version": None if self.version is None else str(self.version),
            # A folder or repository has no hash, and is not a file.
            "filename": pin.file.display_name if pin.file.hashes else None,
            "source": self.source,
            "label": pin.label,
            "properties": [str(item) for item in pin.properties],
            "hashes": dict(pin.file.hashes),
            "requested": pin.requested,
            "reason": pin.reason,
            "dependencies": list(self.needs),
            "license": None
            if self.license is None
            else {
                "kind": self.license.kind,
                "text": self.license.text,
                "source": self.license.source or None,
                "files": list(self.license.files),
            },
        }


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of an export: the packages of one machine."""

    target: TargetDescription
    lock: str
    """Name of the lock file, without folders."""
    digest: str
    """SHA-256 of its bytes."""
    packages: tuple[ExportedPackage, ...]
    """By name."""
    notes: tuple[str, ...] = ()
    """The unknown facts, one sentence each."""


def contents_of(
    selection: LockSelection,
    candidates: Candidates,
    target: TargetDescription,
    *,
    lock: str,
    digest: str,
    with_licenses: bool,
) -> Contents:
    """Return the data for an export.

    :param with_licenses: whether the metadata of each wheel is read.
    """
    resolution = selection.resolution()
    pins = sorted(resolution.pins, key=lambda pin: pin.name)
    needs: dict[NormalizedName, set[NormalizedName]] = {pin.name: set() for pin in pins}
    for edge in resolution.edges:
        needs[edge.needing].add(edge.needed)
    locked = {choice.package.name: choice.package for choice in selection.chosen}
    results: list[CoreMetadata | str | None] = [None] * len(pins)
    if with_licenses:
        results = map_concurrently(
            pins, lambda pin: _core(pin, candidates), most=_MAX_CONCURRENT_READS
        )
    packages, notes = [], list(resolution.notes)
    for pin, result in zip(pins, results, strict=True):
        read_failure, declared_license = "", None
        if isinstance(result, str):
            read_failure = result
            name = pin.file.display_name if pin.file.hashes else pin.name
            notes.append(f"the metadata of {name} cannot be read: {read_failure}")
        elif result is not None:
            declared_license = license_of(result.license)
        must_be_built = pin.file.origin is not None
        source = locked[pin.name].source if must_be_built else None
        version = pin.version if source is None else locked[pin.name].version
        kind = None if source is None else source.kind
        needed = tuple(sorted(needs[pin.name]))
        packages.append(ExportedPackage(pin, version, kind, needed, declared_license, read_failure))
    return Contents(target, lock, digest, tuple(packages), tuple(dict.fromkeys(notes)))


def _core(pin: Pin, candidates: Candidates) -> CoreMetadata | str:
    """Return the metadata of a wheel, or the reason it cannot be read."""
    wheel = pin.choice.chosen
    if wheel is None:  # pragma: no cover - only chosen wheels are pinned
        return "no wheel is chosen"
    if pin.file.origin is not None:
        return "it must be built from source"
    try:
        return candidates.core_metadata(wheel)
    except (NetworkError, FileProblem, IntegrityError) as error:
        return error.message
