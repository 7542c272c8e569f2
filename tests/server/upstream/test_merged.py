"""Several indexes as one, and who owns what."""

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
from wheelfit.server.upstream.merged import (
    IndexWithLocations,
    MergedIndex,
    MergedSource,
    OwnerRules,
)
from wheelfit.server.upstream.opening import Mirrors, open_mirrors
from wheelfit.server.upstream.settings import MirrorSettings
from wheelfit.sources.page import OtherPages, ProjectPage
from wheelfit.sources.repository import Content
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import InvalidConfiguration, NetworkError

Opener = Callable[..., Mirroring]
SMALL = canonicalize_name("small")
PRIVATE = canonicalize_name("acme-tools")
DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Give the folder of an index of one's own, with an older release of ``small``."""
    folder = tmp_path / "own"
    build_wheel(folder, "small", "0.1")
    return folder


@pytest.fixture
def mirrored(mirror: Opener) -> Mirroring:
    """Give a mirror of the upstream."""
    return mirror(max_age=0)


def merged(own: Path, mirrored: Mirroring, **options: object) -> MergedIndex:
    """Put both together."""
    owners = OwnerRules(**options)  # type: ignore[arg-type]
    sources = [
        MergedSource("own", FolderIndex(own), is_own=True),
        MergedSource("pypi", mirrored.index),
    ]
    return MergedIndex(sources, owners)


def names(page: ProjectPage | None) -> list[str]:
    """Return the names of the files of a page."""
    return [] if page is None else [file.filename for file in page.files]


class TestOwners:
    """Dependency confusion, and how it is kept out."""

    def test_an_own_project_comes_from_there_alone(self, own: Path, mirrored: Mirroring) -> None:
        """F-126: however high the upstream's version is; its files cannot be had by name."""
        index = merged(own, mirrored)
        assert names(index.project(SMALL)) == ["small-0.1-py3-none-any.whl"]
        assert index.content("small-0.1-py3-none-any.whl") is not None
        assert index.content("small-2.0-py3-none-any.whl") is None
        assert index.content("small-2.0-py3-none-any.whl.metadata") is None

    def test_others_come_from_the_upstream(self, own: Path, mirrored: Mirroring) -> None:
        """Page, files and metadata."""
        index = merged(own, mirrored)
        large = canonicalize_name("large")
        assert names(index.project(large)) == ["large-1.0-py3-none-any.whl"]
        assert isinstance(index.content("large-1.0-py3-none-any.whl.metadata"), Content)
        assert index.project(canonicalize_name("none")) is None

    def test_reserved_names_never_fall_through(
        self, own: Path, mirrored: Mirroring, wheels: Path, upstream: RecordingIndex
    ) -> None:
        """Before anything is uploaded, too; and the upstream is not even told of the name."""
        build_wheel(wheels, "acme-tools", "99")
        index = merged(own, mirrored, reserved=("Acme_*",))
        assert index.project(PRIVATE) is None
        assert index.content("acme_tools-99-py3-none-any.whl") is None
        assert not any("acme" in request.path for request in upstream.requests)
        assert names(merged(own, mirrored).project(PRIVATE)) == ["acme_tools-99-py3-none-any.whl"]

    def test_a_project_whose_files_are_gone_stays_ones_own(
        self, own: Path, mirrored: Mirroring, wheels: Path
    ) -> None:
        """What was deleted, or is not published yet, is not the upstream's all at once."""
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

    def test_an_operator_may_name_the_owner(self, own: Path, mirrored: Mirroring) -> None:
        """Then nobody else is asked."""
        index = merged(own, mirrored, named={"small": ("pypi",), "large": ("own",)})
        assert "small-2.0-py3-none-any.whl" in names(index.project(SMALL))
        assert index.project(canonicalize_name("large")) is None

    def test_an_upstream_that_is_down_changes_no_owner(
        self, mirror: Opener, upstream: RecordingIndex
    ) -> None:
        """The next one is not asked in its place."""
        first, second = mirror(max_age=0), mirror(folder="second")
        upstream.faults.resets["/simple/small/"] = 9
        index = MergedIndex([MergedSource("a", first.index), MergedSource("b", second.index)])
        with pytest.raises(NetworkError):
            index.project(SMALL)

    def test_the_list_of_projects(self, own: Path, mirror: Opener, wheels: Path) -> None:
        """Each once, and none that its owner has not."""
        build_wheel(wheels, "acme-tools", "99")
        index = merged(own, mirror(list_all=True), reserved=("acme-*",))
        assert list(index.projects()) == ["large", "small"]

    def test_rules_about_sources_that_are_not_there(self, own: Path, mirrored: Mirroring) -> None:
        """A rule that would never hold is a mistake."""
        with pytest.raises(ValueError, match="not a source"):
            merged(own, mirrored, named={"small": ("other",)})


class TestStamps:
    """When a page that was written may be served again."""

    def test_it_stays_until_the_page_changes(self, mirrored: Mirroring, wheels: Path) -> None:
        """Equal for one page, another for another."""
        index = MergedIndex([MergedSource("pypi", mirrored.index)])
        first = index.stamp(SMALL)
        assert first is not None
        assert index.stamp(SMALL) == first
        build_wheel(wheels, "small", "3.0")
        assert index.stamp(SMALL) != first

    def test_a_page_through_everything(self, own: Path, mirrored: Mirroring) -> None:
        """A project that gets an owner of its own changes at once, although pages are kept."""
        application = SimpleIndex(merged(own, mirrored))

        def page() -> bytes:
            return read(application(Request("GET", "/simple/large/", {"accept": "text/html"})))

        assert b"large-1.0" in page()
        build_wheel(own, "large", "0.5")
        assert b"large-1.0" not in page()
        assert b"large-0.5" in page()


