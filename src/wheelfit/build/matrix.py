"""Which wheels a release has: ``[tool.wheelfit.matrix]`` of its pyproject.toml.

The matrix is labels, times Pythons, times platforms, less what is excluded, and what is included
besides. Platforms are called as cibuildwheel calls them. Nothing here is built, and nothing looks
at the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wheelfit.core.labels import NULL, Label
from wheelfit.core.strict_json import path_of, shown
from wheelfit.errors import Fault, InvalidProject
from wheelfit.patterns import pattern
from wheelfit.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

__all__ = ["ANY", "PLATFORMS", "Job", "Matrix", "platform_of", "read_matrix"]


def __dir__() -> list[str]:
    return __all__


ANY = "any"
"""The platform of wheels that fit all of them; they are built wherever that is asked for."""
_LINUX = ("x86_64", "i686", "aarch64", "armv7l", "ppc64le", "s390x", "riscv64")
PLATFORMS = (
    ANY,
    *(f"manylinux_{one}" for one in _LINUX),
    *(f"musllinux_{one}" for one in _LINUX),
    "macosx_arm64",
    "macosx_x86_64",
    "macosx_universal2",
    "win_amd64",
    "win_arm64",
    "win32",
)
"""What a matrix may name."""
_KEYS = ("labels", "pythons", "platforms", "plain", "exclude", "include", "runners")
_PARTS = ("label", "python", "platform")
_SERVICES = ("github", "gitlab")
_TOP = ("tool", "wheelfit", "matrix")
_PYTHON = pattern(r"3\.(0|[1-9][0-9]?)t?", re.ASCII)
_MOST = 100_000
"""Wheels of a matrix; more is a slip."""


@dataclass(frozen=True, slots=True)
class Job:
    """Name one wheel of a release."""

    label: Label | None
    """Of the variant; None: the plain wheel."""
    python: str
    """As ``3.13``, or ``3.14t`` for free threading."""
    platform: str
    """One of `PLATFORMS`."""

    @property
    def identifier(self) -> str:
        """What cibuildwheel calls its target, as ``cp313-manylinux_x86_64``; empty for any."""
        if self.platform == ANY:
            return ""
        return f"cp{self.python.replace('.', '')}-{self.platform}"

    def __str__(self) -> str:
        label = "plain" if self.label is None else str(self.label)
        return f"{label}, Python {self.python}, {self.platform}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """Hold the wheels of a release, and where services build them."""

    jobs: tuple[Job, ...]
    """In the order of platforms, Pythons and labels; each once."""
    runners: Mapping[str, Mapping[str, tuple[str, ...]]] = field(
        default_factory=lambda: MappingProxyType({}), hash=False
    )
    """By service and platform: what its runners are called, besides those that are known."""

    def only(
        self,
        *,
        labels: Collection[Label | None] = (),
        pythons: Collection[str] = (),
        platforms: Collection[str] = (),
    ) -> tuple[Job, ...]:
        """Return the jobs of some labels, Pythons and platforms.

        :param labels: those wanted; none: all.
        :param pythons: the same.
        :param platforms: the same.
        """
        return tuple(
            job
            for job in self.jobs
            if (not labels or job.label in labels)
            and (not pythons or job.python in pythons)
            and (not platforms or job.platform in platforms)
        )


def platform_of(system: str, machine: str, *, is_musl: bool = False) -> str:
    """Return the platform of a machine, as a matrix calls it; empty where it has no name for it.

    >>> platform_of("Linux", "x86_64"), platform_of("Windows", "AMD64")
    ('manylinux_x86_64', 'win_amd64')

    :param system: as `platform.system` says.
    :param machine: as `platform.machine` says.
    :param is_musl: whether it is a Linux with musl.
    """
    machine = machine.lower()
    if system == "Linux":
        name = f"{'musllinux' if is_musl else 'manylinux'}_{machine}"
    elif system == "Darwin":
        name = f"macosx_{machine}"
    else:
        name = {"x86": "win32"}.get(machine, f"win_{machine}") if system == "Windows" else ""
    return name if name in PLATFORMS else ""


def read_matrix(
    pyproject: Mapping[str, Any],
    variants: Iterable[Label] = (),
    *,
    where: str = "pyproject.toml",
) -> Matrix | None:
    """Read ``[tool.wheelfit.matrix]``.

    :param pyproject: the parsed file.
    :param variants: the labels of its ``[variant.variants]``, which are built if no others are
        named.
    :param where: the file, for errors.
    :return: None when there is no such table.
    :raises InvalidProject: it has faults; names all of them with their paths, as
        ``tool.wheelfit.matrix.exclude[0].label``.
    """
    table: object = pyproject
    for key in _TOP:
        table = table.get(key) if isinstance(table, Mapping) else None
    if table is None:
        return None
    reading = _Reading(tuple(variants))
    matrix = reading.matrix(table)
    if reading.faults:
        raise InvalidProject(reading.faults, where=where)
    return matrix


class _Reading:
    """Read key after key, and remember what is wrong."""

    def __init__(self, variants: tuple[Label, ...]) -> None:
        self.faults: list[Fault] = []
        self._variants = variants

    def matrix(self, table: object) -> Matrix:
        if not isinstance(table, Mapping):
            self._fault((), f"expected a table, found {shown(table)}")
            return Matrix(())
        for key in table:
            if key not in _KEYS:
                self._fault((key,), f"unknown key; there are {', '.join(_KEYS)}")
        labels: list[Label | None] = [
            Label(text)
            for text in self._texts(table, "labels", self._label_fault, tuple(self._variants))
        ]
        plain = table.get("plain", True)
        if not isinstance(plain, bool):
            self._fault(("plain",), f"expected a boolean, found {shown(plain)}")
        elif plain:
            labels.insert(0, None)
        elif not labels:
            self._fault(("plain",), "there is nothing to build without the plain wheel")
        pythons = self._texts(table, "pythons", _python_fault)
        platforms = self._texts(table, "platforms", _platform_fault)
        excludes = self._entries(table, "exclude", is_pattern=True)
        includes = self._entries(table, "include", is_pattern=False)
        runners = self._runners(table.get("runners", {}))
        if self.faults:
            return Matrix(())
        if len(labels) * len(pythons) * len(platforms) > _MOST:
            self._fault((), f"it has more than {_MOST} wheels")
            return Matrix(())
        jobs = {
            Job(label, python, platform): None
            for platform, python, label in product(platforms, pythons, labels)
        }
        for number, entry in enumerate(excludes):
            gone = [job for job in jobs if _matches(job, entry)]
            if not gone:
                self._fault(("exclude", number), "it excludes nothing")
            for job in gone:
                del jobs[job]
        for number, entry in enumerate(includes):
            for label, python, platform in product(*(entry[part] for part in _PARTS)):
                job = Job(Label(label) if label else None, python, platform)
                if job in jobs:
                    self._fault(("include", number), f"it is there already: {job}")
                jobs[job] = None
        if not jobs and not self.faults:
            self._fault((), "everything is excluded")
        return Matrix(tuple(jobs), runners)

    def _texts(
        self,
        table: Mapping[str, Any],
        key: str,
        fault_of: Callable[[str], str | None],
        default: tuple[str, ...] | None = None,
    ) -> list[str]:
        """Read a list of texts, each of them valid and there once."""
        if key not in table:
            if default is None:
                self._fault((key,), "it is missing")
            return list(default or ())
        return self._list(table[key], (key,), fault_of)

    def _list(
        self, value: object, steps: tuple[str | int, ...], fault_of: Callable[[str], str | None]
    ) -> list[str]:
        if not isinstance(value, list) or not value:
            found_instead = "an empty list" if value == [] else shown(value)
            self._fault(steps, f"expected a list of texts, found {found_instead}")
            return []
        found: list[str] = []
        for number, one in enumerate(value):
            if not isinstance(one, str):
                self._fault((*steps, number), f"expected a text, found {shown(one)}")
            elif (fault := fault_of(one)) is not None:
                self._fault((*steps, number), fault)
            elif one in found:
                self._fault((*steps, number), f"{shown(one)} is there already")
            else:
                found.append(one)
        return found

    def _label_fault(self, text: str) -> str | None:
        if text == "":
            return 'the plain wheel has a key of its own, as "plain = true"'
        if text in self._variants or text == NULL:
            return None
        known = ", ".join(self._variants) or "none"
        return f"{shown(text)} is not in [variant.variants], which has {known}"

    def _entries(
        self, table: Mapping[str, Any], key: str, *, is_pattern: bool
    ) -> list[dict[str, list[str]]]:
        """Read a list of tables whose keys are parts of a job."""
        given = table.get(key, [])
        if not isinstance(given, list):
            self._fault((key,), f"expected a list of tables, found {shown(given)}")
            return []
        found = []
        for number, entry in enumerate(given):
            if not isinstance(entry, Mapping) or not entry:
                self._fault((key, number), f"expected a table, found {shown(entry)}")
                continue
            for name in entry:
                if name not in _PARTS:
                    words = f"unknown key; there are {', '.join(_PARTS)}"
                    self._fault((key, number, name), words)
            if not is_pattern:
                for name in _PARTS:
                    if name not in entry:
                        self._fault((key, number, name), "it is missing")
            found.append(
                {
                    name: self._part((key, number, name), entry[name], name, is_pattern=is_pattern)
                    for name in _PARTS
                    if name in entry
                }
            )
        return found

    def _part(
        self, steps: tuple[str | int, ...], value: object, name: str, *, is_pattern: bool
    ) -> list[str]:
        checks = {"python": _python_fault, "platform": _platform_fault}
        check = checks.get(name, self._label_fault)

        def fault_of(text: str) -> str | None:
            is_plain = name == "label" and not text
            return None if is_plain or (is_pattern and "*" in text) else check(text)

        return self._list([value] if isinstance(value, str) else value, steps, fault_of)

    def _runners(self, table: object) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Read the names of runners, by service and platform."""
        found: dict[str, Mapping[str, tuple[str, ...]]] = {}
        if not isinstance(table, Mapping):
            self._fault(("runners",), f"expected a table, found {shown(table)}")
            return found
        for service, names in table.items():
            if service not in _SERVICES:
                words = f"unknown service; there are {', '.join(_SERVICES)}"
                self._fault(("runners", service), words)
            elif not isinstance(names, Mapping):
                self._fault(("runners", service), f"expected a table, found {shown(names)}")
            else:
                found[service] = MappingProxyType(self._names(service, names))
        return MappingProxyType(found)

    def _names(self, service: str, names: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
        found = {}
        for platform, value in names.items():
            steps = ("runners", service, platform)
            if (fault := _platform_fault(platform)) is not None:
                self._fault(steps, fault)
            else:
                value = [value] if isinstance(value, str) else value  # noqa: PLW2901 - one or more
                found[platform] = tuple(self._list(value, steps, _runner_fault))
        return found

    def _fault(self, steps: tuple[str | int, ...], message: str) -> None:
        self.faults.append(Fault(path_of(*_TOP, *steps), message))


def _matches(job: Job, entry: Mapping[str, list[str]]) -> bool:
    parts = {"label": job.label or "", "python": job.python, "platform": job.platform}
    return all(
        any(fnmatchcase(parts[name], one) for one in patterns) for name, patterns in entry.items()
    )


def _python_fault(text: str) -> str | None:
    if _PYTHON.fullmatch(text):
        return None
    return f"{shown(text)} is no version of Python, as 3.13, or 3.14t for free threading"


def _platform_fault(text: str) -> str | None:
    if text in PLATFORMS:
        return None
    return f"{shown(text)} is no platform; there are {', '.join(PLATFORMS)}"


def _runner_fault(text: str) -> str | None:
    return None if text.strip() and text.isprintable() else f"{shown(text)} is no name of a runner"
