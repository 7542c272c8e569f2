"""The environments that a lock is made for: platforms and Pythons, never the locking machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelfit.core.compatible_tags import (
    interpreter_values,
    platform_values,
    platforms_of,
    tags_for,
)
from wheelfit.core.target import Target
from wheelfit.errors import UsageError
from wheelfit.resolution.version_set import VersionSet
from wheelfit_runtime.platforms.known_platforms import (
    GLIBC_OF_LOCKS,
    PLATFORMS,
    PLATFORMS_OF_LOCKS,
    PYTHONS,
)
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Python = tuple[int, int]
"""Major and minor version."""
Platform = tuple[str, str, str]
"""The values of ``sys_platform``, ``platform_machine`` and ``implementation_name``."""
MarkerValues = tuple[Platform, Python]
"""The values by which markers of a lock distinguish environments."""


class LockEnvironment(NamedTuple):
    """An environment, or a machine, that a lock is made for."""

    name: str
    """As ``linux-x86_64, Python 3.12``, or the name of a host file."""
    target: Target
    platform_name: str = ""
    """Its platform as the user wrote it; empty for a machine."""

    @property
    def is_machine(self) -> bool:
        """Whether it is one machine, not all of a platform with a Python."""
        return not self.platform_name

    @property
    def platform(self) -> Platform:
        """The values by which markers of a lock identify it, besides Python."""
        values = self.target.environment
        return values["sys_platform"], values["platform_machine"], values["implementation_name"]

    @property
    def python(self) -> Python:
        """The major and minor version of its Python."""
        version = self.target.python_full_version
        return version.major, version.minor

    @property
    def marker_values(self) -> MarkerValues:
        """All values by which markers of a lock identify it."""
        return self.platform, self.python


def describe_environments(environments: Sequence[LockEnvironment]) -> str:
    """Return a short description of the environments of a lock.

    >>> describe_environments(environments_for(["linux-x86_64", "macos-arm64"], [(3, 13), (3, 12)]))
    'linux-x86_64 and macos-arm64, Python 3.12 and 3.13'

    :param environments: all of them; at least one.
    """
    if any(environment.is_machine for environment in environments):
        return listed([environment.name for environment in environments], most=None)
    pythons: dict[str, set[Python]] = {}
    for environment in environments:
        pythons.setdefault(environment.platform_name, set()).add(environment.python)
    platforms: dict[tuple[Python, ...], list[str]] = {}
    for platform, versions in pythons.items():
        platforms.setdefault(tuple(sorted(versions)), []).append(platform)
    return "; ".join(
        f"{listed(names, most=None)}, Python {listed(map(python_text, versions), most=None)}"
        for versions, names in platforms.items()
    )


def environments_for(
    platforms: Iterable[str], pythons: Iterable[Python], project_range: SpecifierSet | None = None
) -> tuple[LockEnvironment, ...]:
    """Return every platform with every Python.

    :param platforms: names of presets, as ``linux-x86_64``; ``linux-x86_64@2.28`` names the newest
        glibc, musl or macOS a wheel may require. Empty: the usual ones.
    :param pythons: minor versions of CPython.
    :param project_range: ``requires-python`` of the project; None: not stated.
    :raises UsageError: there is no such platform, or the project is not for one of the Pythons.
    """
    names = tuple(dict.fromkeys(platforms)) or PLATFORMS_OF_LOCKS
    versions = sorted(set(pythons), reverse=True)
    return tuple(_environment(name, python, project_range) for python in versions for name in names)


def python_of(text: str) -> Python:
    """Read a minor version.

    :param text: as ``3.12``; of ``3.12.1`` only the first two numbers count.
    :raises UsageError: it is not a version, or no Python has it.
    """
    parts = text.split(".")
    if len(parts) in (2, 3) and all(map(_is_short_number, parts)):
        python = int(parts[0]), int(parts[1])
        major, newest = max(PYTHONS)
        if (major, 0) <= python <= (major, newest + 1):  # the next one may be a pre-release
            return python
        raise UsageError(
            f"unknown Python version {text}",
            hint=f"known versions are {python_text(min(PYTHONS))} to {python_text(max(PYTHONS))}",
        )
    raise UsageError(f"{text[:40]!r} is not a Python version", hint="write it as 3.12")


def known_pythons(project_range: SpecifierSet) -> tuple[Python, ...]:
    """Return the known Pythons that a project is for, oldest first.

    :raises UsageError: it is for none of them.
    """
    matching = tuple(
        python for python in PYTHONS if _full_version(python, project_range) is not None
    )
    if not matching:
        raise UsageError(
            f"no known Python version matches {project_range}",
            hint="name the versions to lock for with --python-version",
        )
    return matching


def requires_python(pythons: Sequence[Python], project_range: SpecifierSet | None = None) -> str:
    """Return the shortest ``requires-python`` of a lock.

    :param project_range: ``requires-python`` of the project; it may exclude some micro versions.
    """
    first, last = min(pythons), max(pythons)
    project_range = SpecifierSet() if project_range is None else project_range
    texts = [str(specifier) for specifier in project_range]
    # Only bounds that the range of the project does not imply.
    if first[1] and project_range.contains(f"{first[0]}.{first[1] - 1}.9999"):
        texts.append(f">={python_text(first)}")
    if project_range.contains(f"{last[0]}.{last[1] + 1}"):
        texts.append(f"<{last[0]}.{last[1] + 1}")
    return str(VersionSet.of(",".join(texts)))


def python_text(python: Python) -> str:
    """Return a Python as markers name it, as ``3.12``."""
    return f"{python[0]}.{python[1]}"


def _full_version(python: Python, project_range: SpecifierSet | None) -> Version | None:
    """Return a micro version that a project supports; None if it supports none.

    It is the newest known one; of a Python without known releases, the oldest.
    """
    micros = range(PYTHONS[python], -1, -1) if python in PYTHONS else range(100)
    for micro in micros:
        version = Version(f"{python_text(python)}.{micro}")
        if project_range is None or project_range.contains(version, prereleases=True):
            return version
    return None


def _environment(name: str, python: Python, project_range: SpecifierSet | None) -> LockEnvironment:
    platform_name, _, newest_libc = name.partition("@")
    platform = PLATFORMS.get(platform_name)
    if platform is None or (newest_libc and not _is_version(newest_libc)):
        raise UsageError(
            f"{name[:80]!r} is not a platform",
            hint=f"known platforms: {', '.join(PLATFORMS)}; append @2.28 for a version of glibc",
        )
    default_libc = GLIBC_OF_LOCKS if platform.library == "glibc" else platform.version
    platform_tags = platforms_of(
        platform.architecture, platform.library, newest_libc or default_libc
    )
    version = _full_version(python, project_range)
    if version is None:
        raise UsageError(
            f"the project is for Python {project_range}, not for {python_text(python)}",
            hint="name other versions with --python-version, or omit it",
        )
    full_name = f"{name}, Python {python_text(python)}"
    environment = {**platform_values(platform_tags[0]), **interpreter_values("cpython", version)}
    tags = tags_for("cpython", version, (), platform_tags)
    return LockEnvironment(full_name, Target.of(full_name, environment, tags), name)


def _is_version(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 2 and all(map(_is_short_number, parts))


def _is_short_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 4
