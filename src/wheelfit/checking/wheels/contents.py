"""Checks of a wheel's contents, by file names and its WHEEL file: no binary is read."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.tags import InvalidTag, Tag, TooManyTagsError, parse_tag
from packaging.utils import canonicalize_name

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity, listed_briefly
from wheelfit.core.abi_exports import FILE as EXPORTS_FILE
from wheelfit.core.abi_exports import AbiExports, parse_abi_exports
from wheelfit.wheels.dist_info import data_folder, header_values
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.wheels.archive import WheelArchive

_GENERIC_FOLDERS = frozenset(
    """
    benchmark benchmarks build dist doc docs example examples script scripts src test tests
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
"""Folders of source trees, which no user imports and several wheels would overwrite."""
_GENERIC_FILES = frozenset(
    """
    changelog.md changelog.rst changes.rst conftest.py license license.md license.txt makefile
    noxfile.py pyproject.toml readme.md readme.rst readme.txt requirements.txt setup.cfg setup.py
    tox.ini
    """.split()  # noqa: SIM905  # likewise
)
_EXTENSION = pattern(
    r"(?P<module>[^/]+?)\.(?:cpython-(?P<cpython>\d+)t?(?:-[\w-]+)?\.so|abi3t?(?:-[\w-]+)?\.so"
    r"|pypy\d+-[\w-]+\.so|(?:cp(?P<windows>\d+)t?-\w+\.)?pyd)"
)
"""File names that identify extension modules; a plain ``.so`` may be any library."""
_NATIVE = pattern(r"(?i)\.(?:so(?:\.\d+)*|dylib|dll|pyd)\Z")
_CPYTHON_3 = pattern(r"cp3\d+")
_LINUX_POLICY = pattern(r"\A(?:manylinux|musllinux)(?:1|2010|2014|_\d+_\d+)_")
_MACHINE = pattern(r"_(?:arm64|x86_64)\Z")


def content_findings(archive: WheelArchive, location: Location) -> Iterator[Finding]:
    """Yield findings about the files of a wheel, and about the tags in its WHEEL file."""
    names = archive.names()
    yield from _tag_findings(archive, location)
    yield from _generic_findings(
        _installed_paths(names, archive.dist_info), archive.filename.name, location
    )
    yield from _bytecode_findings(names, archive, location)
    yield from _native_findings(names, archive.filename.tags, location)
    if f"{archive.dist_info}/{EXPORTS_FILE}" in archive:
        yield from _exports_findings(archive, location.inside(EXPORTS_FILE))


# --- WHEEL --------------------------------------------------------------------------------


def _tag_findings(archive: WheelArchive, location: Location) -> Iterator[Finding]:
    """Compare the tags in WHEEL, which tools read after installation, with the file name (F-15)."""
    if f"{archive.dist_info}/WHEEL" not in archive:
        return
    member_location = location.inside("WHEEL")
    texts = list(header_values(archive.read(f"{archive.dist_info}/WHEEL"), "Tag"))
    try:
        wheel_tags = frozenset(tag for text in texts for tag in parse_tag(text))
    except (InvalidTag, TooManyTagsError, ValueError):
        yield member_location.finding(
            checks.WRONG_WHEEL_TAGS, f"it has invalid tags: {listed(texts, most=2)}"
        )
        return
    filename_tags = archive.filename.tags
    if wheel_tags == filename_tags:
        return
    message = "it has no tag"
    if wheel_tags:
        message = (
            f"its tags are {_in_words(wheel_tags)}; the file name has {_in_words(filename_tags)}"
        )
    # `pip check` and `uv pip check` report the installed package as incompatible otherwise.
    are_compatible = any(_covers(tag, other) for tag in wheel_tags for other in filename_tags)
    severity = Severity.WARNING if are_compatible else Severity.ERROR
    yield member_location.finding(checks.WRONG_WHEEL_TAGS, message, severity=severity)


def _in_words(tags: Iterable[Tag]) -> str:
    return listed_briefly(sorted(map(str, tags)))


def _covers(wheel_tag: Tag, filename_tag: Tag) -> bool:
    """Return whether a system that supports the file name's tag always supports WHEEL's tag."""
    if not (
        wheel_tag.platform in (filename_tag.platform, "any")
        or _is_wider_form(wheel_tag.platform, filename_tag.platform)
    ):
        return False
    if wheel_tag.abi == "none" and wheel_tag.interpreter.startswith("py"):
        return True
    return (wheel_tag.interpreter, wheel_tag.abi) == (filename_tag.interpreter, filename_tag.abi)


def _is_wider_form(platform: str, other: str) -> bool:
    """Return whether a platform tag is a wider form of another: linux, or macOS universal2."""
    if other.startswith(("manylinux", "musllinux")):
        return platform == f"linux_{_LINUX_POLICY.sub('', other)}"
    return other.startswith("macosx_") and platform == _MACHINE.sub("_universal2", other)


