"""Read the distributions installed in folders; nothing is imported from there (PEP 376)."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct, field
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.versions import parse_version
from wheelfit.errors import reporting_os_errors
from wheelfit.installation.choice_record import CHOICE_FILE, parse_choice
from wheelfit.installation.environment_folders import WORKPLACE
from wheelfit.resolution.request import InstalledBuild
from wheelfit_runtime.errors import FileProblem, UserError, os_reason
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from re import Pattern

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label

_HEAD_SIZE = 16 * 1024
_HEADER = pattern(rb"^(Name|Version)[ \t]*:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_END_OF_HEADERS = pattern(rb"\n\r?\n")
_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_LEGACY = (".egg-info", ".egg-link")
_MAX_INSTALLER_LENGTH = 200
"""Characters of the name of an installer that are shown."""
_MAX_SIZE = 16 * 1024 * 1024


class _WithName(Protocol):
    @property
    def name(self) -> NormalizedName: ...


_Named = TypeVar("_Named", bound=_WithName)


class Installed(Struct, frozen=True):
    """An installed distribution."""

    name: NormalizedName
    version: Version
    location: Path
    """The folder in which it lies, mostly ``site-packages``."""
    path: Path
    """Its ``.dist-info`` folder; for a legacy one the ``.egg-info`` or ``.egg-link``."""
    label: Label | None = None
    """The label that was chosen; None for a plain wheel (F-96)."""
    properties: PropertySet = EMPTY
    """The properties of that label."""
    document: VariantDocument | None = None
    """Its ``variant.json``; None if there is none or it cannot be understood."""
    hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Hashes of the wheel it came from, as far as recorded."""
    excluding_options: tuple[str, ...] = ()
    """The options that excluded variants when a plain wheel was chosen, as ``--no-variants``."""
    requested: bool = False
    """Whether the user requested it, and not only another distribution (PEP 376)."""
    direct_url: Mapping[str, Any] | None = field(default=None)
    """Content of ``direct_url.json`` (PEP 610); None if it came from an index."""
    editable: bool = False
    """Whether it only points to a source tree."""
    installer: str = ""
    """The tool that installed it, in its own words; empty if unknown."""
    legacy: bool = False
    """Whether it has no ``.dist-info`` folder; it can be listed but not changed then."""
    outside: bool = False
    """Whether it lies in a folder that the environment only reads, as that of its base Python."""
    notes: tuple[str, ...] = ()
    """The invalid parts of its records, one sentence each."""

    def __hash__(self) -> int:
        return hash((self.path, self.version))

    def metadata(self) -> CoreMetadata:
        """Read its core metadata.

        :raises FileProblem: the file cannot be read.
        """
        path, data = self._metadata_text()
        return read_metadata(data, path)

    def may_need(self, pattern: Pattern[bytes]) -> bool:
        """Return whether its core metadata may require a project.

        :param pattern: `requirement_pattern` of the projects.
        """
        return pattern.search(self._metadata_text()[1]) is not None

    def _metadata_text(self) -> tuple[str, bytes]:
        path = _metadata_file(self.path)
        if path is None:
            raise FileProblem("the metadata of the distribution is missing", where=str(self.path))
        with (
            reporting_os_errors("the metadata of the distribution cannot be read", where=path),
            open(path, "rb") as stream,  # noqa: PTH123
        ):
            return path, stream.read(_MAX_SIZE)

    def record(self, name: str) -> bytes | None:
        """Return the content of a file in its ``.dist-info``; None if it cannot be read."""
        return _read_small(str(self.path / name))

    def for_resolver(self) -> InstalledBuild:
        """Return its facts for the resolver."""
        return InstalledBuild(
            name=self.name,
            version=self.version,
            read=self.metadata,
            label=self.label,
            properties=self.properties,
            document=self.document,
        )

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f" ({self.label})" if self.label else "")


def requirement_pattern(names: Iterable[NormalizedName]) -> Pattern[bytes]:
    """Return a pattern that matches in all metadata that requires one of some projects."""
    spellings = "|".join(name.replace("-", "[-_.]+") for name in names)
    return re.compile(
        rf"(?:^|\r)requires-dist:\s*(?:{spellings})(?![A-Z0-9])".encode(),
        re.IGNORECASE | re.MULTILINE,
    )


class Broken(Struct, frozen=True):
    """A path that looks like a distribution but cannot be read as one."""

    path: Path
    reason: str
    """The fault, a sentence without a final full stop."""


