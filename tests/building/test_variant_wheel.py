"""Variant wheels made of finished wheels, and plain ones made of variants."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec import structs

from wheelfit.building.variant_wheel import make_plain, reduce_to_label, repack_wheel
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import check_document, read_document, write_document
from wheelfit.core.properties import PropertySet
from wheelfit.errors import InvalidFilename, InvalidRequirement
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import RewriteDetails, RewriteOptions
from wheelfit_runtime.errors import FileProblem, InvalidDocument, InvalidWheel

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


MKL = parse_label("mkl")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Build a plain wheel whose name is not normalised."""
    path = build_wheel(tmp_path / "plain", "Fast.FFT", "2.1", build="7", files={"fft.py": ""})
    return path.rename(path.with_name("Fast.FFT-2.1.0-7-py3-none-any.whl"))


@pytest.mark.parametrize("label", ["mkl", "v3", "null"])
def test_plain_to_variant(plain: Path, output: Path, label: str) -> None:
    """B-2, B-6, B-32, F-17, F-24: the label is in the name, and alone in the document.

    Providers that this wheel does not use stay.
    """
    path = repack_wheel(plain, output, label=parse_label(label), document=DOCUMENT)
    assert path.name == f"fast_fft-2.1.0-7-py3-none-any-{label}.whl"
    with WheelArchive(path) as wheel, WheelArchive(plain) as source:
        wheel.verify()
        data = wheel.variant_document() or b""
        assert wheel.metadata() == source.metadata()
    assert not check_document(data)
    content = json.loads(data)
    assert list(content["variants"]) == [label]
    assert content["default-priorities"]["namespace"] == ["blas", "x86_64"]
    assert set(content["providers"]) == {"blas", "x86_64"}


