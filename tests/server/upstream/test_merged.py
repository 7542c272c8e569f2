"""Several indexes merged into one, and the owners of projects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.utils import NormalizedName, canonicalize_name
from server.upstream.mirroring import Mirroring, read

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.upstream.merged import MergedIndex, MergedSource, OwnerRules
from wheelfit.server.upstream.opening import Mirrors, open_mirrors
from wheelfit.server.upstream.settings import MirrorSettings
from wheelfit.sources.page import ProjectPage
from wheelfit.sources.repository import Content
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import InvalidConfiguration, NetworkError

Opener = Callable[..., Mirroring]
SMALL = canonicalize_name("small")
PRIVATE = canonicalize_name("acme-tools")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return the folder of an index with an older release of ``small``."""
    folder = tmp_path / "own"
    build_wheel(folder, "small", "0.1")
    return folder


@pytest.fixture
def mirrored(mirror: Opener) -> Mirroring:
    """Return a mirror of the upstream."""
    return mirror(max_age=0)


def merged(own: Path, mirrored: Mirroring, **options: object) -> MergedIndex:
    """Merge both."""
    owners = OwnerRules(**options)  # type: ignore[arg-type]
    sources = [
        MergedSource("own", FolderIndex(own), is_own=True),
        MergedSource("pypi", mirrored.index),
    ]
    return MergedIndex(sources, owners)


def names(page: ProjectPage | None) -> list[str]:
    """Return the file names of a page."""
    return [] if page is None else [file.filename for file in page.files]