class Scan(Struct, frozen=True):
    """The distributions in some folders."""

    installed: tuple[Installed, ...] = ()
    """The distributions, sorted by name; of several with one name, the imported one comes first."""
    broken: tuple[Broken, ...] = ()
    """The broken distributions."""


def scan(folders: Iterable[Path], own: Iterable[Path] | None = None) -> Scan:
    """Return the distributions in folders; a missing folder counts as empty.

    :param folders: in the order in which Python searches them.
    :param own: the folders that may be changed; distributions in others are marked ``outside``.
        None: all.
    """
    folders = tuple(folders)
    own_paths = {os.path.realpath(folder) for folder in (folders if own is None else own)}
    installed: list[Installed] = []
    broken: list[Broken] = []
    scanned: set[str] = set()
    for folder in folders:
        real_path = os.path.realpath(folder)
        if real_path in scanned:  # lib64 may be a link to lib
            continue
        scanned.add(real_path)
        try:
            candidates = _candidates(folder)
        except PermissionError:
            broken.append(Broken(folder, "this user may not read the folder"))
            continue
        for path in candidates:
            entry = _read(folder, path, outside=real_path not in own_paths)
            (broken if isinstance(entry, Broken) else installed).append(entry)  # type: ignore[arg-type]
    # The sort is stable: within a name the order of the folders stays.
    return Scan(tuple(sorted(installed, key=lambda entry: entry.name)), tuple(broken))


def by_name(installed: Iterable[_Named]) -> dict[NormalizedName, _Named]:
    """Return the first distribution of each name, which is the one that Python imports."""
    first: dict[NormalizedName, _Named] = {}
    for entry in installed:
        first.setdefault(entry.name, entry)
    return first


def ambiguous_names(installed: Iterable[Installed]) -> frozenset[NormalizedName]:
    """Return the names of which several distributions could be removed.

    Another tool has left all but one of them, and the files may be those of any.
    """
    seen: set[NormalizedName] = set()
    ambiguous: set[NormalizedName] = set()
    for entry in installed:
        if not (entry.outside or entry.legacy):
            (ambiguous if entry.name in seen else seen).add(entry.name)
    return frozenset(ambiguous)


