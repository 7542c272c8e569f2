"""The model of a lock file: ``pylock.toml`` (PEP 751) with variants (F-115 to F-124).

A file is kept whole: unknown keys and tables survive a rewrite, in their order. The parts that a
selection needs are also available as checked values.
"""

from __future__ import annotations

from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core import strict_toml
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.core.markers import Marker, parse_marker
from wheelfit.core.metadata import read_document
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.strict_toml import TomlLimits
from wheelfit.core.versions import parse_version, without_build
from wheelfit.errors import InvalidFilename
from wheelfit.locking.plain_entries import effective_entries
from wheelfit.locking.validation import (
    CONFLICTS,
    ROOTS,
    VARIANT_DEPENDENCIES,
    VARIANTS,
    check_lock,
    file_name_of,
    limited,
    tool_table,
)
from wheelfit_runtime.errors import Fault, InvalidDocument, InvalidLock, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from packaging.version import Version

    from wheelfit.core.document import VariantDocument

BuiltKind: TypeAlias = Literal["vcs", "directory", "archive", "sdist"]
"""A source that a wheel can be built from."""
SourceKind: TypeAlias = Literal[BuiltKind, "wheels"]
"""The source of a package; if it has wheels and a source distribution, the wheels."""

DEFAULT_LIMITS = TomlLimits(size=16 * 1024 * 1024)
"""The limits on the size of a lock file (F-30)."""

_NAME = pattern(r"pylock(?:\.[^.]+)?\.toml")
_CONVERSIONS = {
    "uv.lock": "uv export --format pylock.toml --no-emit-project",
    "poetry.lock": "poetry export --format pylock.toml",
    "pdm.lock": "pdm export --format pylock",
}
"""The commands that convert locks of other tools, by file name."""


class LockedWheel(Struct, frozen=True):
    """A wheel that a lock lists, or an archive that is a wheel."""

    filename: WheelFilename
    hashes: Mapping[str, str]
    """Promised digests by algorithm, both in lower case; at least one."""
    url: str | None = None
    """Its URL; None: it has only a ``path``."""
    path: str | None = None
    """Where it is on this machine, relative to the lock file; wins over ``url``."""
    size: int | None = None
    """Bytes, if the lock states it."""
    upload_time: datetime | None = None
    """The time of its upload to an index, if the lock states it."""


class LockedSource(Struct, frozen=True):
    """The source that a wheel of a package can be built from."""

    kind: BuiltKind
    url: str | None = None
    """Its URL; None: it has only a ``path``."""
    path: str | None = None
    """Where it is on this machine, relative to the lock file; wins over ``url``."""
    filename: str = ""
    """The name of an archive; empty for a directory or repository."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Promised digests of an archive, by algorithm, in lower case."""
    size: int | None = None
    """Bytes, if the lock states it."""
    subdirectory: str = ""
    """The folder of the project within the source; empty: the source itself."""
    editable: bool = False
    """Whether an environment uses the directory itself (PEP 660)."""
    system: str = ""
    """The version control system of a repository, such as ``git``."""
    commit: str = ""
    requested_revision: str | None = None
    """The requested branch, tag or commit of a repository; None: none was requested."""


class LockedPackage(Struct, frozen=True):
    """An entry of ``packages``."""

    name: NormalizedName
    version: Version | None
    """None: neither the lock nor a wheel states it."""
    kind: SourceKind
    wheels: tuple[LockedWheel, ...] = ()
    """The wheels to choose from, in the order of the file; an archive is the only one."""
    source: LockedSource | None = None
    """The source to build a wheel from where none of these is compatible; None: there is none."""
    marker: Marker | None = None
    """The condition of the entry; None: it always applies."""
    requires_python: SpecifierSet | None = None
    document: VariantDocument | None = None
    """Its variant metadata; None: there is none, or none of it can be used."""
    table: Mapping[str, Any] | None = None
    """Its variant metadata as plain data; None: the entry has no such table (F-122)."""
    needs: Mapping[str, tuple[Requirement, ...]] | None = None
    """The requirements of the wheel of each label, the plain wheel under the empty text (F-121);
    None: not listed.
    """
    notes: tuple[str, ...] = ()
    """The unusable parts of its variant metadata, one sentence each (F-136)."""

    @property
    def has_variants(self) -> bool:
        """Whether any listed wheel has a label."""
        return any(wheel.filename.is_variant for wheel in self.wheels)


