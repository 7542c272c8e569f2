"""Checks of a wheel's declarations of implementations that are chosen at run time.

The loader reads them on the machines of users, and skips faulty ones with a warning. The same
reader finds these faults here.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.checking import checks
from wheelfit.checking.documents.document import VOCABULARIES
from wheelfit.checking.documents.positions import with_positions
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import InvalidRequirement
from wheelfit.wheels.dist_info import data_folder
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.loader.declaration_files import (
    FOLDER,
    MAX_FILE_SIZE,
    MAX_FILES,
    InvalidDeclaration,
)
from wheelfit_runtime.loader.declarations import Implementation, KnownGroup, Property, read

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from wheelfit.checking.findings import Finding, Location
    from wheelfit.wheels.archive import WheelArchive

_MAX_MODULE_DEPTH = 21
"""The number of names in the longest module name that a declaration may have."""


def declaration_findings(archive: WheelArchive, location: Location) -> Iterator[Finding]:
    """Yield findings about the declarations of a wheel, and about their folder."""
    members = _members_by_path(archive)
    modules = _modules(members)
    first_files: dict[tuple[str, ...], str] = {}
    # In the order of the loader.
    declaration_paths = sorted(path for path in members if FOLDER in path)
    if len(declaration_paths) > MAX_FILES:
        message = f"{FOLDER} has {len(declaration_paths)} files; {MAX_FILES} are read"
        yield location.finding(checks.BAD_DECLARATION, message)
    for path in declaration_paths[:MAX_FILES]:
        folder, _, name = path.rpartition("/")
        member_location = location.inside(members[path])
        if folder == FOLDER and name.startswith("__init__."):
            message = f"{name} makes the folder a package, but many distributions share it"
            yield member_location.finding(checks.DECLARATIONS_AS_PACKAGE, message)
        elif folder != FOLDER or not name.endswith(".json") or name.startswith("."):
            if _looks_like_declaration(path):
                message = f"declarations are {FOLDER}/*.json at the top of a wheel; this is {path}"
                yield member_location.finding(checks.UNREAD_DECLARATION, message)
        else:
            try:
                data = _read_beginning(archive, members[path])
                declaration = read(data, name)
            except InvalidWheel as error:
                yield member_location.finding(checks.DAMAGED_CONTENT, error.message)
            except InvalidDeclaration as error:
                yield member_location.finding(checks.BAD_DECLARATION, f"{name}: {error}")
            else:
                names = [declaration.group]
                if isinstance(declaration, Implementation):
                    names.append(declaration.name)
                findings = [*_content_findings(declaration, archive, modules, member_location)]
                findings += _file_name_findings(name, names, archive, member_location)
                if (other := first_files.setdefault(tuple(names), name)) != name:
                    declared = " ".join(names)
                    message = f"{other} declares {declared} already, and only the first is used"
                    findings.append(member_location.finding(checks.REPEATED_DECLARATION, message))
                yield from with_positions(findings, data)


def _looks_like_declaration(path: str) -> bool:
    """Return whether a file is probably meant as a declaration."""
    folders = path.split("/")[:-1]
    return FOLDER in folders and (folders[0] == FOLDER or path.endswith(".json"))


def _content_findings(
    declaration: Implementation | KnownGroup,
    archive: WheelArchive,
    modules: Container[str],
    location: Location,
) -> Iterator[Finding]:
    """Yield findings about parts of a declaration that contradict its wheel or have no effect."""
    if isinstance(declaration, Implementation):
        own_name = archive.filename.name
        if declaration.module not in modules:
            message = f"the wheel has no module {declaration.module}"
            yield location.finding(checks.MISSING_MODULE, message, path="module")
        if declaration.distribution and canonicalize_name(declaration.distribution) != own_name:
            message = f"it names {declaration.distribution}, but the wheel belongs to {own_name}"
            yield location.finding(checks.WRONG_DISTRIBUTION, message, path="distribution")
        # Features that the declaration itself defines are in no vocabulary.
        own_features = {
            *declaration.single_valued_features,
            *(ranked.feature for ranked in declaration.ranked_features),
        }
        required = (
            property_
            for property_ in declaration.properties
            if property_.feature not in own_features
        )
        yield from _property_findings(required, "properties", location)
        return
    for number, implementation in enumerate(declaration.implementations):
        path = f"known[{number}]"
        try:
            parse_requirement(implementation.install, allow_variant_markers=False)
        except InvalidRequirement:
            message = f"{implementation.install!r} is not a valid requirement"
            yield location.finding(checks.NOT_INSTALLABLE, message, path=f"{path}.install")
        yield from _property_findings(implementation.properties, f"{path}.properties", location)


def _property_findings(
    properties: Iterable[Property], path: str, location: Location
) -> Iterator[Finding]:
    """Yield findings about properties of known namespaces that no machine supports (P-28)."""
    for feature, values in properties:
        vocabulary = VOCABULARIES.get(feature.namespace)
        if vocabulary is None:
            continue
        offered = vocabulary.features.get(feature.name)
        if offered is None:
            message = f"{feature.namespace} has no feature {feature.name}"
            yield location.finding(checks.UNKNOWN_FEATURE, message, path=path)
        elif unknown := [value for value in values if not offered.is_known(value)]:
            message = f"no provider offers {feature} with the value {' or '.join(unknown)}"
            yield location.finding(checks.UNKNOWN_VALUE, message, path=path)


def _file_name_findings(
    name: str, declared_names: Sequence[str], archive: WheelArchive, location: Location
) -> Iterator[Finding]:
    """Yield a finding if another distribution could have a file of the same name.

    :param declared_names: the group, and for an implementation also its name.
    """
    dashed_name = _dashed(name.removesuffix(".json"))
    names_implementation = len(declared_names) == 2 and all(
        _dashed(declared) in dashed_name for declared in declared_names
    )
    if _dashed(archive.filename.name) not in dashed_name and not names_implementation:
        message = f"another distribution may have a {name} too, and one overwrites the other"
        yield location.finding(checks.SHARED_DECLARATION_NAME, message)


def _dashed(name: str) -> str:
    """Return a name between dashes, so that a search inside it only finds whole words."""
    return f"-{canonicalize_name(name)}-"


def _members_by_path(archive: WheelArchive) -> dict[str, str]:
    """Return the names of members by their path below site-packages."""
    names = archive.names()
    data = data_folder(names, archive.dist_info)
    libraries = (f"{data}/purelib/", f"{data}/platlib/")
    return {name.split("/", 2)[2] if name.startswith(libraries) else name: name for name in names}


def _modules(paths: Iterable[str]) -> set[str]:
    """Return the importable modules among some files, including packages without ``__init__``."""
    modules: set[str] = set()
    for path in paths:
        *folders, file = path.split("/")
        # The packages above it: for a/b/c.py, these are a and a.b.
        modules.update(accumulate(folders[:_MAX_MODULE_DEPTH], "{}.{}".format))
        name, _, ending = file.partition(".")
        # As `kernels.py`, `kernels.cpython-313-x86_64-linux-gnu.so`.
        if ending in ("py", "pyc") or file.endswith((".so", ".pyd")):
            modules.add(".".join((*folders, name)))
    return modules


def _read_beginning(archive: WheelArchive, name: str) -> bytes:
    """Return the content of a file, or its beginning if it is larger than `MAX_FILE_SIZE`."""
    data = b""
    for piece in archive.chunks(name):
        data += piece
        if len(data) > MAX_FILE_SIZE:
            break
    return data
