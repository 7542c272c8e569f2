"""Which file of several sources is taken, beside what pip and uv take of the same ones.

uv is the oracle of the three strategies, and of explicit indexes and pinned projects. pip has one
pool of all sources, as `unsafe-best-match` has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = [pytest.mark.integration, pytest.mark.network]

STRATEGIES = ("first-index", "unsafe-first-match", "unsafe-best-match")
NOTHING = "nothing"


@dataclass(frozen=True)
class Layout:
    """The versions of one package in each source, and the files where others differ."""

    first: Sequence[str] = ()
    later: Sequence[str] = ()
    links: Sequence[str] = ()
    requirement: str = "fast"
    yanked: Sequence[str] = ()
    """Versions that the first index has taken back."""
    ours: Mapping[str, str] = field(default_factory=dict)
    """What wheelfit takes where it is something else than a tool does, by strategy or ``pip``."""


FIRST = {"pip": "1 first"}
"""Of equal files pip takes that of the source that is named last: no rule that anybody states."""
LAYOUTS = {
    "the same version in both": Layout(["1"], ["1"], ours=FIRST),
    "newer in the later index": Layout(["1", "2"], ["3"]),
    "newer in the first index": Layout(["3"], ["1", "2"]),
    "only in the later index": Layout([], ["1", "2"]),
    "the wish is met by the later index": Layout(["1"], ["2"], requirement="fast>=2"),
    "an older one is wished": Layout(["3"], ["1", "2"], requirement="fast<3"),
    # uv takes the pre-release, for the first index has nothing else.
    "a pre-release is all the first has": Layout(
        ["1b1"], ["1"], ours={"unsafe-first-match": "1 later"}
    ),
    "a newer pre-release in the first": Layout(["1", "2rc1"], ["1.5"]),
    "the newest was taken back": Layout(["1", "2"], ["1"], yanked=["2"], ours=FIRST),
    "a folder with something newer": Layout(["1"], ["1"], ["2"]),
    "a folder with something older": Layout(["2"], [], ["1"]),
    "a folder with the same version": Layout(["1"], ["1"], ["1"], ours={"pip": "1 links"}),
    "a folder alone": Layout(links=["1", "2"]),
}


class Sources:
    """Two indexes and a folder, and the tools that choose among them."""

    def __init__(self, folder: Path, first: str, later: str, uv: Path, pip: Path) -> None:
        self._folder = folder
        self.first, self.later = first, later
        self.uv, self._pip = uv, pip
        self._links = folder / "links"

    def run(self, *words: str | Path, **variables: str) -> None:
        """Run a tool with no configuration of whoever runs the tests; it may fail."""
        kept = ("PATH", "HOME", "SYSTEMROOT", "TMPDIR")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        environ |= {"PIP_CONFIG_FILE": os.devnull, "WHEELFIT_CONFIG_FILE": os.devnull, **variables}
        command = list(map(str, words))
        subprocess.run(command, capture_output=True, check=False, cwd=self._folder, env=environ)

    def _taken(self, target: Path) -> str:
        """Return the version that was installed, and from where."""
        found = list(target.glob("fast-*.dist-info"))
        if not found:
            return NOTHING
        assert len(found) == 1
        version = found[0].name.removesuffix(".dist-info").removeprefix("fast-")
        return f"{version} {(target / 'fast' / 'whence').read_text()}"

    def by_uv(self, requirement: str, strategy: str) -> str:
        """Return what uv takes; it asks its extra indexes before the main one."""
        target = self._folder / f"uv-{strategy}"
        self.run(
            self.uv, "pip", "install", "--no-cache", "--python", sys.executable, "--target", target,
            "--index-strategy", strategy, "--find-links", self._links, "--index-url", self.later,
            "--extra-index-url", self.first, requirement, UV_NO_CONFIG="1",
        )  # fmt: skip
        return self._taken(target)

    def by_pip(self, requirement: str) -> str:
        """Return what pip takes."""
        target = self._folder / "pip"
        self.run(
            self._pip, "install", "--no-cache-dir", "--no-compile", "--target", target,
            "--find-links", self._links, "-i", self.first, "--extra-index-url", self.later,
            requirement, PIP_DISABLE_PIP_VERSION_CHECK="1",
        )  # fmt: skip
        return self._taken(target)

    def by_wheelfit(self, requirement: str, strategy: str) -> str:
        """Return what wheelfit takes."""
        target = self._folder / f"wheelfit-{strategy}"
        self.run(
            sys.executable, "-m", "wheelfit", "install", "--no-cache-dir", "--target", target,
            "--index-strategy", strategy, "--find-links", self._links, "-i", self.first,
            "--extra-index-url", self.later, requirement,
        )  # fmt: skip
        return self._taken(target)


def fill(folder: Path, whence: str, versions: Sequence[str], name: str = "fast") -> None:
    """Put wheels into a source; each says from where it is."""
    (folder / whence).mkdir(exist_ok=True)
    for version in versions:
        build_wheel(folder / whence, name, version, files={f"{name}/whence": whence})


@pytest.fixture
def sources(
    request: pytest.FixtureRequest, tmp_path: Path, uv: Path, pip: Path
) -> Iterator[Sources]:
    """Serve a layout."""
    layout: Layout = getattr(request, "param", Layout(["1"], ["2"]))
    for whence in ("first", "later", "links"):
        fill(tmp_path, whence, getattr(layout, whence))
    with (
        RecordingIndex(tmp_path / "first") as first,
        RecordingIndex(tmp_path / "later") as later,
    ):
        taken_back = {f"fast-{version}-py3-none-any.whl": "" for version in layout.yanked}
        first.faults.yanked.update(taken_back)
        yield Sources(tmp_path, first.url, later.url, uv, pip)


@pytest.mark.parametrize(
    ("sources", "layout"),
    [(layout, layout) for layout in LAYOUTS.values()],
    ids=LAYOUTS,
    indirect=["sources"],
)
def test_layouts(sources: Sources, layout: Layout) -> None:
    """F-126: under each strategy the file is taken that uv takes, and pip of its one pool."""
    own = {strategy: sources.by_wheelfit(layout.requirement, strategy) for strategy in STRATEGIES}
    others = {strategy: sources.by_uv(layout.requirement, strategy) for strategy in STRATEGIES}
    others["pip"] = sources.by_pip(layout.requirement)
    own["pip"] = own["unsafe-best-match"]
    differing = {who: own[who] for who, taken in others.items() if taken != own[who]}
    assert differing == dict(layout.ours), others


def test_pinned_and_explicit(sources: Sources, tmp_path: Path) -> None:
    """A pinned project comes from its index and others do not, as uv reads the same tables."""
    fill(tmp_path, "first", ["1"], "other")
    fill(tmp_path, "later", ["2"], "other")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n'
        'dependencies = ["fast", "other"]\n'
        f'[[tool.uv.index]]\nname = "usual"\nurl = "{sources.first}"\ndefault = true\n'
        f'[[tool.uv.index]]\nname = "apart"\nurl = "{sources.later}"\nexplicit = true\n'
        "[tool.uv.sources]\nfast = [\n"
        '  { index = "apart", marker = "sys_platform == \'linux\'" },\n'
        '  { index = "usual", marker = "sys_platform != \'linux\'" },\n]\n'
    )
    sources.run(sources.uv, "lock", "--no-cache", "--python", sys.executable)
    sources.run(sys.executable, "-m", "wheelfit", "lock", "--no-cache-dir")
    by_uv = (tmp_path / "uv.lock").read_text()
    by_wheelfit = (tmp_path / "pylock.toml").read_text()
    for name in ("fast-1-", "fast-2-", "other-1-", "other-2-"):
        assert (name in by_wheelfit) == (name in by_uv), name
    assert "other-2-" not in by_wheelfit
    assert json.dumps(sources.later.removesuffix("simple/"))[1:-1] in by_wheelfit
