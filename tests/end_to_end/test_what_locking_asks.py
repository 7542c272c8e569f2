"""The requests of a lock: each page once, metadata instead of wheels, and no repetition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.index import Faults, RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.usefixtures("bare_environment")

LEVELS = {
    label: {"x86_64": {"level": [label]}} if label != "null" else {} for label in ("null", "v3")
}
X86_64 = {
    "requires": ["provider-variant-x86-64>=0.0.1,<1"],
    "plugin-api": "provider_variant_x86_64.plugin:X8664Plugin",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Build a tree with variants, a diamond, and older releases that are not needed."""
    place = tmp_path / "index"
    document = release_document(LEVELS, providers={"x86_64": X86_64})
    for version in ("1.0", "2.0"):
        for label in LEVELS:
            build_wheel(
                place, "fast", version, label=label, document=document, requires=["low", "left"]
            )
        build_wheel(place, "left", version, requires=["low"])
        build_wheel(place, "low", version)
    build_wheel(place, "top", "1.0", requires=["fast", "left", 'win-only; sys_platform == "win32"'])
    build_wheel(place, "win-only", "1.0")
    return place


@pytest.fixture(params=["metadata beside the wheels", "metadata in the wheels"])
def index(request: pytest.FixtureRequest, folder: Path) -> Iterator[RecordingIndex]:
    """Serve it, with and without metadata files (PEP 658)."""
    faults = Faults(metadata=request.param == "metadata beside the wheels")
    with RecordingIndex(folder, faults=faults) as server:
        yield server


def test_lock_for_all_platforms(
    index: RecordingIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-95: each page once for all platforms; only the newest wheels, and none completely."""
    run, output = Runner(capsys), tmp_path / "pylock.toml"
    words = ("lock", "-i", index.url, "-o", output, "--cache-dir", tmp_path / "cache", "top")
    run(*words)
    asked = [request.path for request in index.requests]
    pages = Counter(path for path in asked if path.startswith("/simple/"))
    assert pages == {f"/simple/{name}/": 1 for name in ("top", "fast", "left", "low", "win-only")}
    files = {path.rpartition("/")[2] for path in asked if path.startswith("/files/")}
    assert {name.partition("-py3")[0] for name in files} <= {
        "top-1.0", "fast-2.0", "fast-2.0-variants.json", "left-2.0", "low-2.0", "win_only-1.0",
    }  # fmt: skip
    whole = [
        request
        for request in index.requests
        if request.path.endswith(".whl") and request.status != 206
    ]
    assert whole == []

    index.clear_requests()
    run(*words)
    assert {request.path for request in index.requests} == set(pages)
    assert {request.status for request in index.requests} == {304}
