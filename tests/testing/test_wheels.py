"""The builder of small wheels."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wheelfit.core.metadata import check_document
from wheelfit.testing.wheels import (
    build_large_wheel,
    build_wheel,
    release_document,
    single_label_document,
    stub_wheels_for,
)
from wheelfit.wheels.archive import WheelArchive

DOCUMENT = release_document(
    {"null": {}, "v3.x": {"x86_64": {"level": ["v3", "v2"]}, "blas": {"library": ["mkl"]}}},
    static={"blas": {"library": ["openblas", "mkl"], "threads": ["omp"]}},
    providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
)


@pytest.mark.parametrize(
    ("arguments", "filename"),
    [
        ({}, "fast_fft-2.1-py3-none-any.whl"),
        ({"build": "7"}, "fast_fft-2.1-7-py3-none-any.whl"),
        ({"label": "v3.x", "document": DOCUMENT}, "fast_fft-2.1-py3-none-any-v3.x.whl"),
        (
            {"label": "null", "document": DOCUMENT, "build": "7", "tag": "cp312.cp313-abi3-win32"},
            "fast_fft-2.1-7-cp312.cp313-abi3-win32-null.whl",
        ),
    ],
)
def test_names(tmp_path: Path, arguments: dict[str, str], filename: str) -> None:
    """F-17: names are normalised, build tag and label stand where they belong."""
    path = build_wheel(tmp_path, "Fast.FFT", "2.1", **arguments)  # type: ignore[arg-type]
    assert path.name == filename
    with WheelArchive(path) as wheel:
        wheel.verify()


def test_metadata(tmp_path: Path) -> None:
    """Everything asked for is in METADATA, entry points and WHEEL."""
    path = build_wheel(
        tmp_path,
        "some",
        "1.0",
        requires=["other>=2", 'more; extra == "test"'],
        provides_extra=["test"],
        requires_python=">=3.9",
        metadata_extra=[("Summary", "short")],
        description="long\n",
        entry_points={"console_scripts": {"tool": "some:main"}},
        tag="cp313-cp313-linux_x86_64",
    )
    with WheelArchive(path) as wheel:
        text = wheel.metadata().decode()
        assert wheel.read("some-1.0.dist-info/entry_points.txt") == (
            b"[console_scripts]\ntool = some:main\n"
        )
        assert b"Root-Is-Purelib: false\n" in wheel.read("some-1.0.dist-info/WHEEL")
    assert "Requires-Dist: other>=2\n" in text
    assert "Provides-Extra: test\n" in text
    assert "Requires-Python: >=3.9\n" in text
    assert text.endswith("Summary: short\n\nlong\n")


def test_equal_bytes(tmp_path: Path) -> None:
    """Equal arguments give equal bytes, wherever and whenever."""
    wheel = build_wheel(tmp_path / "one", "some", "1.0", label="null", document=DOCUMENT)
    other = build_wheel(tmp_path / "other", "some", "1.0", label="null", document=DOCUMENT)
    assert wheel.read_bytes() == other.read_bytes()


def test_documents(tmp_path: Path) -> None:
    """F-24: a wheel gets the entry of its label; bytes are taken as they are."""
    assert not check_document(json.dumps(DOCUMENT).encode())
    assert DOCUMENT["default-priorities"] == {"namespace": ["blas", "x86_64"]}
    path = build_wheel(tmp_path, "some", "1.0", label="v3.x", document=DOCUMENT)
    with WheelArchive(path) as wheel:
        written = json.loads(wheel.variant_document() or b"")
    assert written == single_label_document(DOCUMENT, "v3.x")
    assert list(written["variants"]) == ["v3.x"]
    path = build_wheel(tmp_path, "some", "2.0", label="v3.x", document=b"[")
    with WheelArchive(path) as wheel:
        assert wheel.variant_document() == b"["


def test_large(tmp_path: Path) -> None:
    """A large wheel is sound, and takes next to no room where files may have holes."""
    path = build_large_wheel(tmp_path, "some", "1.0", 40_000_000)
    with WheelArchive(path) as wheel:
        wheel.verify()
        assert wheel.member("some/zeros.bin").size == 40_000_000
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    if sys.platform == "linux":
        assert path.stat().st_blocks * 512 < 1_000_000


def test_stubs(tmp_path: Path) -> None:
    """Stubs have exactly the names asked for, and the properties of their labels."""
    names = [
        "Some.Thing-1.0-py3-none-any.whl",
        "some_thing-1.0-1-cp313-cp313-win_amd64-v3.x.whl",
        "some_thing-1.0-py3-none-any-null.whl",
        "some_thing-1.0-2-py3-none-any.whl",
    ]
    paths = stub_wheels_for(tmp_path, names, DOCUMENT, requires=["other"], requires_python=">=3")
    assert [path.name for path in paths] == names
    for path in paths:
        with WheelArchive(path) as wheel:
            wheel.verify()
            assert b"Requires-Dist: other\n" in wheel.metadata()
    with WheelArchive(paths[0]) as wheel:
        assert wheel.variant_document() is None


def test_pip_takes_it(pip: Path, tmp_path: Path) -> None:
    """A plain wheel installs with pip, its script included."""
    path = build_wheel(
        tmp_path,
        "some",
        "1.0",
        files={"some/__init__.py": "def main():\n    print('hello')\n", "some/data, x.txt": "x"},
        entry_points={"console_scripts": {"tool": "some:main"}},
    )
    command = [str(pip), "install", "--isolated", "--no-index", "--no-deps"]
    command += ["--disable-pip-version-check", "--target", str(tmp_path / "target"), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "target" / "some" / "data, x.txt").read_text() == "x"
    assert (tmp_path / "target" / "bin").exists() or sys.platform == "win32"
