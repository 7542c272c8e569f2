"""The download of wheels, with the documents of variants, into a folder to install from."""

from __future__ import annotations

import filecmp
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from msgspec import structs
from packaging.version import Version

from wheelfit.errors import UsageError, reporting_os_errors
from wheelfit.operations.indexes import warning_of_later_indexes
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.projects import check_folder_pins
from wheelfit.operations.result_limits import check_accelerators
from wheelfit.operations.selection_session import FromRequirements, SelectionSession, open_session
from wheelfit.sources.page import LABELS_SUFFIX
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import FileProblem, IntegrityError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.operations.context import Context, Reporter
    from wheelfit.resolution.accelerator_use import AcceleratorRemark
    from wheelfit.resolution.resolution import Pin, Resolution

_MAX_ROUNDS = 10
"""The most resolutions until no wheel contradicts the data it was chosen by."""


class DownloadRequest(FromRequirements):
    """The packages, the machines they are for, and the folder."""

    dest: str = "."
    hosts: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()
    python_version: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DownloadTarget:
    """A machine, and its wheels."""

    name: str
    """The machine in words, with its Python."""
    pins: tuple[Pin, ...]
    accelerators: tuple[AcceleratorRemark, ...] = ()
    """Accelerator builds that cannot be used, and accelerators left idle; reported already."""

    def to_json(self) -> dict[str, object]:
        """Return the object of the machine in ``--json``."""
        packages = [
            plain_fields(
                pin, "name version label reason", filename=pin.file.as_published.display_name
            )
            for pin in self.pins
        ]
        return plain_fields(self, "name accelerators", packages=packages)


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file of the folder."""

    filename: str
    size: int
    sha256: str
    """Hexadecimal."""
    is_new: bool


@dataclass(frozen=True, slots=True)
class DownloadReport:
    """The contents of the folder, present or planned."""

    folder: Path
    dry_run: bool
    targets: tuple[DownloadTarget, ...]
    files: tuple[DownloadedFile, ...]
    """Empty for a dry run."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        files = [plain_fields(file, "filename size sha256", new=file.is_new) for file in self.files]
        return plain_report(self, "dry_run folder targets", files=files)


def download(request: DownloadRequest, context: Context) -> DownloadReport:
    """Resolve for each machine and download the files into a folder, all or none.

    :param request: the packages, the machines and the folder.
    :param context: the environment variables and the reporter.
    :raises UsageError: options contradict each other.
    :raises NoSolution: the requirements contradict each other.
    :raises HashMismatch: a file has another hash than given.
    :raises FileProblem: the folder cannot be written, or has another file of a name.
    """
    if request.hosts and request.platform:
        raise UsageError(
            "--for and --platform name two machines",
            hint="a platform can be given with --for too, as a preset",
        )
    folder = Path(request.dest)
    targets = []
    reported: set[str] = set()
    with _staging(folder, is_needed=not request.dry_run) as staging:
        for host, python in _machines(request):
            request = request.with_options(host=host)
            with (
                open_session(request, context, changes=False, python=python) as session,
                warning_of_later_indexes(session.repository, context.reporter),
            ):
                resolution, accelerators = _fetch(
                    request, session, staging, reported, context.reporter
                )
                version = session.candidates.target.python_full_version
                name = f"{session.machine.name}, Python {version.major}.{version.minor}"
                targets.append(DownloadTarget(name, tuple(resolution.pins), accelerators))
        files = () if staging is None else _move_into(folder, staging)
    return DownloadReport(folder, request.dry_run, tuple(targets), files)


def _machines(request: DownloadRequest) -> Iterator[tuple[str | None, Version | None]]:
    """Yield the host and the Python of each machine; None: this machine, the active Python."""
    from wheelfit.locking.environments import python_of
    from wheelfit_runtime.platforms.known_platforms import PLATFORMS

    for name in request.platform:
        if name not in PLATFORMS:
            raise UsageError(
                f"{name[:80]!r} is not a platform", hint=f"it is one of {', '.join(PLATFORMS)}"
            )
    pythons: list[Version | None] = [
        Version(".".join(map(str, python_of(text)))) for text in request.python_version
    ] or [None]
    for host in (*request.hosts, *request.platform) or (None,):
        for python in pythons:
            yield host, python


