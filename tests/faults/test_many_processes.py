"""Many processes at once change one environment, and share one cache."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.scene import Scene, difference, snapshot

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

PACKAGES = 8
BUSY = 6


@pytest.mark.parametrize("processes", [12, pytest.param(64, marks=pytest.mark.faults_long)])
def test_many_processes(processes: int, tmp_path: Path, figures: Callable[[str], None]) -> None:
    """All end well, each wheel is fetched once, and everything is whole.

    Every second one goes into the common environment, the others into folders of their own.
    """
    wheels = tmp_path / "wheels"
    for number in range(PACKAGES):
        files = {f"p{number}/m{part}.py": f"{number} {part}\n" * 50 for part in range(40)}
        build_wheel(wheels, f"p{number}", "1.0", files=files)
    with RecordingIndex(wheels) as index:
        scene = Scene(tmp_path / "scene", index.url)
        started: list[tuple[int, Path | None, subprocess.Popen[str]]] = []
        for number in range(processes):
            package = number // 2 % PACKAGES
            target = scene.state / f"target-{number}" if number % 2 else None
            words = [] if target is None else ["--target", str(target)]
            started.append((package, target, scene.start("install", f"p{package}", *words)))
        broken = []
        ends: Counter[int] = Counter()
        for package, target, process in started:
            _, err = process.communicate()
            ends[process.returncode] += 1
            allowed = {0} if target is not None else {0, BUSY}
            if process.returncode not in allowed or "Traceback" in err:
                broken.append(f"p{package} ended with {process.returncode}: {err}")
        wholes = _expected(tmp_path)
        for package, target, process in started:
            if process.returncode == 0:
                place = scene.library if target is None else target
                found = _only(snapshot(place), package)
                broken += difference(found, wholes[package])
        fetched = [index.bytes_sent(path.name) / path.stat().st_size for path in wheels.iterdir()]
        result = scene.run("cache", "verify", "--cache-dir", scene.cache)
        if result.code:
            broken.append(f"the cache: {result.out}{result.err}")
        left = [path.name for path in scene.library.iterdir() if path.name.startswith(".wheelfit")]
        broken += [f"left over: {path}" for path in [*left, *scene.temporary.iterdir()]]
    if max(fetched) > 1.5:
        broken.append(f"wheels were fetched {max(fetched):.1f} times")
    figures(
        f"at once                {processes} processes, {ends[0]} done, {ends[BUSY]} found it "
        f"busy, each wheel fetched {max(fetched):.1f} times at most; {len(broken)} broken"
    )
    assert not broken, "\n".join(broken[:5])


def _only(found: dict[str, str], package: int) -> dict[str, str]:
    return {name: what for name, what in found.items() if name.startswith(f"p{package}")}


def _expected(folder: Path) -> dict[int, dict[str, str]]:
    """Return what each package looks like when it is installed alone."""
    with RecordingIndex(folder / "wheels") as index:
        scene = Scene(folder / "expected", index.url)
        scene.must("install", *(f"p{number}" for number in range(PACKAGES)))
        whole = snapshot(scene.library)
    return {number: _only(whole, number) for number in range(PACKAGES)}