class TestOwners:
    """Protection against dependency confusion."""

    def test_own_project(self, own: Path, mirrored: Mirroring) -> None:
        """F-126: only its own files are available, however high the upstream's version is."""
        index = merged(own, mirrored)
        assert names(index.project(SMALL)) == ["small-0.1-py3-none-any.whl"]
        assert index.content("small-0.1-py3-none-any.whl") is not None
        assert index.content("small-2.0-py3-none-any.whl") is None
        assert index.content("small-2.0-py3-none-any.whl.metadata") is None

    def test_upstream_project(self, own: Path, mirrored: Mirroring) -> None:
        """Its page, files and metadata come from the upstream."""
        index = merged(own, mirrored)
        large = canonicalize_name("large")
        assert names(index.project(large)) == ["large-1.0-py3-none-any.whl"]
        assert isinstance(index.content("large-1.0-py3-none-any.whl.metadata"), Content)
        assert index.project(canonicalize_name("none")) is None

    def test_reserved_names(
        self, own: Path, mirrored: Mirroring, wheels: Path, upstream: RecordingIndex
    ) -> None:
        """Even without uploads the upstream is not asked for a reserved name."""
        build_wheel(wheels, "acme-tools", "99")
        index = merged(own, mirrored, reserved=("Acme_*",))
        assert index.project(PRIVATE) is None
        assert index.content("acme_tools-99-py3-none-any.whl") is None
        assert not any("acme" in request.path for request in upstream.requests)
        assert names(merged(own, mirrored).project(PRIVATE)) == ["acme_tools-99-py3-none-any.whl"]

    def test_own_project_without_files(self, own: Path, mirrored: Mirroring, wheels: Path) -> None:
        """A project with deleted or unpublished files does not pass to the upstream."""
        build_wheel(wheels, "acme-tools", "99")

        def claims(name: NormalizedName) -> bool:
            return name == PRIVATE

        sources = [
            MergedSource("own", FolderIndex(own), is_own=True, owns_name=claims),
            MergedSource("pypi", mirrored.index),
        ]
        index = MergedIndex(sources)
        assert index.project(PRIVATE) is None
        assert index.stamp(PRIVATE) is None
        assert index.content("acme_tools-99-py3-none-any.whl") is None

    def test_configured_owner(self, own: Path, mirrored: Mirroring) -> None:
        """Only the configured owner is asked."""
        index = merged(own, mirrored, named={"small": "pypi", "large": "own"})
        assert "small-2.0-py3-none-any.whl" in names(index.project(SMALL))
        assert index.project(canonicalize_name("large")) is None

    def test_unavailable_upstream(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """The next upstream is not asked instead."""
        first, second = mirror(max_age=0), mirror(folder="second")
        upstream.faults.resets["/simple/small/"] = 9
        index = MergedIndex([MergedSource("a", first.index), MergedSource("b", second.index)])
        with pytest.raises(NetworkError):
            index.project(SMALL)

    def test_project_list(self, own: Path, mirror: Opener, wheels: Path) -> None:
        """Each project is listed once, and only if its owner has it."""
        build_wheel(wheels, "acme-tools", "99")
        index = merged(own, mirror(list_all=True), reserved=("acme-*",))
        assert list(index.projects()) == ["large", "small"]

    def test_rules_for_unknown_sources(self, own: Path, mirrored: Mirroring) -> None:
        """A rule that could never apply is an error."""
        with pytest.raises(ValueError, match="not a source"):
            merged(own, mirrored, named={"small": "other"})


class TestStamps:
    """The stamps by which rendered pages are reused."""

    def test_stamp(self, mirrored: Mirroring, wheels: Path) -> None:
        """It is equal for the same page, and differs for another."""
        index = MergedIndex([MergedSource("pypi", mirrored.index)])
        first = index.stamp(SMALL)
        assert first is not None
        assert index.stamp(SMALL) == first
        build_wheel(wheels, "small", "3.0")
        assert index.stamp(SMALL) != first

    def test_new_owner(self, own: Path, mirrored: Mirroring) -> None:
        """A project that gets an own owner changes at once, despite cached pages."""
        application = SimpleIndex(merged(own, mirrored))

        def page() -> bytes:
            return read(application(Request("GET", "/simple/large/", {"accept": "text/html"})))

        assert b"large-1.0" in page()
        build_wheel(own, "large", "0.5")
        assert b"large-1.0" not in page()
        assert b"large-0.5" in page()


class TestOpening:
    """Opening a merged index from settings."""

    @pytest.fixture
    def mirrors(self, upstream: RecordingIndex, tmp_path: Path) -> Iterator[Mirrors]:
        """Return two mirrors."""
        settings = [
            MirrorSettings(upstream.url, "first", allow=("small",)),
            MirrorSettings(upstream.url, "second"),
        ]
        blobs = FolderBlobs(tmp_path / "blobs")
        mirrors = open_mirrors(settings, blobs, tmp_path / "cache", environ={})
        yield mirrors
        mirrors.close()

    def test_order(self, mirrors: Mirrors, own: Path, tmp_path: Path) -> None:
        """The first permitted source that has the project supplies it; uploads come first."""
        (tmp_path / "empty").mkdir()
        index = mirrors.merge_with_uploads(FolderIndex(tmp_path / "empty"))
        page = index.project(SMALL)
        assert page is not None
        assert page.source == "first"
        other = index.project(canonicalize_name("large"))
        assert other is not None
        assert other.source == "second"
        assert len(names(mirrors.merge_with_uploads(FolderIndex(own)).project(SMALL))) == 1

    def test_leftovers_of_a_killed_process(self, upstream: RecordingIndex, tmp_path: Path) -> None:
        """A partial file without writes for a day is removed at the next start."""
        incoming = tmp_path / "blobs/.incoming"
        incoming.mkdir(parents=True)
        old, new = incoming / "old.part", incoming / "new.part"
        old.write_bytes(b"half")
        new.write_bytes(b"half")
        os.utime(old, (1, 1))
        blobs = FolderBlobs(tmp_path / "blobs")
        open_mirrors([MirrorSettings(upstream.url)], blobs, None, environ={}).close()
        assert list(incoming.iterdir()) == [new]

    def test_invalid_settings(self, mirrors: Mirrors, tmp_path: Path) -> None:
        """Each is reported before the index is served."""
        with pytest.raises(ValueError, match="not a source"):
            mirrors.merge_with_uploads(
                FolderIndex(tmp_path), owners=OwnerRules(named={"small": "third"})
            )
        twice = [MirrorSettings("https://index.example/simple/")] * 2
        with pytest.raises(InvalidConfiguration, match="two sources"):
            open_mirrors(twice, FolderBlobs(tmp_path), None, environ={})
        bad = MirrorSettings("https://index.example/simple/", hosts=("a b:c",))
        with pytest.raises(InvalidConfiguration, match="HOST"):
            open_mirrors([bad], FolderBlobs(tmp_path), None, environ={})
