"""Pages and files of the proxy after changes of the indexes behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from packaging.utils import canonicalize_name
from server.proxy.behind import CUDA, JSON, LINUX_TAG, PIP, Behind, body, release

from wheelfit.server.offering import OfferRules
from wheelfit.server.proxy.application import Proxy
from wheelfit.server.proxy.upstream import BridgedUpstream, FolderUpstream, Upstream
from wheelfit.sources.open import open_web
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

SOME = canonicalize_name("some")
NEEDS = ('gpu-lib; "nvidia" in variant_namespaces', "both")


class BehindFolder(Behind):
    """A proxy in front of a folder of projects."""

    def __init__(self, folder: Path) -> None:
        super().__init__(supported={"nvidia": CUDA})
        web = open_web(SourceSettings(keyring="disabled"), cache_folder=None, environ={})
        self.webs.append(web)
        self.proxy = Proxy([FolderUpstream(folder, web, OfferRules())], self._profile, mode="full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a project."""
    folder = tmp_path / "index" / "some"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def behind(folder: Path) -> Iterator[Behind]:
    """Return a proxy in front of the folder."""
    with BehindFolder(folder.parent) as behind:
        yield behind


def rebuild(wheel: Path, **options: Any) -> bytes:
    """Build a wheel again with other content, and return it."""
    wheel.unlink()
    build_wheel(wheel.parent, "some", "1.0", **options)
    os.utime(wheel, ns=(0, 10**18))
    return wheel.read_bytes()


def test_rebuilt_wheel(folder: Path, behind: Behind) -> None:
    """A wheel that was built again under its name is served whole, at another URL."""
    wheel = build_wheel(folder, "some", "1.0")
    file = behind.page("some", PIP)[wheel.name]
    assert body(behind.ask(behind.path_of(file))) == wheel.read_bytes()
    content = rebuild(wheel, files={"some/data.py": "x = 1\n" * 1000})
    newer = behind.page("some", PIP)[wheel.name]
    assert newer["url"] != file["url"]
    assert body(behind.ask(behind.path_of(newer))) == content
    assert behind.ask(behind.path_of(file)).status == 404


def test_rebuilt_variant(folder: Path, behind: Behind) -> None:
    """A variant that was built again has the hash of what is sent."""
    release(folder, "some", {"cu129": [LINUX_TAG]}, requires=NEEDS)
    for files in ({"some/data.py": "x = 1\n"}, {"some/data.py": "y = 2\n" * 1000}):
        for path in folder.iterdir():
            path.unlink()
        release(folder, "some", {"cu129": [LINUX_TAG]}, requires=NEEDS, files=files)
        (file,) = behind.page("some", PIP).values()
        assert file["hashes"] == {}
        body(behind.ask(behind.path_of(file)))
        (file,) = behind.page("some", PIP).values()
        assert file["hashes"]


def test_yanked_in_a_folder(folder: Path, behind: Behind) -> None:
    """A file of an ``index.html`` that is yanked later is shown as yanked."""
    wheel = build_wheel(folder, "some", "1.0")
    link = f'<a href="{wheel.name}"{{}}>{wheel.name}</a>'
    (folder / "index.html").write_text(link.format(""))
    assert not behind.page("some", PIP)[wheel.name].get("yanked")
    (folder / "index.html").write_text(link.format(' data-yanked="broken"'))
    assert behind.page("some", PIP)[wheel.name]["yanked"] == "broken"


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
def test_name_that_is_no_unicode(folder: Path, behind: Behind) -> None:
    """A file whose name is not valid Unicode does not affect the others."""
    wheel = build_wheel(folder, "some", "1.0")
    try:
        (folder / os.fsdecode(b"some-1.0\xff.txt")).write_bytes(b"")
    except OSError:
        pytest.skip("the file system allows Unicode only")
    assert wheel.name in behind.page("some", PIP)


class OneFamily:
    """A catalogue and a repository with one family of indexes."""

    is_of_indexes = True
    yanked: str | None = None

    def of(self, name: str) -> OneFamily:
        """Return the family."""
        assert name
        return self

    def project(self, name: str) -> ProjectPage:
        """Return the page of the family."""
        file = File("some-1.0-py3-none-any.whl", "https://a.example/some.whl", yanked=self.yanked)
        return ProjectPage(canonicalize_name(name), (file,), "", bridge=cast("Any", self))


def test_yanked_in_an_index_of_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that an index of a family yanks later leads to another page."""
    family = OneFamily()
    url = "https://a.example/simple"
    web = open_web(SourceSettings(keyring="disabled"), cache_folder=None, environ={})
    plain = Upstream(url, web)
    monkeypatch.setattr(plain, "raw_page", lambda *_, **__: None)
    upstream = BridgedUpstream(plain, cast("Any", family), cast("Any", SimpleNamespace()))
    monkeypatch.setattr(upstream, "_bridged", family)
    before = upstream.raw_page(SOME)
    family.yanked = "broken"
    after = upstream.raw_page(SOME)
    web.close()
    assert before is not None
    assert after is not None
    assert before.digest != after.digest


def test_index_in_html(tmp_path: Path) -> None:
    """A client that accepts JSON alone gets JSON of an index that has HTML alone."""
    wheel = build_wheel(tmp_path, "plain", "1.0")
    with RecordingIndex(tmp_path) as index, Behind(index.url, mode="full") as behind:
        index.faults.html_only = True
        answer = behind.ask("/simple/plain/", {"accept": JSON})
        assert answer.headers["content-type"] == JSON
        assert wheel.name in behind.page("plain")
        both = behind.ask("/simple/plain/", {"accept": f"{JSON}, text/html;q=0.1"})
        assert "html" in both.headers["content-type"]  # which is forwarded


def test_rebuilt_with_other_requirements(folder: Path, behind: Behind) -> None:
    """A variant that was built again has its new requirements."""
    for requirement in ("one", "other"):
        for path in folder.iterdir():
            path.unlink()
        release(folder, "some", {"cu129": [LINUX_TAG]}, requires=(*NEEDS, requirement))
        (file,) = behind.page("some", PIP).values()
        metadata = body(behind.ask(f"{behind.path_of(file)}.metadata"))
        assert f"Requires-Dist: {requirement}\n".encode() in metadata
