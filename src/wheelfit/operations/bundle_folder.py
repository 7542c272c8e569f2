"""The folder of a bundle, written under a temporary name and renamed when it is complete."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote as shell_quote
from typing import TYPE_CHECKING
from urllib.parse import quote

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import reporting_os_errors
from wheelfit.locking.bundles.manifest import (
    LOCK,
    MANIFEST,
    README,
    BundledFile,
    BundledHost,
    Manifest,
    write_manifest,
)
from wheelfit.locking.bundles.reduction import index_files
from wheelfit.locking.bundles.verification import verify
from wheelfit.locking.document import write_lock
from wheelfit.operations.bundle_contents import words_in_effect
from wheelfit.operations.downloads import several_at_once
from wheelfit.operations.hosts import host_text
from wheelfit.server.pages import write_static_index
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import header_value
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import FileProblem, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.operations.bundle_contents import BundlePlan, WheelToBundle
    from wheelfit.operations.context import Transfers
    from wheelfit.operations.lock_files import OpenedLock
    from wheelfit.sources.repository import FileSize


def folder_for(name: str) -> Path:
    """Return the folder that a bundle is to be written to, which must be new or empty.

    :raises FileProblem: the folder has content, or its parent does not exist.
    """
    with reporting_os_errors("the folder cannot be read", where=name):
        folder = Path(os.path.realpath(name))
        if not folder.parent.is_dir():
            raise FileProblem(
                "the folder to write the bundle into does not exist",
                where=str(Path(name).parent),
                hint="create it, or name another folder with -o",
            )
        if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
            raise FileProblem(
                "the folder for the bundle exists and is not empty",
                where=name,
                hint="name another folder, or move this one away",
            )
    return folder


def sizes_of(plan: BundlePlan, transfers: Transfers) -> dict[str, FileSize]:
    """Return the size of each wheel, and whether it must be downloaded.

    Nothing is downloaded.
    """
    wheels = plan.wheels

    def size(wheel: WheelToBundle) -> FileSize:
        return wheel.files.size(wheel.file)

    sizes = several_at_once(list(wheels.values()), size, transfers)
    return dict(zip(wheels, sizes, strict=True))


def make(
    plan: BundlePlan,
    opened_lock: OpenedLock,
    folder: Path,
    transfers: Transfers,
) -> Manifest:
    """Write a bundle; if that fails, its folder is unchanged.

    :param folder: the new or empty folder.

    :raises FileProblem: it cannot be written.
    """
    with reporting_os_errors(
        "the bundle cannot be written", where=str(folder), hint="nothing was changed"
    ):
        stage = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            manifest = _BundleWriter(plan, opened_lock, stage, transfers).run()
            _set_usual_permissions(stage)
            opened_lock.context.reporter.note("reading the bundle back")
            verify(stage, manifest, opened_lock.environment.target, plan.policy)
            if folder.is_dir():
                folder.rmdir()  # it is empty
            stage.rename(folder)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    return manifest


@dataclass(slots=True)
class _BundleWriter:
    """A writer of the files of a bundle, in a temporary folder."""

    plan: BundlePlan
    opened_lock: OpenedLock
    stage: Path
    transfers: Transfers
    _metadata: dict[str, bytes] = field(default_factory=dict, init=False)
    _files: dict[str, BundledFile] = field(default_factory=dict, init=False)

    def run(self) -> Manifest:
        for name in ("hosts", "simple", "wheels"):
            (self.stage / name).mkdir()
        self._fetch()
        wheels = self._hash_wheels()
        for host in self.plan.hosts:
            text = host_text(host.to_host_file(self.opened_lock.context.environ))
            self._write(f"hosts/{host.name}.toml", text.encode())
        for filename in wheels:
            self._write(f"wheels/{filename}.metadata", self._metadata[filename])
        self._write_index(wheels)
        self._write(LOCK, write_lock(self.plan.lock(wheels)))
        self._write(README, self._readme().encode())
        hosts = tuple(
            BundledHost(host.name, tuple(sorted(host.wheels))) for host in self.plan.hosts
        )
        manifest = Manifest(
            dict(sorted(self._files.items())),
            hosts,
            hashlib.sha256(self.opened_lock.path.read_bytes()).hexdigest(),
            self.plan.extras,
            self.plan.groups,
            words_in_effect(self.opened_lock.request),
        )
        (self.stage / MANIFEST).write_bytes(write_manifest(manifest))
        return manifest

    def _fetch(self) -> None:
        """Fetch wheels until each agrees with the data it was chosen by (F-93)."""
        folder = self.stage / "wheels"
        while True:
            wheels = self.plan.wheels
            missing = [wheel for name, wheel in wheels.items() if name not in self._metadata]
            reasons = several_at_once(missing, self._fetch_one, self.transfers)
            for wheel, reason in zip(missing, reasons, strict=True):
                if reason is not None:
                    filename = wheel.filename.text
                    self.opened_lock.context.reporter.warn(f"{filename} is not used: {reason}")
                    self.plan.exclude(filename, reason)
            if not any(reasons):
                break
        for path in folder.iterdir():
            if path.name not in wheels:  # it was replaced by another wheel
                path.unlink()

    def _fetch_one(self, source: WheelToBundle) -> str | None:
        """Download a wheel into the bundle; return the reason if it must not be used, else None."""
        name = source.filename.text
        transfer = self.transfers.transfer(name)
        path = source.files.download(source.file, self.stage / "wheels", transfer)
        # Opened like a plain wheel: a missing document makes this wheel invalid (F-27).
        try:
            with WheelArchive(path, parse_wheel_filename(source.filename.plain)) as wheel:
                metadata = wheel.metadata()
                document = wheel.variant_document() if source.filename.is_variant else None
        except InvalidWheel as error:
            error.where = redact(source.file.url)  # not the temporary copy, which is gone
            raise
        reason = source.metadata_disagreement(document) if source.filename.is_variant else None
        if reason is None:
            _replace_hard_link(path)
            self._metadata[name] = metadata
        return reason

    def _hash_wheels(self) -> dict[str, BundledFile]:
        """Return hash and size of each wheel, and add them to those of the bundle's files."""
        wheels = {
            path.name: BundledFile(sha256_of_file(path), path.stat().st_size)
            for path in sorted((self.stage / "wheels").iterdir())
        }
        self._files |= {f"wheels/{name}": file for name, file in wheels.items()}
        return wheels

    def _write_index(self, wheels: Mapping[str, BundledFile]) -> None:
        entries: dict[NormalizedName, list[File]] = {}
        for filename, file in wheels.items():
            metadata = self._metadata[filename]
            entry = File(
                filename,
                f"../../wheels/{quote(filename, safe='')}",
                {"sha256": file.sha256},
                requires_python=header_value(metadata, "Requires-Python"),
                size=file.size,
                metadata_hashes={"sha256": hashlib.sha256(metadata).hexdigest()},
            )
            entries.setdefault(parse_wheel_filename(filename).name, []).append(entry)
        for name, documents in index_files(self.plan.entries().values()).items():
            for filename, data in documents.items():
                digest = hashlib.sha256(data).hexdigest()
                url = quote(filename, safe="")
                entries[name].append(File(filename, url, {"sha256": digest}, size=len(data)))
                self._write(f"simple/{name}/{filename}", data)
        pages = [
            ProjectPage(name, tuple(sorted(files, key=lambda file: file.filename)), "")
            for name, files in entries.items()
        ]
        for path, data in write_static_index(pages).items():
            self._write(f"simple/{path}", data)

    def _write(self, path: str, data: bytes) -> None:
        target = self.stage / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
        self._files[path] = BundledFile(hashlib.sha256(data).hexdigest(), len(data))

    def _readme(self) -> str:
        arguments = words_in_effect(self.opened_lock.request)
        parts = [argument for extra in self.plan.extras for argument in ("--extra", extra)]
        options = "".join(f" {_shell_word(argument)}" for argument in (*parts, *arguments))
        names = [host.name for host in self.plan.hosts]
        return _README.format(hosts=", ".join(names), options=options, host=names[0])


