"""The project to build: its folder or an archive of it, and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidName, NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core import strict_toml
from wheelfit.core.project_table import ProjectTable, read_exports_table, read_project_table
from wheelfit.core.versions import parse_version
from wheelfit.projects.archives import unpack_archive
from wheelfit.projects.names import is_archive
from wheelfit.projects.static_metadata import is_project
from wheelfit_runtime.errors import FileProblem, os_reason

if TYPE_CHECKING:
    from wheelfit.core.abi_exports import AbiExports
    from wheelfit.core.project_table import TableProvider

_FILE = "pyproject.toml"
_DEFAULT_BACKEND = "setuptools.build_meta"
_MAX_SIZE = 4 << 20
HOOK = "wheelfit.backend"
"""The backend of wheelfit, for projects that name another one in ``[tool.wheelfit.build]``."""
_TABLE = ("tool", "wheelfit", "build")


@dataclass(frozen=True, slots=True)
class Source:
    """A project whose files are on disk."""

    folder: Path
    name: str
    """Its name for messages: the declared one, or else the path of its folder or archive."""
    where: str
    """Its ``pyproject.toml``, for errors."""
    pyproject: Mapping[str, Any] = field(hash=False, repr=False)
    """Its ``pyproject.toml``; empty where there is none."""
    table: ProjectTable | None
    """Its ``[variant]`` table: the defaults of its wheels (B-1); None: it has no table."""
    exports: AbiExports | None = None
    """The exports that it declares (B-61)."""

    @property
    def backend(self) -> str:
        """The module of its build backend (PEP 517)."""
        backend = self.value("build-system", "build-backend")
        if backend == HOOK:
            backend = self.value(*_TABLE, "backend")
        return backend.partition(":")[0] if isinstance(backend, str) else _DEFAULT_BACKEND

    @property
    def release(self) -> tuple[NormalizedName | None, Version | None]:
        """Name and version, as far as they are static."""
        name, version = self.value("project", "name"), self.value("project", "version")
        try:
            return (
                canonicalize_name(name, validate=True) if isinstance(name, str) else None,
                parse_version(version) if isinstance(version, str) else None,
            )
        except (InvalidName, InvalidVersion):
            return None, None  # the backend reports the fault in more detail

    @property
    def backend_path(self) -> tuple[str, ...]:
        """Folders of the project that are searched first for the backend."""
        is_hook = self.value("build-system", "build-backend") == HOOK
        value = self.value(*(_TABLE if is_hook else ("build-system",)), "backend-path")
        texts = value if isinstance(value, list) else []
        return tuple(str(self.folder / text) for text in texts if isinstance(text, str))

    def value(self, *keys: str) -> object:
        """Return a value of its ``pyproject.toml``; None where there is none."""
        node: object = self.pyproject
        for key in keys:
            node = node.get(key) if isinstance(node, Mapping) else None
        return node


def open_source(project: Path, scratch: Path, providers: Mapping[str, TableProvider]) -> Source:
    """Open a project.

    :param providers: the provider of each namespace, where the project has no table (B-8).
    :raises FileProblem: there is no project, or its file cannot be read.
    :raises InvalidSource: the archive is invalid.
    :raises InvalidDocument: its ``[variant]`` table has faults; lists all of them.
    """
    if project.is_dir():
        folder = project.resolve()
    elif project.is_file():
        if not is_archive(project.name):
            raise FileProblem(
                "the path is neither a folder nor a source archive", where=str(project)
            )
        parent = Path(mkdtemp(prefix="project-", dir=scratch))
        folder = unpack_archive(project, parent, project.name, where=str(project))
    else:
        raise FileProblem(
            "the path does not exist",
            where=str(project),
            hint="name the folder of a project, or its source distribution",
        )
    if not is_project(folder):
        raise FileProblem(
            "no project found: pyproject.toml and setup.py are missing",
            where=str(project),
        )
    where = str(project / _FILE) if project.is_dir() else f"{project}: {_FILE}"
    pyproject = _read(folder / _FILE, where)
    table = read_project_table(pyproject, where=where)
    if table is None and providers:
        table = ProjectTable(tuple(providers), providers)
    metadata = pyproject.get("project")
    declared_name = metadata.get("name") if isinstance(metadata, Mapping) else None
    name = declared_name if isinstance(declared_name, str) and declared_name else str(project)
    exports = read_exports_table(pyproject, where=where)
    return Source(folder, name, where, pyproject, table, exports)


def _read(path: Path, where: str) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE + 1)
        return strict_toml.load(data)
    except FileNotFoundError:
        return {}
    except OSError as error:
        message = f"the project's file cannot be read: {os_reason(error)}"
        raise FileProblem(message, where=where) from None
    except ValueError as error:
        raise FileProblem(f"the project's file is not TOML: {error}", where=where) from None