def _exports_findings(archive: WheelArchive, location: Location) -> Iterator[Finding]:
    """Yield findings about declared ABI exports (B-61)."""
    try:
        exports = parse_abi_exports(
            archive.read(f"{archive.dist_info}/{EXPORTS_FILE}"), where=archive.where
        )
    except InvalidDocument as error:
        for fault in error.faults:
            yield location.finding(checks.WRONG_ABI_EXPORTS, fault.message, path=fault.path)
        return
    names = {name.rpartition("/")[2] for name in archive.names()}
    for library in exports.libraries:
        if not any(AbiExports(libraries=(library,)).covers(name) for name in names):
            yield location.finding(
                checks.WRONG_ABI_EXPORTS,
                f"the wheel has no file named {library}",
                path="libraries",
                severity=Severity.WARNING,  # its soname may differ from the name of its file
            )


# --- names --------------------------------------------------------------------------------


def _installed_paths(names: Sequence[str], dist_info: str) -> Iterator[str]:
    """Yield the paths of files below the library folder."""
    data = data_folder(names, dist_info)
    for name in names:
        folder, _, rest = name.partition("/")
        if folder != data:
            yield name
        elif rest.startswith(("purelib/", "platlib/")):
            yield rest.partition("/")[2]


def _generic_findings(
    installed: Iterable[str], project: str, location: Location
) -> Iterator[Finding]:
    """Yield a finding about files of the source tree that would be installed at the top level."""
    generic: dict[str, None] = {}
    for path in installed:
        top, slash, _ = path.partition("/")
        generic_names = _GENERIC_FOLDERS if slash else _GENERIC_FILES
        if top.lower() in generic_names and canonicalize_name(top) != project:
            generic[f"{top}/" if slash else top] = None
    if generic:
        message = f"{listed_briefly(generic)} would be installed at the top level of site-packages"
        yield location.finding(checks.GENERIC_TOP_LEVEL, message)


def _bytecode_findings(
    names: Iterable[str], archive: WheelArchive, location: Location
) -> Iterator[Finding]:
    """Yield findings about bytecode with source, or without it in wheels for several Pythons."""
    copies: list[str] = []
    without_source: list[str] = []
    for name in names:
        if name.endswith(".pyc"):
            is_copy = "__pycache__" in name.split("/") or name[:-1] in archive
            (copies if is_copy else without_source).append(name)
    if copies:
        message = f"{listed(copies, most=2)}: installers compile Python code for the version in use"
        yield location.finding(checks.COMPILED_PYTHON, message)
    pythons = {tag.interpreter for tag in archive.filename.tags}
    has_one_python = len(pythons) == 1 and all(map(_CPYTHON_3.fullmatch, pythons))
    if without_source and not has_one_python:
        message = (
            f"only one version of Python can import {listed(without_source, most=2)}, which has no "
            f"source; the tag allows {', '.join(sorted(pythons))}"
        )
        yield location.finding(checks.COMPILED_PYTHON, message, severity=Severity.ERROR)


def _native_findings(
    names: Iterable[str], tags: frozenset[Tag], location: Location
) -> Iterator[Finding]:
    """Yield findings about native code that contradicts the tags of the wheel (F-15)."""
    # By module, each file with the CPython version in its name; None: for any version.
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
        yield from _portable_findings(modules, libraries, location)
        return
    pythons = {tag.interpreter for tag in tags}
    admits_later_pythons = any(tag.abi in ("abi3", "abi3t", "none") for tag in tags)
    if admits_later_pythons or not all(map(_CPYTHON_3.fullmatch, pythons)):
        return
    versions = {int(python[2:]) for python in pythons}
    foreign = [
        files[0][0]
        for files in modules.values()
        if all(version is not None and version not in versions for _, version in files)
    ]
    if foreign:
        message = f"{listed_briefly(foreign)} cannot be imported by {', '.join(sorted(pythons))}"
        yield location.finding(checks.FOREIGN_EXTENSION, message)


def is_library(name: str) -> bool:
    """Return whether a file is native code by its name."""
    return _NATIVE.search(name) is not None


def _portable_findings(
    modules: dict[str, list[tuple[str, int | None]]], libraries: Sequence[str], location: Location
) -> Iterator[Finding]:
    """Yield a finding about native code in a wheel for any platform."""
    if modules:
        paths = [files[0][0] for files in modules.values()]
        message = (
            f"only one platform can import {listed_briefly(paths)}, but the platform tag is any"
        )
        yield location.finding(checks.NATIVE_CODE_FOR_ANY, message)
    elif libraries:
        message = f"there is native code ({listed_briefly(libraries)}), but the platform tag is any"
        yield location.finding(checks.NATIVE_CODE_FOR_ANY, message, severity=Severity.NOTE)
