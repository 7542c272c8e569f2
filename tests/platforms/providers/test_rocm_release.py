"""P-124: which ROCm is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.providers.amd import probes
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("6.4.1-83", (6, 4)), ("7.0.0", (7, 0)), ("5.7.1-98\n", (5, 7)), ("7.10", (7, 10)),
        ("7.1.0~20251101", (7, 1)), ("", None), ("7", None), ("rocm-6.4", None), ("x.y", None),
        ("12345.6", None),
    ],
)  # fmt: skip
def test_major_and_minor_count(text: str, version: tuple[int, int] | None) -> None:
    """P-124: what follows them does not matter; what is not a version is none."""
    assert probes.parse_release(text) == version


def _install(root: Path, folder: str, text: str) -> None:
    (root / folder / ".info").mkdir(parents=True)
    (root / folder / ".info/version").write_text(text)


def test_the_places_in_their_order(tmp_path: Path) -> None:
    """P-124: where the variable says, at the usual place, then the newest beside it."""
    for folder, text in (("srv/rocm", "5.0.0"), ("opt/rocm", "6.4.1-83"),
                         ("opt/rocm-6.10.0", "6.10.0"), ("opt/rocm-6.9.3", "6.9.3-1"),
                         ("opt/rocm-7.0", "7.0.0"), ("opt/rocm-next", "9.9.9")):  # fmt: skip
        _install(tmp_path, folder, text)
    (tmp_path / "opt/rocm-8.0.0/lib").mkdir(parents=True)
    seen = SystemView(str(tmp_path), {"ROCM_PATH": "/srv/rocm/"}, system="Linux")
    files = probes.read_release(seen)
    assert [file[1] for file in files] == ["5.0.0", "6.4.1-83", "7.0.0", "6.10.0", "6.9.3-1"]
    assert files[0][0] == "/srv/rocm/.info/version"


def test_nothing_is_installed(tmp_path: Path) -> None:
    """P-74: nothing there is no error, and a variable that leads nowhere neither."""
    assert probes.read_release(SystemView(str(tmp_path), {"ROCM_PATH": "/gone"})) == ()
