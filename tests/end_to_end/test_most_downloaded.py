"""Checks of the most downloaded projects: no false refusals or errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from platform import python_version

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name

from wheelfit.checking.findings import Severity
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.operations.check import CheckRequest
from wheelfit.operations.check import check as check_targets
from wheelfit.operations.context import Context
from wheelfit.operations.install import InstallRequest, install
from wheelfit.operations.pip_rules import pip_config_locations
from wheelfit.sources.open import open_sources
from wheelfit.sources.page import File
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.repository import Repository

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.usefixtures("registry")]

LARGEST = 60 << 20
"""Bytes of the largest wheel that is fetched."""
NAMES = [
    line
    for line in Path(__file__).with_name("most_downloaded.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
SAMPLE = ("numpy", "setuptools")
TRUE = {("protobuf", "macosx", "platform-too-old"), ("torch", "macosx", "wrong-wheel-tags")}
"""Errors that have been looked at: a library for macOS 12 in a wheel for 10.9; x86_64 in WHEEL of a
wheel for arm64, of 2021, the last one below the limit."""
Rank = Callable[[WheelFilename, File], int | None]
TAGS = {tag: rank for rank, tag in enumerate(sys_tags())}


@pytest.fixture(scope="module")
def sources() -> Iterator[Repository]:
    """Open the registry that pip is configured for, without a cache."""
    settings = read_pip_configuration(pip_config_locations(os.environ, None))
    with open_sources(settings, cache_folder=None, environ=os.environ) as repository:
        yield repository


def rank_here(wheel: WheelFilename, file: File) -> int | None:
    """Return the rank of a wheel on this machine, 0 for the best; None if incompatible."""
    ranks = [TAGS[tag] for tag in wheel.tags if tag in TAGS]
    try:
        fits = python_version() in SpecifierSet(file.requires_python or "")
    except InvalidSpecifier:
        fits = True  # as installers have it
    return min(ranks) if ranks and fits else None


def rank_on(system: str) -> Rank:
    """Return a function that ranks wheels for another system, the newest Python first."""

    def rank(wheel: WheelFilename, _: File) -> int | None:
        if not any(system in tag.platform for tag in wheel.tags):
            return None
        found = [re.fullmatch(r"cp3(\d+)", tag.interpreter) for tag in wheel.tags]
        return min(-int(one[1]) if one else 0 for one in found)

    return rank


def newest(sources: Repository, name: str, rank: Rank = rank_here) -> File | None:
    """Return the best wheel for a machine of the newest final release with one."""
    page = sources.project(canonicalize_name(name))
    assert page is not None
    fitting: list[tuple[WheelFilename, int, File]] = []
    for file in page.files:
        try:
            wheel = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        own = rank(wheel, file)
        if own is not None and file.yanked is None and not wheel.version.is_prerelease:
            fitting.append((wheel, own, file))
    best = max(fitting, key=lambda one: (one[0].version, -one[1]), default=None)
    return None if best is None else best[2]


def install_and_check(sources: Repository, name: str, folder: Path) -> None:
    """Install the newest wheel of a project into a folder, and check it."""
    file = newest(sources, name)
    if file is None or (file.size or 0) > LARGEST:
        pytest.skip("no wheel for this machine, or a large one")
    path = sources.download(file, folder)
    request = InstallRequest(
        requirements=(str(path),),
        target=str(folder / "target"),
        cache_dir=str(folder / "cache"),
        no_deps=True,
        no_index=True,
    )
    report = install(request, Context())
    installed = report.decision.planned.install
    assert [pin.filename.text for pin in installed] == [file.filename]
    checked = CheckRequest(targets=(str(path),), full=True, binaries=True)
    found = check_targets(checked, Context()).findings
    assert not found.unchecked
    assert [finding for finding in found.findings if finding.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", SAMPLE)
def test_two_projects(sources: Repository, name: str, tmp_path: Path) -> None:
    """B-34: a pure and a compiled wheel are installed without errors."""
    install_and_check(sources, name, tmp_path)


@pytest.mark.corpora
@pytest.mark.parametrize("name", NAMES)
def test_all(sources: Repository, name: str, tmp_path: Path) -> None:
    """B-34, F-15, B-60: no project is refused or has an error."""
    install_and_check(sources, name, tmp_path)


@pytest.mark.corpora
@pytest.mark.parametrize("system", ["macosx", "win_amd64", "musllinux"])
@pytest.mark.parametrize("name", NAMES)
def test_other_systems(sources: Repository, name: str, system: str, tmp_path: Path) -> None:
    """F-15, B-60: wheels for other systems have no false errors."""
    file = newest(sources, name, rank_on(system))
    if file is None or (file.size or 0) > LARGEST:
        pytest.skip("no wheel for that system, or a large one")
    path = sources.download(file, tmp_path)
    request = CheckRequest(targets=(str(path),), binaries=True)
    found = check_targets(request, Context()).findings
    assert not found.unchecked
    errors = {finding.code for finding in found.findings if finding.severity is Severity.ERROR}
    assert {code for code in errors if (name, system, code) not in TRUE} == set()