_README = """\
This folder installs packages without a network. It is for: {hosts} (the host files
are in hosts/).

To install on such a machine, in this folder:

    wheelfit sync pylock.toml{options}

To prepare a folder on another machine, and take it to such a machine:

    wheelfit sync pylock.toml{options} --for {host} --target FOLDER

As an index; any static web server can serve simple/ and wheels/:

    wheelfit install --index-url simple NAME
    uv pip install --default-index file:///PATH/simple/ NAME
    pip install --index-url file:///PATH/simple/ NAME

uv and pip see wheels without a label only.

To check that the folder is complete and unchanged:

    wheelfit bundle --verify .
"""


def _shell_word(text: str) -> str:
    return shell_quote("".join(character if character.isprintable() else "?" for character in text))


def _replace_hard_link(path: Path) -> None:
    """Replace a hard link to a file of a cache by a copy, so that the cache is independent."""
    if path.stat().st_nlink == 1:
        return
    copy = path.with_name(f".{path.name}.part")
    shutil.copyfile(path, copy)
    copy.replace(path)


def _set_usual_permissions(stage: Path) -> None:
    """Set the permissions of files and folders to those of new files."""
    # The mask can only be read by setting it.
    os.umask(mask := os.umask(0))
    stage.chmod(0o777 & ~mask)
    for path in stage.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