def _candidates(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  # names suffice
    except PermissionError:
        raise
    except OSError:
        return []
    return [
        folder / name
        for name in names
        if name.endswith((".dist-info", *_LEGACY)) or name == WORKPLACE
    ]


def _read(location: Path, path: Path, *, outside: bool) -> Installed | Broken:
    if path.name == WORKPLACE:
        return Broken(
            path, "a change is in progress, or was interrupted; `wheelfit recover` repairs it"
        )
    legacy = path.suffix in _LEGACY
    if path.name.startswith("~"):
        return Broken(path, "it was left behind by an interrupted installation")
    metadata = _metadata_file(path)
    if metadata is None:
        return Broken(path, "its metadata file is missing, or may not be read")
    try:
        headers = _headers(metadata)
    except OSError as error:
        return Broken(path, f"its metadata cannot be read: {os_reason(error)}")
    name, version = headers.get("name", ""), headers.get("version", "")
    if not _NAME.fullmatch(name):
        return Broken(path, f"its metadata has the invalid name {name!r}")
    try:
        parsed = parse_version(version)
    except InvalidVersion:
        return Broken(path, f"its metadata has the invalid version {version!r}")
    notes: list[str] = []
    fields = (
        {"editable": path.suffix == ".egg-link"} if legacy else _recorded(_RecordFiles(path), notes)
    )
    return Installed(
        canonicalize_name(name), parsed, location, path,
        legacy=legacy, outside=outside, notes=tuple(notes), **fields,
    )  # fmt: skip


def _metadata_file(path: Path) -> str | None:
    text = str(path)
    if text.endswith(".egg-link"):
        info = _linked(path)
        return None if info is None else _metadata_file(info)
    if text.endswith(".egg-info") and os.path.isfile(text):  # noqa: PTH113 - raises no error
        return text
    file = text + os.sep + ("METADATA" if text.endswith(".dist-info") else "PKG-INFO")
    return file if os.path.isfile(file) else None  # noqa: PTH113


def _linked(path: Path) -> Path | None:
    """Return the ``.egg-info`` of a source tree that an ``.egg-link`` points to."""
    folder = Path(_first_line(_read_small(str(path))))
    egg_infos = sorted(folder.glob("*.egg-info")) if folder.is_absolute() else []
    return egg_infos[0] if len(egg_infos) == 1 else None


def _headers(path: str) -> dict[str, str]:
    """Return name and version; descriptions are long, so only the head is read at first."""
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - there are many
        head = stream.read(_HEAD_SIZE)
        end = _END_OF_HEADERS.search(head)
        if end is None and len(head) == _HEAD_SIZE:
            head += stream.read(_MAX_SIZE)
            end = _END_OF_HEADERS.search(head)
    headers: dict[str, str] = {}
    for key, value in _HEADER.findall(head, 0, len(head) if end is None else end.start() + 1):
        headers.setdefault(key.decode("ascii").lower(), value.decode("utf-8", "replace"))
    return headers


_EXCLUDING_OPTIONS = ("--no-variants", "--variant ", "--forbid ")


class _RecordFiles:
    """The files in a ``.dist-info``; most of the possible ones do not exist."""

    def __init__(self, folder: Path) -> None:
        self._start = f"{folder}{os.sep}"
        try:
            self.names = frozenset(os.listdir(folder))  # noqa: PTH208 - names suffice
        except OSError:
            self.names = frozenset()

    def path_of(self, name: str) -> str:
        return self._start + name

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none or it cannot be read."""
        return _read_small(self._start + name) if name in self.names else None


def _recorded(files: _RecordFiles, notes: list[str]) -> dict[str, Any]:
    """Return the fields of `Installed` from the records of installers."""
    direct_url = _direct_url(files, notes)
    return {
        "direct_url": direct_url,
        "editable": _is_editable(direct_url),
        "requested": "REQUESTED" in files.names,
        "installer": _first_line(files.read("INSTALLER"))[:_MAX_INSTALLER_LENGTH],
        **_chosen(files, notes),
    }


def _chosen(files: _RecordFiles, notes: list[str]) -> dict[str, Any]:
    """Return the fields of `Installed` about the choice (F-96).

    The record of wheelfit has priority. If there is none, another tool installed the distribution,
    and ``variant.json`` decides: inside a wheel it has exactly one label, in every layout.
    """
    own = files.read(CHOICE_FILE)
    choice = None if own is None else parse_choice(own)
    if own is not None and choice is None:
        notes.append(f"{CHOICE_FILE} cannot be understood")
    if choice is not None and choice.label is None:
        overrides = choice.host_and_overrides.overrides
        options = tuple(option for option in overrides if option.startswith(_EXCLUDING_OPTIONS))
        # F-10: in a plain wheel, a variant.json has no meaning
        return {"hashes": choice.hashes, "excluding_options": options}
    document = _document(files, notes)
    variants = {} if document is None else document.variants
    if choice is not None and choice.label is not None:
        return {
            "label": choice.label,
            "properties": variants.get(choice.label, EMPTY),
            "document": document,
            "hashes": choice.hashes,
        }
    if len(variants) == 1:
        ((label, properties),) = variants.items()
        return {"label": label, "properties": properties, "document": document}
    return {}


def _document(files: _RecordFiles, notes: list[str]) -> VariantDocument | None:
    data = files.read("variant.json")
    if data is None:
        return None
    from wheelfit.core.metadata import read_document

    try:
        return read_document(data, where=files.path_of("variant.json"))
    except UserError as error:
        notes.append(f"variant.json cannot be understood: {error.message}")
        return None


def _direct_url(files: _RecordFiles, notes: list[str]) -> Mapping[str, Any] | None:
    data = files.read("direct_url.json")
    if data is None:
        return None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("url"), str):
        return MappingProxyType(content)
    notes.append("direct_url.json cannot be understood")
    return None


def _is_editable(direct_url: Mapping[str, Any] | None) -> bool:
    folder = None if direct_url is None else direct_url.get("dir_info")
    return isinstance(folder, dict) and folder.get("editable") is True


def _first_line(data: bytes | None) -> str:
    lines = [] if data is None else data.decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if lines else ""


def _read_small(path: str) -> bytes | None:
    """Return the content of a file; None if there is none or it cannot be read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - there are many
        if not stat.S_ISREG(status.st_mode):
            return None  # a pipe would block, and a device never end
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
            return stream.read(min(status.st_size, _MAX_SIZE))
    except OSError:
        return None
