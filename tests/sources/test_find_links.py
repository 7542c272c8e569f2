"""Folders and single pages as sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.sources.file_readers import AllFiles
from wheelfit.sources.find_links import DirectoryIndex, FileIndex, LinkPage
from wheelfit.sources.page import File
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import linux_target
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.sources.page import ProjectPage

A = canonicalize_name("a")
DOCUMENT = release_document({"v": {"n": {"f": ["1"]}}}, static={"n": {"f": ["1"]}})


def names(page: ProjectPage | None) -> list[str] | None:
    """Return the names of the files on a page."""
    return None if page is None else [file.filename for file in page.files]


def touch(folder: Path, *filenames: str) -> None:
    """Make empty files."""
    for filename in filenames:
        (folder / filename).write_bytes(b"")


class TestDirectory:
    """``--find-links FOLDER``."""

    def test_grouped_by_project(self, tmp_path: Path) -> None:
        """Wheels, index files and source distributions find their project; others do not count."""
        touch(
            tmp_path,
            "a-1-py3-none-any.whl",
            "A-1-py3-none-any-v.whl",
            "a-1-variants.json",
            "a-1.tar.gz",
            "a_b-1-py3-none-any.whl",
            "notes.txt",
        )
        folder = DirectoryIndex(tmp_path, AllFiles())
        assert names(folder.project(A)) == [
            "A-1-py3-none-any-v.whl",
            "a-1-py3-none-any.whl",
            "a-1-variants.json",
            "a-1.tar.gz",
        ]
        assert names(folder.project(canonicalize_name("A.B"))) == ["a_b-1-py3-none-any.whl"]
        assert folder.project(canonicalize_name("notes")) is None

    def test_source_distributions_make_a_project_known(self, tmp_path: Path) -> None:
        """A folder without wheels of a project offers what may be built, as with pip."""
        touch(tmp_path, "a-1.tar.gz")
        assert names(DirectoryIndex(tmp_path, AllFiles()).project(A)) == ["a-1.tar.gz"]

    def test_documents_alone_make_no_project_known(self, tmp_path: Path) -> None:
        """Without a file to install the project is left to the indexes."""
        touch(tmp_path, "a-1-variants.json")
        assert DirectoryIndex(tmp_path, AllFiles()).project(A) is None

    def test_odd_wheels_are_listed(self, tmp_path: Path) -> None:
        """A wheel with a wrong name is listed, so that somebody can say why it is not used."""
        touch(tmp_path, "a-1-py3-none-any-UPPER.whl")
        assert names(DirectoryIndex(tmp_path, AllFiles()).project(A)) == [
            "a-1-py3-none-any-UPPER.whl"
        ]

    def test_html_files_are_pages(self, tmp_path: Path) -> None:
        """An HTML file in the folder is a list of links; local ones are fine there."""
        (tmp_path / "links.html").write_text('<a href="sub/a-1-py3-none-any.whl">a</a>')
        page = DirectoryIndex(tmp_path, AllFiles()).project(A)
        assert page is not None
        assert page.files[0].url == (tmp_path / "sub/a-1-py3-none-any.whl").as_uri()

    def test_files_are_read(self, tmp_path: Path) -> None:
        """Metadata, document and wheel are read without a copy of the wheel."""
        wheel = build_wheel(tmp_path / "a b%c", "a", "1", label="v", document=DOCUMENT)
        folder = DirectoryIndex(wheel.parent, AllFiles())
        page = folder.project(A)
        assert page is not None
        (file,) = page.files
        assert file.is_local
        assert b"Name: a" in folder.metadata(file)
        assert b'"v"' in (folder.variant_document(file) or b"")
        target = tmp_path / "target"
        target.mkdir()
        path = folder.download(file, target)
        assert path.read_bytes() == wheel.read_bytes()
        assert list(target.iterdir()) == [path]
        assert folder.download(file, wheel.parent) == wheel
        assert wheel.stat().st_size > 0

    def test_small_files(self, tmp_path: Path) -> None:
        """F-75: the index file of a folder is read like any other."""
        touch(tmp_path, "a-1-py3-none-any-v.whl")
        (tmp_path / "a-1-variants.json").write_text("{}")
        folder = DirectoryIndex(tmp_path, AllFiles())
        page = folder.project(A)
        assert page is not None
        assert folder.read(page.files[1]) == b"{}"

    @pytest.mark.parametrize("kind", ["folder", "page"])
    @pytest.mark.parametrize("described", [True, False])
    def test_variants(self, tmp_path: Path, kind: str, *, described: bool) -> None:
        """F-75: a folder or link list may have the index file; without it wheels are read."""
        document = release_document(
            {"null": {}, "good": {"n": {"f": ["1"]}}, "better": {"n": {"f": ["2"]}}},
            static={"n": {"f": ["2", "1"]}},
        )
        for label in ("null", "good", "better"):
            build_wheel(tmp_path, "a", "1", label=label, document=document)
        if described:
            (tmp_path / "a-1-variants.json").write_text(json.dumps(document))
        source: DirectoryIndex | LinkPage = DirectoryIndex(tmp_path, AllFiles())
        if kind == "page":
            links = [f'<a href="{path.name}">a</a>' for path in tmp_path.iterdir()]
            page = tmp_path / "links.html"
            page.write_text("".join(links))
            source = LinkPage(page, AllFiles())
        candidates = Candidates(source, linux_target(), FixedDetector(), ChoicePolicy())
        choice = candidates.choice(A, Version("1"))
        assert [verdict.filename.label for verdict in choice.selection.verdicts] == [
            "better",
            "good",
            "null",
        ]

    def test_gone(self, tmp_path: Path) -> None:
        """A folder or a file that went away is a file problem, with its path."""
        with pytest.raises(FileProblem) as excinfo:
            DirectoryIndex(tmp_path / "absent", AllFiles()).project(A)
        assert excinfo.value.where == str(tmp_path / "absent")
        assert "the folder cannot be read" in excinfo.value.message
        gone = File("a-1-py3-none-any.whl", (tmp_path / "a-1-py3-none-any.whl").as_uri())
        folder = DirectoryIndex(tmp_path, AllFiles())
        for read in (folder.read, folder.metadata, lambda file: folder.download(file, tmp_path)):
            with pytest.raises(FileProblem):
                read(gone)


class TestLinkPage:
    """``--find-links`` with a page or a file."""

    def test_local_page(self, tmp_path: Path) -> None:
        """A page on this machine may list files of any project, here and elsewhere."""
        page = tmp_path / "links.html"
        page.write_text(
            '<a href="a-1-py3-none-any.whl">a</a>'
            '<a href="https://h.example/b-1-py3-none-any.whl">b</a>'
        )
        links = LinkPage(page, AllFiles())
        assert names(links.project(A)) == ["a-1-py3-none-any.whl"]
        assert names(links.project(canonicalize_name("b"))) == ["b-1-py3-none-any.whl"]

    def test_local_file(self, tmp_path: Path) -> None:
        """A wheel may be named itself."""
        wheel = build_wheel(tmp_path, "a", "1")
        links = LinkPage(wheel, AllFiles())
        page = links.project(A)
        assert page is not None
        assert b"Name: a" in links.metadata(page.files[0])

    def test_remote_page(self, server: Any, make_pages: Any) -> None:
        """A page from a server is fetched once, with its login."""
        server.replies["/links"] = server.reply(
            b'<a href="f/a-1-py3-none-any.whl#sha256=00">a</a>',
            headers={"Content-Type": "text/html"},
        )
        url = server.url.replace("://", "://me:secret@") + "/links"
        links = LinkPage(url, AllFiles(), pages=make_pages(url), note=pytest.fail)
        page = links.project(A)
        links.project(canonicalize_name("b"))
        assert page is not None
        assert page.files[0].url == f"{server.url}/f/a-1-py3-none-any.whl"
        assert "secret" not in repr(page)
        assert len(server.requests) == 1
        assert "authorization" in server.requests[0].headers

    def test_page_that_is_read_again(self, server: Any, make_pages: Any) -> None:
        """A server that reads a page for days notices its changes, and the end of a failure."""
        server.replies["/links"] = server.reply(status=500)
        url = f"{server.url}/links"
        links = LinkPage(url, AllFiles(), pages=make_pages(), max_age=0.0)
        assert links.project(A) is None
        for name in ("a-1.tar.gz", "a-2.tar.gz"):
            html = {"Content-Type": "text/html"}
            server.replies["/links"] = server.reply(
                f'<a href="{name}">a</a>'.encode(), headers=html
            )
            assert names(links.project(A)) == [name]
        server.replies["/links"] = server.reply(status=500)
        assert names(links.project(A)) == [name]  # a list from before the failure is kept

    def test_remote_sdist_with_a_local_version(self, make_pages: Any) -> None:
        """The name of a file is decoded before it is compared with those of projects."""
        url = "https://h.example/f/a-1%2Bcpu.tar.gz"
        assert names(LinkPage(url, AllFiles(), pages=make_pages()).project(A)) == ["a-1+cpu.tar.gz"]

    def test_remote_file(self, make_pages: Any) -> None:
        """A URL of a wheel is that wheel; nobody is asked."""
        url = "https://h.example/f/a-1%2Bcpu-py3-none-any.whl#sha256=ab"
        page = LinkPage(url, AllFiles(), pages=make_pages()).project(A)
        assert page is not None
        assert page.files == (
            File(
                "a-1+cpu-py3-none-any.whl",
                "https://h.example/f/a-1%2Bcpu-py3-none-any.whl",
                {"sha256": "ab"},
                source=url,
            ),
        )

    @pytest.mark.parametrize("status", [403, 404, 500])
    def test_what_cannot_be_fetched_is_left_out(
        self, server: Any, make_pages: Any, status: int
    ) -> None:
        """As in pip, such a page costs a note and nothing else."""
        server.replies["/links"] = server.reply(status=status)
        notes: list[str] = []
        links = LinkPage(f"{server.url}/links", AllFiles(), pages=make_pages(), note=notes.append)
        assert links.project(A) is None
        assert str(status) in notes[0]

    def test_nobody_there(self, make_pages: Any) -> None:
        """So does a server that is not there."""
        notes: list[str] = []
        url = "http://127.0.0.1:1/links"
        assert LinkPage(url, AllFiles(), pages=make_pages(), note=notes.append).project(A) is None
        assert url in notes[0]


class TestFileIndex:
    """An index in folders: ``--index-url file:///…``."""

    def test_pages(self, tmp_path: Path) -> None:
        """A project's folder has a page; links lead to local files."""
        (tmp_path / "simple/a").mkdir(parents=True)
        (tmp_path / "simple/a/index.html").write_text(
            '<a href="../../files/a-1-py3-none-any.whl#sha256=ab">a</a>'
        )
        index = FileIndex(tmp_path / "simple", AllFiles())
        page = index.project(A)
        assert page is not None
        assert page.files[0].url == (tmp_path / "files/a-1-py3-none-any.whl").as_uri()
        assert page.files[0].hashes == {"sha256": "ab"}
        assert page.source == index.name == (tmp_path / "simple").as_uri()

    def test_files_are_not_projects(self, tmp_path: Path) -> None:
        """The page of all projects is not listed as a project."""
        (tmp_path / "a").mkdir()
        touch(tmp_path, "index.html")
        assert FileIndex(tmp_path, AllFiles()).projects() == (A,)

    def test_folder_of_files(self, tmp_path: Path) -> None:
        """Without a page the files in the folder are the list."""
        (tmp_path / "a").mkdir()
        touch(tmp_path / "a", "a-1-py3-none-any.whl", "a-1-variants.json")
        assert names(FileIndex(tmp_path, AllFiles()).project(A)) == [
            "a-1-py3-none-any.whl",
            "a-1-variants.json",
        ]

    def test_unknown(self, tmp_path: Path) -> None:
        """No folder, no project; a missing index knows none."""
        assert FileIndex(tmp_path, AllFiles()).project(A) is None
        assert FileIndex(tmp_path / "absent", AllFiles()).project(A) is None

    @pytest.mark.parametrize("name", ["../upload", "upload/..", "a/../../etc", "/etc", "x\\y"])
    def test_names_are_no_paths(self, tmp_path: Path, name: str) -> None:
        """What is not a project name reaches no other folder."""
        (tmp_path / "simple").mkdir()
        build_wheel(tmp_path / "upload", "a", "1")
        index = FileIndex(tmp_path / "simple", AllFiles())
        assert index.project(cast(NormalizedName, name)) is None


def test_remote_files_need_a_reader(tmp_path: Path) -> None:
    """A reader of local files only says so instead of guessing."""
    folder = DirectoryIndex(tmp_path, AllFiles())
    with pytest.raises(FileProblem, match="not on this machine"):
        folder.read(File("a-1-variants.json", "https://h.example/a-1-variants.json"))