@contextmanager
def _staging(folder: Path, *, is_needed: bool) -> Iterator[Path | None]:
    """Yield a temporary folder in the destination, if needed, and remove it at the end."""
    if not is_needed:
        yield None
        return
    from wheelfit.operations.files import new_folder

    with new_folder(str(folder)):
        with reporting_os_errors("the folder cannot be written", where=str(folder)):
            staging = Path(mkdtemp(prefix=".wheelfit-", dir=folder))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _fetch(
    request: DownloadRequest,
    session: SelectionSession,
    staging: Path | None,
    reported: set[str],
    reporter: Reporter,
) -> tuple[Resolution, tuple[AcceleratorRemark, ...]]:
    """Resolve and fetch the files, replacing wheels that contradict their metadata."""
    from wheelfit.operations.accelerator_remarks import report_accelerator_remarks
    from wheelfit.operations.downloads import download as fetch

    if session.requirement_set.sources:
        raise UserError(
            "only packages of indexes and wheels can be downloaded",
            where=session.requirement_set.sources[0].where or None,
            note="\n".join(map(str, session.requirement_set.sources)),
            hint="build a wheel of it: `wheelfit build`",
        )
    resolution_request = session.resolution_request(dependencies=not request.no_deps)
    earlier = set() if staging is None else {*staging.iterdir()}
    urls: dict[Path, str] = {}
    with reporter.transfers(session.repository.cancel) as transfers:
        for _ in range(_MAX_ROUNDS):
            resolution = session.resolve(resolution_request, reporter)
            check_folder_pins((pin.name for pin in resolution.pins if not pin.is_direct), request)
            if request.require_accelerator:
                check_accelerators(resolution, session.candidates, reporter)
            accelerators = report_accelerator_remarks(
                resolution,
                [pin.name for pin in resolution.pins],
                session.candidates,
                reporter,
                reported=reported,
            )
            if staging is None:
                return resolution, accelerators
            pins = [pin for pin in resolution.pins if not pin.file.is_selector]
            wheels = [pin for pin in pins if pin.file.origin is None]
            missing = [pin for pin in wheels if pin.file.url not in urls.values()]
            paths, rejected = fetch(missing, session.candidates, staging, transfers)
            urls |= {paths[pin.name]: pin.file.url for pin in missing if pin.name in paths}
            for pin, reason in rejected:
                reporter.detail(f"{pin.filename.text} is not used: {reason}")
                session.candidates.reject(pin.filename, reason)
            if rejected:
                continue
            needed = {pin.file.url for pin in wheels}
            for path in {*staging.iterdir()} - earlier:
                if urls.get(path) not in needed:  # only a rejected wheel needed it, or it is one
                    path.unlink()
            for pin in pins:
                if pin.file.origin is not None:
                    source = structs.replace(pin.file, filename=pin.file.origin.name, origin=None)
                    progress = transfers.transfer(source.filename)
                    session.repository.download(source, staging, progress)
            _write_documents(pins, session, staging)
            for pin in wheels:
                if pin.file.declared_document is not None:  # a bridge gave it a name with a label
                    _rename_to_published(pin, staging, Path(request.dest))
            return resolution, accelerators
    raise IntegrityError(
        "no wheel matches the metadata of its index",
        code="metadata-disagreement",
        hint="--verbose names each",
    )


def _write_documents(pins: Iterable[Pin], session: SelectionSession, staging: Path) -> None:
    """Write the variant documents of releases, by which variants are chosen from the folder."""
    for pin in pins:
        if pin.label is None:
            continue
        for file in pin.choice.release.index_files[:1]:
            (staging / file.filename).write_bytes(session.repository.read(file))


def _rename_to_published(pin: Pin, staging: Path, folder: Path) -> None:
    """Rename the wheel of a family to its published name, with its label in a file beside it.

    :param folder: its destination, possibly with labels of earlier downloads.
    """
    if pin.label is None:
        return
    from wheelfit.sources.wheel_labels import labels_file, parse_labels_file

    name = pin.filename.plain
    (staging / pin.filename.text).replace(staging / name)
    labels: dict[str, object] = {}
    for path in (folder / f"{name}{LABELS_SUFFIX}", staging / f"{name}{LABELS_SUFFIX}"):
        with suppress(OSError, ValueError):  # it is missing or damaged
            labels |= parse_labels_file(path.read_bytes())
    (staging / f"{name}{LABELS_SUFFIX}").write_bytes(labels_file(pin.file, pin.label, labels))


def _move_into(folder: Path, staging: Path) -> tuple[DownloadedFile, ...]:
    """Move the files into the folder, after a check that no name is taken by another file.

    :raises FileProblem: another file has one of the names.
    """
    paths = sorted(staging.iterdir())
    files = [_describe_file(path, folder / path.name) for path in paths]
    for path, file in zip(paths, files, strict=True):
        if not file.is_new:
            continue
        if path.stat().st_nlink > 1:  # a link into the cache, which must not change
            copy = path.with_name(f"{path.name}.copy")
            shutil.copyfile(path, copy)
            copy.replace(path)
        path.replace(folder / path.name)
    return tuple(files)


def _describe_file(path: Path, place: Path) -> DownloadedFile:
    """Return a file for the report.

    :param place: its destination, where a file with other content may be if it is a document.
    :raises FileProblem: another file, which is no document, is at the destination.
    """
    exists = place.exists()
    is_new = not (exists and filecmp.cmp(path, place, shallow=False))
    is_replaceable = path.name.endswith(".json") and place.is_file()
    if exists and is_new and not is_replaceable:
        raise FileProblem(
            "another file of this name exists",
            where=str(place),
            hint="nothing was written; remove it, or name another folder",
        )
    return DownloadedFile(path.name, path.stat().st_size, sha256_of_file(path), is_new)
