"""Checks of a wheel's contents, by file names and its WHEEL file: no binary is read."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.tags import InvalidTag, TooManyTagsError, parse_tag
from packaging.utils import canonicalize_name

from wheelfit.checking import checks
from wheelfit.checking.findings import Severity, some_of
from wheelfit.core.abi_exports import FILE as EXPORTS_FILE
from wheelfit.core.abi_exports import AbiExports, parse_abi_exports
from wheelfit.wheels.dist_info import data_folder, header_values
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.tags import Tag

    from wheelfit.checking.findings import CheckedFile, Finding
    from wheelfit.wheels.archive import WheelArchive

_GENERIC_FOLDERS = frozenset(
    """
    benchmark benchmarks build dist doc docs example examples script scripts src test tests
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
"""Folders of source trees; they are not imported, and two wheels that have one share it."""
_GENERIC_FILES = frozenset(
    """
    changelog.md changelog.rst changes.rst conftest.py license license.md license.txt makefile
    noxfile.py pyproject.toml readme.md readme.rst readme.txt requirements.txt setup.cfg setup.py
    tox.ini
    """.split()  # noqa: SIM905  # likewise
)
_EXTENSION = pattern(
    r"(?P<module>[^/]+?)\.(?:cpython-(?P<cpython>\d+)t?(?:-[\w-]+)?\.so|(?P<abi3>abi3t?)(?:-[\w-]+)?\.so"
    r"|pypy\d+-[\w-]+\.so|(?:cp(?P<windows>\d+)t?-\w+\.)?pyd)"
)
"""File names that identify extension modules; a plain ``.so`` may be any library."""
_NATIVE = pattern(r"(?i)\.(?:so(?:\.\d+)*|dylib|dll|pyd)\Z")
_CPYTHON = pattern(r"cp3\d+")
_LINUX = pattern(r"\A(?:manylinux|musllinux)(?:1|2010|2014|_\d+_\d+)_")
_MACHINE = pattern(r"_(?:arm64|x86_64)\Z")


def content_findings(archive: WheelArchive, place: CheckedFile) -> Iterator[Finding]:
    """Yield findings about the files of a wheel, and about the tags in its WHEEL file."""
    names = archive.names()
    yield from _tag_findings(archive, place)
    yield from _generic_findings(_installed(names, archive.dist_info), archive.filename.name, place)
    yield from _bytecode_findings(names, archive, place)
    yield from _native_findings(names, archive.filename.tags, place)
    if f"{archive.dist_info}/{EXPORTS_FILE}" in archive:
        yield from _exports_findings(archive, place.inside(EXPORTS_FILE))


# --- WHEEL --------------------------------------------------------------------------------


def _tag_findings(archive: WheelArchive, place: CheckedFile) -> Iterator[Finding]:
    """Compare the tags in WHEEL, which tools read after installing, with the file name (F-15)."""
    if f"{archive.dist_info}/WHEEL" not in archive:
        return
    inside = place.inside("WHEEL")
    texts = list(header_values(archive.read(f"{archive.dist_info}/WHEEL"), "Tag"))
    try:
        inner = frozenset(tag for text in texts for tag in parse_tag(text))
    except (InvalidTag, TooManyTagsError, ValueError):
        yield inside.found(
            checks.WRONG_WHEEL_TAGS, f"no tag can be read of {listed(texts, most=2)}"
        )
        return
    named = archive.filename.tags
    if inner == named:
        return
    shown = some_of(sorted(map(str, inner)))
    message = f"it has the tags {shown}; the file name {some_of(sorted(map(str, named)))}"
    if not inner:
        message = "it has no tag"
    # `pip check` and `uv pip check` take the environment for broken where none of them fits.
    fits = any(_admits(one, other) for one in inner for other in named)
    severity = Severity.WARNING if fits else Severity.ERROR
    yield inside.found(checks.WRONG_WHEEL_TAGS, message, severity=severity)


def _admits(inner: Tag, named: Tag) -> bool:
    """Return whether every system with a tag of the file name supports one of WHEEL too."""
    if not (inner.platform in (named.platform, "any") or _is_own(inner.platform, named.platform)):
        return False
    if inner.abi == "none" and inner.interpreter.startswith("py"):
        return True
    return (inner.interpreter, inner.abi) == (named.interpreter, named.abi)


def _is_own(inner: str, named: str) -> bool:
    """Return whether a platform tag is the wider form of another: linux, or universal2."""
    if named.startswith(("manylinux", "musllinux")):
        machine = _LINUX.sub("", named)
        return inner == f"linux_{machine}"
    return named.startswith("macosx_") and inner == _MACHINE.sub("_universal2", named)


