"""Runs without changes since the last one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from server.generate.folders import Site, build_release

from wheelfit.errors import EnvironmentBusy
from wheelfit.server.generate.file_facts import FactsCache
from wheelfit.server.generate.generation import generate
from wheelfit.server.generate.last_run import LastRun, fingerprint
from wheelfit.server.generate.request import GenerateOptions, GenerateResult
from wheelfit.server.generate.targets import FolderTarget
from wheelfit.testing.wheels import build_wheel


class RunHistory:
    """Repeated runs of the command."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.facts = site.place / "simple" / ".facts.json"

    def begin(self, wishes: GenerateOptions) -> LastRun:
        """Compute the fingerprint of the folder."""
        excluded = frozenset({self.site.folder / "simple"})
        seen = fingerprint(self.site.folder, wishes, in_place=True, excluded=excluded)
        return LastRun(self.facts, seen)

    def reuse(self, wishes: GenerateOptions = GenerateOptions()) -> GenerateResult | None:
        """Return the result of the last run if nothing changed."""
        return self.begin(wishes).reusable_result(FolderTarget(self.site.place))

    def generate_index(self, wishes: GenerateOptions = GenerateOptions()) -> GenerateResult:
        """Generate the index."""
        return generate(
            self.site.folder,
            FolderTarget(self.site.place),
            FactsCache(self.facts),
            wishes,
            in_place=True,
            excluded=frozenset({self.site.folder / "simple"}),
            last_run=self.begin(wishes),
        )


@pytest.fixture
def runs(tmp_path: Path) -> RunHistory:
    """Return the runs of a folder with one release."""
    folder = tmp_path / "dist"
    build_release(folder)
    (folder / "fast-1.0-py3-none-any.whl.yanked").write_text("slow")
    return RunHistory(Site(folder))


def test_same_result(runs: RunHistory) -> None:
    """Without changes the result equals that of a complete run."""
    assert runs.reuse() is None
    runs.generate_index()
    told = runs.reuse()
    assert told is not None
    assert replace(told, state=None) == replace(runs.generate_index(), state=None)


def wheel(site: Site) -> Path:
    """Return a wheel of the release."""
    return site.folder / "fast-1.0-py3-none-any-mkl.whl"


def index_file(site: Site) -> Path:
    """Return the combined index file."""
    return next(site.place.glob("simple/fast/*/fast-1.0-variants.json"))


CHANGES: dict[str, Callable[[Site], object]] = {
    "a new wheel": lambda site: build_wheel(site.folder, "other", "1.0"),
    "a wheel less": lambda site: wheel(site).unlink(),
    "another wheel": lambda site: wheel(site).write_bytes(wheel(site).read_bytes()),
    "another name": lambda site: wheel(site).rename(wheel(site).with_name("x.whl")),
    "a yank": lambda site: (site.folder / "fast-1.0.yanked").touch(),
    "another reason": lambda site: (site.folder / "fast-1.0-py3-none-any.whl.yanked").write_text(
        "wrong"
    ),
    "provenance": lambda site: wheel(site).with_name(f"{wheel(site).name}.provenance").touch(),
    "an index file": lambda site: (site.folder / "fast-1.0-variants.json").touch(),
    "a page less": lambda site: (site.place / "simple/fast/index.html").unlink(),
    "another page": lambda site: (site.place / "simple/index.json").write_text("{}"),
    "no manifest": lambda site: (site.place / "simple/wheelfit.json").unlink(),
    "another manifest": lambda site: (site.place / "simple/wheelfit.json").write_text("{}"),
    "metadata less": lambda site: Path(f"{wheel(site)}.metadata").unlink(),
    "other metadata": lambda site: Path(f"{wheel(site)}.metadata").write_text("Name: slow"),
    "no index file": lambda site: index_file(site).unlink(),
    "no facts": lambda site: (site.place / "simple/.facts.json").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes(runs: RunHistory, change: str) -> None:
    """Every kind of change causes a complete run."""
    runs.generate_index()
    assert runs.reuse() is not None
    CHANGES[change](runs.site)
    assert runs.reuse() is None


@pytest.mark.parametrize(
    "wishes",
    [
        GenerateOptions(check_content=True),
        GenerateOptions(prune=True),
        GenerateOptions(replace=True),
        GenerateOptions(keep_going=True),
    ],
)
def test_other_options(runs: RunHistory, wishes: GenerateOptions) -> None:
    """Other options cause a complete run."""
    runs.generate_index()
    assert runs.reuse(wishes) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"seen":'])
def test_damaged_cache(runs: RunHistory, data: bytes) -> None:
    """A damaged cache causes a complete run."""
    runs.generate_index()
    runs.facts.with_name(".facts.json.last").write_bytes(data)
    assert runs.reuse() is None
    runs.generate_index()
    assert runs.reuse() is not None


@pytest.mark.parametrize("key", ["pages", "files", "result"])
def test_damaged_part_of_the_cache(runs: RunHistory, key: str) -> None:
    """So does a part of another type."""
    runs.generate_index()
    path = runs.facts.with_name(".facts.json.last")
    record = json.loads(path.read_bytes())
    record[key] = {name: [] for name in record[key]} if key != "files" else [[1, 2, 3]]
    path.write_text(json.dumps(record))
    assert runs.reuse() is None


def test_refusals_are_repeated(runs: RunHistory) -> None:
    """Refusals are reported in every run."""
    (runs.site.folder / "fast-2.0-py3-none-any.whl").touch()
    for wishes in (GenerateOptions(), GenerateOptions(keep_going=True)):
        runs.generate_index(wishes)
        assert runs.reuse(wishes) is None


def test_what_is_not_named_goes_with_the_next_run(runs: RunHistory) -> None:
    """What a run with --prune had to leave is removed by the one after it."""
    runs.generate_index()
    wheel(runs.site).unlink()
    prune = GenerateOptions(prune=True)
    assert runs.generate_index(prune).unreferenced
    assert runs.reuse(prune) is None
    assert runs.generate_index(prune).removed
    assert runs.reuse(prune) is not None


def test_another_process_publishes(runs: RunHistory) -> None:
    """Nothing is told of an index that somebody is changing."""
    runs.generate_index()
    with FolderTarget(runs.site.place).lock(), pytest.raises(EnvironmentBusy):
        runs.reuse()
