"""No popular package is refused: the newest wheels of several hundred of them are sound for us.

Of each project one wheel of the newest release is taken, for whatever platform, so that wheels
of many build tools and repair tools come by. Wheels that are too large are read by ranges.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.operations.pip_rules import pip_config_locations
from wheelfit.sources.open import open_sources
from wheelfit.sources.page import File
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.repository import Repository
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.reading import binaries_of
from wheelfit.wheels.entry_points import parse_commands

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.usefixtures("registry")]

LARGEST = 30 << 20
NAMES = Path(__file__).with_name("popular.txt").read_text(encoding="utf-8").split()
SAMPLE = (
    "attrs",
    "cffi",
    "certifi",
    "greenlet",
    "jinja2",
    "markupsafe",
    "orjson",
    "protobuf",
    "pysocks",
    "pyyaml",
    "setuptools",
)
"""Pure and compiled ones, of setuptools, flit, hatchling, maturin and bazel."""
LARGE = ("jaxlib", "nvidia-cublas-cu12", "playwright", "torch", "vllm")


@pytest.fixture(scope="module")
def sources() -> Iterator[Repository]:
    """Open the registry that pip is configured for; nothing is kept."""
    settings = read_pip_configuration(pip_config_locations(os.environ, None))
    with open_sources(settings, cache_folder=None, environ=os.environ) as repository:
        yield repository


def newest(sources: Repository, name: str) -> list[File]:
    """Return the wheels of the newest final release that has some."""
    page = sources.project(canonicalize_name(name))
    assert page is not None
    releases: dict[Version, list[tuple[WheelFilename, File]]] = {}
    for file in page.files:
        try:
            wheel = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        if file.yanked is None and not wheel.version.is_prerelease:
            releases.setdefault(wheel.version, []).append((wheel, file))
    files = releases[max(releases)]
    return sorted((file for _, file in files), key=lambda file: file.filename)


def check(sources: Repository, name: str, folder: Path) -> None:
    """Take one wheel of a project, hold all of it against its RECORD, and read its binaries."""
    files = [file for file in newest(sources, name) if (file.size or 0) <= LARGEST]
    if not files:
        pytest.skip("all its wheels are large")
    path = sources.download(files[zlib.crc32(name.encode()) % len(files)], folder)
    with WheelArchive(path) as wheel:
        wheel.verify()
        assert not [fault for one in binaries_of(wheel) for fault in one.faults]
        commands = f"{wheel.dist_info}/entry_points.txt"
        if commands in wheel:
            parse_commands(wheel.read(commands).decode(), where=path.name)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_few(sources: Repository, name: str, tmp_path: Path) -> None:
    """B-34: wheels of different tools pass every check."""
    check(sources, name, tmp_path)


@pytest.mark.corpora
@pytest.mark.parametrize("name", NAMES)
def test_many(sources: Repository, name: str, tmp_path: Path) -> None:
    """B-34: there is no false refusal."""
    check(sources, name, tmp_path)


@pytest.mark.parametrize(
    "name", [LARGE[0], *(pytest.param(name, marks=pytest.mark.corpora) for name in LARGE[1:])]
)
def test_large_ones_by_ranges(sources: Repository, name: str) -> None:
    """The directory and the metadata of every large wheel can be read from afar."""
    for file in newest(sources, name):
        wheel = parse_wheel_filename(file.filename)
        assert f"Version: {wheel.version}".encode() in sources.metadata(file)
