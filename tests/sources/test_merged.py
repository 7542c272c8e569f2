"""Several sources as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.sources.merged import IndexStrategy, Pool
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.sources.repository import READ_LIMIT
from wheelfit.testing.repositories import FakeRepository
from wheelfit_runtime.errors import ProjectNotFound, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.progress import Progress
    from wheelfit.wheels.unpacked import UnpackedWheel

A = canonicalize_name("a")


class NamedRepository(FakeRepository):
    """A repository that knows some projects, or fails."""

    def __init__(self, name: str, *known: str, error: Exception | None = None) -> None:
        super().__init__(name)
        self.known = known
        self.error = error
        self.asked = 0

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names."""
        return tuple(map(canonicalize_name, self.known))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Answer, or fail."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        if name not in self.known:
            return None
        file = File(f"{name}-1-py3-none-any.whl", "https://h.example/x", source=self.name)
        return ProjectPage(name, (file,), self.name)

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Say who reads."""
        return f"{self.name} reads {file.filename}".encode()[:limit]

    def metadata(self, file: File) -> bytes:
        """Say who reads."""
        return self.read(file)

    def variant_document(self, file: File) -> bytes | None:
        """Say who reads."""
        return self.read(file)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Say who downloads."""
        progress.done()
        return folder / self.name / file.filename

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Say who unpacks."""
        return cast("UnpackedWheel", self.download(file, folder, progress))


def test_the_first_that_knows_supplies_all() -> None:
    """F-126: files of two sources never meet; those after the first are not even asked."""
    one, two, three = (
        NamedRepository("one"),
        NamedRepository("two", "a"),
        NamedRepository("three", "a"),
    )
    page = Pool([one, two, three]).project(A)
    assert page is not None
    assert (page.source, len(page.files), three.asked) == ("two", 1, 0)


def test_all_that_one_of_them_lists() -> None:
    """The list of projects has each name once, sorted."""
    repositories = [NamedRepository("one", "b", "a"), NamedRepository("two", "a", "c")]
    assert Pool(repositories).projects() == ("a", "b", "c")


def test_nobody_knows() -> None:
    """Unknown everywhere is unknown; no source at all knows nothing."""
    assert Pool([NamedRepository("one")]).project(A) is None
    assert Pool([]).project(A) is None
    with pytest.raises(ProjectNotFound):
        Pool([]).read(File("a", "https://h/a"))


def test_files_are_read_where_they_were_listed(tmp_path: Path) -> None:
    """Each file is read by the repository that listed it."""
    merged = Pool([NamedRepository("one", "b"), NamedRepository("two", "a")])
    page = merged.project(A)
    assert page is not None
    (file,) = page.files
    for read in (merged.read, merged.metadata, merged.variant_document):
        assert read(file) == b"two reads a-1-py3-none-any.whl"
    assert merged.download(file, tmp_path) == tmp_path / "two" / file.filename
    wheel: object = merged.unpacked(file, tmp_path)
    assert wheel == tmp_path / "two" / file.filename


def test_files_that_nobody_listed(tmp_path: Path) -> None:
    """A wheel that the user named needs no source at all."""
    given = File("a-1-py3-none-any.whl", "https://h/a", source="the request")
    merged = Pool([], others=NamedRepository("reader"))
    assert merged.read(given) == b"reader reads a-1-py3-none-any.whl"
    assert Pool([NamedRepository("one")]).read(given).startswith(b"one")
    assert merged.download(given, tmp_path).parent.name == "reader"


@pytest.mark.parametrize("error", [Unreachable("down"), UnexpectedStatus("500", status=500)])
def test_an_outage_is_no_way_in(error: Exception) -> None:
    """If a server cannot be read, the next server is not asked in its place."""
    later = NamedRepository("later", "a")
    with pytest.raises(type(error)):
        Pool([NamedRepository("first", error=error), later]).project(A)
    assert later.asked == 0


def test_the_first_index_is_read_once() -> None:
    """Later indexes are read for their newer releases, and the first one not again."""
    empty, first, later = (
        NamedRepository("empty"),
        NamedRepository("first", "a"),
        NamedRepository("later", "a"),
    )
    pool = Pool([empty, first, later])
    pool.project(A)
    assert [page.source for page in pool.later_pages(A)] == ["later"]
    assert (empty.asked, first.asked, later.asked) == (1, 1, 1)


def test_later_pages_of_a_project_that_was_not_read() -> None:
    """A project that was not read yet is read; without an index of its own it has no later ones."""
    pool = Pool([NamedRepository("first", "a"), NamedRepository("later", "a", "b")])
    assert [page.source for page in pool.later_pages(A)] == ["later"]
    assert pool.later_pages(canonicalize_name("b")) == []
    assert pool.later_pages(canonicalize_name("c")) == []


def test_folders_of_the_user_may_stand_in() -> None:
    """Folders of this machine belong to the user; they are used, with a note."""
    notes: list[str] = []
    sources = [
        NamedRepository("down", error=Unreachable("down cannot be read")),
        NamedRepository("web", "a"),
        NamedRepository("folder", "a"),
    ]
    merged = Pool(sources, local=["folder"], note=notes.append)
    page = merged.project(A)
    assert page is not None
    assert page.source == "folder"
    assert notes == ["a comes from folder, because down cannot be read"]
    with pytest.raises(Unreachable):
        merged.project(canonicalize_name("b"))


def test_links_are_in_the_pool() -> None:
    """F-126: a place of the user hides no index, and of two files of one name its own counts."""
    links, index = NamedRepository("links", "a"), NamedRepository("index", "a", "b")
    pool = Pool([index], links=[links])
    page = pool.project(A)
    assert page is not None
    assert page.source == "links, index"
    assert [file.source for file in page.files] == ["links"]
    other = pool.project(canonicalize_name("b"))
    assert other is not None
    assert other.source == "index"


@pytest.mark.parametrize("strategy", ["first-index", "unsafe-first-match", "unsafe-best-match"])
def test_a_pin_leads_nowhere_else(strategy: IndexStrategy) -> None:
    """A pinned project comes from its index or from folders of the user, and never from others."""
    public, page, private = (
        NamedRepository("public", "a"),
        NamedRepository("page", "a"),
        NamedRepository("private"),
    )
    pool = Pool([public], links=[page], pins={A: [private]}, strategy=strategy)
    assert pool.project(A) is None
    assert (public.asked, page.asked) == (0, 0)
    private.known = ("a",)
    found = pool.project(A)
    assert found is not None
    assert found.source == "private"
    assert pool.read(found.files[0]).startswith(b"private")


class TestBestMatch:
    """All sources together, when the user wants to compare (F-127)."""

    def test_files_of_all(self) -> None:
        """Every source is asked; a file says whose it is, and of equal names the first counts."""
        sources = [
            NamedRepository("one", "a"),
            NamedRepository("none"),
            NamedRepository("two", "a"),
        ]
        page = Pool(sources, strategy="unsafe-best-match").project(A)
        assert page is not None
        (file,) = page.files
        assert (file.filename, file.source) == ("a-1-py3-none-any.whl", "one")
        assert page.source == "one, two"
        assert [each.asked for each in sources] == [1, 1, 1]

    def test_nobody_knows(self) -> None:
        """What no source knows is not known."""
        assert Pool([NamedRepository("one", "b")], strategy="unsafe-best-match").project(A) is None

    def test_one_is_down(self) -> None:
        """A source that cannot be read is an error: what it has might be better."""
        down = NamedRepository("down", error=Unreachable("down cannot be read"))
        with pytest.raises(Unreachable):
            Pool([NamedRepository("one", "a"), down], strategy="unsafe-best-match").project(A)


class FreshRepository(NamedRepository):
    """A repository whose pages may be relied on for a while."""

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Answer."""
        page = super().project(name)
        return None if page is None else replace(page, fresh_seconds=600.0)


def test_only_what_the_first_index_has_alone_is_relied_on() -> None:
    """An index before it, one beside it and a folder may have the project by now."""
    fresh, other, link = FreshRepository("fresh", "a"), NamedRepository("b"), NamedRepository("l")
    best: IndexStrategy = "unsafe-best-match"
    pools = {
        Pool([fresh]): 600.0,
        Pool([fresh, other], links=[link]): 600.0,
        Pool([other, fresh]): 0.0,
        Pool([fresh, other], strategy=best): 0.0,
        Pool([fresh], links=[NamedRepository("l", "a")]): 0.0,
    }
    pages = [pool.project(A) for pool in pools]
    assert [page and page.fresh_seconds for page in pages] == [*pools.values()]
