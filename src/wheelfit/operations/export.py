"""The export of a lock for some machines, as files for other tools."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from wheelfit.core.core_metadata import without_variant_markers
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import UsageError, reporting_os_errors
from wheelfit.locking.export.contents import Contents, TargetDescription, contents_of
from wheelfit.locking.export.cyclonedx import cyclonedx_document
from wheelfit.locking.export.requirements import requirements_text
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.operations.downloads import download, naming_sources_in_errors
from wheelfit.operations.files import new_folder, source_date_epoch, write_files
from wheelfit.operations.lock_files import LockChoiceRequest, naming_machine_in_errors, open_lock
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.text import columns, in_one_line
from wheelfit.sources.urls import relative_path
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.record import sha256_of_file
from wheelfit.wheels.rewrite import RewriteOptions, rewrite
from wheelfit.wheels.rooted_folder import RootedFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.locking.selection import LockCandidates, LockSelection
    from wheelfit.operations.context import Context
    from wheelfit.operations.lock_files import OpenedLock
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.resolution import Pin

_NAMES = {
    "requirements": "requirements.{}.txt",
    "cyclonedx": "bom.{}.cdx.json",
    "licenses": "licenses.{}.txt",
}


class ExportRequest(LockChoiceRequest):
    """The lock, the machines, and the files to write."""

    hosts: tuple[str, ...] = ()
    format: Literal["requirements", "cyclonedx", "licenses"] = "requirements"
    output: str | None = None
    wheels: str | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """The export for one machine."""

    contents: Contents
    machine: ChosenMachine
    text: str
    """The content of the file."""
    document: object
    """The content for ``--json``: text, or plain data; None where the packages suffice."""
    path: str | None
    """The file; None: the request names none."""

    def to_json(self) -> dict[str, Any]:
        """Return its part of the object of ``--json``."""
        target = self.contents.target
        return {
            **self.machine.to_mapping(),
            **plain_fields(target, "python platform", target=target.name, file=self.path),
            **plain_fields(self.contents, "packages notes"),
            "document": self.document if self.path is None else None,
        }


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The exports of a lock, one for each machine."""

    lock: str
    """The path of the lock, as the user named it."""
    format: str
    exports: tuple[Export, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "lock format", targets=self.exports)


def export(request: ExportRequest, context: Context) -> ExportReport:
    """Choose from a lock for each machine, and write its export to the files of the request.

    Without an output path, the exports are in the report only.

    :param request: the lock, the machines and the format.
    :param context: the environment variables, of which ``SOURCE_DATE_EPOCH`` is respected.
    :raises UsageError: options contradict each other, or two machines have one name.
    :raises NoFit: no wheel of a package fits a machine.
    :raises FileProblem: a file cannot be read or written.
    """
    with _Exporter(request, context).exports() as exports:
        files = {entry.path: entry.text.encode() for entry in exports if entry.path is not None}
        write_files(files)
    return ExportReport(request.lock, request.format, exports)


def several_machines_error(place: str | None) -> UsageError:
    """Return the error that the exports of several machines have one destination.

    :param place: the destination; None: standard output.
    """
    return UsageError(
        "several machines cannot be exported into one file",
        where=place,
        hint="name a folder: -o DIR/",
    )