class TestShared:
    """Projects whose files an operator wants from several sources on one page."""

    def test_all_files_with_the_first_source_first(self, own: Path, mirrored: Mirroring) -> None:
        """Of two files of one name the first source's counts, for its bytes as well."""
        build_wheel(own, "small", "1.0", files={"own": "own"})
        index = merged(own, mirrored, named={"small": ("own", "pypi")})
        assert sorted(names(index.project(SMALL))) == [
            f"small-{version}-py3-none-any.whl" for version in ("0.1", "1.0", "2.0")
        ]
        content = index.content("small-1.0-py3-none-any.whl")
        assert isinstance(content, Content)
        assert content.size == (own / "small-1.0-py3-none-any.whl").stat().st_size
        assert index.content("small-2.0-py3-none-any.whl") is not None
        assert index.content("small-9.0-py3-none-any.whl") is None

    def test_where_it_is_besides(self, own: Path, mirrored: Mirroring) -> None:
        """PEP 708: a page of several says what each says; alone each says its own."""
        urls = ("https://a.example/small/", "https://b.example/small/")
        declared = IndexWithLocations(FolderIndex(own), {SMALL: OtherPages(urls[:1], urls)})
        other = IndexWithLocations(mirrored.index, {SMALL: OtherPages(urls[1:], urls)})
        sources = [MergedSource("own", declared, is_own=True), MergedSource("pypi", other)]
        page = MergedIndex(sources).project(SMALL)
        assert page is not None
        assert page.other_pages == OtherPages(urls[:1], urls)
        assert names(page) == names(FolderIndex(own).project(SMALL))  # nothing follows from it
        page = MergedIndex(sources, OwnerRules({SMALL: ("own", "pypi")})).project(SMALL)
        assert page is not None
        assert page.other_pages == OtherPages(urls, urls)

    def test_variants_of_a_release_are_of_one_source(
        self, own: Path, mirrored: Mirroring, wheels: Path
    ) -> None:
        """F-126: equal labels of two need not mean the same."""
        for folder, labels in ((own, ("null",)), (wheels, ("null", "mkl"))):
            for label in labels:
                build_wheel(folder, "fast", "1.0", label=label, document=DOCUMENT)
            (folder / "fast-1.0-variants.json").write_text("{}")
        build_wheel(wheels, "fast", "2.0", label="mkl", document=DOCUMENT)
        index = merged(own, mirrored, named={"fast": ("own", "pypi")})
        assert sorted(names(index.project(canonicalize_name("fast")))) == [
            "fast-1.0-py3-none-any-null.whl",
            "fast-1.0-variants.json",
            "fast-2.0-py3-none-any-mkl.whl",
        ]
        assert index.content("fast-1.0-py3-none-any-mkl.whl") is None
        assert index.content("fast-2.0-py3-none-any-mkl.whl") is not None


class TestOpening:
    """From settings to one index."""

    @pytest.fixture
    def mirrors(self, upstream: RecordingIndex, tmp_path: Path) -> Iterator[Mirrors]:
        """Give two mirrors."""
        settings = [
            MirrorSettings(upstream.url, "first", allow=("small",)),
            MirrorSettings(upstream.url, "second"),
        ]
        blobs = FolderBlobs(tmp_path / "blobs")
        mirrors = open_mirrors(settings, blobs, tmp_path / "cache", environ={})
        yield mirrors
        mirrors.close()

    def test_in_order(self, mirrors: Mirrors, own: Path, tmp_path: Path) -> None:
        """The first that may supply a project and knows it does; uploads go before."""
        (tmp_path / "empty").mkdir()
        index = mirrors.merge_with_uploads(FolderIndex(tmp_path / "empty"))
        page = index.project(SMALL)
        assert page is not None
        assert page.source == "first"
        other = index.project(canonicalize_name("large"))
        assert other is not None
        assert other.source == "second"
        assert len(names(mirrors.merge_with_uploads(FolderIndex(own)).project(SMALL))) == 1

    def test_what_a_killed_process_left(self, upstream: RecordingIndex, tmp_path: Path) -> None:
        """Half a file that nobody has written to for a day goes with the next start."""
        incoming = tmp_path / "blobs/.incoming"
        incoming.mkdir(parents=True)
        old, new = incoming / "old.part", incoming / "new.part"
        old.write_bytes(b"half")
        new.write_bytes(b"half")
        os.utime(old, (1, 1))
        blobs = FolderBlobs(tmp_path / "blobs")
        open_mirrors([MirrorSettings(upstream.url)], blobs, None, environ={}).close()
        assert list(incoming.iterdir()) == [new]

    def test_mistakes(self, mirrors: Mirrors, tmp_path: Path) -> None:
        """Each is told before anything is served."""
        with pytest.raises(InvalidConfiguration, match="not a source"):
            mirrors.merge_with_uploads(
                FolderIndex(tmp_path), owners=OwnerRules(named={"small": ("third",)})
            )
        twice = [MirrorSettings("https://index.example/simple/")] * 2
        with pytest.raises(InvalidConfiguration, match="two sources"):
            open_mirrors(twice, FolderBlobs(tmp_path), None, environ={})
        bad = MirrorSettings("https://index.example/simple/", hosts=("a b:c",))
        with pytest.raises(InvalidConfiguration, match="HOST"):
            open_mirrors([bad], FolderBlobs(tmp_path), None, environ={})
