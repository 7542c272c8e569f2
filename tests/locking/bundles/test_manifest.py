"""The manifest of a bundle."""

from __future__ import annotations

import json

import pytest

from wheelfit.errors import DamagedBundle
from wheelfit.locking.bundles.manifest import (
    BundledFile,
    BundledHost,
    Manifest,
    is_inside,
    read_manifest,
    write_manifest,
)

FILE = BundledFile("ab" * 32, 12)
WHEEL = "some-1-py3-none-any.whl"
MANIFEST = Manifest(
    {"hosts/node.toml": FILE, f"wheels/{WHEEL}": FILE, "wheels/é-1.txt": FILE},
    (BundledHost("node", (WHEEL,)),),
    "cd" * 32,
    ("gpu",),
    ("dev",),
    ("--label", "some=cu12"),
)


def test_reading_and_writing_are_inverses() -> None:
    """What is written is read as it was, and equal manifests have equal bytes."""
    data = write_manifest(MANIFEST)
    read = read_manifest(data, where="bundle.json")
    assert read == MANIFEST
    assert write_manifest(read) == data
    assert read.wheels == {WHEEL: FILE}


def test_keys_of_later_versions_are_ignored() -> None:
    """Keys may be added within a version."""
    table = json.loads(write_manifest(MANIFEST))
    table["more"] = table["files"]["hosts/node.toml"]["more"] = 1
    assert read_manifest(json.dumps(table).encode(), where="") == MANIFEST


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"version": 1}', b"[" * 100_000])
def test_what_is_none(data: bytes) -> None:
    """Whatever it is, it is an error of ours."""
    with pytest.raises(DamagedBundle, match="bundle was changed"):
        read_manifest(data, where="bundle.json")


@pytest.mark.parametrize(
    "path",
    [
        *("", "/x", "x/", "x//y", "..", "../x", "x/../y", "./x", "x.", ".. ", "x /y"),
        *("x\\y", "C:x", "x\0", "x\ny", "\x7f", "\ud800"),
    ],
)
def test_paths_that_lead_elsewhere(path: str) -> None:
    """No path of a manifest leads out of the folder, on any system."""
    assert not is_inside(path)
    table = json.loads(write_manifest(MANIFEST))
    table["files"][path] = FILE.to_mapping()
    with pytest.raises(DamagedBundle):
        read_manifest(json.dumps(table).encode(), where="bundle.json")


@pytest.mark.parametrize("path", ["x", "x/y", "..x", "x..y/.z", "a b", "wheels/x+1!2.whl"])
def test_paths_that_stay(path: str) -> None:
    """Dots and other signs are harmless where they are no folder."""
    assert is_inside(path)


@pytest.mark.parametrize("name", ["some.whl", "sub/some-1-py3-none-any.whl"])
def test_wheels_are_named_as_wheels(name: str) -> None:
    """What no wheel is called, or lies below the folder of the wheels, is found at once."""
    files = {**MANIFEST.files, f"wheels/{name}": FILE}
    with pytest.raises(DamagedBundle) as excinfo:
        read_manifest(write_manifest(Manifest(files)), where="bundle.json")
    assert f"{name!r} is not a wheel file name" in (excinfo.value.note or "")


def test_the_error_as_data() -> None:
    """Every problem is there for programs, and not too many for people."""
    problems = [(f"wheels/{number}.whl", "missing", "") for number in range(150)]
    error = DamagedBundle(problems, where="bundle")
    parts = error.parts()
    assert isinstance(parts["problems"], list)
    assert len(parts["problems"]) == 150
    assert error.note is not None
    assert len(error.note.splitlines()) == 101
    assert error.note.endswith("and 50 more")
