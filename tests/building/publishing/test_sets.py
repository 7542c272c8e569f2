"""What a set has, what it lacks, and how large a project gets."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from server.uploading import DOCUMENT

from wheelfit.building.matrix import Job, read_matrix
from wheelfit.building.publishing.completeness import (
    DeclaredRelease,
    closed_findings,
    compare_with_index,
    completeness_findings,
    fits_job,
)
from wheelfit.building.publishing.forecast import NO_LIMITS, PUBLIC_REGISTRY, UploadLimits, forecast
from wheelfit.building.publishing.release_files import (
    FileKind,
    collect_files,
    index_files_of,
    new_index_files,
)
from wheelfit.checking.findings import Severity
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import Label
from wheelfit.core.project_table import ProjectTable, read_project_table
from wheelfit.errors import InconsistentDocuments
from wheelfit.sources.page import File
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import FileProblem, InvalidWheel

FAST = canonicalize_name("fast")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def release(folder: Path, *labels: str | None, version: str = "1.0") -> list[Path]:
    """Build the wheels of a release."""
    return [
        build_wheel(folder, "fast", version, label=label, document=DOCUMENT if label else None)
        for label in labels
    ]


def listed(path: Path, **changes: object) -> File:
    """Return the entry that an index has of a file."""
    hashes = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    given = {"hashes": hashes, "size": path.stat().st_size, **changes}
    return File(path.name, f"https://x.example/{path.name}", **given)  # type: ignore[arg-type]


def table(*labels: str) -> ProjectTable | None:
    """Return the table of a project with these labels."""
    variants = {label: {"blas": {"library": [label]}} for label in labels}
    providers = {"blas": {"static-properties": {"library": ["mkl", "open"]}}}
    return read_project_table(
        {"variant": {"default-priorities": {"namespace": ["blas"]}, "providers": providers,
                     "variants": variants}}
    )  # fmt: skip


# --- what there is ------------------------------------------------------------------------------


def test_wheels_for_everybody_go_first(tmp_path: Path) -> None:
    """B-52: sources and wheels without label go before variants, release by release."""
    release(tmp_path / "a", "open", "mkl", None)
    release(tmp_path / "b" / "c", None, version="0.9")
    (tmp_path / "fast-1.0.tar.gz").write_bytes(b"x")
    for name in ("notes.txt", "fast-1.0-py3-none-any.whl.metadata", ".fast-2.0.tar.gz"):
        (tmp_path / name).write_text("x")
    found = collect_files([tmp_path])
    assert [(str(file.release[1]), file.kind, file.label) for file in found.files] == [
        ("0.9", FileKind.PLAIN, None),
        ("1.0", FileKind.SOURCE, None),
        ("1.0", FileKind.PLAIN, None),
        ("1.0", FileKind.VARIANT, "mkl"),
        ("1.0", FileKind.VARIANT, "open"),
    ]
    wheel = found.files[0]
    assert wheel.sha256 == hashlib.sha256(wheel.path.read_bytes()).hexdigest()
    assert collect_files([tmp_path, tmp_path / "a"]) == found


def test_what_cannot_be_published_is_named(tmp_path: Path) -> None:
    """Nothing, something else, and two files of one name are refused; attestations pass by."""
    (wheel,) = release(tmp_path / "a", None)
    other = build_wheel(tmp_path / "b", "fast", "1.0", requires=["x"])
    notes = tmp_path / "notes.txt"
    notes.write_text("x")
    attestation = tmp_path / "a" / f"{wheel.name}.build.publish.attestation"
    attestation.write_text("{}")
    empty = tmp_path / "empty"
    empty.mkdir()
    for named, words in (
        ([empty], "no wheels or source distributions found"),
        ([notes], "neither a wheel"),
        ([tmp_path / "none"], "does not exist"),
        ([wheel, other], "two files have one name"),
    ):
        with pytest.raises(FileProblem, match=words):
            collect_files(named)
    (file,) = collect_files([wheel, attestation]).files
    assert file.attestations == (attestation,)
    strange = tmp_path / "strange.whl"
    strange.write_bytes(b"")
    assert collect_files([strange]).invalid_names == (strange,)


# --- what is there already ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "there"),
        ({"hashes": {"sha256": "0" * 64}}, "other"),
        ({"hashes": {"md5": "0" * 32}, "size": None}, "other"),
        ({"hashes": {"sha512": ""}, "size": None}, "other"),
        ({"hashes": {}, "size": 1}, "other"),
        ({"hashes": {}, "size": None}, "new"),
        ({"hashes": {"unknown": "1"}}, "new"),
    ],
)
def test_the_same_content_is_not_sent_again(
    tmp_path: Path, changes: dict[str, object], state: str
) -> None:
    """What the index promises of a file decides, by whatever hash it has."""
    (path,) = release(tmp_path, None)
    compared = compare_with_index(collect_files([path]).files, {path.name: listed(path, **changes)})
    assert bool(compared.existing) == (state == "there")
    assert [finding.code for finding in compared.findings] == ["name-taken"] * (state == "other")
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    same = compare_with_index(
        collect_files([path]).files, {path.name: listed(path, hashes={"md5": md5})}
    )
    assert same.existing


def test_a_release_is_complete_with_what_is_there(tmp_path: Path) -> None:
    """A-2, B-52: a wheel for everybody and all labels of the table are needed, here or there."""
    plain, mkl, extra = release(tmp_path, None, "mkl", "open")

    def codes(files: list[Path], there: list[File], *labels: str) -> list[tuple[str, str]]:
        known = {FAST: tuple(there)}
        found = completeness_findings(
            collect_files(files), known, DeclaredRelease(FAST, table(*labels))
        )
        return [(one.code, one.severity.value) for one in found]

    assert codes([mkl], []) == [("no-plain-wheel", "error")]
    assert codes([mkl], [listed(plain)]) == []
    assert codes([mkl], [File("fast-1.0.tar.gz", "https://x.example/")]) == []
    assert codes([mkl, plain], [], "mkl", "open") == [("missing-variant", "error")]
    assert codes([mkl, plain], [listed(extra)], "mkl", "open") == []
    assert codes([mkl, plain, extra], [], "mkl") == [("unlisted-variant", "warning")]
    assert codes([plain], [], "mkl") == []  # a release without variants
    strange = DeclaredRelease(canonicalize_name("other"), table("open"))
    other = completeness_findings(collect_files([mkl, plain]), {}, strange)
    assert not list(other)


def test_a_release_has_all_wheels_of_its_matrix(tmp_path: Path) -> None:
    """B-52: each label has a wheel for each Python and platform of the matrix, here or there."""
    pyproject = {
        "tool": {
            "wheelfit": {
                "matrix": {
                    "pythons": ["3.12", "3.13"],
                    "platforms": ["manylinux_x86_64", "win_amd64"],
                    "exclude": [{"label": "mkl", "platform": "win_amd64"}],
                }
            }
        }
    }
    matrix = read_matrix(pyproject, [Label("mkl"), Label("open")])
    assert matrix is not None
    build = [
        build_wheel(tmp_path, "fast", "1.0", label=label, tag=tag,
                    document=DOCUMENT if label else None)
        for label, tag in (
            (None, "py3-none-any"),
            ("mkl", "cp312-cp312-manylinux_2_28_x86_64"),
        )
    ]  # fmt: skip
    late = build_wheel(
        tmp_path / "late", "fast", "1.0", label="mkl", document=DOCUMENT,
        tag="cp313-cp313-manylinux_2_28_x86_64",
    )  # fmt: skip
    project = DeclaredRelease(FAST, None, matrix.jobs)
    (finding,) = completeness_findings(collect_files(build), {}, project)
    assert (finding.code, finding.message) == (
        "missing-wheel",
        "there is no wheel for mkl, Python 3.13, manylinux_x86_64",
    )
    assert not list(completeness_findings(collect_files(build), {FAST: (listed(late),)}, project))
    source = File("fast-1.0.tar.gz", "https://x.example/")
    variants = completeness_findings(
        collect_files(build[1:]), {FAST: (listed(late), source)}, project
    )
    assert [finding.message for finding in variants] == [
        f"there is no wheel for plain, Python {python}, {platform}"
        for platform in ("manylinux_x86_64", "win_amd64")
        for python in ("3.12", "3.13")
    ]


@pytest.mark.parametrize(
    ("tag", "python", "platform", "expected"),
    [
        ("py3-none-any", "3.13", "win_amd64", True),
        ("py3-none-any", "3.14t", "any", True),
        ("py2.py3-none-any", "3.13", "any", True),
        ("py2-none-any", "3.13", "any", False),
        ("py314-none-any", "3.13", "any", False),
        ("py312-none-win_amd64", "3.13", "win_amd64", True),
        ("cp313-none-win_amd64", "3.13", "win_amd64", True),
        ("cp312-none-win_amd64", "3.13", "win_amd64", False),
        ("cp313-cp313-win_amd64", "3.13", "win_amd64", True),
        ("cp313-cp313-win_amd64", "3.13", "win_arm64", False),
        ("cp313-cp313-win_amd64", "3.13", "any", False),
        ("cp313-cp313-win_amd64", "3.12", "win_amd64", False),
        ("cp314-cp314t-win_amd64", "3.14", "win_amd64", False),
        ("cp314-cp314t-win_amd64", "3.14t", "win_amd64", True),
        ("cp311-abi3-win_amd64", "3.13", "win_amd64", True),
        ("cp311-abi3-win_amd64", "3.14t", "win_amd64", False),
        ("cp311-abi3-win_amd64", "3.10", "win_amd64", False),
        ("cp315-abi3t-win_amd64", "3.16t", "win_amd64", True),
        ("cp315-abi3t-win_amd64", "3.16", "win_amd64", False),
        ("cp313-cp313-manylinux_2_28_x86_64", "3.13", "manylinux_x86_64", True),
        ("cp313-cp313-linux_x86_64", "3.13", "manylinux_x86_64", True),
        ("cp313-cp313-musllinux_1_2_x86_64", "3.13", "manylinux_x86_64", False),
        ("cp313-cp313-musllinux_1_2_x86_64", "3.13", "musllinux_x86_64", True),
        ("cp313-cp313-manylinux_2_28_aarch64", "3.13", "manylinux_x86_64", False),
        ("cp313-cp313-macosx_11_0_arm64", "3.13", "macosx_arm64", True),
        ("cp313-cp313-macosx_11_0_universal2", "3.13", "macosx_x86_64", True),
        ("cp313-cp313-macosx_11_0_arm64", "3.13", "macosx_universal2", False),
        ("pp311-pypy311_pp73-win_amd64", "3.11", "win_amd64", False),
    ],
)
def test_wheels_do_for_jobs(tag: str, python: str, platform: str, *, expected: bool) -> None:
    """Python, its ABI and the platform decide whether a wheel is the one of a job."""
    wheel = parse_wheel_filename(f"fast-1.0-{tag}.whl")
    assert fits_job(wheel, Job(None, python, platform)) == expected


def test_old_releases_are_closed(tmp_path: Path) -> None:
    """B-53: after 14 days the public registry takes no more files of a release."""
    plain, mkl = release(tmp_path, None, "mkl")
    (other,) = release(tmp_path / "b", None, version="2.0")
    new = collect_files([mkl, other]).files
    for time, closed in (("2026-11-07T00:00:00Z", True), ("2026-11-09T00:00:00Z", False)):
        there = {FAST: (listed(plain, upload_time=time),)}
        found = list(closed_findings(new, there, NOW))
        assert [one.where for one in found] == ["fast==1.0"] * closed
        assert all(one.severity is Severity.ERROR for one in found)


# --- how large it gets ----------------------------------------------------------------------------


def test_sizes_are_forecast(tmp_path: Path) -> None:
    """B-53: what is there counts, and it is said for how many more releases there is room."""
    paths = release(tmp_path, None, "mkl")
    new = collect_files(paths).files
    size = sum(path.stat().st_size for path in paths)
    there = {FAST: (File("fast-0.9-py3-none-any.whl", "https://x.example/", size=1000),)}

    ((one,), findings) = forecast(new, there, UploadLimits(project=1000 + 5 * size))
    assert (one.current_size, one.new_size, one.total_size, one.further_releases) == (
        1000,
        size,
        1000 + size,
        4,
    )
    assert "room for 4 more" in str(one)
    assert not findings
    (_, findings) = forecast(new, there, UploadLimits(project=1000 + 2 * size))
    assert [(finding.code, finding.severity.value) for finding in findings] == [
        ("project-too-large", "warning")
    ]
    assert findings[0].message == "afterwards there is room for 1 more release of this size"
    (_, findings) = forecast(new, there, UploadLimits(file=1, project=1000))
    assert sorted((finding.code, finding.severity.value) for finding in findings) == [
        ("file-too-large", "error"),
        ("file-too-large", "error"),
        ("project-too-large", "error"),
    ]
    said = " ".join(finding.message for finding in findings)
    assert "most of it is fast" in said  # what could become a distribution of its own
    assert "the largest releases there are 0.9 (1.0 kB)" in said
    (_, findings) = forecast((), there, UploadLimits(file=1, project=1))
    assert not findings  # nothing comes in addition
    ((one,), _) = forecast(new, there, NO_LIMITS)
    assert one.remaining is one.further_releases is None
    assert UploadLimits(100_000_000, 10_000_000_000) == PUBLIC_REGISTRY


# --- index files ------------------------------------------------------------


def test_index_files_count_wheels_that_are_there(tmp_path: Path) -> None:
    """B-50: the document names labels that are on the index already; a right one is not sent."""
    plain, mkl, extra = release(tmp_path, None, "mkl", "open")
    outgoing = collect_files([plain, mkl])

    def read(file: File) -> bytes:
        from wheelfit.wheels.archive import WheelArchive

        with WheelArchive(tmp_path / file.filename) as wheel:
            return wheel.variant_document() or b""

    ((key, alone),) = index_files_of(outgoing, {}, read).items()
    assert key[0] == FAST
    assert b'"open"' not in alone
    ((_, both),) = index_files_of(outgoing, {FAST: (listed(extra),)}, read).items()
    assert b'"open"' in both
    document = tmp_path / "fast-1.0-variants.json"
    document.write_bytes(both)
    whole = {FAST: (listed(extra), listed(document))}
    again = index_files_of(outgoing, whole, read)
    assert again == {key: both}
    assert not new_index_files(again, whole)
    assert new_index_files(again, {}) == again
    assert not index_files_of(collect_files([plain]), {}, read)
    strange = release_document({"mkl": {"blas": {"library": ["other"]}}},
                               static={"blas": {"library": ["other"]}})  # fmt: skip
    other = build_wheel(
        tmp_path / "b", "fast", "1.0", label="mkl", document=strange, tag="py2-none-any"
    )
    with pytest.raises(InconsistentDocuments):
        index_files_of(collect_files([mkl, other]), {}, read)


def test_index_files_of_old_layouts(tmp_path: Path) -> None:
    """F-56: what the document cannot say of a wheel of an old layout is told with its name."""
    old = {
        "$schema": "https://variants-schema.wheelnext.dev/v0.0.2.json",
        "default-priorities": {"namespace": ["n"], "feature": {"n": ["f"]}},
        "providers": {"n": {"requires": ["p"]}},
        "static-properties": {},
        "variants": {"x": {"n": {"f": ["1"]}}},
    }
    wheel = build_wheel(tmp_path, "fast", "1.0", label="x", document=old)
    with pytest.raises(InvalidWheel, match="preferred features of n") as excinfo:
        index_files_of(collect_files([wheel]), {}, lambda _: None)
    assert excinfo.value.where == wheel.name
