"""Hold families against the registry: ``python tests/sources/bridge_registry.py [NAME …]``.

Nothing but pages, metadata and the directories of wheels is read.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import RawIOBase

from packaging.utils import NormalizedName
from packaging.version import Version

from wheelfit.core.bridges import BridgeFamily, FamilyMember
from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.operations.pip_rules import pip_surroundings
from wheelfit.sources.bridges.catalogue import shipped, shipped_names
from wheelfit.sources.memoized import MemoizedRepository
from wheelfit.sources.open import open_sources
from wheelfit.sources.page import File, time_of_upload
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.repository import Repository

LIVE_SINCE = datetime(2026, 3, 1, tzinfo=UTC)
"""A family is alive if two of its members have had a release since."""
_SHARED = frozenset({"nvidia/__init__.py"})
"""What distributions of one vendor have in common without owning it."""
_MAJOR = re.compile(
    r"""-cu(?:da)?(1[1-9])x?\b            # nvidia-nccl-cu12, cupy-cuda12x
      | \[cu(1[1-9])\]                    # numba-cuda[cu12]
      | ^cuda-toolkit .* ==\ ?(1[1-9])    # cuda-toolkit[cublas]==12.*
      | ^nvidia-(?:cublas|cuda-runtime|cuda-nvrtc)\b (?!-) .*? (?:==|~=)\ ?(1[1-9])\.
    """,
    re.VERBOSE,
)


@dataclass
class Report:
    """Say what was found of a family."""

    family: BridgeFamily
    newest: dict[NormalizedName, Version] = field(default_factory=dict)
    """Of each member the newest final release."""
    uploaded: dict[NormalizedName, datetime | None] = field(default_factory=dict)
    shares: bool = False
    """Whether two members own the same files."""
    faults: list[str] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        """Whether two members have had a release lately."""
        times = [time for time in self.uploaded.values() if time is not None]
        return sum(time >= LIVE_SINCE for time in times) > 1


def open_registry() -> MemoizedRepository:
    """Open the registry that pip is configured for; nothing is kept."""
    settings = read_pip_configuration(pip_surroundings(os.environ, None))
    return open_sources(settings, cache_folder=None, environ=os.environ)


def examine(family: BridgeFamily, sources: Repository) -> Report:
    """Find everything in which a family is not as its file says.

    :param family: of names, not of indexes.
    :param sources: the registry.
    """
    report = Report(family)
    wheels: dict[NormalizedName, dict[Version, list[tuple[WheelFilename, File]]]] = {}
    for name in family.distributions:
        wheels[name] = _releases(sources, name)
        if not wheels[name]:
            report.faults.append(f"{name} has no wheels")
            continue
        newest = max(wheels[name])
        times = [time_of_upload(file) for _, file in wheels[name][newest]]
        report.newest[name] = newest
        report.uploaded[name] = max((one for one in times if one is not None), default=None)
    extras: set[NormalizedName] = set()
    contents: dict[NormalizedName, set[str]] = {}
    for member in family.members:
        covered = [one for one in wheels[member.distribution] if one in member.versions]
        if not covered:
            report.faults.append(f"no release of {member.distribution} is {member.versions}")
            continue
        _, file = _typical(wheels[member.distribution][max(covered)])
        core = read_metadata(sources.metadata(file), file.filename)
        extras |= core.provides_extra
        report.faults += _contradictions(member, core)
        contents[member.distribution] = _files(file)
    report.faults += [
        f"no member has the extra {one}" for one in family.extras if one not in extras
    ]
    report.shares = any(
        (one & other) - _SHARED for one, other in itertools.combinations(contents.values(), 2)
    )
    if report.shares != family.exclusive:
        report.faults.append(
            f"exclusive is {family.exclusive}, and files are shared: {report.shares}"
        )
    return report


def _releases(
    sources: Repository, name: NormalizedName
) -> dict[Version, list[tuple[WheelFilename, File]]]:
    page = sources.project(name)
    found: dict[Version, list[tuple[WheelFilename, File]]] = {}
    final: dict[Version, list[tuple[WheelFilename, File]]] = {}
    for file in () if page is None else page.files:
        with suppress(InvalidFilename):
            if file.filename.endswith(".whl") and file.yanked is None:
                wheel = parse_wheel_filename(file.filename)
                kind = found if wheel.version.is_prerelease else final
                kind.setdefault(wheel.version, []).append((wheel, file))
    return final or found


def _typical(wheels: Sequence[tuple[WheelFilename, File]]) -> tuple[WheelFilename, File]:
    """Return the same kind of wheel of every member: the last one for Linux, if there is one."""

    def rank(item: tuple[WheelFilename, File]) -> tuple[bool, str]:
        platforms = {tag.platform for tag in item[0].tags}
        linux = any("linux" in one and "x86_64" in one for one in platforms)
        return linux, item[0].text.split("-", 2)[2]

    return max(wheels, key=rank)


def _contradictions(member: FamilyMember, core: CoreMetadata) -> Iterator[str]:
    """Yield what a member needs that its rule does not go with."""
    bounds = member.when.values("nvidia", "cuda_version_lower_bound")
    needed = {
        group
        for text in core.requires_texts
        for match in _MAJOR.finditer(text)
        for group in match.groups()
        if group is not None
    }
    majors = {bound.partition(".")[0] for bound in bounds}
    if needed and majors and not majors & needed:
        yield (
            f"{core.name} {core.version} needs libraries of CUDA {', '.join(sorted(needed))}, "
            f"and its rule is for {', '.join(sorted(majors))}"
        )
    unconditional = {
        text for text in core.requires_texts if "extra" not in text and _MAJOR.search(text)
    }
    if unconditional and not member.when and member.distribution.endswith("-cpu"):
        yield f"{core.name} {core.version} needs {min(unconditional)}, and is for any machine"


class _Ranges(RawIOBase):
    """Read a remote file by ranges."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._tail, content_range = self._get("bytes=-65536")
        self._start, self._size = (int(part) for part in re.findall(r"\d+", content_range)[::2])
        self._place = 0

    def _get(self, wanted: str) -> tuple[bytes, str]:
        request = urllib.request.Request(self._url, headers={"Range": wanted})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read(), answer.headers["Content-Range"]

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._place + size)
        if end <= self._place:
            return b""
        if self._place >= self._start:
            data = self._tail[self._place - self._start : end - self._start]
        else:
            data = self._get(f"bytes={self._place}-{end - 1}")[0]
        self._place = end
        return data


