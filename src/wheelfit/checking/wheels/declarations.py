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
from wheelfit.checking.documents.places import with_places
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import InvalidRequirement
from wheelfit.wheels.dist_info import data_folder
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.loader.declaration_files import FOLDER, LARGEST, MOST_FILES, Unfit
from wheelfit_runtime.loader.declarations import Implementation, read

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from wheelfit.checking.findings import CheckedFile, Finding
    from wheelfit.wheels.archive import WheelArchive
    from wheelfit_runtime.loader.declarations import KnownImplementation, Property

_DEEPEST = 21
"""Names of the longest module that a declaration may name."""


def declaration_findings(archive: WheelArchive, place: CheckedFile) -> Iterator[Finding]:
    """Yield faults of the declarations of a wheel, and of the folder they lie in."""
    members = _installed(archive)
    modules = _modules(members)
    first: dict[tuple[str, str], str] = {}
    near = sorted(path for path in members if FOLDER in path)  # the order of the loader
    if len(near) > MOST_FILES:
        message = f"{FOLDER} has {len(near)} files; {MOST_FILES} are read"
        yield place.found(checks.BAD_DECLARATION, message)
    for path in near[:MOST_FILES]:
        folder, _, name = path.rpartition("/")
        inside = place.inside(members[path])
        if folder == FOLDER and name.startswith("__init__."):
            message = f"{name} makes a package of the folder, which many distributions share"
            yield inside.found(checks.DECLARATIONS_AS_PACKAGE, message)
        elif folder != FOLDER or not name.endswith(".json") or name.startswith("."):
            if _looks_declared(path):
                message = f"declarations are {FOLDER}/*.json at the top of a wheel; this is {path}"
                yield inside.found(checks.UNREAD_DECLARATION, message)
        else:
            try:
                data = _content(archive, members[path])
                one = read(data, name)
            except InvalidWheel as error:
                yield inside.found(checks.DAMAGED_CONTENT, error.message)
            except Unfit as error:
                yield inside.found(checks.BAD_DECLARATION, f"{name}: {error}")
            else:
                key = (one.group, one.name) if isinstance(one, Implementation) else (one[0], "")
                found = [*_said(one, archive, modules, inside)]
                found += _named(name, key, archive, inside)
                if (other := first.setdefault(key, name)) != name:
                    what = " ".join(filter(None, key))
                    message = f"{other} declares {what} already, and the first one counts"
                    found.append(inside.found(checks.REPEATED_DECLARATION, message))
                yield from with_places(found, data)


def _looks_declared(path: str) -> bool:
    """Return whether a file may be meant as a declaration."""
    folders = path.split("/")[:-1]
    return FOLDER in folders and (folders[0] == FOLDER or path.endswith(".json"))


def _said(
    one: Implementation | tuple[str, tuple[KnownImplementation, ...]],
    archive: WheelArchive,
    modules: Container[str],
    place: CheckedFile,
) -> Iterator[Finding]:
    """Yield statements of a declaration that contradict its wheel, or are of no use."""
    if isinstance(one, Implementation):
        own = archive.filename.name
        if one.module not in modules:
            message = f"the wheel has no module {one.module}"
            yield place.found(checks.MISSING_MODULE, message, path="module")
        if one.distribution and canonicalize_name(one.distribution) != own:
            message = f"it says {one.distribution}, and the wheel is {own}"
            yield place.found(checks.WRONG_DISTRIBUTION, message, path="distribution")
        dimensions = {*one.requirements, *(rank.feature for rank in one.ranks)}
        needed = (asked for asked in one.properties if asked.feature not in dimensions)
        yield from _needed(needed, "properties", place)
        return
    for number, known in enumerate(one[1]):
        path = f"known[{number}]"
        try:
            parse_requirement(known.install, allow_variant_markers=False)
        except InvalidRequirement:
            message = f"pip takes no {known.install!r} for a requirement"
            yield place.found(checks.NOT_INSTALLABLE, message, path=f"{path}.install")
        yield from _needed(known.properties, f"{path}.properties", place)


def _needed(properties: Iterable[Property], path: str, place: CheckedFile) -> Iterator[Finding]:
    """Yield the properties that no machine has, of known namespaces (P-28)."""
    for one in properties:
        feature, values = one
        vocabulary = VOCABULARIES.get(feature.namespace)
        if vocabulary is None:
            continue
        offered = vocabulary.features.get(feature.name)
        if offered is None:
            message = f"{feature.namespace} has no feature {feature.name}"
            yield place.found(checks.UNKNOWN_FEATURE, message, path=path)
        elif unknown := [value for value in values if not offered.is_known(value)]:
            message = f"no provider offers {feature} with the value {' or '.join(unknown)}"
            yield place.found(checks.UNKNOWN_VALUE, message, path=path)


def _named(
    name: str, key: tuple[str, str], archive: WheelArchive, place: CheckedFile
) -> Iterator[Finding]:
    """Yield a finding if another distribution may well have a file of the same name."""
    words = _words(name.removesuffix(".json"))
    is_of_implementation = key[1] and all(_words(part) in words for part in key)
    if _words(archive.filename.name) not in words and not is_of_implementation:
        message = f"another distribution may have a {name} too, and one overwrites the other"
        yield place.found(checks.SHARED_DECLARATION_NAME, message)


def _words(name: str) -> str:
    """Return a name between dashes, so that only whole words match inside it."""
    return f"-{canonicalize_name(name)}-"


def _installed(archive: WheelArchive) -> dict[str, str]:
    """Return the names of files by where they are installed, beside the modules."""
    names = archive.names()
    data = data_folder(names, archive.dist_info)
    libraries = (f"{data}/purelib/", f"{data}/platlib/")
    return {name.split("/", 2)[2] if name.startswith(libraries) else name: name for name in names}


def _modules(paths: Iterable[str]) -> set[str]:
    """Return the importable modules among some files, packages without ``__init__`` too."""
    found: set[str] = set()
    for path in paths:
        *folders, file = path.split("/")
        found.update(accumulate(folders[:_DEEPEST], "{}.{}".format))
        name, _, ending = file.partition(".")
        # As `kernels.py`, `kernels.cpython-313-x86_64-linux-gnu.so`.
        if ending in ("py", "pyc") or file.endswith((".so", ".pyd")):
            found.add(".".join((*folders, name)))
    return found


def _content(archive: WheelArchive, name: str) -> bytes:
    """Return the content of a file, or the beginning of a file that is too large."""
    data = b""
    for piece in archive.chunks(name):
        data += piece
        if len(data) > LARGEST:
            break
    return data
