"""Checks of a release by the rules of indexes, and static indexes."""

from __future__ import annotations

import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import tomli
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.building.matrix import read_matrix
from wheelfit.building.publishing.completeness import DeclaredRelease
from wheelfit.building.publishing.refusals import BAD_ATTESTATION
from wheelfit.building.publishing.release_files import FileKind, index_files_of
from wheelfit.building.publishing.tool_choices import (
    PlannedRelease,
    listed_wheel,
    read_outgoing_wheel,
)
from wheelfit.building.publishing.twine_sender import read_attestations
from wheelfit.checking.checks import CHECKS, INCONSISTENT_WHEELS, PYPI_FILE_SIZE, PYPI_PROJECT_SIZE
from wheelfit.checking.findings import Finding, Location, Report, Severity
from wheelfit.checking.pages import ListedRelease, listed_releases
from wheelfit.checking.targets.paths import check_paths
from wheelfit.checking.tool_profiles import CheckOptions, Profile, with_profile_severities
from wheelfit.core.filename import release_of
from wheelfit.core.metadata import read_document
from wheelfit.core.project_table import read_project_table
from wheelfit.errors import AttestationProblem, InconsistentDocuments, reporting_os_errors
from wheelfit.operations.user_folders import refuse_pipe
from wheelfit.server.generate.file_facts import FactsCache
from wheelfit.server.generate.generation import generate
from wheelfit.server.generate.publishing import path_of_entry
from wheelfit.server.generate.request import GenerateOptions
from wheelfit.server.uploads.rules import check_file, provenance_of
from wheelfit.wheels.processors import processor_count
from wheelfit_runtime.errors import InvalidWheel, NetworkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.building.publishing.release_files import OutgoingFile, ReleaseSet
    from wheelfit.core.filename import Release
    from wheelfit.operations.context import Context
    from wheelfit.operations.publish_destinations import StaticIndex, UploadIndex
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress


def publish_static(
    index: StaticIndex,
    outgoing: ReleaseSet,
    published: Mapping[NormalizedName, Sequence[File]],
    progress: Progress,
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Publish files on a static index; its pages change once all files are uploaded.

    :param published: the files on its pages, by project.
    :return: the written paths, and the reasons of refusals.
    :raises EnvironmentBusy: another process publishes there.
    """
    with tempfile.TemporaryDirectory(prefix="wheelfit-publish-") as name:
        folder = Path(name)
        for file in outgoing.files:
            link_or_copy(file.path, folder / file.filename)
            _write_provenance(file, folder)
        _add_published_files(index, outgoing, published, folder)
        options = GenerateOptions(frozenset(outgoing.releases))
        facts = FactsCache(folder / ".facts.json")
        generated = generate(folder, index.target, facts, options, progress=progress)
    return generated.written, generated.refused


def disable_jekyll(folder: Path) -> None:
    """Disable Jekyll for a folder on GitHub Pages, which would omit files.

    :raises FileProblem: the folder cannot be written.
    """
    with reporting_os_errors("the folder cannot be written", where=str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".nojekyll").touch()


def _write_provenance(outgoing: OutgoingFile, folder: Path) -> None:
    """Write the attestations of a file beside it, as indexes serve them."""
    beside = outgoing.path.with_name(f"{outgoing.filename}.provenance")
    data = None
    if beside.is_file():
        data = beside.read_bytes()
    elif outgoing.attestations and find_spec("pypi_attestations") is not None:
        data, _ = provenance_of(
            json.dumps(read_attestations(outgoing)), outgoing.filename, outgoing.sha256
        )
    if data is not None:
        (folder / beside.name).write_bytes(data)


def _add_published_files(
    index: StaticIndex,
    outgoing: ReleaseSet,
    published: Mapping[NormalizedName, Sequence[File]],
    folder: Path,
) -> None:
    """Copy or link the other files of the same releases beside them, except index files."""
    for project, files in published.items():
        for file in files:
            if release_of(file.filename) not in outgoing.releases:
                continue
            path, copy = path_of_entry(project, file.url), folder / file.filename
            if copy.exists() or file.filename.endswith(".json") or not _add_file(index, path, copy):
                continue
            if file.yanked is not None:
                (folder / f"{file.filename}.yanked").write_text(file.yanked, "utf-8")
            if file.provenance is not None:
                _add_file(index, f"{path}.provenance", folder / f"{file.filename}.provenance")


def _add_file(index: StaticIndex, path: str, copy: Path) -> bool:
    """Copy a file of an index, or link it if the index is a folder; return False if missing."""
    if index.folder is None:
        return index.target.fetch(path, copy)
    if not (index.folder / path).is_file():
        return False
    link_or_copy(index.folder / path, copy)
    return True


def link_or_copy(path: Path, target: Path) -> None:
    """Link a file to another path; copy it if the system has no links."""
    for link_to in (target.symlink_to, target.hardlink_to):
        with suppress(OSError):
            link_to(path.absolute())
            return
    shutil.copyfile(path, target)


_FORECAST_CODES = (PYPI_FILE_SIZE.code, PYPI_PROJECT_SIZE.code)
"""Codes of findings that the forecast reports with the limits of the destination."""


def check_files(outgoing: ReleaseSet, profiles: frozenset[Profile], progress: Progress) -> Report:
    """Check files for every reason why the index would refuse them (B-54).

    :param profiles: tools whose rules apply, too.
    """
    report = with_profile_severities(
        check_paths(outgoing.checked, CheckOptions(profiles=profiles)), profiles
    ).without(_FORECAST_CODES)
    reported = {(finding.where, finding.code) for finding in report.findings}
    progress.start(sum(file.size for file in outgoing.files))
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="wheelfit-publish-") as scratch:

        def check(item: tuple[int, OutgoingFile]) -> list[Finding]:
            number, file = item
            file_findings = _rule_violations(file, Path(scratch, str(number)))
            progress.advance(file.size)
            return file_findings

        with ThreadPoolExecutor(min(8, processor_count())) as pool:
            for file_findings in pool.map(check, enumerate(outgoing.files)):
                findings += file_findings
    progress.done()
    new = [finding for finding in findings if (finding.where, finding.code) not in reported]
    return report + Report.of(new)


def _rule_violations(outgoing: OutgoingFile, scratch: Path) -> list[Finding]:
    """Return the violations of the rules of an index by one file."""
    path = outgoing.path
    if outgoing.kind is FileKind.SOURCE:
        # The check unpacks it into its folder, which must not be one of the user.
        scratch.mkdir()
        path = scratch / outgoing.filename
        link_or_copy(outgoing.path, path)
    result = check_file(path, outgoing.filename, sha256=outgoing.sha256, size=outgoing.size)
    findings = []
    for severity, violations in (
        (Severity.ERROR, result.violations),
        (Severity.WARNING, result.warnings),
    ):
        for violation in violations:
            check = CHECKS.get(violation.reference)
            member = violation.where.removeprefix(outgoing.filename).removeprefix(": ")
            findings.append(
                Finding(
                    severity,
                    violation.reference,
                    "F-131" if check is None else check.rule,
                    str(outgoing.path),
                    violation.message,
                    "build the file anew" if check is None else check.remedy,
                    member,
                )
            )
    return [*findings, *_attestation_faults(outgoing)]


def _attestation_faults(outgoing: OutgoingFile) -> list[Finding]:
    """Return the faults of attestations; signatures are verified if the library is installed."""
    if not outgoing.attestations:
        return []
    location = Location(str(outgoing.path))
    try:
        attestations = read_attestations(outgoing)
    except AttestationProblem as error:
        return [Location(str(error.where)).finding(BAD_ATTESTATION, error.message)]
    if find_spec("pypi_attestations") is None:
        return []  # the index verifies them anyway
    _, violations = provenance_of(json.dumps(attestations), outgoing.filename, outgoing.sha256)
    return [location.finding(BAD_ATTESTATION, violation.message) for violation in violations]


def read_declared_release(folder: Path) -> DeclaredRelease | None:
    """Return the releases that a project declares; None if there is no project with a name.

    :raises InvalidDocument: its variant table or its matrix is invalid.
    """
    path = folder / "pyproject.toml"
    try:
        refuse_pipe(path)
        pyproject = tomli.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return None
    project = pyproject.get("project")
    name = project.get("name") if isinstance(project, dict) else None
    if not isinstance(name, str):
        return None
    table = read_project_table(pyproject, where=str(path))
    matrix = read_matrix(pyproject, table.variants if table else (), where=str(path))
    return DeclaredRelease(canonicalize_name(name), table, matrix.jobs if matrix else ())


def build_index_files(
    destination: UploadIndex | StaticIndex,
    outgoing: ReleaseSet,
    published: Mapping[NormalizedName, Sequence[File]],
    context: Context,
) -> tuple[Mapping[Release, bytes], tuple[Finding, ...]]:
    """Return the index files of releases, and the contradictions among their wheels.

    :param outgoing: the files to publish, whose wheels are valid.
    :param published: the files that the index has, by project.
    :param context: warned if wheels on the index cannot be read.
    """
    with destination.documents(context) as read_document:
        try:
            return index_files_of(outgoing, published, read_document), ()
        except (InconsistentDocuments, InvalidWheel) as error:
            message = f"{error.message}: {error.note}" if error.note else error.message
            location = Location(error.where or destination.name)
            return {}, (location.finding(INCONSISTENT_WHEELS, " ".join(message.split())),)
        except NetworkError as error:
            context.reporter.warn(
                f"published variants cannot be read, so no -variants.json is written: {error}"
            )
            return {}, ()


def planned_releases(
    outgoing: ReleaseSet,
    published: Mapping[NormalizedName, Sequence[File]],
    index_files: Mapping[Release, bytes],
) -> tuple[PlannedRelease, ...]:
    """Return releases as they will be on the index.

    :param outgoing: the files to publish, whose wheels are valid.
    :param published: the files that the index has, by project.
    :param index_files: their future ``-variants.json``.
    """
    planned = []
    for release in outgoing.releases:
        files = outgoing.of(release)
        listed = listed_releases(published.get(release[0], ())).get(release, ListedRelease())
        wheels = {file.filename: listed_wheel(file, name) for file, name in listed.wheels
                  if file.yanked is None}  # fmt: skip
        for file in files:
            if file.kind is not FileKind.SOURCE:
                wheels[file.filename] = read_outgoing_wheel(file)
        data = index_files.get(release)
        document = None if data is None else read_document(data, where=str(release[0]))
        has_source = listed.has_source or any(file.kind is FileKind.SOURCE for file in files)
        planned.append(PlannedRelease(*release, tuple(wheels.values()), document, has_source))
    return tuple(planned)
