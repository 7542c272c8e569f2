"""What an index lists of what it was sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wheelfit.building.publishing.publication import confirm
from wheelfit.building.publishing.release_files import collect_files
from wheelfit.sources.page import File
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import Unreachable


def test_patience(tmp_path: Path) -> None:
    """B-52: an index that lags behind is asked again, for a bounded time and ever more slowly."""
    build_wheel(tmp_path, "fast", "1.0")
    files = collect_files([tmp_path]).files
    here = {file.filename: File(file.filename, "", {"sha256": file.sha256}) for file in files}
    pauses: list[float] = []

    def late() -> Mapping[str, File]:
        if not pauses:
            raise Unreachable("not now")
        return here if len(pauses) == 3 else {}

    found = confirm(files, late, timeout=15, pause=pauses.append)
    assert (found.missing, found.findings, found.error) == ((), (), None)
    assert pauses == [1, 2, 4]
    pauses.clear()
    assert confirm(files, dict, timeout=15, pause=pauses.append).missing == files
    assert sum(pauses) == 15


def test_other_content(tmp_path: Path) -> None:
    """F-131: what is listed with another hash is told, and what has no hash is listed."""
    build_wheel(tmp_path, "fast", "1.0")
    files = collect_files([tmp_path]).files
    name = files[0].filename
    (finding,) = confirm(files, lambda: {name: File(name, "", {"sha256": "0"})}, timeout=0).findings
    assert finding.code == "name-taken"
    bare = confirm(files, lambda: {name: File(name, "")}, timeout=0)
    assert (bare.missing, bare.findings) == ((), ())