def _files(file: File) -> set[str]:
    with zipfile.ZipFile(_Ranges(file.url)) as archive:
        names = archive.namelist()
    return {name for name in names if ".dist-info/" not in name and not name.endswith("/")}


def examine_all(
    families: Sequence[BridgeFamily], sources: Repository, told: Callable[[Report], None]
) -> list[Report]:
    """Examine families, several at a time.

    :param families: the families.
    :param sources: the registry.
    :param told: called with each report, in order.
    """
    reports = []
    with ThreadPoolExecutor(8) as pool:
        for report in pool.map(lambda family: examine(family, sources), families):
            told(report)
            reports.append(report)
    return reports


def _tell(report: Report) -> None:
    family = report.family
    members = ", ".join(f"{name} {version}" for name, version in report.newest.items())
    print(f"{family.name}: {'live' if report.is_live else 'quiet'}; {members}")
    for fault in report.faults:
        print(f"  WRONG {fault}")


if __name__ == "__main__":
    names = sys.argv[1:] or shipped_names()
    wanted = [family for name in names if (family := shipped(name)) and not family.is_of_indexes]
    with open_registry() as registry:
        results = examine_all(wanted, registry, _tell)
    live = sum(report.is_live for report in results)
    faulty = sum(bool(report.faults) for report in results)
    print(f"{len(results)} families checked, {live} live, {faulty} wrong")
    sys.exit(faulty > 0)
