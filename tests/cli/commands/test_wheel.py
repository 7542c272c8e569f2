"""``wheelfit wheel make``, ``relabel``, ``unmake``, ``convert``, ``repack`` and ``show``."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner, tree

from wheelfit.core.core_metadata import read_metadata
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import add_member, build_large_wheel, build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive

STATIC = ("--static", "blas :: library :: openblas, mkl")
MKL = ("-p", "blas :: library :: mkl", "--label", "mkl", *STATIC)
TABLE = """
[variant.default-priorities]
namespace = ["blas", "x86_64"]
[variant.providers.blas.static-properties]
library = ["openblas", "mkl"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
plugin-api = "x86_64_variant_provider"
[variant.variants.mkl]
blas.library = ["mkl"]
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build a plain wheel."""
    return build_wheel(tmp_path / "in", "fast", "1.0", requires=["numpy"])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the path of an output folder, which does not exist."""
    return tmp_path / "out"


def document(path: Path) -> dict[str, Any]:
    """Return the document of a variant wheel whose RECORD is valid."""
    with WheelArchive(path) as wheel:
        wheel.verify()
        found: dict[str, Any] = json.loads(wheel.variant_document() or b"")
        return found


def names(folder: Path) -> list[str]:
    """Return the names of all files in a folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def replace_member(path: Path, name: str, content: bytes) -> Path:
    """Replace a member of a wheel without changing RECORD."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    assert name in members
    with zipfile.ZipFile(path, "w") as archive:
        for one, data in members.items():
            add_member(archive, one, content if one == name else data)
    return path


class TestMake:
    """``wheel make``."""

    def test_make_from_a_plain_wheel(self, wheel: Path, out: Path, run: Runner) -> None:
        """B-32, B-33: properties and a label make a variant; the source is unchanged."""
        before = tree(wheel.parent)
        result = run("wheel", "make", wheel, "-o", out, *MKL)
        (path,) = out.iterdir()
        assert result.out == f"{path}\n"
        assert path.name == "fast-1.0-py3-none-any-mkl.whl"
        found = document(path)
        assert found["variants"] == {"mkl": {"blas": {"library": ["mkl"]}}}
        assert found["providers"] == {
            "blas": {"static-properties": {"library": ["openblas", "mkl"]}}
        }
        assert tree(wheel.parent) == before

    def test_reproducible(
        self, wheel: Path, out: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """B-39: equal arguments give equal bytes, dated by SOURCE_DATE_EPOCH."""
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        run("wheel", "make", wheel, "-o", out, *MKL)
        first = tree(out)
        run("wheel", "make", wheel, "-o", out, *MKL, "--overwrite")
        assert tree(out) == first
        with zipfile.ZipFile(next(out.iterdir())) as archive:
            info = archive.getinfo("fast-1.0.dist-info/variant.json")
        assert info.date_time == (2023, 11, 14, 22, 13, 20)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
        result = run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=1)
        assert "SOURCE_DATE_EPOCH" in result.error["where"]

    def test_json_report(self, wheel: Path, out: Path, run: Runner) -> None:
        """The JSON object describes the wheel."""
        report = run("wheel", "make", wheel, "-o", out, *MKL, "--json").object
        assert report == {
            "version": 1,
            "dry_run": False,
            "wheels": [
                {
                    "source": str(wheel),
                    "path": str(out / "fast-1.0-py3-none-any-mkl.whl"),
                    "label": "mkl",
                    "changed": True,
                    "content_verified": True,
                    "layout": None,
                    "notes": [],
                }
            ],
            "failed": [],
        }

    def test_derived_label(self, wheel: Path, run: Runner) -> None:
        """F-141: without a label it is derived from the properties."""
        run("wheel", "make", wheel, "-p", "x86_64::level::v3", "--provider", "x86_64")
        assert "fast-1.0-py3-none-any-fa7c1393.whl" in names(wheel.parent)
        run("wheel", "make", wheel, "--null", "--provider", "x86_64")
        assert "fast-1.0-py3-none-any-null.whl" in names(wheel.parent)
        run("wheel", "make", wheel, "--null", "--provider", "x86_64", code=1)

    def test_requirement_of_a_known_provider(self, wheel: Path, run: Runner, out: Path) -> None:
        """F-153: A known provider is written with the requirement that other tools expect."""
        words = ("-p", "nvidia :: sm_arch :: 90_real", "--provider", "nvidia", "--label", "gpu")
        run("wheel", "make", wheel, "-o", out, *words)
        assert document(out / "fast-1.0-py3-none-any-gpu.whl")["providers"]["nvidia"] == {
            "requires": ["nvidia-variant-provider>=0.0.1,<1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        }

    def test_other_plugin(self, wheel: Path, run: Runner, out: Path) -> None:
        """B-7, B-25: another plugin is written with its requirement, without validation."""
        words = ("-p", "gpu :: kind :: big", "--provider", "gpu=gpu-plugin>=1::gpu_plugin:Plugin")
        result = run("wheel", "make", wheel, "-o", out, *words, "--label", "big", *STATIC,
                   "--priority", "blas")  # fmt: skip
        assert "gpu are not validated" in result.err
        found = document(out / "fast-1.0-py3-none-any-big.whl")
        assert found["default-priorities"]["namespace"] == ["blas", "gpu"]
        assert found["providers"]["gpu"] == {
            "requires": ["gpu-plugin>=1"],
            "plugin-api": "gpu_plugin:Plugin",
        }

    def test_label_of_a_table(self, wheel: Path, out: Path, tmp_path: Path, run: Runner) -> None:
        """B-2, B-16: A label selects an entry of the table; all providers are written."""
        (tmp_path / "pyproject.toml").write_text(TABLE)
        run("wheel", "make", wheel, "-o", out, "--project", tmp_path, "--label", "mkl")
        found = document(out / "fast-1.0-py3-none-any-mkl.whl")
        assert set(found["providers"]) == {"blas", "x86_64"}
        other = ("-p", "blas :: library :: openblas", "--label", "mkl")
        result = run(
            "wheel", "make", wheel, "-o", out, "--project", tmp_path, *other, "--json", code=1
        )
        assert result.error["code"] == "invalid-label"
        result = run(
            "wheel",
            "make",
            wheel,
            "-o",
            out,
            "--project",
            tmp_path,
            "--label",
            "x",
            "--json",
            code=1,
        )
        assert "there are: mkl" in result.error["message"]
        assert len(names(out)) == 1

    def test_label_of_a_document(self, wheel: Path, out: Path, tmp_path: Path, run: Runner) -> None:
        """B-16: an index file has the same effect as a table."""
        content = release_document(
            {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}},
            static={"blas": {"library": ["openblas", "mkl"]}},
        )
        path = tmp_path / "fast-1.0-variants.json"
        path.write_text(json.dumps(content))
        for label in ("mkl", "null"):
            run("wheel", "make", wheel, "-o", out, "--document", path, "--label", label)
            assert list(document(out / f"fast-1.0-py3-none-any-{label}.whl")["variants"]) == [label]

    @pytest.mark.parametrize(
        ("option", "text"),
        [
            ("--project", "["),
            ("--project", "[project]"),
            ("--document", "{"),
            ("--document", '{"default-priorities": {"namespace": ["a"]}, "providers": {"a": 1}}'),
        ],
    )
    def test_faulty_files(
        self, wheel: Path, tmp_path: Path, run: Runner, option: str, text: str
    ) -> None:
        """B-6: A faulty table or document is refused with its path."""
        path = tmp_path / "given"
        path.write_text(text)
        result = run("wheel", "make", wheel, option, path, "--null", "--json", code=1)
        assert result.error["where"] == str(path)
        path.unlink()
        result = run("wheel", "make", wheel, option, path, "--null", "--json", code=1)
        assert result.error["code"] == "file-problem"

    def test_build_time_plugin(self, wheel: Path, tmp_path: Path, run: Runner) -> None:
        """B-22: A table with a build-time plugin is refused, with a hint."""
        table = TABLE.replace(
            '.static-properties]\nlibrary = ["openblas", "mkl"]', ']\nbuild-requires = ["plugin"]'
        )
        (tmp_path / "pyproject.toml").write_text(table)
        words = ("--project", tmp_path, "--label", "mkl", "--json")
        result = run("wheel", "make", wheel, *words, code=1)
        assert result.error["faults"][0]["rule"] == "B-22"
        assert "wheelfit build" in result.error["hint"]

    def test_table_in_an_old_layout(self, wheel: Path, tmp_path: Path, run: Runner) -> None:
        """B-4: A table in an old layout without its schema is refused, with a hint."""
        table = TABLE.replace("requires = [", "enable-if = 'os_name == \"nt\"'\nrequires = [", 1)
        (tmp_path / "pyproject.toml").write_text(table)
        words = ("--project", tmp_path, "--label", "mkl", "--json")
        assert "v0.0.3.json" in run("wheel", "make", wheel, *words, code=1).error["hint"]

    def test_unknown_values(self, wheel: Path, out: Path, run: Runner) -> None:
        """B-25: values that the provider does not know are refused without --no-validate."""
        words = ("-p", "x86_64 :: level :: v9", "--label", "v9", "--provider", "x86_64")
        result = run("wheel", "make", wheel, "-o", out, *words, "--json", code=1)
        assert "--no-validate" in result.error["hint"]
        assert not out.exists()
        run("wheel", "make", wheel, "-o", out, *words, "--no-validate")
        assert names(out) == ["fast-1.0-py3-none-any-v9.whl"]

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("--null", "--label", "x"),
            ("--null", "-p", "a :: b :: c"),
            ("--null", "--priority", "a"),
            ("--null", "--provider", "unheard_of"),
            ("--null", "--static", "a :: b"),
            ("--null", "--static", "a :: b :: c,,d"),
        ],
    )
    def test_usage_errors(self, wheel: Path, run: Runner, words: tuple[str, ...]) -> None:
        """Conflicting options are refused before anything is written."""
        before = tree(wheel.parent)
        assert run("wheel", "make", wheel, *words, "--json", code=2).error["code"] == "usage"
        assert tree(wheel.parent) == before

    def test_namespace_without_provider(self, wheel: Path, run: Runner) -> None:
        """B-6, B-7: every namespace needs a provider; the hint has the option."""
        words = ("-p", "a :: b :: c", "-p", "x86_64 :: level :: v3")
        result = run("wheel", "make", wheel, *words, "--json", code=1)
        assert "B-7" in {fault["rule"] for fault in result.error["faults"]}
        assert result.error["hint"] == "--provider a=REQUIREMENT --provider x86_64"
        result = run("wheel", "make", wheel, "--null", "--json", code=1)
        assert "--provider" in result.error["hint"]


