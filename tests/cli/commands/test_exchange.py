"""Replacement of one build of a release by another, with a delta download."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from sampled_cases import sampled

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

LARGE = 5 << 20
DOCUMENT = release_document(
    {label: {"n": {"f": [label]}} for label in ("one", "two")},
    static={"n": {"f": ["one", "two"]}},
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a large release with two builds that share all but their label."""
    folder = tmp_path / "index"
    noise = random.Random(1).randbytes(LARGE)
    for label in ("one", "two"):
        files = {"large/__init__.py": b"", "large/data": noise}
        build_wheel(folder, "large", "1.0", label=label, document=DOCUMENT, files=files)
    (folder / "large-1.0-variants.json").write_text(json.dumps(DOCUMENT))
    with RecordingIndex(folder) as served:
        yield served


@pytest.mark.parametrize("has_ranges", sampled([True, False], fast={0}))
def test_delta_download(
    run: Runner, index: RecordingIndex, tmp_path: Path, *, has_ranges: bool
) -> None:
    """Only differing parts are downloaded; identical files share their disk space."""
    target, cache = tmp_path / "target", tmp_path / "cache"

    def install(label: str) -> CommandResult:
        wish = ("--label", f"large={label}", "--allow-variant-change")
        places = ("-i", index.url, "--cache-dir", cache, "--target", target)
        return run("install", *places, *wish, "large")

    install("one")
    index.faults.ranges = has_ranges
    index.clear_requests()
    result = install("two")
    assert "installed large 1.0 (two), replacing 1.0 (one)" in result.out
    if has_ranges:
        assert "  exchanged large 1.0 (two): " in result.err
        assert " kB of 5.2 MB in " in result.err
        assert index.bytes_sent() < 50_000
    else:
        assert "  downloaded large 1.0 (two): 5.2 MB in " in result.err
    assert (target / "large" / "data").stat().st_size == LARGE
    kept = [path for path in cache.glob("unpacked-1/*/*/tree/large/data") if path.is_file()]
    assert len(kept) == 2
    assert kept[0].samefile(kept[1]) == has_ranges
