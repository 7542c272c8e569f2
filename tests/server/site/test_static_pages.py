"""HTML pages as static files."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from cli.running import Runner
from server.site.documents import Document
from server.site.indexes import DOCUMENT, MemoryIndex

from wheelfit.errors import StorageUnavailable
from wheelfit.server.messages import Request
from wheelfit.server.site.site import Site
from wheelfit.testing.wheels import build_wheel

pytest.importorskip("jinja2", reason="needs the extra `server`")
pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return a runner of commands."""
    return Runner(capsys)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return a folder of wheels."""
    folder = tmp_path / "wheels"
    for label in ("cu128", "v3", None):
        build_wheel(folder, "fast-fft", "2.1", label=label, document=DOCUMENT)
    build_wheel(folder, "fast-fft", "2.0+odd", metadata_extra=[("Summary", "<b>quick</b>")])
    build_wheel(folder, "plainly", "1.0")
    return folder


def pages(folder: Path) -> dict[str, Document]:
    """Return the pages of a folder, all without faults."""
    found = {
        str(path.relative_to(folder)): Document(path.read_bytes())
        for path in folder.rglob("index.html")
        if "simple" not in path.relative_to(folder).parts
    }
    assert [page.faults for page in found.values() if page.faults] == []
    return found


def test_pages(run: Runner, wheels: Path, tmp_path: Path) -> None:
    """Every project and release has a page without forms, and every link has a target."""
    target = tmp_path / "public"
    url = "https://wheels.example.org/"
    run("index", "generate", wheels, "--to", target, "--site", "--public-url", url)
    found = pages(target)
    assert set(found) == {
        "index.html",
        "project/fast-fft/index.html",
        "project/fast-fft/2.1/index.html",
        "project/fast-fft/2.0+odd/index.html",
        "project/plainly/index.html",
        "project/plainly/1.0/index.html",
    }
    release = found["project/fast-fft/2.1/index.html"]
    assert "needs CUDA driver >= 12.8" in release.text
    assert f"wheelfit install --index-url {url}simple/ fast-fft==2.1" in release.text
    feed = (target / "feed.xml").read_text()
    assert feed.count("<entry>") == 3
    assert f"<id>{url}project/plainly/1.0/</id>" in feed
    assert "plainly" not in (target / "project/fast-fft/feed.xml").read_text()
    for name, page in found.items():
        assert "form" not in page.tags
        for link in page.links:
            parts = urlsplit(urljoin(f"http://x/{name}", link))
            path = target / unquote(parts.path[1:])
            assert (path / "index.html" if parts.path.endswith("/") else path).is_file(), link


def test_second_run(run: Runner, wheels: Path) -> None:
    """Unchanged pages are kept, and pages of removed projects deleted."""
    run("index", "generate", wheels, "--site")
    assert "nothing has changed" in run("index", "generate", wheels, "--site").out
    (wheels / "plainly-1.0-py3-none-any.whl").unlink()
    run("index", "generate", wheels, "--site")
    assert not [name for name in pages(wheels) if "plainly" in name]


def test_front_page_of_another_tool(run: Runner, wheels: Path) -> None:
    """A front page of another tool is not overwritten."""
    (wheels / "index.html").write_text("mine")
    done = run("index", "generate", wheels, "--site", code=1)
    assert "has not generated" in done.err
    assert (wheels / "index.html").read_text() == "mine"


def test_damaged_list_of_pages(run: Runner, wheels: Path) -> None:
    """A damaged list of pages causes all to be written again."""
    run("index", "generate", wheels, "--site")
    (wheels / "project" / "pages.json").write_text("[")
    run("index", "generate", wheels, "--site")
    assert len(pages(wheels)) == 6


def test_many_releases(run: Runner, tmp_path: Path) -> None:
    """The page of a project lists all releases, since there are no further pages."""
    for number in range(101):
        build_wheel(tmp_path, "often", f"1.{number}")
    run("index", "generate", tmp_path, "--site")
    links = pages(tmp_path)["project/often/index.html"].links
    assert {f"1.{number}/" for number in range(101)} <= set(links)
    assert not [link for link in links if link.startswith("?")]


@pytest.mark.parametrize(
    ("failing", "path"), [("projects", "/"), ("content", "/project/some/1.0/")]
)
def test_unavailable_storage(failing: str, path: str, tmp_path: Path) -> None:
    """No page is made of an index that cannot be read at the moment."""
    index = MemoryIndex(stamped=True)
    index.add_wheel(build_wheel(tmp_path, "some", "1.0"))

    def fail(*_: object) -> None:
        raise StorageUnavailable("no answer")

    setattr(index, failing, fail)
    with pytest.raises(StorageUnavailable, match="no answer"):
        Site(index, is_static=True)(Request("GET", path))


def test_links_to_letters(run: Runner, tmp_path: Path) -> None:
    """A long list of projects has links to each initial letter."""
    for letter in "abc":
        for number in range(11):
            build_wheel(tmp_path, f"{letter}{number}", "1.0")
    run("index", "generate", tmp_path, "--site")
    front = pages(tmp_path)["index.html"]
    letters = [link for link in front.links if link.startswith("#from-")]
    assert letters == ["#from-a", "#from-b", "#from-c"]
    text = (tmp_path / "index.html").read_text()
    for letter in "abc":
        place = text.index(f'id="from-{letter}"')
        assert text.index(f"project/{letter}0/") == text.index("project/", place)
    (tmp_path / "c0-1.0-py3-none-any.whl").unlink()
    (tmp_path / "c1-1.0-py3-none-any.whl").unlink()
    (tmp_path / "c2-1.0-py3-none-any.whl").unlink()
    run("index", "generate", tmp_path, "--site")
    assert "from-a" not in "".join(pages(tmp_path)["index.html"].links)
