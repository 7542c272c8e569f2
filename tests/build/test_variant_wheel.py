"""Variant wheels made of finished wheels."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wheelfit.build.variant_wheel import make_variant, single_label
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import check_document, read_document
from wheelfit.errors import FileProblem, InvalidDocument, InvalidFilename, InvalidWheel
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive

DOCUMENT = read_document(
    release_document(
        {
            "null": {},
            "mkl": {"blas": {"library": ["mkl"]}},
            "v3": {"x86_64": {"level": ["v3"]}},
        },
        static={"blas": {"library": ["openblas", "mkl"]}},
        providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
    ),
    where="document",
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Build a plain wheel whose name is not normalised."""
    path = build_wheel(tmp_path / "plain", "Fast.FFT", "2.1", build="7", files={"fft.py": ""})
    return path.rename(path.with_name("Fast.FFT-2.1.0-7-py3-none-any.whl"))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Make a folder for results."""
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("label", ["mkl", "v3", "null"])
def test_plain_to_variant(plain: Path, output: Path, label: str) -> None:
    """B-32, F-17, F-24: the label is in the name, and alone in the document."""
    path = make_variant(plain, output, label=parse_label(label), document=DOCUMENT)
    assert path.name == f"fast_fft-2.1.0-7-py3-none-any-{label}.whl"
    with WheelArchive(path) as wheel, WheelArchive(plain) as source:
        wheel.verify()
        data = wheel.variant_document() or b""
        assert wheel.metadata() == source.metadata()
    assert not check_document(data)
    content = json.loads(data)
    assert list(content["variants"]) == [label]
    # B-2: providers that this wheel does not use stay.
    assert content["default-priorities"]["namespace"] == ["blas", "x86_64"]
    assert set(content["providers"]) == {"blas", "x86_64"}


def test_relabel(plain: Path, output: Path) -> None:
    """B-32: made of a variant wheel or of the plain one, the result is the same file."""
    label = parse_label("v3")
    first = make_variant(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    second = make_variant(first, output, label=label, document=DOCUMENT)
    expected = second.read_bytes()
    assert second.name.endswith("-any-v3.whl")
    direct = make_variant(plain, output, label=label, document=DOCUMENT, overwrite=True)
    assert direct == second
    assert direct.read_bytes() == expected


def test_same_label_in_place(plain: Path, output: Path) -> None:
    """B-31: replacing the document of a variant wheel where it lies works."""
    label = parse_label("mkl")
    path = make_variant(plain, output, label=label, document=DOCUMENT)
    before = path.read_bytes()
    assert make_variant(path, output, label=label, document=DOCUMENT) == path
    assert path.read_bytes() == before


def test_pep_825_layout(plain: Path, output: Path) -> None:
    """F-57: the layout without providers is written when asked for by name."""
    label = parse_label("mkl")
    path = make_variant(plain, output, label=label, document=DOCUMENT, layout="825")
    with WheelArchive(path) as wheel:
        assert "providers" not in json.loads(wheel.variant_document() or b"")


def test_unknown_label(plain: Path, output: Path) -> None:
    """B-6: the document must know the label."""
    with pytest.raises(InvalidDocument, match="not in the document"):
        make_variant(plain, output, label=parse_label("cu128"), document=DOCUMENT)
    assert list(output.iterdir()) == []


def test_labels_that_are_not_written(plain: Path, output: Path) -> None:
    """F-4, F-7: writers refuse device names, and labels without properties."""
    document = read_document(
        release_document({"con": {}}, static={"blas": {"library": ["mkl"]}}), where="document"
    )
    with pytest.raises(InvalidDocument) as caught:
        make_variant(plain, output, label=parse_label("con"), document=document)
    assert {fault.rule for fault in caught.value.faults} == {"F-4", "F-7"}
    assert list(output.iterdir()) == []


def test_long_label(plain: Path, output: Path) -> None:
    """F-3: a file name of more than 255 bytes is refused."""
    label = parse_label("x" * 250)
    with pytest.raises(InvalidFilename, match="255"):
        make_variant(plain, output, label=label, document=DOCUMENT)


def test_namespace_without_provider(plain: Path, output: Path) -> None:
    """B-7: every namespace in use needs a provider."""
    content = release_document({"mkl": {"blas": {"library": ["mkl"]}}}, namespaces=["blas"])
    document = read_document(content, where="document")
    with pytest.raises(InvalidDocument):
        make_variant(plain, output, label=parse_label("mkl"), document=document)


def test_existing_output(plain: Path, output: Path) -> None:
    """B-31: another wheel of that name is overwritten only when that is said."""
    make_variant(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    with pytest.raises(FileProblem, match="exists"):
        make_variant(plain, output, label=parse_label("mkl"), document=DOCUMENT)


def test_unsound_source(plain: Path, output: Path) -> None:
    """B-34: a wheel whose RECORD is wrong is refused, and nothing is left."""
    plain.write_bytes(plain.read_bytes().replace(b"fft.py", b"abc.py"))
    with pytest.raises(InvalidWheel):
        make_variant(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    assert list(output.iterdir()) == []


def test_single_label() -> None:
    """F-24, F-26: one label is left; null needs no entry."""
    only = single_label(DOCUMENT, parse_label("mkl"))
    assert list(only.variants) == ["mkl"]
    assert only.priorities == DOCUMENT.priorities
    null = single_label(only, parse_label("null"))
    assert not null.properties("null")


def test_other_tools_install_the_result(plain: Path, output: Path, tmp_path: Path) -> None:
    """Without its label the wheel is one that PyPA's installer takes, RECORD validated."""
    path = make_variant(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    copy = tmp_path / parse_wheel_filename(path.name).plain
    shutil.copy(path, copy)
    command = [sys.executable, "-m", "installer", "--validate-record", "all"]
    command += ["--destdir", str(tmp_path / "root"), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    assert list((tmp_path / "root").rglob("variant.json"))