class TestSeveralWheels:
    """Several wheels, which are written completely or not at all."""

    @pytest.fixture
    def wheels(self, tmp_path: Path) -> Path:
        """Build three wheels, the second one broken."""
        folder = tmp_path / "in"
        for name in ("a", "b", "c"):
            build_wheel(folder / name, name, "1.0")
        replace_member(folder / "b/b-1.0-py3-none-any.whl", "b/__init__.py", b"evil = True\n")
        return folder

    def test_one_broken_wheel(self, wheels: Path, out: Path, run: Runner) -> None:
        """If one wheel fails, none is written."""
        before = tree(wheels)
        result = run("wheel", "make", wheels, "-o", out, *MKL, "--json", code=4)
        assert result.error["code"] == "invalid-wheel"
        assert "b-1.0" in result.error["where"]
        assert not out.exists()
        assert tree(wheels) == before

    def test_keep_going(self, wheels: Path, out: Path, run: Runner) -> None:
        """``--keep-going`` writes the others and reports the failure."""
        result = run("wheel", "make", wheels, "-o", out, *MKL, "--keep-going", "--json", code=9)
        assert names(out) == ["a-1.0-py3-none-any-mkl.whl", "c-1.0-py3-none-any-mkl.whl"]
        (failed,) = result.object["failed"]
        assert failed["source"].endswith("b-1.0-py3-none-any.whl")
        assert failed["error"]["code"] == "invalid-wheel"
        result = run("wheel", "make", wheels, *MKL, "--keep-going", code=9)
        assert "1 wheel could not be written" in result.err

    def test_keep_going_with_conflicts(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """``--keep-going`` overwrites and contradicts no other result."""
        for folder in ("one", "two"):
            build_wheel(tmp_path / folder, "a", "1.0")
        wheels = (tmp_path / "one", tmp_path / "two")
        words = ("--keep-going", "--overwrite", "--json")
        report = run("wheel", "make", *wheels, "-o", out, *MKL, *words, code=9).object
        assert [one["source"] for one in report["wheels"]] == [str(next(wheels[0].iterdir()))]
        assert report["failed"][0]["error"]["code"] == "file-problem"
        other = ("-p", "blas :: library :: openblas", "--label", "mkl", *STATIC)
        three = build_wheel(tmp_path / "three", "a", "1.0", tag="cp313-cp313-any")
        report = run("wheel", "make", three, "-o", out, *other, *words, code=9).object
        assert report["failed"][0]["error"]["code"] == "inconsistent-documents"
        assert names(out) == ["a-1.0-py3-none-any-mkl.whl"]

    def test_accept_record_errors(self, wheels: Path, out: Path, run: Runner) -> None:
        """B-34: A wrong RECORD is rewritten on request, with a note."""
        result = run("wheel", "make", wheels, "-o", out, *MKL, "--accept-record-errors")
        assert "RECORD was wrong about 'b/__init__.py'" in result.err
        assert "b" in [document(path) and path.name[0] for path in out.iterdir()]

    def test_dry_run(self, wheels: Path, out: Path, run: Runner) -> None:
        """``--dry-run`` reports failures and writes nothing."""
        run("wheel", "make", wheels, "-o", out, *MKL, "--dry-run", code=4)
        words = ("--accept-record-errors", "--dry-run", "--json")
        report = run("wheel", "make", wheels, "-o", out, *MKL, *words).object
        assert report["dry_run"]
        assert {Path(wheel["path"]).parent for wheel in report["wheels"]} == {out}
        assert len(report["wheels"]) == 3
        assert not out.exists()
        before = tree(wheels)
        run("wheel", "make", wheels, *MKL, "--accept-record-errors", "--dry-run")
        assert tree(wheels) == before

    def test_equal_result_names(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """Two results with the same name are an error."""
        for folder in ("one", "two"):
            build_wheel(tmp_path / folder, "a", "1.0")
        wheels = (tmp_path / "one", tmp_path / "two")
        result = run("wheel", "make", *wheels, "-o", out, *MKL, "--json", code=1)
        assert "a-1.0-py3-none-any-mkl.whl" in result.error["message"]
        assert not out.exists()

    def test_label_with_other_properties(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """F-143: A label has one set of properties in a release, existing wheels included."""
        one = build_wheel(tmp_path, "a", "1.0")
        two = build_wheel(tmp_path, "a", "1.0", tag="cp313-cp313-linux_x86_64", files={"a.so": ""})
        run("wheel", "make", one, "-o", out, *MKL)
        before = tree(out)
        words = ("-p", "blas :: library :: openblas", "--label", "mkl", *STATIC, "--json")
        result = run("wheel", "make", two, "-o", out, *words, code=1)
        assert result.error["code"] == "inconsistent-documents"
        assert tree(out) == before
        # What lies there and is no wheel at all is another matter.
        (out / "a-1.0-py2-none-any-x.whl").write_bytes(b"")
        run("wheel", "make", two, "-o", out, *MKL)

    def test_existing_file(self, wheel: Path, out: Path, run: Runner) -> None:
        """B-31: an existing file needs ``--overwrite``."""
        out.mkdir()
        there = out / "fast-1.0-py3-none-any-mkl.whl"
        there.write_text("precious")
        result = run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=1)
        assert result.error["code"] == "file-problem"
        assert tree(out) == {there.name: hashlib.sha256(b"precious").hexdigest()}
        run("wheel", "make", wheel, "-o", out, *MKL, "--overwrite")
        assert document(there)

    def test_in_place(self, wheel: Path, run: Runner) -> None:
        """B-31: A variant wheel is replaced in place without further options."""
        run("wheel", "make", wheel, *MKL)
        path = wheel.with_name("fast-1.0-py3-none-any-mkl.whl")
        words = ("-p", "blas :: library :: mkl", "--label", "mkl")
        run("wheel", "make", path, *words, "--static", "blas :: library :: mkl, other")
        assert document(path)["providers"]["blas"]["static-properties"]["library"][-1] == "other"
        assert names(wheel.parent) == [path.name, wheel.name]

    @pytest.mark.parametrize("place", ["nowhere.whl", "empty", "text.txt"])
    def test_no_wheels(self, tmp_path: Path, run: Runner, place: str) -> None:
        """A missing file, an empty folder and a text file are errors."""
        (tmp_path / "empty").mkdir()
        (tmp_path / "text.txt").touch()
        run("wheel", "make", tmp_path / place, *MKL, code=2 if place == "text.txt" else 1)

    def test_invalid_output_folder(self, wheel: Path, run: Runner) -> None:
        """An output folder that cannot be written is an error."""
        result = run("wheel", "make", wheel, "-o", wheel, *MKL, "--json", code=1)
        assert result.error["code"] == "file-problem"
        result = run("wheel", "make", wheel, "-o", "/proc/1", *MKL, "--json", code=1)
        assert result.error["code"] == "file-problem"

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
    def test_read_only_folder(self, wheel: Path, out: Path, run: Runner) -> None:
        """A read-only folder is an error."""
        out.mkdir(mode=0o555)
        result = run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=1)
        assert result.error["code"] == "file-problem"

    @pytest.mark.integration
    def test_large_wheel(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """B-38: the content of a large wheel is compared on request only, with a note."""
        wheel = build_large_wheel(tmp_path, "large", "1.0", 70_000_000)
        result = run("wheel", "make", wheel, "-o", out, *MKL)
        assert "70 MB of content were copied without a comparison" in result.err
        words = ("wheel", "make", wheel, "-o", out, *MKL, "--overwrite", "--json")
        (made,) = run(*words, "--verify-content").object["wheels"]
        assert made["content_verified"]
        (made,) = run(*words, "--no-verify-content", "--no-fsync").object["wheels"]
        assert not made["content_verified"]
        with wheel.open("r+b") as file:
            file.seek(1000)
            file.write(b"x")
        run(*words)
        assert run(*words, "--verify-content", code=4).error["code"] == "invalid-wheel"


class TestUnusualWheels:
    """Unusual and broken wheels."""

    def test_unusual_file_names(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """B-35, B-36: file names with commas, quotes and umlauts are preserved."""
        files = {"a/x,y.py": "", 'a/"q".py': "", "a/ü, ß.py": "1"}
        wheel = build_wheel(tmp_path, "a", "1.0", files=files)
        with zipfile.ZipFile(wheel) as archive:
            record = archive.read("a-1.0.dist-info/RECORD")
        replace_member(wheel, "a-1.0.dist-info/RECORD", record.rstrip(b"\n"))
        run("wheel", "make", wheel, "-o", out, *MKL)
        with WheelArchive(next(out.iterdir())) as made:
            made.verify()
            assert set(files) < set(made.names())

    @pytest.mark.parametrize(
        ("member", "content", "message"),
        [
            ("RECORD", b'"', "CSV"),
            ("RECORD", b"a/__init__.py,sha256=x\n", "columns"),
            ("RECORD", b"a-1.0.dist-info/RECORD,,\n", "does not list"),
            ("RECORD", b"\xff", "UTF-8"),
            ("METADATA", b"Name: b\nVersion: 1.0\n", "name"),
            ("WHEEL", b"Wheel-Version: 2.0\n", "the Wheel-Version is 2.0"),
        ],
    )
    def test_broken_wheels(
        self, tmp_path: Path, out: Path, run: Runner, member: str, content: bytes, message: str
    ) -> None:
        """B-34: A broken wheel is an error, and nothing is written."""
        wheel = build_wheel(tmp_path, "a", "1.0")
        replace_member(wheel, f"a-1.0.dist-info/{member}", content)
        before = tree(tmp_path)
        result = run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=4)
        assert message in json.dumps(result.error)
        assert tree(tmp_path) == before

    def test_unreadable_record(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """B-34: an unreadable RECORD is rewritten on request."""
        wheel = build_wheel(tmp_path, "a", "1.0")
        replace_member(wheel, "a-1.0.dist-info/RECORD", b'b.py,sha256=x,1\nb.py,,\n"')
        result = run("wheel", "make", wheel, "-o", out, *MKL, "--accept-record-errors")
        assert "written anew" in result.err
        assert document(next(out.iterdir()))
        replace_member(wheel, "a-1.0.dist-info/RECORD", b"b.py,sha256=x,1\nb.py,,\n")
        words = ("--accept-record-errors", "--overwrite")
        result = run("wheel", "make", wheel, "-o", out, *MKL, *words)
        assert "twice" in result.err
        assert "which the wheel does not contain" in result.err

    def test_wrong_dist_info(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """B-34: A dist-info folder of another release is an error."""
        wheel = build_wheel(tmp_path, "a", "1.0")
        wheel = wheel.rename(wheel.with_name("a-2.0-py3-none-any.whl"))
        result = run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=4)
        assert "a-1.0.dist-info" in result.error["message"]

    def test_no_archive(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """A file that is not an archive is an error."""
        wheel = tmp_path / "a-1.0-py3-none-any.whl"
        wheel.write_bytes(b"PK")
        assert run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=4).error
        wheel = wheel.rename(tmp_path / "a.whl")
        run("wheel", "make", wheel, "-o", out, *MKL, "--json", code=1)

    def test_signature(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """B-37: A signature of RECORD is removed, with a note."""
        wheel = build_wheel(tmp_path, "a", "1.0")
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("a-1.0.dist-info/RECORD.jws", "{}")
        result = run("wheel", "make", wheel, "-o", out, *MKL)
        assert "RECORD.jws was removed" in result.err


class TestOtherActions:
    """``relabel``, ``unmake`` and ``convert``."""

    @pytest.fixture
    def variant(self, tmp_path: Path) -> Path:
        """Build a variant wheel."""
        content = release_document(
            {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
        )
        requires = ["numpy", 'only_plain; variant_label == ""', 'mkl; "blas" in variant_namespaces']
        return build_wheel(
            tmp_path / "in", "fast", "1.0", label="mkl", document=content, requires=requires
        )

    def test_relabel(self, variant: Path, run: Runner) -> None:
        """B-32, F-141: the properties are kept; without a label it is derived."""
        run("wheel", "relabel", variant, "--label", "intel")
        path = variant.with_name("fast-1.0-py3-none-any-intel.whl")
        assert document(path)["variants"] == {"intel": {"blas": {"library": ["mkl"]}}}
        report = run("wheel", "relabel", path, "--json").object
        assert report["wheels"][0]["label"] == "f5674d30"
        run("wheel", "relabel", path, "--label", "null", code=1)
        run("wheel", "relabel", path, "--label", "A", code=1)

    def test_relabel_null(self, tmp_path: Path, run: Runner) -> None:
        """F-6: the null variant and plain wheels cannot be relabelled."""
        content = release_document({"null": {}}, static={"blas": {"library": ["mkl"]}})
        path = build_wheel(tmp_path, "fast", "1.0", label="null", document=content)
        run("wheel", "relabel", path, "--label", "x", code=1)
        run("wheel", "relabel", build_wheel(tmp_path, "a", "1"), "--label", "x", code=1)

    def test_unmake(self, variant: Path, out: Path, run: Runner) -> None:
        """B-32, B-40: label and document are removed, and markers resolved."""
        run("wheel", "unmake", variant, "-o", out)
        with WheelArchive(out / "fast-1.0-py3-none-any.whl") as wheel:
            wheel.verify()
            assert wheel.variant_document() is None
            assert read_metadata(wheel.metadata(), "").requires_texts == ("numpy", "only_plain")

    def test_unmake_reports_removed_dependencies(
        self, variant: Path, out: Path, run: Runner
    ) -> None:
        """B-40: removed dependencies are reported."""
        note = 'it does not need mkl; "blas" in variant_namespaces, whose marker is false for it'
        assert f"  {note}\n" in run("wheel", "unmake", variant, "-o", out).err
        report = run("wheel", "unmake", variant, "-o", out, "--overwrite", "--json").object
        assert report["wheels"][0]["notes"] == [note]

    def test_resolve_markers_reports_removed_dependencies(
        self, variant: Path, out: Path, run: Runner
    ) -> None:
        """B-40, B-41: ``make`` and ``repack`` report removed dependencies too."""
        report = run(
            "wheel", "make", variant, *MKL, "--resolve-markers", "-o", out, "--json"
        ).object
        note = 'it does not need only_plain; variant_label == "", whose marker is false for it'
        assert report["wheels"][0]["notes"] == [note]
        (out / "repacked").mkdir()
        report = run(
            "wheel", "repack", variant, "--resolve-markers", "-o", out / "repacked", "--json"
        ).object
        assert note in report["wheels"][0]["notes"]

    @pytest.mark.skipif(sys.platform == "win32", reason="needs links")
    def test_link_with_the_name_of_the_result(self, variant: Path, out: Path, run: Runner) -> None:
        """A link with the name of a result is kept or replaced, not followed."""
        victim = out.with_name("victim")
        victim.write_text("precious")
        out.mkdir()
        results: tuple[tuple[str, str, list[str]], ...] = (
            ("unmake", "fast-1.0-py3-none-any.whl", []),
            ("relabel", "fast-1.0-py3-none-any-intel.whl", ["--label", "intel"]),
        )
        for command, name, more in results:
            for target in (victim, out.with_name("made")):
                (out / name).symlink_to(target)
                words: list[str | Path] = ["wheel", command, variant, *more, "-o", out]
                run(*words, code=1)
                assert (out / name).is_symlink()
                run(*words, "--overwrite")
                assert not (out / name).is_symlink()
                (out / name).unlink()
        assert victim.read_text() == "precious"
        assert not out.with_name("made").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="needs links")
    def test_linked_temporary_folder(self, variant: Path, out: Path, run: Runner) -> None:
        """A link that resembles a leftover temporary folder is not followed."""
        victim = out.with_name("victim")
        victim.mkdir()
        (victim / "precious").write_text("x")
        out.mkdir()
        stages = (out / ".wheelfit-stage-0123456789abcdef", out / ".0123456789abcdef.part")
        for stage in stages:
            stage.symlink_to(victim)
            os.utime(stage, (0, 0), follow_symlinks=False)
        run("wheel", "unmake", variant, "-o", out)
        assert (victim / "precious").exists()

    def test_skip_plain(self, variant: Path, out: Path, run: Runner) -> None:
        """B-32: A plain wheel is an error, unless --skip-plain; then it is copied."""
        plain = build_wheel(variant.parent, "other", "1.0")
        run("wheel", "unmake", variant.parent, "-o", out, code=1)
        assert not out.exists()
        run("wheel", "unmake", variant.parent, "-o", out, "--skip-plain")
        assert names(out) == ["fast-1.0-py3-none-any.whl", plain.name]
        assert (out / plain.name).read_bytes() == plain.read_bytes()
        report = run("wheel", "unmake", plain, "--skip-plain", "--json").object
        assert report["wheels"][0]["changed"] is False

    def test_convert(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """F-53, F-56: A folder of old wheels is converted completely."""
        old = {
            "$schema": "https://variants-schema.wheelnext.dev/v0.0.3.json",
            "default-priorities": {"namespace": ["blas"]},
            "providers": {"blas": {"install-time": False}},
            "static-properties": {"blas": {"library": ["openblas", "mkl"]}},
            "variants": {"00000000": {}, "mkl": {"blas": {"library": ["mkl"]}}},
        }
        for label in (None, "00000000", "mkl"):
            build_wheel(
                tmp_path / "in", "fast", "1.0", label=label, document=old if label else None
            )
        report = run("wheel", "convert", tmp_path / "in", "-o", out, "--json").object
        assert [(one["label"], one["layout"]) for one in report["wheels"]] == [
            ("null", "L3"),
            ("mkl", "L3"),
            (None, None),
        ]
        assert len(names(out)) == 3
        for label in ("mkl", "null"):
            assert "peps/850" in document(out / f"fast-1.0-py3-none-any-{label}.whl")["$schema"]
        again = run("wheel", "convert", out, "--json").object
        assert not any(one["changed"] for one in again["wheels"])
        run("wheel", "check", out)

    def test_losses(self, tmp_path: Path, out: Path, run: Runner) -> None:
        """F-56: losses of a conversion need consent."""
        old = {
            "$schema": "https://variants-schema.wheelnext.dev/v0.0.3.json",
            "default-priorities": {"namespace": ["n"], "feature": {"n": ["f"]}},
            "providers": {"n": {"requires": ["p"]}},
            "variants": {"x": {"n": {"f": ["1"]}}},
        }
        wheel = build_wheel(tmp_path, "fast", "1.0", label="x", document=old)
        result = run("wheel", "convert", wheel, "-o", out, "--json", code=1)
        assert result.error["faults"][0]["rule"] == "F-56"
        result = run("wheel", "convert", wheel, "-o", out, "--accept-losses", "--json", code=32)
        (lost,) = result.object["lost"]
        assert result.object["wheels"][0]["notes"] == [f"lost: {lost}"]


CONFIG = """
[metadata.fast]
rename = {fast-cu12 = "fast"}
strip-local-version = true
remove = ["nvidia-cublas-cu12"]
add = ["nvidia-cublas; 'x86_64' in variant_namespaces"]
[variants.v3]
properties = ["x86_64 :: level :: v3"]
metadata = "fast"
[variants.mkl]
metadata = "fast"
[[wheels]]
match = "*+cu126-*"
variant = "v3"
[[wheels]]
match = "*+mkl-*"
variant = "mkl"
[[wheels]]
match = "fast-1.0+cpu-*"
metadata = "fast"
"""


class TestRepack:
    """``wheel repack``."""

    @pytest.fixture
    def release(self, tmp_path: Path) -> Path:
        """Build a release whose variants differ in name and local version."""
        folder = tmp_path / "in"
        needs = ["numpy", "nvidia-cublas-cu12==12.6", "nvidia-cublas-cu12-extra"]
        build_wheel(folder, "fast-cu12", "1.0+cu126", requires=needs, files={"fast/a.py": ""})
        build_wheel(folder, "fast", "1.0+mkl", requires=["numpy"], files={"fast/a.py": ""})
        build_wheel(folder, "fast", "1.0+cpu", requires=["numpy"], files={"fast/a.py": ""})
        (tmp_path / "repack.toml").write_text(CONFIG)
        (tmp_path / "pyproject.toml").write_text(TABLE)
        return folder

    def test_repack_folder(self, release: Path, tmp_path: Path, out: Path, run: Runner) -> None:
        """B-42, B-43, B-44: A folder of a release is repacked into variants by rules."""
        words = ("--config", tmp_path / "repack.toml", "--project", tmp_path, "--index-file")
        report = run("wheel", "repack", release, "-o", out, *words, "--json").object
        assert names(out) == [
            "fast-1.0-py3-none-any-mkl.whl",
            "fast-1.0-py3-none-any-v3.whl",
            "fast-1.0-py3-none-any.whl",
            "fast-1.0-variants.json",
        ]
        assert report["index_files"] == [str(out / "fast-1.0-variants.json")]
        with WheelArchive(out / "fast-1.0-py3-none-any-v3.whl") as wheel:
            assert read_metadata(wheel.metadata(), "").requires_texts == (
                "numpy",
                "nvidia-cublas-cu12-extra",
                "nvidia-cublas; 'x86_64' in variant_namespaces",
            )
        run("wheel", "check", out, "--full")

    def test_repack_from_an_index(
        self, release: Path, tmp_path: Path, out: Path, run: Runner
    ) -> None:
        """A release of an index is repacked as a folder is."""
        words = ("--config", tmp_path / "repack.toml", "--project", tmp_path)
        run("wheel", "repack", release, "-o", tmp_path / "wanted", *words)
        with RecordingIndex(release) as index:
            where = ("--index-url", index.url)
            report = run("wheel", "repack", "fast==1.0", "-o", out, *words, *where, "--json").object
            assert all(one["source"].startswith(index.url[:20]) for one in report["wheels"])
            run("wheel", "repack", "fast-cu12==1.0", "-o", out, *words, *where)
            run("wheel", "repack", "fast==2", "-o", out, *words, *where, code=3)
            run("wheel", "repack", "fast==1.0", *words, *where, code=2)
        assert tree(out) == tree(tmp_path / "wanted")

    def test_variant_repack_file(
        self, release: Path, tmp_path: Path, out: Path, run: Runner
    ) -> None:
        """B-44: A file of variant-repack is accepted."""
        (tmp_path / "config.toml").write_text(
            "[metadata_configs.m]\nnormalize_package_name = true\nnormalize_version = true\n"
            'deps_remove_list = ["nvidia-cublas-cu12"]\ndeps_add_list = ["nvidia-cublas"]\n'
            '[variant_configs.v]\nvariant_label = "v3"\n'
            'properties = [{namespace = "x86_64", feature = "level", value = "v3"}]\n'
        )
        wheel = release / "fast_cu12-1.0+cu126-py3-none-any.whl"
        words = ("--config", tmp_path / "config.toml", "--edits", "m", "--variant", "v")
        run("wheel", "repack", wheel, "-o", out, *words, "--project", tmp_path)
        (path,) = out.iterdir()
        assert path.name == "fast-1.0-py3-none-any-v3.whl"
        with WheelArchive(path) as made:
            made.verify()
            requires = read_metadata(made.metadata(), "").requires_texts
        assert requires == ("numpy", "nvidia-cublas-cu12-extra", "nvidia-cublas")

    def test_repack_options(self, release: Path, out: Path, run: Runner) -> None:
        """B-42, B-43: the options have the same effect; markers are resolved on request."""
        wheel = release / "fast_cu12-1.0+cu126-py3-none-any.whl"
        run(
            "wheel", "repack", wheel, "-o", out, "--rename", "fast-cu12=Fast", "--set-version", "2",
            "--remove-dependency", "NVIDIA_cublas.cu12", "--add-dependency",
            'a; "blas" in variant_namespaces', *MKL, "--resolve-markers",
        )  # fmt: skip
        with WheelArchive(out / "fast-2-py3-none-any-mkl.whl") as made:
            made.verify()
            text = made.metadata().decode()
        assert "Name: Fast\n" in text
        assert "Requires-Dist: a\n" in text

    def test_repack_of_a_missing_dependency(self, release: Path, out: Path, run: Runner) -> None:
        """A warning names a dependency that no wheel has."""
        wheel = release / "fast_cu12-1.0+cu126-py3-none-any.whl"
        words = ("--remove-dependency", "NVIDIA_cublas.cu12", "--remove-dependency", "nowhere")
        result = run("wheel", "repack", wheel, "-o", out, *words)
        assert "warning: --remove-dependency nowhere removed nothing\n" in result.err
        assert "--remove-dependency NVIDIA" not in result.err

    def test_repack_without_a_variant(self, release: Path, out: Path, run: Runner) -> None:
        """Without a variant only the requested edits are made."""
        wheel = release / "fast-1.0+cpu-py3-none-any.whl"
        run("wheel", "repack", wheel, "-o", out, "--strip-local-version")
        assert names(out) == ["fast-1.0-py3-none-any.whl"]

    def test_equal_repack_names(self, release: Path, out: Path, run: Runner) -> None:
        """Wheels that would get the same name are an error, and nothing is written."""
        result = run("wheel", "repack", release, "-o", out, "--name", "fast",
                   "--strip-local-version", "--json", code=1)  # fmt: skip
        assert "fast-1.0-py3-none-any.whl" in result.error["message"]
        assert not out.exists()

    def test_unmatched(self, release: Path, tmp_path: Path, out: Path, run: Runner) -> None:
        """A wheel without a rule is an error, unless --skip-unmatched."""
        build_wheel(release, "stranger", "1.0")
        words = ("--config", tmp_path / "repack.toml", "--project", tmp_path, "-o", out)
        result = run("wheel", "repack", release, *words, "--json", code=2)
        assert "stranger" in result.error["message"]
        result = run("wheel", "repack", release, *words, "--skip-unmatched")
        assert "stranger-1.0-py3-none-any.whl is skipped" in result.err
        assert len(names(out)) == 3

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("--edits", "m"),
            ("--rename", "a"),
            ("--name", "-"),
            ("--remove-dependency", "!"),
            ("--set-version", "x"),
            ("--add-dependency", "a;\nos_name == 'nt'"),
        ],
    )
    def test_repack_usage_errors(self, wheel: Path, run: Runner, words: tuple[str, ...]) -> None:
        """Incomplete and conflicting options are refused."""
        before = tree(wheel.parent)
        assert run("wheel", "repack", wheel, *words, "--json", code=2).error["code"] == "usage"
        assert tree(wheel.parent) == before

    def test_invalid_configuration_file(self, wheel: Path, tmp_path: Path, run: Runner) -> None:
        """A missing or faulty configuration file is an error."""
        run("wheel", "repack", wheel, "--config", tmp_path / "x.toml", code=1)
        (tmp_path / "x.toml").write_text("[metadata.a]\nadd = 1")
        result = run("wheel", "repack", wheel, "--config", tmp_path / "x.toml", "--json", code=1)
        assert result.error["faults"][0]["path"] == "metadata.a.add"
        (tmp_path / "x.toml").write_text("[variants.a]\nproperties = []")
        words = ("--config", tmp_path / "x.toml", "--variant", "b", "--json")
        assert "only: a" in run("wheel", "repack", wheel, *words, code=1).error["message"]
        both = ("--config", tmp_path / "x.toml", "--variant", "a", "--null")
        run("wheel", "repack", wheel, *both, code=2)


class TestShow:
    """``wheel show`` and ``wheel check``."""

    def test_show(self, wheel: Path, run: Runner) -> None:
        """Variant and plain wheels are described, in text and JSON."""
        run("wheel", "make", wheel, *MKL)
        result = run("wheel", "show", wheel.parent)
        assert "blas :: library :: mkl" in result.out
        assert "blas: a list: library: openblas, mkl" in result.out
        assert "none: it is a plain wheel" in result.out
        variant, plain = run("wheel", "show", wheel.parent, "--json").object["wheels"]
        assert variant["properties"] == ["blas :: library :: mkl"]
        assert (variant["label"], variant["derived_label"], variant["layout"]) == (
            "mkl",
            "f5674d30",
            "L7",
        )
        assert variant["document"]["default-priorities"] == {"namespace": ["blas"]}
        assert plain["label"] is plain["document"] is None
        assert plain["requires"] == ["numpy"]

    def test_show_metadata(self, wheel: Path, run: Runner) -> None:
        """METADATA alone is printed."""
        result = run("wheel", "show", wheel, "--metadata")
        assert result.out.startswith("Metadata-Version: 2.1\nName: fast\n")

    def test_show_url(self, wheel: Path, run: Runner) -> None:
        """A wheel by URL is read partially."""
        words = ("-p", "x86_64 :: level :: v3", "--provider", "x86_64", "--label", "v3")
        run("wheel", "make", wheel, *words)
        with RecordingIndex(wheel.parent) as index:
            url = f"{index.url.removesuffix('simple/')}files/fast-1.0-py3-none-any-v3.whl"
            said = run("wheel", "show", url, "--json").object["wheels"][0]
        assert said["properties"] == ["x86_64 :: level :: v3"]
        assert said["size"]

    def test_show_null_variant(self, wheel: Path, run: Runner) -> None:
        """The null variant is described as such."""
        run("wheel", "make", wheel, "--null", "--provider", "abi_dependency")
        path = wheel.with_name("fast-1.0-py3-none-any-null.whl")
        result = run("wheel", "show", path)
        assert "the null variant" in result.out
        assert "built in: abi_dependency" in result.out

    def test_check(self, wheel: Path, run: Runner) -> None:
        """B-54: ``wheel check`` is the same as ``wheelfit check``."""
        replace_member(wheel, "fast/__init__.py", b"evil")
        words = (wheel, "--full", "--json")
        assert run("wheel", "check", *words, code=9).object == run("check", *words, code=9).object
