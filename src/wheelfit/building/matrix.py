"""The wheels of a release: ``[tool.wheelfit.matrix]`` of its pyproject.toml.

The matrix is labels, times Pythons, times platforms, less the excluded ones, plus the included
ones. Platforms have the names of cibuildwheel. This module builds nothing, and is independent of
the machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from wheelfit.core.labels import NULL, Label
from wheelfit.core.strict_json import shown
from wheelfit.core.table_reader import FaultList, Table, section
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

ANY = "any"
"""The platform of wheels that fit every platform; any requested platform can build them."""
_LINUX = ("x86_64", "i686", "aarch64", "armv7l", "ppc64le", "s390x", "riscv64")
PLATFORMS = (
    ANY,
    *(f"manylinux_{machine}" for machine in _LINUX),
    *(f"musllinux_{machine}" for machine in _LINUX),
    "macosx_arm64",
    "macosx_x86_64",
    "macosx_universal2",
    "win_amd64",
    "win_arm64",
    "win32",
)
"""The platforms that a matrix may name."""
_KEYS = ("labels", "pythons", "platforms", "plain", "exclude", "include", "runners")
_PARTS = ("label", "python", "platform")
_SERVICES = ("github", "gitlab")
_PYTHON = pattern(r"3\.(0|[1-9][0-9]?)t?", re.ASCII)
_MAX_JOBS = 100_000
"""Wheels of a matrix; more are a mistake."""


@dataclass(frozen=True, slots=True)
class Job:
    """A wheel of a release, as one job."""

    label: Label | None
    """Of the variant; None: the plain wheel."""
    python: str
    """As ``3.13``, or ``3.14t`` for free threading."""
    platform: str
    """One of `PLATFORMS`."""

    @property
    def identifier(self) -> str:
        """The name of its target in cibuildwheel, as ``cp313-manylinux_x86_64``; empty for any."""
        if self.platform == ANY:
            return ""
        return f"cp{self.python.replace('.', '')}-{self.platform}"

    def __str__(self) -> str:
        label = "plain" if self.label is None else str(self.label)
        return f"{label}, Python {self.python}, {self.platform}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """The wheels of a release, and the runners of CI services that build them."""

    jobs: tuple[Job, ...]
    """In the order of platforms, Pythons and labels; each once."""
    runners: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict, hash=False)
    """Names of runners by service and platform, which override the defaults."""

    def only(
        self,
        *,
        labels: Collection[Label | None] = (),
        pythons: Collection[str] = (),
        platforms: Collection[str] = (),
    ) -> tuple[Job, ...]:
        """Return the jobs of some labels, Pythons and platforms."""
        return tuple(
            job
            for job in self.jobs
            if (not labels or job.label in labels)
            and (not pythons or job.python in pythons)
            and (not platforms or job.platform in platforms)
        )


def platform_of(system: str, machine: str, *, is_musl: bool = False) -> str:
    """Return the platform of a machine as a matrix names it; empty if it has no name for it.

    >>> platform_of("Linux", "x86_64"), platform_of("Windows", "AMD64")
    ('manylinux_x86_64', 'win_amd64')
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

    :param variants: the labels of its ``[variant.variants]``, which are built if no others are
        named.
    :return: None when there is no such table.
    :raises InvalidDocument: ``invalid-project``; lists all faults with their paths, as
        ``tool.wheelfit.matrix.exclude[0].label``.
    """
    faults = FaultList()
    table = section(pyproject, faults, "tool", "wheelfit", "matrix")
    if table is None:
        return None
    matrix = None if faults else _matrix(table, faults, tuple(variants))
    if faults:
        raise InvalidDocument(faults, code="invalid-project", where=where)
    return matrix


def _matrix(table: Table, faults: FaultList, variants: tuple[str, ...]) -> Matrix:
    table.only(*_KEYS)
    parse_label = partial(_label, variants)
    labels: list[Label | None] = [
        Label(text)
        for text in (_read_list(table, "labels", parse_label) if "labels" in table else variants)
    ]
    if table.flag("plain", default=True):
        labels.insert(0, None)
    elif not labels:
        table.fault("must not be false: there is nothing to build without the plain wheel", "plain")
    pythons = _read_list(table, "pythons", _python)
    platforms = _read_list(table, "platforms", _platform)
    parsers: dict[str, _Parser] = {
        "label": lambda text: parse_label(text) if text else text,  # empty: the plain wheel
        "python": _python,
        "platform": _platform,
    }
    excludes = [
        {
            name: _read_list(entry, name, _or_pattern(parsers[name]), single=True)
            for name in _parts_of(entry)
        }
        for entry in table.tables("exclude")
    ]
    includes = [
        {name: _read_list(entry, name, parsers[name], single=True) for name in _PARTS}
        for entry in table.tables("include")
        if _parts_of(entry)  # an empty entry has its fault already
    ]
    runners = _runners(table.table("runners"))
    if faults:
        return Matrix(())
    if len(labels) * len(pythons) * len(platforms) > _MAX_JOBS:
        table.fault(f"must not have more than {_MAX_JOBS} wheels")
        return Matrix(())
    jobs = {
        Job(label, python, platform): None
        for platform, python, label in product(platforms, pythons, labels)
    }
    for number, entry in enumerate(excludes):
        excluded = [job for job in jobs if _matches(job, entry)]
        if not excluded:
            table.fault("excludes nothing", "exclude", number)
        for job in excluded:
            del jobs[job]
    for number, entry in enumerate(includes):
        for label, python, platform in product(*(entry[part] for part in _PARTS)):
            job = Job(Label(label) if label else None, python, platform)
            if job in jobs:
                table.fault(f"is in the matrix already: {job}", "include", number)
            jobs[job] = None
    if not jobs and not faults:
        table.fault("excludes everything")
    return Matrix(tuple(jobs), runners)


_Parser: TypeAlias = "Callable[[str], str]"


def _read_list(table: Table, key: str, parse: _Parser, *, single: bool = False) -> list[str]:
    """Return a list of valid, distinct strings; an empty list is a fault.

    :param single: whether one string may stand for a list of one.
    """
    seen: set[str] = set()

    def parse_new(text: str) -> str:
        parse(text)
        if text in seen:
            raise ValueError(f"is a duplicate: {shown(text)}")
        seen.add(text)
        return text

    if key not in table:
        table.fault("is missing", key)
    elif table.content[key] == []:
        table.must_be("a list of strings", [], key)
    return table.each(key, parse_new, single=single)


def _parts_of(entry: Table) -> list[str]:
    """Return the parts of a job in an entry, after checking its other keys."""
    entry.only(*_PARTS)
    if not entry.content:
        entry.fault("must not be empty")
    return [name for name in _PARTS if name in entry]


def _or_pattern(parse: _Parser) -> _Parser:
    return lambda text: text if "*" in text else parse(text)


def _runners(table: Table) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Read the names of runners, by service and platform."""
    table.only(*_SERVICES)
    by_service = {}
    for service in _SERVICES:
        names = table.table(service)
        runners = {}
        for platform in names.content:
            is_known = names.parsed(_platform, platform, platform) is not None
            if is_known:
                runners[platform] = tuple(_read_list(names, platform, _runner, single=True))
        if service in table:
            by_service[service] = runners
    return by_service


def _label(variants: tuple[str, ...], text: str) -> str:
    if text == "":
        raise ValueError('must not be empty: the plain wheel has its own key, "plain = true"')
    if text not in variants and text != NULL:
        labels = ", ".join(variants) or "none"
        raise ValueError(f"is not in [variant.variants], which has {labels}: {shown(text)}")
    return text


def _python(text: str) -> str:
    if not _PYTHON.fullmatch(text):
        kind = "a version of Python, such as 3.13, or 3.14t for free threading"
        raise ValueError(f"must be {kind}, not {shown(text)}")
    return text


def _platform(text: str) -> str:
    if text not in PLATFORMS:
        raise ValueError(f"must be one of {', '.join(PLATFORMS)}, not {shown(text)}")
    return text


def _runner(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(f"must be the name of a runner, not {shown(text)}")
    return text


def _matches(job: Job, entry: Mapping[str, list[str]]) -> bool:
    parts = {"label": job.label or "", "python": job.python, "platform": job.platform}
    return all(
        any(fnmatchcase(parts[name], text) for text in texts) for name, texts in entry.items()
    )