def _exports_findings(archive: WheelArchive, inside: CheckedFile) -> Iterator[Finding]:
    """Yield the faults of the promises about a library's ABI (B-61)."""
    try:
        exports = parse_abi_exports(
            archive.read(f"{archive.dist_info}/{EXPORTS_FILE}"), where=archive.where
        )
    except InvalidDocument as error:
        for fault in error.faults:
            yield inside.found(checks.WRONG_ABI_EXPORTS, fault.message, path=fault.path)
        return
    names = {name.rpartition("/")[2] for name in archive.names()}
    for library in exports.libraries:
        if not any(AbiExports(libraries=(library,)).has(name) for name in names):
            yield inside.found(
                checks.WRONG_ABI_EXPORTS,
                f"no file of the wheel is called {library}",
                path="libraries",
                severity=Severity.WARNING,  # a library may call itself otherwise than its file
            )


# --- names --------------------------------------------------------------------------------


def _installed(names: Sequence[str], dist_info: str) -> Iterator[str]:
    """Yield the paths of files below the library folder."""
    data = data_folder(names, dist_info)
    for name in names:
        folder, _, rest = name.partition("/")
        if folder != data:
            yield name
        elif rest.startswith(("purelib/", "platlib/")):
            yield rest.partition("/")[2]


def _generic_findings(installed: Iterable[str], own: str, place: CheckedFile) -> Iterator[Finding]:
    """Yield folders and files of the source tree that land beside all packages."""
    generic: dict[str, None] = {}
    for path in installed:
        top, slash, _ = path.partition("/")
        known = _GENERIC_FOLDERS if slash else _GENERIC_FILES
        if top.lower() in known and canonicalize_name(top) != own:
            generic[f"{top}/" if slash else top] = None
    if generic:
        message = f"{some_of(generic)} would lie beside all packages of the environment"
        yield place.found(checks.GENERIC_TOP_LEVEL, message)


def _bytecode_findings(
    names: Iterable[str], archive: WheelArchive, place: CheckedFile
) -> Iterator[Finding]:
    """Yield compiled Python code: a copy of sources, or without them and for one Python only."""
    copies: list[str] = []
    alone: list[str] = []
    for name in names:
        if name.endswith(".pyc"):
            is_copy = "__pycache__" in name.split("/") or name[:-1] in archive
            (copies if is_copy else alone).append(name)
    if copies:
        message = (
            f"{listed(copies, most=2)}: installers write that themselves, for the Python in use"
        )
        yield place.found(checks.COMPILED_PYTHON, message)
    pythons = {tag.interpreter for tag in archive.filename.tags}
    is_for_one = len(pythons) == 1 and all(map(_CPYTHON.fullmatch, pythons))
    if alone and not is_for_one:
        message = (
            f"{listed(alone, most=2)} has no source and fits one Python, the tag admits "
            f"{', '.join(sorted(pythons))}"
        )
        yield place.found(checks.COMPILED_PYTHON, message, severity=Severity.ERROR)


def _native_findings(
    names: Iterable[str], tags: frozenset[Tag], place: CheckedFile
) -> Iterator[Finding]:
    """Yield native code that the tags of the wheel leave out (F-15)."""
    modules: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    libraries = []
    for name in names:
        if not is_library(name):
            continue
        folder, _, file = name.rpartition("/")
        if (match := _EXTENSION.fullmatch(file)) is not None:
            version = match["cpython"] or match["windows"]
            modules[f"{folder}/{match['module']}"].append((name, int(version) if version else None))
        else:
            libraries.append(name)
    if all(tag.platform == "any" for tag in tags):
        yield from _portable_findings(modules, libraries, place)
        return
    pythons = {tag.interpreter for tag in tags}
    if not all(_CPYTHON.fullmatch(python) for python in pythons):
        return
    wanted = {int(python[2:]) for python in pythons}
    foreign = [
        files[0][0]
        for files in modules.values()
        if all(version is not None and version not in wanted for _, version in files)
        and not any(tag.abi in ("abi3", "abi3t", "none") for tag in tags)  # for later Pythons too
    ]
    if foreign:
        message = f"{some_of(foreign)} cannot be imported by {', '.join(sorted(pythons))}"
        yield place.found(checks.FOREIGN_EXTENSION, message)


def is_library(name: str) -> bool:
    """Return whether a file is native code by its name."""
    return _NATIVE.search(name) is not None


def _portable_findings(
    modules: dict[str, list[tuple[str, int | None]]], libraries: Sequence[str], place: CheckedFile
) -> Iterator[Finding]:
    if modules:
        first = [files[0][0] for files in modules.values()]
        message = f"{some_of(first)} is for one platform, the tag says any"
        yield place.found(checks.NATIVE_CODE_FOR_ANY, message)
    elif libraries:
        message = f"{some_of(libraries)} is native code, the tag says any platform"
        yield place.found(checks.NATIVE_CODE_FOR_ANY, message, severity=Severity.NOTE)
