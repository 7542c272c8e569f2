"""An upgrade of many files is killed at random moments: wheelfit's, pip's and uv's."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from faults.changes import large_files
from faults.scene import Scene, difference, snapshot
from faults.trials import MARK, Outcome

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

VERSIONS = ("1.0", "2.0")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve two versions of a package of 3,001 files."""
    folder = tmp_path_factory.mktemp("many")
    for version in VERSIONS:
        build_wheel(folder, "many", version, files=large_files(version))
    with RecordingIndex(folder) as index:
        yield index


class Upgrade:
    """Change between two versions of a package, and be killed at it.

    :param scene: where.
    :param line: returns the command line that installs a version.
    """

    def __init__(self, scene: Scene, line: Callable[[str], Sequence[str]]) -> None:
        self.scene = scene
        self._line = line
        self.whole: dict[str, dict[str, str]] = {}
        """What the environment is with each version."""
        self.seconds = 0.0
        """How long a change takes."""
        for version in (*VERSIONS, *VERSIONS):
            started = time.monotonic()
            self.begin(version).wait()
            self.seconds = time.monotonic() - started
            self.whole[version] = snapshot(scene.environment)
            scene.keep(version)

    def begin(self, version: str) -> subprocess.Popen[bytes]:
        """Begin to install a version."""
        return subprocess.Popen(
            self._line(version),
            env=self.scene.environ(),
            cwd=self.scene.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self, version: str, delay: float) -> int:
        """Begin to install a version, kill all that belongs to it, and return how it ended."""
        process = self.begin(version)
        try:
            return process.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.wait()

    def state(self) -> str:
        """Return the version that is there as a whole, or empty."""
        found = snapshot(self.scene.environment)
        whole = [version for version in VERSIONS if self.whole[version] == found]
        return whole[0] if whole else ""


def kill_wheelfit(upgrade: Upgrade, trials: int, seed: int) -> Outcome:
    """Kill wheelfit again and again; what is found is where the next change starts."""
    random, outcome = Random(seed), Outcome()
    scene = upgrade.scene
    current = upgrade.state()
    for trial in range(trials):
        wanted = next(version for version in VERSIONS if version != current)
        delay = random.uniform(0.2, 1.0) * upgrade.seconds
        upgrade.kill(wanted, delay)
        outcome.between += any(scene.library.glob(f"{MARK}*"))
        ended = scene.run("recover")
        found = upgrade.state()
        left = list(scene.library.parent.rglob(f"*{MARK}*"))
        if ended.code or not found or left:
            lines = difference(snapshot(scene.environment), upgrade.whole[current])
            outcome.broken.append(
                f"{trial}: killed after {delay:.3f} s from {current} to {wanted}, recover ended "
                f"with {ended.code}: {ended.err}{left} {lines[:5]}"
            )
            scene.back_to(current)
        else:
            outcome.found["old" if found == current else "new"] += 1
            current = found
    return outcome


def kill_other(upgrade: Upgrade, trials: int, seed: int, start: float) -> Outcome:
    """Kill another tool, which has nothing to recover with; all is put back each time."""
    random, outcome = Random(seed), Outcome()
    for _ in range(trials):
        upgrade.scene.back_to("1.0")
        upgrade.kill("2.0", random.uniform(start, 1.0) * upgrade.seconds)
        found = upgrade.state()
        if found:
            outcome.found["old" if found == "1.0" else "new"] += 1
        else:
            outcome.between += 1
            outcome.broken.append("")
    return outcome


@pytest.mark.parametrize(
    ("trials", "seed"),
    [(4, 1), *(pytest.param(100, seed, marks=pytest.mark.faults_long) for seed in range(10))],
)
def test_wheelfit(
    many: RecordingIndex, tmp_path: Path, figures: Callable[[str], None], trials: int, seed: int
) -> None:
    """A kill at any moment leaves the old or the new version, once the next command has run."""
    scene = Scene(tmp_path / "scene", many.url)
    upgrade = Upgrade(scene, lambda version: scene.command("install", f"many=={version}"))
    outcome = kill_wheelfit(upgrade, trials, seed=seed)
    figures(f"kill at random moments wheelfit   {outcome}")
    assert not outcome.broken, outcome.report()


@pytest.mark.faults_long
@pytest.mark.network
def test_uv(many: RecordingIndex, tmp_path: Path, figures: Callable[[str], None], uv: Path) -> None:
    """For comparison: uv leaves neither in some of a hundred cases."""
    scene = Scene(tmp_path / "scene", many.url)
    line = [str(uv), "pip", "install", "--quiet", "--cache-dir", str(scene.cache)]
    line += ["--python", str(scene.python), "--index-url", many.url]
    upgrade = Upgrade(scene, lambda version: [*line, f"many=={version}"])
    outcome = kill_other(upgrade, 100, 1, start=0.0)
    figures(f"kill at random moments uv         {outcome}")
    assert outcome.broken


@pytest.mark.faults_long
@pytest.mark.network
def test_pip(
    many: RecordingIndex, tmp_path: Path, figures: Callable[[str], None], pip: Path
) -> None:
    """For comparison: pip leaves neither in some of a hundred cases."""
    scene = Scene(tmp_path / "scene", many.url)
    line = [str(pip), "--python", str(scene.python), "install", "--quiet", "--no-compile"]
    line += ["--cache-dir", str(scene.cache), "--index-url", many.url]
    upgrade = Upgrade(scene, lambda version: [*line, f"many=={version}"])
    outcome = kill_other(upgrade, 100, 1, start=0.3)
    figures(f"kill at random moments pip        {outcome}")
    assert outcome.broken