class _Exporter:
    """A writer of the exports of a request."""

    def __init__(self, request: ExportRequest, context: Context) -> None:
        self._request = request
        self._context = context
        self._epoch = source_date_epoch(context.environ)
        self._hosts: Sequence[str | None] = request.hosts or [None]
        place = request.output
        self._folder = place if place is not None and _is_folder(place) else None
        if request.wheels is not None and request.format != "requirements":
            raise UsageError("--wheels belongs to --format requirements")
        if len(self._hosts) > 1 and self._folder is None and place is not None:
            raise several_machines_error(place)

    @contextmanager
    def exports(self) -> Iterator[tuple[Export, ...]]:
        """Yield an export for each machine; copies of wheels are moved into place at the end.

        If it fails, or the block does, no copy and no new folder is left.
        """
        opened_lock = open_lock(self._request, self._context)
        with reporting_os_errors("the lock file cannot be read", where=str(opened_lock.path)):
            digest = hashlib.sha256(opened_lock.path.read_bytes()).hexdigest()
        exports: dict[str, Export] = {}
        with ExitStack() as stack:
            stage = self._stage(stack)
            with opened_lock.repository:
                for host in self._hosts:
                    machine = opened_lock.machine(host)
                    name = machine.name if machine.host is None else machine.host.public_name
                    slug = _slug(name)
                    if slug.casefold() in exports:  # one file for both on some systems
                        raise UsageError(
                            f"two machines are called {name}",
                            where=machine.name,
                            hint="name each machine once; host files are identified by file name",
                        )
                    exports[slug.casefold()] = self._export(
                        opened_lock, machine, name, digest, stage
                    )
            if self._folder is not None:
                stack.enter_context(new_folder(self._folder))
            yield tuple(exports.values())
            if stage is not None and self._request.wheels is not None:
                _put_in_place(stage, self._request.wheels)

    def _export(
        self,
        opened_lock: OpenedLock,
        machine: ChosenMachine,
        name: str,
        digest: str,
        stage: Path | None,
    ) -> Export:
        copies: Mapping[NormalizedName, str] | None = None
        # Plain wheels of variants of one release have the same name.
        subfolder = _slug(name) if len(self._hosts) > 1 else ""
        with naming_machine_in_errors(name):
            folder = opened_lock.path.absolute().parent
            candidates = opened_lock.candidates(machine, built=stand_in_of(folder))
            selection = candidates.select()
        if stage is not None:
            selection, copies = self._copy_variants(
                candidates, selection, stage / subfolder, opened_lock.repository.cancel
            )
        description = "" if machine.host is None else machine.host.description
        contents = contents_of(
            selection,
            candidates.candidates,
            TargetDescription.of(machine.target, name, description, machine.all_overrides),
            lock=opened_lock.path.name,
            digest=digest,
            with_licenses=self._request.format != "requirements",
        )
        for note in contents.notes:
            self._context.reporter.warn(in_one_line(note))
        path = self._path(name)
        document: object
        match self._request.format:
            case "cyclonedx":
                document = cyclonedx_document(contents, epoch=self._epoch)
                text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
            case "licenses":
                text, document = _licenses_text(contents), None
            case _:
                if copies is None:
                    self._warn_of_variants(contents)
                start = Path() if path is None else Path(path).parent
                folder_of_copies = None
                if copies and self._request.wheels is not None:
                    copied = Path(self._request.wheels, subfolder)
                    # pip and uv look for it from the folder of the file.
                    folder_of_copies = relative_path(copied, start)
                document = text = requirements_text(contents, copies, folder_of_copies, start)
        return Export(contents, machine, text, document, path)

    def _path(self, name: str) -> str | None:
        if self._folder is None:
            return self._request.output
        return str(Path(self._folder, _NAMES[self._request.format].format(_slug(name))))

    def _warn_of_variants(self, contents: Contents) -> None:
        labelled = [
            str(package.pin) for package in contents.packages if package.pin.label is not None
        ]
        if labelled:
            self._context.reporter.warn(
                f"pip and uv refuse variant wheels by their names: {', '.join(labelled)}; "
                "--wheels DIR writes copies that they install"
            )

    # --- copies of variant wheels ---------------------------------------------------------

    def _stage(self, stack: ExitStack) -> Path | None:
        """Return a folder for copies until the export is complete."""
        if self._request.wheels is None:
            return None
        folder = stack.enter_context(new_folder(self._request.wheels))
        # On the same disk, so that a rename moves them into place.
        with reporting_os_errors("the folder cannot be written", where=str(folder)):
            stage = TemporaryDirectory(dir=folder, prefix=".wheelfit-")
        return Path(stack.enter_context(stage))

    def _copy_variants(
        self,
        candidates: LockCandidates,
        selection: LockSelection,
        folder: Path,
        cancel: Callable[[], None],
    ) -> tuple[LockSelection, Mapping[NormalizedName, str]]:
        """Fetch the variant wheels and write them under the names of plain ones."""
        folder.mkdir(exist_ok=True)
        with (
            TemporaryDirectory(prefix="wheelfit-") as scratch,
            self._context.reporter.transfers(cancel) as transfers,
        ):
            while True:
                pins = [pin for pin in selection.resolution().pins if pin.label is not None]
                paths, rejected = download(pins, candidates.candidates, Path(scratch), transfers)
                if not rejected:
                    break
                for pin, reason in rejected:  # F-93: the next wheel takes its place
                    candidates.candidates.reject(pin.filename, reason)
                selection = candidates.select()
            with naming_sources_in_errors(pins, paths):
                copies = {pin.name: _copy(pin, paths[pin.name], folder) for pin in pins}
        return selection, copies