class Lock(Struct, frozen=True, eq=False):
    """A lock file; made by `read_lock` or `Lock.of`.

    Two locks are equal when their content is, regardless of the order of keys.
    """

    packages: tuple[LockedPackage, ...]
    """In the order of the file; by name if ``[tool.wheelfit]`` has entries in place of some."""
    where: str
    notes: tuple[str, ...]
    """The parts that cannot be used or are newer than this program, one sentence each."""
    roots: tuple[Requirement, ...] | None
    """The requirements it was made for; None: the lock does not list them (F-121)."""
    conflicts: tuple[tuple[Marker, ...], ...]
    """Conflicting extras and groups, as markers: of each tuple at most one may be requested."""
    environments: tuple[Marker, ...]
    """Markers of its environments, of which one must hold. Empty: it is for any environment."""
    entries: tuple[Mapping[str, Any], ...]
    """The packages as plain data."""
    requires_python: SpecifierSet | None
    """The Pythons that it is for; None: not stated."""
    _table: Mapping[str, Any]

    @classmethod
    def of(cls, table: Mapping[str, Any], *, where: str = "", strict: bool = False) -> Lock:
        """Build a lock from plain data, and check it.

        :param table: the data as read from TOML; copied.
        :param strict: whether faults that are otherwise only noted are errors (``--strict``).
        :raises InvalidLock: the data is invalid; lists all faults at once.
        """
        return cls.of_uncopied(deepcopy(dict(table)), where=where, strict=strict)

    @classmethod
    def of_uncopied(
        cls, table: dict[str, Any], *, where: str, strict: bool, is_valid: bool = False
    ) -> Lock:
        """Build a lock from plain data, which is not copied; otherwise like `of`.

        :param is_valid: whether a lock with this data was read or built without an error before.
        """
        try:
            if not is_valid:
                check_lock(table)
            entries = tuple(effective_entries(table))
            packages = _packages(entries, strict=strict)
        except InvalidLock as error:
            raise InvalidLock(error.faults, where=where or None, hint=error.hint) from None
        return cls(
            packages,
            where,
            tuple(_notes(table, packages)),
            _roots(table),
            tuple(
                tuple(map(parse_marker, members))
                for members in tool_table(table).get(CONFLICTS, ())
            ),
            tuple(map(parse_marker, table.get("environments", ()))),
            entries,
            _specifiers(table),
            MappingProxyType(table),
        )

    def __eq__(self, other: object) -> bool:
        return self._table == other._table if isinstance(other, Lock) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._table))

    @property
    def created_by(self) -> str:
        """The tool that wrote it."""
        return str(self._table["created-by"])

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras that may be requested."""
        return tuple(self._table.get("extras", ()))

    @property
    def dependency_groups(self) -> tuple[str, ...]:
        """The dependency groups that may be requested."""
        return tuple(self._table.get("dependency-groups", ()))

    @property
    def default_groups(self) -> tuple[str, ...]:
        """The dependency groups that apply if none is requested."""
        return tuple(self._table.get("default-groups", ()))

    def to_mapping(self) -> dict[str, Any]:
        """Return the whole content as plain data, for `Lock.of` after a change."""
        return deepcopy(dict(self._table))


def read_lock(
    data: bytes,
    *,
    where: str,
    strict: bool = False,
    is_valid: bool = False,
    limits: TomlLimits = DEFAULT_LIMITS,
) -> Lock:
    """Read a lock file.

    :param strict: whether faults that are otherwise only noted are errors (``--strict``).
    :param is_valid: whether these bytes were read without an error before.
    :param limits: the limits on its size (F-30).
    :raises InvalidLock: it is not a lock file, too large, or has a fault that makes a package
        unusable (F-134); lists all faults at once.
    """
    try:
        table = strict_toml.load(data, limits)
    except ValueError as error:
        fault = Fault("", f"the file is not TOML: {error}", "F-30")
        raise InvalidLock([fault], where=where) from None
    return Lock.of_uncopied(table, where=where, strict=strict, is_valid=is_valid)


def write_lock(lock: Lock) -> bytes:
    """Return the bytes of a lock file: nothing is lost but comments and blanks.

    Equal locks with equal order of keys give equal bytes, and reading them gives an
    equal lock. Keys that are not bare are quoted, so a label keeps its dots (F-119).
    """
    import tomli_w

    return tomli_w.dumps(lock._table, multiline_strings=False, indent=2).encode()  # noqa: SLF001 - of this module


def is_lock_name(text: str) -> bool:
    """Return whether a name is valid for a lock: ``pylock.toml`` or ``pylock.<name>.toml``.

    :param text: the file name without folders.
    """
    return _NAME.fullmatch(text) is not None


def conversion_hint(name: str) -> str:
    """Return how to convert the lock of another tool; empty if the file name is of no such lock."""
    command = _CONVERSIONS.get(name)
    return f"`{command} -o pylock.toml` converts it" if command else ""


def lock_name(name: str = "") -> str:
    """Return the file name of a lock.

    >>> lock_name(), lock_name("dev")
    ('pylock.toml', 'pylock.dev.toml')

    :param name: the middle part of the name; empty for ``pylock.toml``.
    :raises UserError: the name has a dot, a path separator, or nothing at all.
    """
    text = f"pylock.{name}.toml" if name else "pylock.toml"
    if not is_lock_name(text) or any(character in text for character in "/\\:\0\r\n"):
        raise UserError(
            f"{text!r} is not a valid name for a lock file",
            hint="call it pylock.toml or pylock.NAME.toml, where NAME has no dots (PEP 751)",
        )
    return text


# --- parts ------------------------------------------------------------------------------


def _packages(entries: Iterable[Mapping[str, Any]], *, strict: bool) -> tuple[LockedPackage, ...]:
    packages: list[LockedPackage] = []
    faults: list[Fault] = []
    for index, entry in enumerate(entries):
        wheels = tuple(_wheels(entry))
        variants = _Variants(entry, wheels, path_of("packages", index, VARIANTS), strict=strict)
        faults += variants.faults
        wheel_versions = {wheel.filename.version for wheel in wheels}
        version = (
            parse_version(entry["version"])
            if "version" in entry
            else min(wheel_versions, default=None)
        )
        # Builds with several local versions, such as 2.8.0+cu128, are of one release, 2.8.0.
        if version is not None and len(wheel_versions) > 1:
            version = without_build(version)
        packages.append(
            LockedPackage(
                canonicalize_name(entry["name"]),
                version,
                _kind(entry),
                wheels,
                _source(entry, wheels),
                parse_marker(entry["marker"]) if "marker" in entry else None,
                _specifiers(entry),
                variants.document,
                variants.table,
                _variant_dependencies(entry),
                variants.notes,
            )
        )
    if faults:
        raise InvalidLock(limited(faults))
    return tuple(packages)


def _specifiers(table: Mapping[str, Any]) -> SpecifierSet | None:
    text = table.get("requires-python")
    return None if text is None else SpecifierSet(text)


def _roots(table: Mapping[str, Any]) -> tuple[Requirement, ...] | None:
    texts = tool_table(table).get(ROOTS)
    return None if texts is None else _requirements(texts)


def _kind(entry: Mapping[str, Any]) -> SourceKind:
    if entry.get("wheels"):
        return "wheels"
    kinds: tuple[SourceKind, ...] = ("vcs", "directory", "archive")
    return next((kind for kind in kinds if kind in entry), "sdist")


def _wheels(entry: Mapping[str, Any]) -> Iterable[LockedWheel]:
    for wheel in entry.get("wheels", ()):
        yield _wheel(parse_wheel_filename(file_name_of(wheel) or ""), wheel)
    archive = entry.get("archive")
    if archive is not None:  # F-124: a source archive is not a wheel
        # PEP 751: the table of an archive has no key `name`; the path or URL ends with its name.
        try:
            filename = parse_wheel_filename(file_name_of({**archive, "name": None}) or "")
        except InvalidFilename:
            return
        if filename.name == entry["name"]:
            yield _wheel(filename, archive)


def _source(entry: Mapping[str, Any], wheels: tuple[LockedWheel, ...]) -> LockedSource | None:
    """Return the source of an entry; an archive that is a wheel is none."""
    kinds: tuple[BuiltKind, ...] = ("vcs", "directory", "archive", "sdist")
    kind = next((kind for kind in kinds if kind in entry), None)
    if kind is None or (kind == "archive" and wheels):
        return None
    table = entry[kind]
    hashes = {name.lower(): digest.lower() for name, digest in table.get("hashes", {}).items()}
    return LockedSource(
        kind,
        table.get("url"),
        table.get("path"),
        (file_name_of(table) or "") if kind in ("sdist", "archive") else "",
        MappingProxyType(hashes),
        table.get("size"),
        table.get("subdirectory", ""),
        table.get("editable", False),
        table.get("type", ""),
        table.get("commit-id", ""),
        table.get("requested-revision"),
    )


def _wheel(filename: WheelFilename, entry: Mapping[str, Any]) -> LockedWheel:
    hashes = {name.lower(): digest.lower() for name, digest in entry["hashes"].items()}
    return LockedWheel(
        filename,
        MappingProxyType(hashes),
        entry.get("url"),
        entry.get("path"),
        entry.get("size"),
        entry.get("upload-time"),
    )


def _variant_dependencies(entry: Mapping[str, Any]) -> Mapping[str, tuple[Requirement, ...]] | None:
    needs = tool_table(entry).get(VARIANT_DEPENDENCIES)
    if needs is None:
        return None
    return MappingProxyType({label: _requirements(texts) for label, texts in needs.items()})


def _requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    return tuple(parse_requirement(text, allow_variant_markers=False) for text in texts)


class _Variants:
    """The variant metadata of an entry, with the faults or notes if it is invalid."""

    def __init__(
        self, entry: Mapping[str, Any], wheels: tuple[LockedWheel, ...], path: str, *, strict: bool
    ) -> None:
        self.document: VariantDocument | None = None
        self.table: Mapping[str, Any] | None = None
        self.faults: list[Fault] = []
        self.notes: tuple[str, ...] = ()
        if VARIANTS not in entry:
            return
        self._path = path
        if not wheels:  # F-124
            self._report_no_wheels(strict=strict)
            return
        table = entry[VARIANTS]
        # F-134: without a plain wheel to fall back on, any fault makes the package unusable.
        strict = strict or all(wheel.filename.is_variant for wheel in wheels)
        if not isinstance(table, dict):
            problem = f"expected a table, found {shown(table)}"
            self._report_faults([Fault("", problem, "F-32")], strict=strict)
            return
        self.table = MappingProxyType(table)
        try:
            self.document = read_document(table, where=path, strict=strict)
        except InvalidDocument as error:
            self._report_faults(error.faults, strict=strict)
        else:
            self.notes = tuple(f"{path}: {note}" for note in self.document.notes)

    def _report_no_wheels(self, *, strict: bool) -> None:
        problem = "only packages with wheels have variants"
        if strict:
            self.faults = [Fault(self._path, problem, "F-124")]
        self.notes = (f"{self._path}: ignored, {problem} (F-124)",)

    def _report_faults(self, faults: Iterable[Fault], *, strict: bool) -> None:
        placed = [
            Fault(_joined_path(self._path, fault.path), fault.message, fault.rule)
            for fault in faults
        ]
        if strict:
            self.faults = placed
        else:
            self.notes = (f"{placed[0]}; only plain wheels are used (F-134)",)


def _joined_path(path: str, inner: str) -> str:
    return f"{path}{inner}" if not inner or inner.startswith("[") else f"{path}.{inner}"


def _notes(table: Mapping[str, Any], packages: Iterable[LockedPackage]) -> Iterable[str]:
    version = table["lock-version"]
    if version != "1.0":
        yield f"the lock has version {version.strip()}; features newer than 1.0 are ignored"
    for package in packages:
        yield from package.notes
