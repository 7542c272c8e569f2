"""Requirements of wheelfit itself that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.doctor.own_requirements import DependencyRelease, unmet_requirements


@pytest.mark.parametrize(
    ("file", "content", "state"),
    [
        ("METADATA", b"Version: \xff", "is not installed"),
        ("RECORD", b"\xff.py,,\n", ""),
        ("RECORD", b'"' + b"x" * 200_000, ""),
    ],
)
def test_damaged_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, content: bytes, state: str
) -> None:
    """A file that cannot be read is never an exception."""
    info = tmp_path / "damaged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1.0\n")
    (info / file).write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    own_release = DependencyRelease("1", ("damaged>=1",))
    unmet = unmet_requirements({"wheelfit": own_release}, files=True)
    assert [str(one).endswith(state) for one in unmet] == [True] * bool(state)
