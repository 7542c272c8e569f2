"""A run that finds everything as the last one saw and left it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from server.generate.folders import Site, build_release

from wheelfit.errors import EnvironmentBusy
from wheelfit.server.generate.file_facts import FactsMemory
from wheelfit.server.generate.generation import generate
from wheelfit.server.generate.last_run import LastRun, fingerprint
from wheelfit.server.generate.request import Generated, GenerateOptions
from wheelfit.server.generate.targets import FolderTarget
from wheelfit.testing.wheels import build_wheel


class Runs:
    """Run again and again, as the command does.

    :param site: the folder.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.facts = site.place / "simple" / ".facts.json"

    def begin(self, wishes: GenerateOptions) -> LastRun:
        """Look around."""
        excluded = frozenset({self.site.folder / "simple"})
        seen = fingerprint(self.site.folder, wishes, in_place=True, excluded=excluded)
        return LastRun(self.facts, seen)

    def look(self, wishes: GenerateOptions = GenerateOptions()) -> Generated | None:
        """Return what is told if nothing has to be done."""
        return self.begin(wishes).reusable_result(FolderTarget(self.site.place))

    def do(self, wishes: GenerateOptions = GenerateOptions()) -> Generated:
        """Generate the index, whatever the last run left."""
        return generate(
            self.site.folder,
            FolderTarget(self.site.place),
            FactsMemory(self.facts),
            wishes,
            in_place=True,
            excluded=frozenset({self.site.folder / "simple"}),
            last_run=self.begin(wishes),
        )


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Give a folder with one release."""
    folder = tmp_path / "dist"
    build_release(folder)
    (folder / "fast-1.0-py3-none-any.whl.yanked").write_text("slow")
    return Runs(Site(folder))


def test_it_tells_the_same(runs: Runs) -> None:
    """Once there is an index, the next run tells of it what a whole one would."""
    assert runs.look() is None
    runs.do()
    told = runs.look()
    assert told is not None
    assert replace(told, state=None) == replace(runs.do(), state=None)


def wheel(site: Site) -> Path:
    """Return a wheel of the release."""
    return site.folder / "fast-1.0-py3-none-any-mkl.whl"


def index_file(site: Site) -> Path:
    """Return what was combined from the wheels."""
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
def test_any_change_counts(runs: Runs, change: str) -> None:
    """Whatever came, went or changed, in the folder or in the index, is looked at."""
    runs.do()
    assert runs.look() is not None
    CHANGES[change](runs.site)
    assert runs.look() is None


@pytest.mark.parametrize(
    "wishes",
    [
        GenerateOptions(full=True),
        GenerateOptions(prune=True),
        GenerateOptions(replace=True),
        GenerateOptions(keep_going=True),
    ],
)
def test_other_wishes_count(runs: Runs, wishes: GenerateOptions) -> None:
    """A run that shall do something else does it."""
    runs.do()
    assert runs.look(wishes) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"seen":'])
def test_a_damaged_memory_costs_time_only(runs: Runs, data: bytes) -> None:
    """What is remembered of the last run is a cache."""
    runs.do()
    runs.facts.with_name(".facts.json.last").write_bytes(data)
    assert runs.look() is None
    runs.do()
    assert runs.look() is not None


def test_refusals_are_told_again(runs: Runs) -> None:
    """Who did not mend what was refused is told of it in every run."""
    (runs.site.folder / "fast-2.0-py3-none-any.whl").touch()
    for wishes in (GenerateOptions(), GenerateOptions(keep_going=True)):
        runs.do(wishes)
        assert runs.look(wishes) is None


def test_what_is_not_named_goes_with_the_next_run(runs: Runs) -> None:
    """What a run with --prune had to leave is removed by the one after it."""
    runs.do()
    wheel(runs.site).unlink()
    prune = GenerateOptions(prune=True)
    assert runs.do(prune).unreferenced
    assert runs.look(prune) is None
    assert runs.do(prune).removed
    assert runs.look(prune) is not None


def test_another_process_publishes(runs: Runs) -> None:
    """Nothing is told of an index that somebody is changing."""
    runs.do()
    with FolderTarget(runs.site.place).opened(), pytest.raises(EnvironmentBusy):
        runs.look()
