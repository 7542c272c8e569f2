"""Whatever stands in an environment, there is a report."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from doctor.patient import Patient
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.testing.wheels import release_document

DOCUMENT = release_document(
    {"x": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}},
    static={"nvidia": {"cuda_version_lower_bound": ["12.9"]}},
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["pack/__init__.py", "../../x", "/", "", "a\0b", "\udcff", "p" * 5000]),
        st.sampled_from(["", "sha256=", "sha256=x", "md5=x", "=", "sha999=é"]),
        st.sampled_from(["", "0", "-1", "9" * 40, "٣", "x"]),
    ),
    max_size=6,
).map(lambda rows: "".join(f"{','.join(row)}\n" for row in rows).encode("utf-8", "surrogateescape"))
VERSIONS = [
    "1.0",
    "1!2",
    "2.8.0+cu1",
    "2.8.0+cu9999999999999999999",
    "1+rocm9.9.9.9",
    "0+cu128.rocm6",
]


@pytest.mark.parametrize("file", ["RECORD", "METADATA", "variant.json", "wheelfit.json"])
@settings(max_examples=settings().max_examples // 3)
@given(noise=st.one_of(st.binary(max_size=300), ROWS))
def test_any_bytes(file: str, noise: bytes) -> None:
    """F-130: records of any content are data, never an exception."""
    with tempfile.TemporaryDirectory() as folder:
        patient = Patient(Path(folder, "env"), Path(folder, "wheels"))
        info = patient.add("pack", label="x", document=DOCUMENT)
        (info / "INSTALLER").write_text("wheelfit\n")
        (info / file).write_bytes(noise)
        found = patient.findings({"nvidia": {"cuda_version_lower_bound": ["12.4"]}}, full=True)
        assert all(one.message and one.remedy for one in found)


@pytest.mark.parametrize(
    "row",
    [b"a\0b,sha256=x,1\n", b"a,sha256=x," + b"9" * 5000 + b"\n", "a,sha256=x,٣\n".encode()],
    ids=["NUL", "a long number", "other digits"],
)
def test_rows_that_name_nothing(row: bytes, patient: Patient) -> None:
    """A row that no file can fit is a missing file."""
    for name in ("one", "two"):
        (patient.add(name) / "RECORD").write_bytes(row)
    assert patient.codes() == ["error lost-file"] * 2


@pytest.mark.parametrize("value", ["x", "12..1", ".", "9" * 60])
def test_odd_properties(value: str, patient: Patient) -> None:
    """A variant may have any value; what is not a version tells nothing of a major."""
    properties = {"nvidia": {"cuda_version_lower_bound": [value]}, "amd": {"rocm_version": [value]}}
    document = release_document({"x": properties}, static=properties)
    patient.add("pack", label="x", document=document)
    patient.add("torch", "2.8.0+cu128")
    patient.add("triton", "3.4.0+rocm6.4")
    assert patient.codes() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_odd_versions(version: str, patient: Patient) -> None:
    """Versions that only look like a build's are no reason to fail."""
    patient.add("nvidia-cuda-runtime", version)
    patient.add("cuda-toolkit", version)
    patient.add("rocm", version)
    patient.add("thing-cu12", requires=["cuda-toolkit==99999999999999999999.*", "x-cu19"])
    for cuda in ("11.0", "12.4", "99.99"):
        assert isinstance(patient.codes({"nvidia": {"cuda_version_lower_bound": [cuda]}}), list)
