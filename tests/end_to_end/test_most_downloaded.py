"""No wheel of the most downloaded projects is refused, and none is called wrong.

Of each project the newest wheel that fits this machine is installed into a folder and checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from platform import python_version

import pytest
from packaging.specifiers import SpecifierSet
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name

from wheelfit.checking.findings import Severity
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.operations.check import CheckRequest
from wheelfit.operations.check import check as check_targets
from wheelfit.operations.context import Context
from wheelfit.operations.install import InstallRequest, install
from wheelfit.operations.pip_rules import pip_surroundings
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
TAGS = {tag: rank for rank, tag in enumerate(sys_tags())}


@pytest.fixture(scope="module")
def sources() -> Iterator[Repository]:
    """Open the registry that pip is configured for; nothing is kept."""
    settings = read_pip_configuration(pip_surroundings(os.environ, None))
    with open_sources(settings, cache_folder=None, environ=os.environ) as repository:
        yield repository


def newest(sources: Repository, name: str) -> File | None:
    """Return the best wheel of the newest final release that has one for this machine."""
    page = sources.project(canonicalize_name(name))
    assert page is not None
    fitting: list[tuple[WheelFilename, int, File]] = []
    for file in page.files:
        try:
            wheel = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        ranks = [TAGS[tag] for tag in wheel.tags if tag in TAGS]
        if python_version() not in SpecifierSet(file.requires_python or ""):
            continue
        if ranks and file.yanked is None and not wheel.version.is_prerelease:
            fitting.append((wheel, min(ranks), file))
    best = max(fitting, key=lambda one: (one[0].version, -one[1]), default=None)
    return None if best is None else best[2]


def install_and_check(sources: Repository, name: str, folder: Path) -> None:
    """Install the newest wheel of a project into a folder, and look for errors in it."""
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
    installed = report.decided.planned.install
    assert [pin.filename.text for pin in installed] == [file.filename]
    found = check_targets(CheckRequest(targets=(str(path),), full=True), Context()).found
    assert not found.unchecked
    assert [one for one in found.findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", SAMPLE)
def test_a_few(sources: Repository, name: str, tmp_path: Path) -> None:
    """B-34: a pure and a compiled wheel are installed and have no error."""
    install_and_check(sources, name, tmp_path)


@pytest.mark.corpora
@pytest.mark.parametrize("name", NAMES)
def test_all(sources: Repository, name: str, tmp_path: Path) -> None:
    """B-34: nothing is refused, and nothing called an error, that everybody installs."""
    install_and_check(sources, name, tmp_path)
