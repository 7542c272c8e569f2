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


class LockEnvironment(NamedTuple):
    """An environment, or a machine, that a lock is made for."""

    name: str
    """How to call it: ``linux-x86_64, Python 3.12``, or a host file."""
    target: Target
    row: str = ""
    """Its platform as it was named; empty: it is a machine."""

    @property
    def platform(self) -> tuple[str, str, str]:
        """The values by which markers of a lock identify it, besides Python."""
        values = self.target.environment
        return values["sys_platform"], values["platform_machine"], values["implementation_name"]

    @property
    def python(self) -> Python:
        """Its Python."""
        version = self.target.python_full_version
        return version.major, version.minor

    @property
    def place(self) -> tuple[tuple[str, str, str], Python]:
        """All values by which markers of a lock identify it."""
        return self.platform, self.python


def in_words(environments: Sequence[LockEnvironment]) -> str:
    """Return the environments of a lock, in few words.

    >>> in_words(environments_for(["linux-x86_64", "macos-arm64"], [(3, 13), (3, 12)]))
    'linux-x86_64 and macos-arm64, Python 3.12 and 3.13'

    :param environments: all of them; at least one.
    """
    if any(not environment.row for environment in environments):
        return listed([environment.name for environment in environments], most=None)
    pythons: dict[str, set[Python]] = {}
    for environment in environments:
        pythons.setdefault(environment.row, set()).add(environment.python)
    rows: dict[tuple[Python, ...], list[str]] = {}
    for row, versions in pythons.items():
        rows.setdefault(tuple(sorted(versions)), []).append(row)
    return "; ".join(
        f"{listed(names, most=None)}, Python {listed(map(_text, versions), most=None)}"
        for versions, names in rows.items()
    )


def environments_for(
    platforms: Iterable[str], pythons: Iterable[Python], wanted: SpecifierSet | None = None
) -> tuple[LockEnvironment, ...]:
    """Return every platform with every Python.

    :param platforms: rows of presets, as ``linux-x86_64``; ``linux-x86_64@2.28`` names the newest
        glibc, musl or macOS a wheel may require. None: the usual ones.
    :param pythons: minor versions of CPython.
    :param wanted: ``requires-python`` of the project; None: not stated.
    :raises UsageError: there is no such platform, or the project is not for one of the Pythons.
    """
    names = tuple(dict.fromkeys(platforms)) or PLATFORMS_OF_LOCKS
    versions = sorted(set(pythons), reverse=True)
    return tuple(_environment(name, python, wanted) for python in versions for name in names)


def python_of(text: str) -> Python:
    """Read a minor version.

    :param text: as ``3.12``; of ``3.12.1`` only the first two numbers count.
    :raises UsageError: it is none, or of no Python that there is.
    """
    parts = text.split(".")
    if len(parts) in (2, 3) and all(p.isascii() and p.isdecimal() and len(p) < 4 for p in parts):
        python = int(parts[0]), int(parts[1])
        major, newest = max(PYTHONS)
        if (major, 0) <= python <= (major, newest + 1):
            return python
        raise UsageError(
            f"unknown Python version {text}",
            hint=f"known versions are {_text(min(PYTHONS))} to {_text(max(PYTHONS))}",
        )
    raise UsageError(f"{text[:40]!r} is not a Python version", hint="write it as 3.12")


def known_pythons(wanted: SpecifierSet) -> tuple[Python, ...]:
    """Return the known Pythons that a project is for, oldest first.

    :param wanted: its ``requires-python``.
    :raises UsageError: it is for none of them.
    """
    matching = tuple(python for python in PYTHONS if _full_version(python, wanted) is not None)
    if not matching:
        raise UsageError(
            f"no known Python is {wanted}", hint="name those to lock for with --python-version"
        )
    return matching


def requires_python(pythons: Sequence[Python], wanted: SpecifierSet | None = None) -> str:
    """Return the shortest ``requires-python`` of a lock.

    :param pythons: minor versions that it was made for.
    :param wanted: ``requires-python`` of the project; it may exclude some of their micro versions.
    """
    first, last = min(pythons), max(pythons)
    texts = [] if wanted is None else [str(one) for one in wanted]
    given = wanted if wanted is not None else SpecifierSet()
    if first[1] and given.contains(f"{first[0]}.{first[1] - 1}.9999"):
        texts.append(f">={_text(first)}")
    if given.contains(f"{last[0]}.{last[1] + 1}"):
        texts.append(f"<{last[0]}.{last[1] + 1}")
    return str(VersionSet.of(",".join(texts)))


def _text(python: Python) -> str:
    return f"{python[0]}.{python[1]}"


def _full_version(python: Python, wanted: SpecifierSet | None) -> Version | None:
    """Return the newest micro version that a project is for; None if it is for none.

    Of a series that is not known it is the oldest.
    """
    micros = range(PYTHONS[python], -1, -1) if python in PYTHONS else range(100)
    versions = (Version(f"{_text(python)}.{micro}") for micro in micros)
    fitting = (
        version
        for version in versions
        if wanted is None or wanted.contains(version, prereleases=True)
    )
    return next(fitting, None)


def _environment(name: str, python: Python, wanted: SpecifierSet | None) -> LockEnvironment:
    row_name, _, newest = name.partition("@")
    row = PLATFORMS.get(row_name)
    if row is None or (newest and not _is_version(newest)):
        raise UsageError(
            f"{name[:80]!r} is not a platform",
            hint=f"it is one of {', '.join(PLATFORMS)}; @2.28 may follow for a version of glibc",
        )
    version = newest or (GLIBC_OF_LOCKS if row.library == "glibc" else row.version)
    platforms = platforms_of(row.architecture, row.library, version)
    full = _full_version(python, wanted)
    if full is None:
        raise UsageError(
            f"the project is for Python {wanted}, not for {_text(python)}",
            hint="name others with --python-version, or none",
        )
    called = f"{name}, Python {_text(python)}"
    environment = {**platform_values(platforms[0]), **interpreter_values("cpython", full)}
    tags = tags_for("cpython", full, (), platforms)
    return LockEnvironment(called, Target.of(called, environment, tags), name)


def _is_version(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 2 and all(p.isascii() and p.isdecimal() and len(p) < 4 for p in parts)