def test_relabel(plain: Path, output: Path) -> None:
    """B-32: made of a variant wheel or of the plain one, the result is the same file."""
    label = parse_label("v3")
    first = repack_wheel(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    second = repack_wheel(first, output, label=label, document=DOCUMENT)
    expected = second.read_bytes()
    assert second.name.endswith("-any-v3.whl")
    direct = repack_wheel(
        plain, output, label=label, document=DOCUMENT, options=RewriteOptions(overwrite=True)
    )
    assert direct == second
    assert direct.read_bytes() == expected


def test_same_label_in_place(plain: Path, output: Path) -> None:
    """B-31: replacing the document of a variant wheel where it lies works."""
    label = parse_label("mkl")
    path = repack_wheel(plain, output, label=label, document=DOCUMENT)
    before = path.read_bytes()
    assert repack_wheel(path, output, label=label, document=DOCUMENT) == path
    assert path.read_bytes() == before


def test_pep_825_layout(plain: Path, output: Path) -> None:
    """F-57: the layout without providers is written when asked for by name."""
    label = parse_label("mkl")
    path = repack_wheel(plain, output, label=label, document=DOCUMENT, layout="825")
    with WheelArchive(path) as wheel:
        assert "providers" not in json.loads(wheel.variant_document() or b"")


def test_unknown_label(plain: Path, output: Path) -> None:
    """B-6: the document must know the label."""
    with pytest.raises(InvalidDocument, match="not in the document"):
        repack_wheel(plain, output, label=parse_label("cu128"), document=DOCUMENT)
    assert list(output.iterdir()) == []


def test_labels_that_are_not_written(plain: Path, output: Path) -> None:
    """F-4, F-7: writers refuse device names, and labels without properties."""
    document = read_document(
        release_document({"con": {}}, static={"blas": {"library": ["mkl"]}}), where="document"
    )
    with pytest.raises(InvalidDocument) as excinfo:
        repack_wheel(plain, output, label=parse_label("con"), document=document)
    assert {fault.rule for fault in excinfo.value.faults} == {"F-4", "F-7"}
    assert list(output.iterdir()) == []


def test_long_label(plain: Path, output: Path) -> None:
    """F-3, B-6: a file name of more than 255 bytes is refused, one of 255 is written."""
    label = parse_label("x" * 250)
    with pytest.raises(InvalidFilename, match="255"):
        repack_wheel(plain, output, label=label, document=DOCUMENT)
    assert list(output.iterdir()) == []
    room = 255 - len("fast_fft-2.1.0-7-py3-none-any-.whl")
    longest = parse_label("x" * room)
    document = structs.replace(DOCUMENT, variants={longest: DOCUMENT.variants[MKL]})
    path = repack_wheel(plain, output, label=longest, document=document)
    assert len(path.name.encode()) == 255


def test_namespace_without_provider(plain: Path, output: Path) -> None:
    """B-6, B-7: every namespace in use needs a provider and a priority."""
    content = release_document({"mkl": {"blas": {"library": ["mkl"]}}}, namespaces=["blas"])
    document = read_document(content, where="document")
    with pytest.raises(InvalidDocument) as excinfo:
        repack_wheel(plain, output, label=parse_label("mkl"), document=document)
    assert ("providers.blas", "F-22") in [
        (fault.path, fault.rule) for fault in excinfo.value.faults
    ]
    elsewhere = structs.replace(DOCUMENT, priorities=("x86_64",))
    with pytest.raises(InvalidDocument) as excinfo:
        repack_wheel(plain, output, label=parse_label("mkl"), document=elsewhere)
    assert ("variants.mkl.blas", "F-21") in [
        (fault.path, fault.rule) for fault in excinfo.value.faults
    ]
    assert list(output.iterdir()) == []


def test_the_old_null(plain: Path, output: Path) -> None:
    """F-53: a wheel of the old null variant that is written anew is called null."""
    old = read_document(
        release_document({"00000000": {}}, static={"blas": {"library": ["mkl"]}}), where="document"
    )
    # A document alone keeps the label: wheels of that name may lie beside it.
    assert list(json.loads(write_document(old))["variants"]) == ["00000000"]
    path = repack_wheel(plain, output, label=parse_label("00000000"), document=old)
    assert path.name.endswith("-any-null.whl")
    with WheelArchive(path) as wheel:
        assert json.loads(wheel.variant_document() or b"")["variants"] == {"null": {}}


DEPENDENCIES = [
    "always",
    'only_here; "blas" in variant_namespaces',
    'never_here; "x86_64" in variant_namespaces',
    'plain_only; variant_label == ""',
    'by_value; "blas :: library :: mkl" in variant_properties',
    'with_extra; extra == "x" and variant_label != "null"',
    'one_of_two; "blas :: library :: mkl" in variant_properties and os_name == "nt"',
]


@pytest.fixture
def depending(tmp_path: Path) -> Path:
    """Build a plain wheel whose dependencies look at variants."""
    return build_wheel(
        tmp_path / "depending", "some", "1", requires=DEPENDENCIES, provides_extra=["x"],
        description="\nRequires-Dist: text; variant_label == ''\n",
    )  # fmt: skip


def dependencies(path: Path) -> list[str]:
    """Return the dependencies that a wheel states, as they are written."""
    with WheelArchive(path) as wheel:
        wheel.verify()
        header = wheel.metadata().decode().partition("\n\n")[0]
    return [
        line.partition(": ")[2] for line in header.splitlines() if line.startswith("Requires-Dist")
    ]


def test_markers_of_a_variant(depending: Path, output: Path) -> None:
    """B-41, F-154: on request what is decided by the label alone is resolved, the rest stays."""
    path = repack_wheel(depending, output, label=MKL, document=DOCUMENT, resolve_markers=True)
    assert dependencies(path) == [
        "always",
        "only_here",
        "by_value",
        'with_extra; extra == "x"',
        'one_of_two; os_name == "nt"',
    ]
    both = PropertySet.from_mapping({"blas": {"library": ["mkl", "openblas"]}})
    document = structs.replace(DOCUMENT, variants={MKL: both})
    path = repack_wheel(
        depending,
        output,
        label=MKL,
        document=document,
        resolve_markers=True,
        options=RewriteOptions(overwrite=True),
    )
    undecided = '"blas :: library :: mkl" in variant_properties'
    assert dependencies(path) == [
        "always",
        "only_here",
        f"by_value; {undecided}",
        'with_extra; extra == "x"',
        f'one_of_two; {undecided} and os_name == "nt"',
    ]


def test_markers_stay_otherwise(depending: Path, output: Path) -> None:
    """B-41: without being asked METADATA is not touched."""
    path = repack_wheel(depending, output, label=MKL, document=DOCUMENT)
    assert dependencies(path) == DEPENDENCIES


def test_variant_to_plain(depending: Path, output: Path) -> None:
    """B-32, B-40, F-154: label and document go, and markers are resolved for a plain wheel."""
    variant = repack_wheel(depending, output, label=MKL, document=DOCUMENT)
    path = make_plain(variant, output)
    assert path.name == depending.name
    assert dependencies(path) == ["always", "plain_only", 'with_extra; extra == "x"']
    with WheelArchive(path) as wheel:
        assert wheel.variant_document() is None
        assert not any("variant.json" in row.path for row in wheel.record.rows)
        assert wheel.metadata().endswith(b"Requires-Dist: text; variant_label == ''\n")
    before = path.read_bytes()
    assert (
        make_plain(variant, output, options=RewriteOptions(overwrite=True)).read_bytes() == before
    )


def test_there_and_back(plain: Path, output: Path) -> None:
    """B-32: without variant markers the plain wheel has the members it had."""
    variant = repack_wheel(plain, output, label=MKL, document=DOCUMENT)
    again = make_plain(variant, output)
    with zipfile.ZipFile(plain) as before, zipfile.ZipFile(again) as after:
        names = before.namelist()
        assert sorted(after.namelist()) == sorted(names)
        assert [before.read(name) for name in names] == [after.read(name) for name in names]


def test_plain_to_plain(plain: Path, output: Path) -> None:
    """B-32: a plain wheel cannot lose a label."""
    with pytest.raises(InvalidFilename, match="plain already"):
        make_plain(plain, output)
    assert list(output.iterdir()) == []


def test_marker_with_a_slip(tmp_path: Path, output: Path) -> None:
    """F-132: where a variant marker cannot be read nothing is written."""
    path = build_wheel(tmp_path, "some", "1", requires=['a; variant_lable == ""'])
    variant = repack_wheel(path, output, label=MKL, document=DOCUMENT)
    with pytest.raises(InvalidRequirement):
        make_plain(variant, output)
    assert [path.name for path in output.iterdir()] == [variant.name]


def test_notes(plain: Path, output: Path) -> None:
    """B-37, F-3: whoever makes a wheel learns that a signature went, and that a label is long."""
    with zipfile.ZipFile(plain) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    signature = members[-1][0] + ".jws"
    with zipfile.ZipFile(plain, "w") as archive:
        for name, content in members[:-1]:
            archive.writestr(name, content)
        archive.writestr(signature, "{}")
        archive.writestr(*members[-1])
    label = parse_label("x" * 33)
    document = structs.replace(DOCUMENT, variants={label: DOCUMENT.variants[MKL]})
    details: list[RewriteDetails] = []
    path = repack_wheel(plain, output, label=label, document=document, add_details=details.append)
    make_plain(path, output, add_details=details.append)
    notes = details[0].notes
    assert [text.partition(" ")[0] for text in notes] == ["the", signature]
    assert "33 characters" in notes[0]
    assert details[1].notes == ()


def test_existing_output(plain: Path, output: Path) -> None:
    """B-31: another wheel of that name is overwritten only when that is said."""
    repack_wheel(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    with pytest.raises(FileProblem, match="exists"):
        repack_wheel(plain, output, label=parse_label("mkl"), document=DOCUMENT)


def test_unsound_source(plain: Path, output: Path) -> None:
    """B-34: a wheel whose RECORD is wrong is refused, and nothing is left."""
    plain.write_bytes(plain.read_bytes().replace(b"fft.py", b"abc.py"))
    with pytest.raises(InvalidWheel):
        repack_wheel(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    assert list(output.iterdir()) == []


def test_single_label() -> None:
    """F-24, F-26: one label is left; null needs no entry."""
    only = reduce_to_label(DOCUMENT, parse_label("mkl"))
    assert list(only.variants) == ["mkl"]
    assert only.priorities == DOCUMENT.priorities
    null = reduce_to_label(only, parse_label("null"))
    assert not null.properties("null")


def test_other_tools_install_the_result(plain: Path, output: Path, tmp_path: Path) -> None:
    """Without its label the wheel is one that PyPA's installer takes, RECORD validated."""
    path = repack_wheel(plain, output, label=parse_label("mkl"), document=DOCUMENT)
    copy = tmp_path / parse_wheel_filename(path.name).plain
    shutil.copy(path, copy)
    command = [sys.executable, "-m", "installer", "--validate-record", "all"]
    command += ["--destdir", str(tmp_path / "root"), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    assert list((tmp_path / "root").rglob("variant.json"))
