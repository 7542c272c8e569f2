"""Folders of an index that mean harm: a forged memory, and links where folders should be.

What lies in the folder of an index may have come with a clone or an archive, or from whoever else
may write there. `wheelfit index generate` and `publish` change nothing outside of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, tree
from hostile.conftest import Site

from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links")


class Index:
    """An index that was generated, and a folder of somebody else."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.wheels = site.wheels
        self.folder = site.folder / "public"
        self.victim = site.folder / "victim"
        self.victim.mkdir()
        for name in ("precious.txt", "index.html", "index.json", "1", "precious.metadata"):
            (self.victim / name).write_text("precious")
        for version in ("1", "2"):
            build_wheel(self.wheels, "demo", version)
        build_wheel(self.wheels, "other", "1")
        self.before = tree(self.victim)
        assert self.generate().code == 0

    @property
    def memory(self) -> Path:
        """The file with what was published."""
        return self.folder / "simple" / "wheelfit.json"

    def forge(self, **values: Any) -> None:
        """Write into it."""
        known = json.loads(self.memory.read_bytes())
        for key, value in values.items():
            known[key] = {**known[key], **value} if isinstance(value, dict) else value
        self.memory.write_text(json.dumps(known))

    def generate(self, *words: str | Path) -> CommandResult:
        """Generate the index, and see that nothing outside changes."""
        line = (self.wheels, "--to", self.folder)
        result = self.site.bare("index", "generate", *line, *words)
        assert tree(self.victim) == self.before or not self.before
        return result

    def refused(self, *words: str | Path) -> CommandResult:
        """Generate it in vain: nothing is changed, except the cached facts about the wheels."""
        before = self.published()
        result = self.generate(*words)
        assert result.code == 1, result
        assert self.published() == before
        return result

    def published(self) -> dict[str, str]:
        """Return the files of the index, without the cached facts about the wheels."""
        files = tree(self.folder)
        return {path: files[path] for path in files if "/.facts.json" not in path}

    def new_release(self) -> None:
        """Give the next run something to do."""
        build_wheel(self.wheels, "demo", "3")


@pytest.fixture
def index(site: Site) -> Index:
    """Return an index."""
    return Index(site)


OUTSIDE = (
    "../victim/precious.txt",
    "simple/../../victim/precious.txt",
    "simple/x/../../../victim/index.html",
    "files/0123456789abcdef/../../../victim/precious.txt",
    "./../victim/precious.txt",
)
"""What leads out."""
NOT_WRITTEN = ("precious.txt", "demo/precious.txt", "simple/precious.txt", "files/precious.txt", "")
"""What is inside, but not called as anything that is generated."""


class TestForgedMemory:
    """Only what is called as an index calls it is removed, whatever ``wheelfit.json`` names."""

    @pytest.mark.parametrize("path", [*OUTSIDE, *NOT_WRITTEN])
    def test_pages(self, index: Index, path: str) -> None:
        """A page that vanished is none unless it is called as one."""
        (index.folder / "precious.txt").write_text("precious")
        index.forge(pages={path: "0" * 64})
        index.new_release()
        said = index.refused()
        assert "wheelfit.json" in said.err

    @pytest.mark.parametrize("path", [*OUTSIDE, *NOT_WRITTEN])
    def test_files(self, index: Index, path: str) -> None:
        """Neither is a file that no page names any more, with ``--prune``."""
        index.forge(files={path: "0" * 64}, unreferenced=[path])
        index.new_release()
        index.refused("--prune")

    def test_an_absolute_path(self, index: Index) -> None:
        """Nor is a path that is not one below the folder."""
        for key in ("pages", "files"):
            index.forge(**{key: {str(index.victim / "precious.txt"): "0" * 64}})
            index.new_release()
            index.refused("--prune")

    @pytest.mark.parametrize("value", [None, 1, [], {"x": 1}, "x"])
    def test_nonsense(self, index: Index, value: Any) -> None:
        """What is not what is written there is an error, and says what to do."""
        index.memory.write_text(json.dumps({"version": 1, "pages": value, "projects": value}))
        index.new_release()
        assert "remove that file" in index.refused().err

    def test_pages_for_people(self, index: Index) -> None:
        """The list of the pages for people is held to the same."""
        index.generate("--site")
        known = index.folder / "project" / "pages.json"
        for path in (*OUTSIDE, "files/x", "precious.txt"):
            pages = json.loads(known.read_bytes())["pages"]
            known.write_text(json.dumps({"pages": {**pages, path: "0" * 64}}))
            result = index.generate("--site")
            assert result.code == 1, result
            assert "pages.json" in result.err
            known.write_text(json.dumps({"pages": pages}))

    def test_entries_that_lead_out(self, index: Index) -> None:
        """What is shown to people is not read from elsewhere either."""
        (index.victim / "fake-1-variants.json").write_text('{"secret": "precious"}')
        index.before = tree(index.victim)
        known = json.loads(index.memory.read_bytes())
        entry = {
            "filename": "fake-1-variants.json",
            "url": "../../../victim/fake-1-variants.json",
            "hashes": {"sha256": "0" * 64},
        }
        known["projects"]["fake"] = [entry]
        index.memory.write_text(json.dumps(known))
        result = index.generate("--site", "--release", "demo==1")
        assert "precious" not in result.out + result.err
        written = (index.folder / "project").rglob("*.html")
        assert not any("precious" in path.read_text() for path in written)


