"""Killed processes, after which the old or the new pages are complete."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from server.generate.folders import Site, build_release

pytestmark = pytest.mark.integration

TRIALS = 12
TESTS = Path(__file__).parents[2]
LABELS = (None, "null", "mkl", "open")

CHILD = """
import sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from server.generate.folders import Site
site = Site(Path({folder!r}), Path({place!r}))
print("ready", flush=True)
site.generate()
"""


def program_of(site: Site, before: str = "") -> list[str]:
    """Return the command that generates an index in a process of its own.

    :param before: statements that run first.
    """
    tests, folder, place = (str(path) for path in (TESTS, site.folder, site.place))
    return [sys.executable, "-c", before + CHILD.format(tests=tests, folder=folder, place=place)]


def check_index(place: Path) -> set[str]:
    """Return the versions on a page after comparing every file with its entry."""
    page = place / "simple/fast/index.json"
    if not page.exists():
        return set()
    document = json.loads(page.read_bytes())
    for entry in document["files"]:
        data = (page.parent / entry["url"]).resolve().read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["hashes"]["sha256"]
        if entry["filename"].endswith(".whl"):
            metadata = Path(f"{(page.parent / entry['url']).resolve()}.metadata").read_bytes()
            assert hashlib.sha256(metadata).hexdigest() == entry["core-metadata"]["sha256"]
    by_version: dict[str, int] = {}
    for entry in document["files"]:
        version = entry["filename"].split("-")[1]
        by_version[version] = by_version.get(version, 0) + 1
    assert set(by_version.values()) <= {5}  # four wheels and the index file
    return set(document["versions"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """After kill -9 every page is complete and true, and the next run finishes."""
    site = Site(tmp_path / "dist", tmp_path / "public")
    build_release(site.folder, version="0.1", labels=LABELS)
    moments = random.Random(7)
    length = 0.05
    for number in range(1, TRIALS + 1):
        build_release(site.folder, version=f"{number}.0", labels=LABELS)
        before = check_index(site.place)
        with subprocess.Popen(program_of(site), stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            started = time.monotonic()
            time.sleep(moments.uniform(0, length))
            child.send_signal(signal.SIGKILL)
            child.wait()
            length = max(length, 2 * (time.monotonic() - started) if child.returncode == 0 else 0)
        after = check_index(site.place)
        assert after in (before, {path.name.split("-")[1] for path in site.folder.glob("*.whl")})
    site.generate()
    assert len(check_index(site.place)) == TRIALS + 1
    assert not (site.place / "simple/.staging").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("step", range(0, 24, 3))
def test_killed_between_two_renames(tmp_path: Path, step: int) -> None:
    """A run killed before any of its renames leaves true pages."""
    site = Site(tmp_path / "dist", tmp_path / "public")
    build_release(site.folder, labels=LABELS)
    site.generate()
    build_release(site.folder, version="2.0", labels=LABELS)
    before = (
        "import os, signal\n"
        "real, count = os.replace, 0\n"
        "def replace(*words, **named):\n"
        "    global count\n"
        f"    if count == {step}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    count += 1\n"
        "    return real(*words, **named)\n"
        "os.replace = replace\n"
    )
    completed = subprocess.run(program_of(site, before), stdout=subprocess.DEVNULL, check=False)
    assert completed.returncode in (0, -signal.SIGKILL)
    assert check_index(site.place) in ({"1.0"}, {"1.0", "2.0"})
    site.generate()
    assert check_index(site.place) == {"1.0", "2.0"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
@pytest.mark.parametrize("limit", [100, 1_500, 4_000])
def test_no_space(tmp_path: Path, limit: int) -> None:
    """If a file cannot be written, the old pages remain and an error has the reason."""
    site = Site(tmp_path / "dist", tmp_path / "public")
    build_release(site.folder, labels=LABELS)
    site.generate()
    build_release(site.folder, version="2.0", labels=LABELS)
    before = (
        "import resource, signal, sys\n"
        # Python would cut off what it compiles, and all later tests would read that.
        "sys.dont_write_bytecode = True\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    )
    completed = subprocess.run(
        program_of(site, before), capture_output=True, text=True, check=False
    )
    assert completed.returncode == 1
    assert "the file cannot be written: File too large" in completed.stderr
    assert check_index(site.place) == {"1.0"}
    assert not (site.place / "simple/.staging").exists()
    site.generate()
    assert check_index(site.place) == {"1.0", "2.0"}
