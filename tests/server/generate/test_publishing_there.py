"""`wheelfit publish` on a static index in a storage like S3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.running import Runner
from server.services import ObjectStorage
from server.uploading import DOCUMENT

from wheelfit.server.generate.object_store import open_object_store_target
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


@pytest.fixture
def run(bare_environment: None, capsys: pytest.CaptureFixture[str], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> Runner:  # fmt: skip
    """Return what runs a command, with nothing of whoever runs the tests."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))
    return Runner(capsys)


def test_a_release_appears_at_once(
    object_storage: ObjectStorage, run: Runner, tmp_path: Path
) -> None:
    """Pages come last; the same again sends nothing, and a later wheel joins those there."""
    bucket = object_storage.bucket()
    paths = [
        build_wheel(tmp_path / "dist", "fast", "1.0", label=label,
                    document=DOCUMENT if label else None)
        for label in (None, "mkl", "open")
    ]  # fmt: skip
    run("publish", tmp_path / "dist", "--to", bucket)
    page = open_object_store_target(bucket).read("simple/fast/index.json")
    assert page is not None
    assert len(json.loads(page)["files"]) == 4
    assert "already has all files" in run("publish", *paths, "--to", bucket).out
    late = build_wheel(tmp_path / "late", "fast", "1.0", tag="py2-none-any")
    run("publish", late, "--to", bucket)
    page = open_object_store_target(bucket).read("simple/fast/index.json")
    assert page is not None
    assert {one.name for one in (late, *paths)} < {
        file["filename"] for file in json.loads(page)["files"]
    }
