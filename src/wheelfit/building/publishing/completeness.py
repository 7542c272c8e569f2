"""Checks that a release is complete, counting the files already on the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.matrix import ANY, Job
from wheelfit.building.publishing.refusals import (
    MISSING_VARIANT,
    MISSING_WHEEL,
    NAME_TAKEN,
    UNLISTED_VARIANT,
)
from wheelfit.building.publishing.release_files import FileKind, OutgoingFile, ReleaseSet
from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity
from wheelfit.checking.pages import ListedRelease, listed_releases
from wheelfit.checking.tool_profiles import is_closed
from wheelfit.core.filename import WheelFilename, parse_wheel_filename, release_of
from wheelfit.core.labels import NULL, Label
from wheelfit.core.sizes import size_in_words
from wheelfit.sources.hash_check import KNOWN_HASHES, WEAK_HASHES
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from packaging.tags import Tag
    from packaging.utils import NormalizedName

    from wheelfit.core.project_table import ProjectTable
    from wheelfit.sources.page import File


@dataclass(frozen=True, slots=True)
class DeclaredRelease:
    """The wheels of a release that a project declares: its variants, and its matrix."""

    name: NormalizedName
    table: ProjectTable | None = None
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexComparison:
    """The comparison of a set with an index."""

    new: tuple[OutgoingFile, ...]
    """Files to upload, in order; also those that the findings refuse."""
    existing: tuple[OutgoingFile, ...]
    """Files on the index with the same content."""
    findings: tuple[Finding, ...] = ()
    """Findings about files on the index with other content."""


def compare_with_index(
    files: Sequence[OutgoingFile], listed: Mapping[str, File]
) -> IndexComparison:
    """Return the comparison of some files with an index."""
    new, existing, findings = [], [], []
    for outgoing in files:
        file = listed.get(outgoing.filename)
        is_same = None if file is None else _is_same(outgoing, file)
        if is_same:
            existing.append(outgoing)
            continue
        new.append(outgoing)
        if is_same is False and file is not None:
            findings.append(
                Location(str(outgoing.path)).finding(NAME_TAKEN, _difference(outgoing, file))
            )
    return IndexComparison(tuple(new), tuple(existing), tuple(findings))


def _is_same(outgoing: OutgoingFile, file: File) -> bool | None:
    """Return whether a file is the listed one; None if it may be: the index has no hash of it."""
    if "sha256" in file.hashes:
        return file.hashes["sha256"] == outgoing.sha256
    if file.size is not None and file.size != outgoing.size:
        return False
    hash_names = sorted((file.hashes.keys() & KNOWN_HASHES) - WEAK_HASHES)
    hash_names = hash_names or sorted(file.hashes.keys() & KNOWN_HASHES)
    if not hash_names:
        return None
    import hashlib

    with outgoing.path.open("rb") as content:
        digest = hashlib.file_digest(
            content, lambda: hashlib.new(hash_names[0], usedforsecurity=False)
        )
    return digest.hexdigest() == file.hashes[hash_names[0]]


def _difference(outgoing: OutgoingFile, file: File) -> str:
    index_digest = file.hashes.get("sha256")
    if index_digest is not None:
        return f"sha256 {index_digest[:16]}… on the index, {outgoing.sha256[:16]}… here"
    if file.size is not None and file.size != outgoing.size:
        return f"{size_in_words(file.size)} on the index, {size_in_words(outgoing.size)} here"
    return "the index has another hash"


def completeness_findings(
    outgoing: ReleaseSet,
    index_files: Mapping[NormalizedName, Sequence[File]],
    project: DeclaredRelease | None = None,
) -> Iterator[Finding]:
    """Yield missing files of releases: a wheel for all machines, and those declared (B-52).

    :param project: the project whose table and matrix declare wheels; None: unknown.
    """
    for release in outgoing.releases:
        name, version = release
        listed = listed_releases(index_files.get(name, ())).get(release, ListedRelease())
        files = outgoing.of(release)
        labels: dict[Label, None] = dict.fromkeys(
            [
                *(file.label for file in files if file.label is not None),
                *(wheel.label for _, wheel in listed.wheels if wheel.label is not None),
            ]
        )
        location = Location(f"{name}=={version}")
        has_plain = (
            any(file.kind is not FileKind.VARIANT for file in files)
            or listed.has_source
            or any(not wheel.is_variant for _, wheel in listed.wheels)
        )
        if labels and not has_plain:
            message = "there are variants, but no plain wheel and no source distribution"
            yield location.finding(checks.NO_PLAIN_WHEEL, message, severity=Severity.ERROR)
        if project is None or project.name != name:
            continue
        wheels = [wheel for _, wheel in listed.wheels]
        wheels += [
            parse_wheel_filename(file.filename)
            for file in files
            if file.kind is not FileKind.SOURCE
        ]
        for job in missing_jobs(project.jobs, wheels):
            yield location.finding(MISSING_WHEEL, f"there is no wheel for {job}")
        table = project.table
        if table is None or not labels:
            continue
        for label in sorted(table.variants.keys() - labels.keys()):
            yield location.finding(MISSING_VARIANT, f"no wheel has the label {label}")
        if table.variants:
            for label in sorted(labels.keys() - table.variants.keys() - {NULL}):
                yield location.finding(UNLISTED_VARIANT, f"the table has no label {label}")


def closed_findings(
    new: Sequence[OutgoingFile], index_files: Mapping[NormalizedName, Sequence[File]], now: datetime
) -> Iterator[Finding]:
    """Yield releases for which the public registry accepts no more files (B-53)."""
    for release in sorted({file.release for file in new}):
        files = [
            file for file in index_files.get(release[0], ()) if release_of(file.filename) == release
        ]
        if is_closed(files, now):
            location = Location(f"{release[0]}=={release[1]}")
            yield location.finding(
                checks.PYPI_CLOSED_RELEASE, "it is older than 14 days", severity=Severity.ERROR
            )


_INTERPRETER = pattern(r"(py|cp)(3)([0-9]*)")
_MACOS = {
    "macosx_arm64": ("arm64", "universal2"),
    "macosx_x86_64": ("x86_64", "universal2", "intel"),
    "macosx_universal2": ("universal2",),
}


def missing_jobs(jobs: Iterable[Job], wheels: Iterable[WheelFilename]) -> Iterator[Job]:
    """Yield the jobs of a matrix whose wheel is missing.

    A label without any wheel is left out: `MISSING_VARIANT` is the finding of a listed one. So are
    all jobs of a release without wheels, of which only the source distribution is published yet.
    """
    by_label: dict[str | None, list[WheelFilename]] = {}
    for wheel in wheels:
        by_label.setdefault(wheel.label, []).append(wheel)
    for job in jobs:
        is_expected = job.label in by_label or (job.label is None and by_label)
        if is_expected and not any(fits_job(wheel, job) for wheel in by_label.get(job.label, ())):
            yield job


def fits_job(wheel: WheelFilename, job: Job) -> bool:
    """Return whether a wheel is for the Python and platform of a job."""
    return any(_fits_python(tag, job.python) and _fits_platform(tag, job) for tag in wheel.tags)


def _fits_python(tag: Tag, python: str) -> bool:
    parsed = _INTERPRETER.fullmatch(tag.interpreter)
    if parsed is None:
        return False
    is_free_threaded = python.endswith("t")
    job_minor = int(python.removesuffix("t").partition(".")[2])
    minor = int(parsed[3]) if parsed[3] else 0
    if tag.abi == "none" and parsed[1] == "cp":  # only generic tags are also for later Pythons
        return minor == job_minor
    if tag.abi in ("none", "abi3t" if is_free_threaded else "abi3"):
        return minor <= job_minor
    return tag.abi == f"cp3{job_minor}{'t' * is_free_threaded}"


def _fits_platform(tag: Tag, job: Job) -> bool:
    if tag.platform == "any":
        return True
    if job.platform == ANY:
        return False
    system, _, machine = job.platform.partition("_")
    if system in ("manylinux", "musllinux"):
        return tag.platform.startswith((system, "linux_")) and tag.platform.endswith(f"_{machine}")
    if job.platform in _MACOS:
        return tag.platform.startswith("macosx_") and tag.platform.endswith(
            tuple(f"_{name}" for name in _MACOS[job.platform])
        )
    return tag.platform == job.platform
