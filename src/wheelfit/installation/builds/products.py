"""The state of one project while it is built for an installation."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import BuildFailed, InvalidFilename
from wheelfit.projects.static_metadata import core_metadata_of
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.installation.builds.cache import BuiltWheel
    from wheelfit.installation.builds.environments import ManagedBuildEnvironment
    from wheelfit.installation.builds.projects import OpenProject
    from wheelfit.projects.backend import Backend
    from wheelfit.sources.page import File


@dataclass(slots=True)
class Product:
    """The state of one project: its files, its metadata, its wheel, as far as they exist."""

    file: File
    """The file as it is listed at present."""
    open: Callable[[], OpenProject]
    """Fetches its files; called once, by `opened`."""
    is_named: bool = False
    """Whether the user named it; otherwise an index lists it."""
    project: OpenProject | None = None
    environment: ManagedBuildEnvironment | None = None
    backend: Backend | None = None
    metadata: bytes | None = None
    wheel: BuiltWheel | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def opened(self) -> OpenProject:
        """Return the project with its files on disk; they are fetched once."""
        with self.lock:
            if self.project is None:
                self.project = self.open()
            return self.project


def checked_metadata(wheel: BuiltWheel, project: OpenProject) -> bytes:
    """Check a built wheel, and return its METADATA.

    :raises BuildFailed: the wheel is damaged, or of another release than its project.
    """
    expected = project.expected_release
    if project.metadata is not None:
        declared = core_metadata_of(project.metadata, project.name)
        expected = declared.name, declared.version
    try:
        filename = parse_wheel_filename(wheel.filename)
        if expected is not None and expected != (filename.name, filename.version):
            raise BuildFailed(
                f"the backend of {project.name} built a wheel of {filename.name} "
                f"{filename.version}",
                where=wheel.filename,
                note="expected: {} {}".format(*expected),
            )
        with WheelArchive(wheel.path, filename, where=wheel.filename) as archive:
            archive.verify()
            return archive.metadata()
    except (InvalidFilename, InvalidWheel) as error:
        raise BuildFailed(
            f"the backend of {project.name} built an invalid wheel: {error.message}",
            where=wheel.filename,
            note=error.note,
            hint="report it to the maintainers of its build backend",
        ) from None


def bare_metadata(file: File) -> bytes:
    """Return metadata without dependencies, for projects whose dependencies only a build shows."""
    filename = parse_wheel_filename(file.filename)
    lines = ["Metadata-Version: 2.2", f"Name: {filename.name}", f"Version: {filename.version}"]
    return "".join(f"{line}\n" for line in lines).encode()
