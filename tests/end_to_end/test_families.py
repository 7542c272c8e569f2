"""The distribution of the families: built by its real backend, and read by wheelfit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.sources.bridges import catalogue
from wheelfit.testing.index import RecordingIndex

pytestmark = [pytest.mark.network]

REPOSITORY = Path(__file__).parents[2]
BRIDGES = "src/wheelfit/sources/bridges"
NEWER = "2999.1.2"


@pytest.fixture
def wheel(registry: None, tmp_path: Path) -> Path:
    """Build the wheel of this checkout with a later date."""
    del registry
    tree = tmp_path / "tree"
    shutil.copytree(REPOSITORY / "families", tree / "families")
    shutil.copytree(REPOSITORY / BRIDGES / "definitions", tree / BRIDGES / "definitions")
    text = (REPOSITORY / BRIDGES / "catalogue.py").read_text(encoding="utf-8")
    text = text.replace(f'"{catalogue.SHIPPED_VERSION}"', f'"{NEWER}"')
    (tree / BRIDGES / "catalogue.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "build", "--wheel", str(tree / "families")]
    subprocess.run([*command, "--outdir", str(tmp_path / "dist")], check=True, capture_output=True)
    (path,) = (tmp_path / "dist").iterdir()
    return path


def test_files_and_update(
    wheel: Path,
    tmp_path: Path,
    bare_environment: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has exactly the shipped files, and an update by it changes only the date."""
    del bare_environment
    assert wheel.name == f"wheelfit_families-{NEWER}-py3-none-any.whl"
    definitions = REPOSITORY / BRIDGES / "definitions"
    with zipfile.ZipFile(wheel) as archive:
        inside = {
            name.removeprefix("wheelfit_families/"): archive.read(name)
            for name in archive.namelist()
            if ".dist-info/" not in name
        }
    shipped = {
        path.relative_to(definitions).as_posix(): path.read_bytes()
        for path in definitions.rglob("*.toml")
    }
    assert inside == shipped
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with RecordingIndex(wheel.parent) as index:
        report = Runner(capsys)("bridges", "update", "--index-url", index.url, "--json").object
    assert (report["action"], report["data"]["version"]) == ("updated", NEWER)
    assert not any(report[key] for key in ("added", "changed", "restricted", "left_out"))
    kept = json.loads(catalogue.update_file(os.environ).read_text(encoding="utf-8"))
    assert len(kept["files"]) == len(shipped)