class TestLinks:
    """A link where a folder should be is named, and nothing is changed."""

    @pytest.mark.parametrize("name", ["simple/demo", "simple/new"])
    def test_a_project(self, index: Index, name: str) -> None:
        """``simple/PROJECT`` as a link: no page lands elsewhere."""
        link = index.folder / name
        if link.exists():
            link.rename(index.folder / "aside")
        link.symlink_to(index.victim)
        build_wheel(index.wheels, "new", "1")
        index.new_release()
        said = index.refused()
        assert str(link) in said.err

    def test_a_project_beside_a_page(self, index: Index) -> None:
        """A page that is a link, which is exchanged, hides no project that is one."""
        for page in ("index.html", "index.json"):
            (index.folder / "simple" / page).unlink()
            (index.folder / "simple" / page).symlink_to(index.victim / page)
        link = index.folder / "simple" / "other"
        link.rename(index.folder / "aside")
        link.symlink_to(index.victim)
        next(index.wheels.glob("other-*")).unlink()
        said = index.refused()
        assert str(link) in said.err

    def test_a_project_that_vanished(self, index: Index) -> None:
        """Pages of a project that is gone are not removed through a link."""
        link = index.folder / "simple" / "other"
        link.rename(index.folder / "aside")
        link.symlink_to(index.victim)
        next(index.wheels.glob("other-*")).unlink()
        said = index.refused()
        assert str(link) in said.err

    @pytest.mark.parametrize("name", ["simple", "files"])
    def test_the_folders(self, index: Index, name: str) -> None:
        """Neither is one of the two folders of an index a link."""
        link = index.folder / name
        link.rename(index.site.folder / "aside")
        link.symlink_to(index.victim)
        index.new_release()
        said = index.refused()
        assert str(link) in said.err

    def test_the_folder_of_a_file(self, index: Index) -> None:
        """Files that are named by their hash do not land elsewhere."""
        index.new_release()
        wheel = next(index.wheels.glob("demo-3-*"))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        link = index.folder / "files" / digest[:16]
        link.symlink_to(index.victim)
        said = index.refused()
        assert str(link) in said.err

    @pytest.mark.parametrize("name", ["simple/.staging", "simple/.lock", "simple/.facts.json"])
    def test_what_is_used_meanwhile(self, index: Index, name: str) -> None:
        """What a run writes for itself is not written through a link."""
        index.new_release()
        place = index.folder / name
        if place.exists():
            place.unlink()
        place.symlink_to(index.victim / ("" if "staging" in name else "made.txt"))
        index.generate()
        assert not (index.victim / "made.txt").exists()

    def test_a_page(self, index: Index) -> None:
        """A page that is a link becomes a page; what it led to stays."""
        page = index.folder / "simple" / "demo" / "index.html"
        page.unlink()
        page.symlink_to(index.victim / "index.html")
        index.new_release()
        assert index.generate().code == 0
        assert not page.is_symlink()

    def test_a_file(self, index: Index) -> None:
        """So does a file; a link is not taken for it because of its size."""
        file = next((index.folder / "files").glob("*/demo-1-*.whl"))
        size = file.stat().st_size
        file.unlink()
        (index.victim / "evil.whl").write_bytes(bytes(size))
        index.before = tree(index.victim)
        file.symlink_to(index.victim / "evil.whl")
        index.new_release()
        assert index.generate().code == 0
        assert not file.is_symlink()

    def test_publishing(self, index: Index) -> None:
        """`wheelfit publish` to a folder is held to the same."""
        link = index.folder / "simple" / "demo"
        link.rename(index.folder / "aside")
        link.symlink_to(index.victim)
        wheel = build_wheel(index.site.folder / "dist", "demo", "4")
        result = index.site.bare("publish", wheel, "--to", index.folder)
        assert result.code == 1, result
        assert str(link) in result.err
        assert tree(index.victim) == index.before

    def test_people(self, index: Index) -> None:
        """So are the pages for people."""
        assert index.generate("--site").code == 0
        link = index.folder / "project"
        link.rename(index.folder / "aside")
        link.symlink_to(index.victim)
        index.new_release()
        result = index.generate("--site")
        assert result.code == 1, result

    def test_the_target_itself(self, index: Index) -> None:
        """A link of the user's own to the folder is followed, this once."""
        index.folder.rename(index.site.folder / "real")
        index.folder.symlink_to(index.site.folder / "real")
        index.new_release()
        assert index.generate().code == 0
        assert (index.site.folder / "real" / "simple" / "demo" / "index.html").is_file()
