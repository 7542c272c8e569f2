"""The project to build: its folder or an archive of it, and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.core import strict_toml
from wheelfit.core.project_table import read_exports_table, read_project_table
from wheelfit.core.versions import parse_version
from wheelfit.projects.archives import unpack_archive
from wheelfit.projects.names import is_archive
from wheelfit.projects.static_metadata import is_project
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.abi_exports import AbiExports
    from wheelfit.core.project_table import ProjectTable

_NAME = "pyproject.toml"
_LEGACY = "setuptools.build_meta"
_LARGEST = 4 << 20
HOOK = "wheelfit.backend"
"""The build backend of projects that name their own one in a table of ours."""
_OWN = ("tool", "wheelfit", "build")


@dataclass(frozen=True, slots=True)
class Source:
    """A project whose files are on disk."""

    folder: Path
    name: str
    """Its name for messages: its own, or else that of its folder or archive."""
    where: str
    """Its ``pyproject.toml``, for errors."""
    pyproject: Mapping[str, Any] = field(hash=False, repr=False)
    """Its ``pyproject.toml``; empty where there is none."""
    table: ProjectTable | None
    """The common part of its wheels (B-1)."""
    exports: AbiExports | None = None
    """The exports it promises to packages that link with it (B-61)."""

    @property
    def backend(self) -> str:
        """The module of its build backend (PEP 517)."""
        backend = self.at("build-system", "build-backend")
        if backend == HOOK:
            backend = self.at(*_OWN, "backend")
        return backend.partition(":")[0] if isinstance(backend, str) else _LEGACY

    @property
    def release(self) -> tuple[NormalizedName | None, Version | None]:
        """Name and version, as far as they are static."""
        name, version = self.at("project", "name"), self.at("project", "version")
        try:
            return (
                canonicalize_name(name, validate=True) if isinstance(name, str) else None,
                parse_version(version) if isinstance(version, str) else None,
            )
        except (InvalidName, InvalidVersion):
            return None, None  # its backend reports the fault in more detail

    @property
    def backend_path(self) -> tuple[str, ...]:
        """Folders of the project that are searched first for the backend."""
        is_hook = self.at("build-system", "build-backend") == HOOK
        value = self.at(*(_OWN if is_hook else ("build-system",)), "backend-path")
        texts = value if isinstance(value, list) else []
        return tuple(str(self.folder / text) for text in texts if isinstance(text, str))

    def at(self, *keys: str) -> object:
        """Return a value of its ``pyproject.toml``; None where there is none."""
        value: object = self.pyproject
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def open_source(project: Path, scratch: Path, providers: Mapping[str, str]) -> Source:
    """Open a project.

    :param providers: the requirement of each namespace's plugin, where the project has no table
        (B-8).
    :raises FileProblem: there is no project, or its file cannot be read.
    :raises InvalidSource: the archive is not sound.
    :raises InvalidDocument: its ``[variant]`` table has faults; lists all of them.
    """
    if project.is_dir():
        folder = project.resolve()
    elif project.is_file():
        if not is_archive(project.name):
            raise FileProblem(
                "the path is neither a folder nor a source archive", where=str(project)
            )
        inside = Path(mkdtemp(prefix="project-", dir=scratch))
        folder = unpack_archive(project, inside, project.name, where=str(project))
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
    where = str(project / _NAME) if project.is_dir() else f"{project}: {_NAME}"
    pyproject = _read(folder / _NAME, where)
    if providers and "variant" not in pyproject:
        entries = {namespace: {"requires": [text]} for namespace, text in providers.items()}
        given = {"default-priorities": {"namespace": list(providers)}, "providers": entries}
        table = read_project_table({"variant": given}, where="--provider")
    else:
        table = read_project_table(pyproject, where=where)
    about = pyproject.get("project")
    called = about.get("name") if isinstance(about, Mapping) else None
    name = called if isinstance(called, str) and called else str(project)
    exports = read_exports_table(pyproject, where=where)
    return Source(folder, name, where, pyproject, table, exports)


def _read(path: Path, where: str) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        return strict_toml.load(data)
    except FileNotFoundError:
        return {}
    except OSError as error:
        words = f"the project's file cannot be read: {error.strerror or error}"
        raise FileProblem(words, where=where) from None
    except ValueError as error:
        raise FileProblem(f"the project's file is not TOML: {error}", where=where) from None