def _put_in_place(stage: Path, wheels: str) -> None:
    names = [path.relative_to(stage).as_posix() for path in sorted(stage.rglob("*.whl"))]
    with RootedFolder(wheels) as folder:
        for name in names:
            with reporting_os_errors("the file cannot be written", where=folder.path_of(name)):
                parent = name.rpartition("/")[0]
                if parent:
                    folder.make_folders(parent)  # a link is not followed
                folder.replace(f"{stage.name}/{name}", name)


def _copy(pin: Pin, source: Path, folder: Path) -> str:
    """Write a variant wheel as a plain one, and return its SHA-256.

    Variant markers in METADATA are replaced by their values, since no other tool reads them.
    """
    plain = parse_wheel_filename(_plain_name(pin.filename))
    with WheelArchive(source, plain) as archive:
        metadata = archive.metadata()
        member = f"{archive.dist_info}/METADATA"
    resolved = without_variant_markers(metadata, pin.context, where=pin.filename.text)
    replaced = {} if resolved == metadata else {member: resolved}
    destination = folder / plain.text
    with TemporaryDirectory(dir=source.parent) as scratch:
        renamed = source.rename(Path(scratch, plain.text))
        rewrite(
            renamed, destination, replace_members=replaced, options=RewriteOptions(overwrite=True)
        )
    return sha256_of_file(destination)


def _plain_name(filename: WheelFilename) -> str:
    """Return a name without label that pip prefers to that of the plain wheel of an index.

    Of a wheel in a folder and one of an index, pip takes the higher build number, whatever the
    hash. The build tag contains the label, for people.
    """
    parts = filename.plain.split("-")
    number, rest = filename.build or (0, "")
    return "-".join((*parts[:2], f"{number}{rest}_{filename.label}", *parts[-3:]))


# --- text ---------------------------------------------------------------------------------


def _licenses_text(contents: Contents) -> str:
    target = contents.target
    rows = []
    for package in contents.packages:
        pin, license_ = package.pin, package.license
        text = "not read" if license_ is None else license_.text
        files = "" if license_ is None else _files(license_.files)
        version = "" if package.version is None else str(package.version)
        cells = (str(pin.name), version, pin.label or "", text, files)
        rows.append(tuple(map(in_one_line, cells)))
    description = ", ".join(filter(None, (target.description, target.python, target.platform)))
    head = [
        f"Licences of {in_one_line(contents.lock)} for {in_one_line(target.name)}",
        f"Machine: {in_one_line(description)}",
        "",
    ]
    table = columns(("Package", "Version", "Label", "License", "Files"), rows)
    return "\n".join((*head, *table, ""))


def _files(paths: Sequence[str]) -> str:
    """Return the first few paths; ``--json`` has all of them, which may be dozens."""
    omitted = len(paths) - _MOST_FILES
    if omitted <= 0:
        return ", ".join(paths)
    return f"{', '.join(paths[:_MOST_FILES])} and {omitted} more"


_MOST_FILES = 3


def _slug(name: str) -> str:
    """Return the part of a file name that identifies a machine."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name.removesuffix(".toml")).strip("-.") or "machine"


def _is_folder(place: str) -> bool:
    return place.endswith(("/", os.sep)) or Path(place).is_dir()
