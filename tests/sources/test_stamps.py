"""What tells that a page is the same without reading it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from wheelfit.sources.cooldown import Cooldown, Cutoff
from wheelfit.sources.open import OpenedSources, open_sources
from wheelfit.sources.repository import stamp_of
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

DEMO = canonicalize_name("demo")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Give an index of one project."""
    build_wheel(tmp_path / "wheels", "demo", "1.0")
    with RecordingIndex(tmp_path / "wheels") as server:
        yield server


def opened(index: RecordingIndex, **settings: object) -> OpenedSources:
    """Open the index, keeping nothing between two questions."""
    found = SourceSettings(index_url=index.url, keyring="disabled", **settings)  # type: ignore[arg-type]
    return open_sources(found, cache_folder=None, environ={})


def test_the_same_page(index: RecordingIndex) -> None:
    """A page says of itself what is said of it without reading it."""
    with opened(index) as sources:
        page = sources.project(DEMO)
        assert page is not None
        assert page.stamp
        assert stamp_of(sources, DEMO) == page.stamp


def test_another_page(index: RecordingIndex, tmp_path: Path) -> None:
    """A page that has changed has another stamp."""
    with opened(index) as sources:
        before = stamp_of(sources, DEMO)
    build_wheel(tmp_path / "wheels", "demo", "2.0")
    with opened(index) as sources:
        assert stamp_of(sources, DEMO) not in ("", before)


def test_what_has_none(index: RecordingIndex, tmp_path: Path) -> None:
    """What one page alone does not tell has no stamp."""
    build_wheel(tmp_path / "links", "demo", "3.0")
    other = index.url.replace("127.0.0.1", "localhost")
    several = {"extra_index_urls": (other,), "index_strategy": "unsafe-best-match"}
    with opened(index) as sources:
        assert stamp_of(sources, canonicalize_name("none")) == ""
    for settings in (
        {"find_links": (str(tmp_path / "links"),)},
        several,
        {"cooldown": Cooldown(Cutoff(datetime(2030, 1, 1, tzinfo=UTC)))},
    ):
        with opened(index, **settings) as sources:
            assert stamp_of(sources, DEMO) == ""


def test_links_without_the_project(index: RecordingIndex, tmp_path: Path) -> None:
    """A folder that has nothing of a project has no say about its page."""
    build_wheel(tmp_path / "links", "other", "1.0")
    with opened(index, find_links=(str(tmp_path / "links"),)) as sources:
        assert stamp_of(sources, DEMO) != ""
