"""Edits of name, version and dependencies, in METADATA only."""

from __future__ import annotations

import pickle

import pytest
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.building.repack.edits import NO_EDITS, Edits, apply_edits
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import InvalidWheel

NAME = parse_wheel_filename("torch_cu126-2.10.0+cu126-py3-none-any.whl")
METADATA = (
    b"Metadata-Version: 2.1\r\n"
    b"Name: torch-cu126\r\n"
    b"Version: 2.10.0+cu126\r\n"
    b"Summary: folded\r\n   twice  \r\n"
    b"Requires-Dist: torch (>=1)\r\n"
    b"Requires-Dist: torchvision\r\n"
    b"requires-dist:Nvidia.Cublas_CU12 ==12.6.4.1 ; platform_system == 'Linux'\r\n"
    b"X-Odd: \xff\xfe\r\n"
    b"\r\n"
    b"Name: in the text\r\nRequires-Dist: torch\n\xe2\x82"
)


def names(*texts: str) -> frozenset[NormalizedName]:
    """Return normalised names."""
    return frozenset(map(canonicalize_name, texts))


def test_by_exact_name() -> None:
    """B-42: dependencies go by their normalised name; a name that only begins alike stays."""
    edits = Edits(remove=names("torch", "nvidia-cublas-cu12"))
    edited = apply_edits(METADATA, edits, NAME, where="wheel")
    assert b"torch (>=1)" not in edited.data
    assert b"Cublas" not in edited.data
    assert b"Requires-Dist: torchvision\r\n" in edited.data
    assert [note.split()[:5] for note in edited.notes] == [
        ["it", "no", "longer", "needs", "torch"],
        ["it", "no", "longer", "needs", "Nvidia.Cublas_CU12"],
    ]


def test_other_bytes_stay() -> None:
    """B-42: what is not edited keeps its bytes: line ends, folding, bytes that are no UTF-8."""
    assert apply_edits(METADATA, NO_EDITS, NAME, where="wheel").data == METADATA
    edits = Edits(
        name="torch",
        strip_local=True,
        remove=names("torchvision"),
        add=("numpy",),
    )
    edited = apply_edits(METADATA, edits, NAME, where="wheel")
    assert edited.data == (
        METADATA.replace(b"Name: torch-cu126", b"Name: torch", 1)
        .replace(b"2.10.0+cu126", b"2.10.0")
        .replace(b"Requires-Dist: torchvision\r\n", b"")
        .replace(b"'Linux'\r\n", b"'Linux'\r\nRequires-Dist: numpy\r\n")
    )
    assert (edited.name, edited.version) == ("torch", Version("2.10.0"))


def test_fields_that_stand_there_twice() -> None:
    """B-43: whichever name or version a reader takes, it is the new one."""
    twice = METADATA.replace(b"Summary:", b"name: Torch_cu126\r\nVersion: 1\r\nSummary:")
    edited = apply_edits(twice, Edits(name="torch", version=Version("3")), NAME, where="wheel")
    header = edited.data.partition(b"\r\n\r\n")[0]
    assert (header.count(b": torch\r\n"), header.count(b"Version: 3\r\n")) == (2, 2)
    assert b"cu126" not in header


def test_without_dependencies() -> None:
    """B-42: the first dependency ends the header; a line that has no end gets one."""
    header = b"Name: torch-cu126\nVersion: 2.10.0+cu126"
    for text, wanted in (
        (header, header + b"\nRequires-Dist: a\n"),
        (header + b"\n\ntext", header + b"\nRequires-Dist: a\n\ntext"),
    ):
        assert apply_edits(text, Edits(add=("a",)), NAME, where="wheel").data == wanted


def test_again() -> None:
    """What is there already is not added once more, and the same edits twice change nothing."""
    edits = Edits(
        remove=names("torch"),
        add=("torch==2.10.0", "torchvision", 'x; "nvidia" in variant_namespaces'),
    )
    once = apply_edits(METADATA, edits, NAME, where="wheel")
    twice = apply_edits(once.data, edits, NAME, where="wheel")
    assert twice.data == once.data
    assert once.data.count(b"torchvision") == 1
    assert not twice.notes


@pytest.mark.parametrize(
    ("edits", "wanted"),
    [
        (Edits(), "torch-cu126"),
        (Edits(name="Torch"), "Torch"),
        (Edits(renames=((canonicalize_name("torch_CU126"), "torch"),)), "torch"),
        (Edits(renames=((canonicalize_name("torch"), "other"),)), "torch-cu126"),
        (Edits(suffixes=("-cu12", "-cu126")), "torch"),
        (Edits(suffixes=("-cu6",)), "torch-cu126"),
    ],
)
def test_new_names(edits: Edits, wanted: str) -> None:
    """B-43: names change as a whole, and only where that is said."""
    assert edits.new_name("torch-cu126") == wanted


def test_new_versions() -> None:
    """B-43: a version is replaced, or loses its local part."""
    version = Version("1!2.0rc1.post2.dev3+cu126")
    assert NO_EDITS.new_version(version) == version
    assert str(Edits(strip_local=True).new_version(version)) == "1!2.0rc1.post2.dev3"
    assert str(Edits(version=Version("3")).new_version(version)) == "3"


def test_metadata_of_something_else() -> None:
    """B-34: METADATA of another release than the file name says is not edited."""
    other = parse_wheel_filename("other-1-py3-none-any.whl")
    with pytest.raises(InvalidWheel, match=r"torch-cu126 2\.10\.0\+cu126"):
        apply_edits(METADATA, NO_EDITS, other, where="wheel")


def test_dependency_that_cannot_be_read() -> None:
    """B-42: whose name is not known cannot be kept or removed with good reason."""
    broken = METADATA.replace(b"torchvision", b"!torchvision")
    edits = Edits(remove=names("torch"))
    with pytest.raises(InvalidRequirement) as excinfo:
        apply_edits(broken, edits, NAME, where="the wheel")
    assert excinfo.value.where == "the wheel"
    # Who removes nothing need not read them.
    assert apply_edits(broken, Edits(add=("a",)), NAME, where="wheel").data != broken


def test_edits_travel() -> None:
    """Workers get edits as they are."""
    edits = Edits(name="a", remove=names("b"), version=Version("1"), add=("c",))
    assert pickle.loads(pickle.dumps(edits)) == edits


def test_a_version_that_is_the_same() -> None:
    """B-43: a version that is spelled otherwise only changes nothing, which is said."""
    edits = Edits(version=Version(f"{NAME.version.public}.0+{NAME.version.local}"))
    edited = apply_edits(METADATA, edits, NAME, where="wheel")
    assert edited.data == METADATA
    assert "which equals" in edited.notes[0]
