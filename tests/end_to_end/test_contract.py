"""JSON output; each runner of commands checks that it has exactly the documented keys."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.contract import FORMS, REFERENCE, SCHEMAS, check_object, schema_of
from cli.locking import write_lock_of
from cli.running import Runner, tree
from jsonschema import Draft202012Validator

from wheelfit.cli.commands import working_commands
from wheelfit.sources.bridges import catalogue
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document
from wheelfit_runtime.platforms.providers import namespaces

BLAS = {"blas": {"library": ["openblas", "mkl"]}}
VARIANTS = {
    "null": {},
    "mkl": {"blas": {"library": ["mkl"]}},
    "open": {"blas": {"library": ["openblas"]}},
    "gpu": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
}
NVIDIA = {
    "requires": ["nvidia-variant-provider>=0.0.1,<1"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
DOCUMENT = release_document(
    VARIANTS, static=BLAS, providers={"nvidia": NVIDIA}, namespaces=["nvidia", "blas"]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Build a project with variants and a plain dependency, and one that fits nowhere."""
    folder = tmp_path / "index"
    build_release(folder, "fast", "2.0", DOCUMENT, (None, *VARIANTS), requires=["plain"])
    build_wheel(folder, "fast", "1.0")
    build_wheel(folder, "plain", "1.0")
    build_wheel(folder, "gone", "1.0", tag="cp27-none-any")
    return folder


@pytest.fixture
def index(folder: Path) -> Iterator[RecordingIndex]:
    """Serve the folder."""
    with RecordingIndex(folder) as server:
        yield server


@pytest.fixture
def sources(index: RecordingIndex) -> list[str]:
    """Return the options that name the index."""
    return ["-i", index.url, "--no-cache-dir", "--json"]


HERE = ("--python", sys.executable)
"""The environment in which nothing is changed that a test only asks about."""


class TestDocumentation:
    """Schemas and examples of the documentation."""

    def test_schemas(self) -> None:
        """There is a valid schema for each command with JSON output, and for errors."""
        names = {schema_of(words.split()) for words in working_commands()}
        forms = {schema for schemas in FORMS.values() for schema in schemas.values()}
        assert SCHEMAS.keys() == (names | forms | {"error"}) - {"proxy", "run"}
        for schema in SCHEMAS.values():
            Draft202012Validator.check_schema(schema)

    @pytest.mark.parametrize("name", sorted(SCHEMAS))
    def test_examples(self, name: str) -> None:
        """Every example of the reference is valid under its schema."""
        sections = re.split(r"^## ", (REFERENCE / "json.md").read_text(), flags=re.MULTILINE)[1:]
        command = name.replace("-all", " --all").replace("-outdated", " --outdated")
        command = command.replace("-plan", " --plan")
        command = re.sub(r"^demo-", "demo --", command)
        command = re.sub(r"^(index|wheel|abi|bridges)-", r"\1 ", command)
        heading = "Errors" if name == "error" else f"`{command} --json`"
        (section,) = [section for section in sections if section.startswith(heading)]
        (example,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
        example = example.replace('["…"]', "[]").replace('"sha256": "…"', '"sha256": "00"')
        check_object(name, json.loads(example))

    def test_additional_keys(self) -> None:
        """Schemas permit further keys, which may be added within a version."""
        for schema in SCHEMAS.values():
            assert '"additionalProperties": false' not in json.dumps(schema)


class TestWheels:
    """``wheel make --json`` and ``wheel show --json``."""

    def test_repair(self, tmp_path: Path, run: Runner) -> None:
        """``wheel repair --json``: results keep their labels, and failures have a reason."""
        script = "import shutil, sys; 'bad' in sys.argv[1] or shutil.copy(*sys.argv[1:])"
        command = f"{shlex.join([sys.executable, '-c', script])} {{wheel}} {{dest_dir}}"
        tag = "py3-none-linux_x86_64"
        for name in ("good", "bad"):
            build_wheel(tmp_path / "built", name, "1.0", tag=tag, label="mkl", document=DOCUMENT)
        words = ("--command", command, "-o", tmp_path / "repaired", "--keep-going", "--json")
        report = run("wheel", "repair", tmp_path / "built", *words, code=9).object
        assert [wheel["label"] for wheel in report["wheels"]] == ["mkl"]
        assert [one["error"]["code"] for one in report["failed"]] == ["build-failed"]


class TestExplainAll:
    """``explain --all --json``."""

    def test_labels(self, sources: list[str], run: Runner) -> None:
        """Each label has its wheels and the machines that choose it."""
        report = run("explain", "--all", *sources, "fast", "plain").object
        fast, _ = report["releases"]
        assert [label["label"] for label in fast["labels"]] == ["gpu", "mkl", "open", "null", None]
        takers = {taker for label in fast["labels"] for taker in label["selected_by"]}
        assert takers <= report["machines"].keys()


class TestLocks:
    """``tree --json`` and ``export --json``."""

    @pytest.fixture
    def lock(self, index: RecordingIndex, tmp_path: Path) -> Path:
        """Lock the project with variants and its dependency."""
        needs = {label: ["plain"] for label in ("", *VARIANTS)}
        needs["gpu"] = []
        pins, path = ["fast==2.0", "plain==1.0"], tmp_path / "pylock.toml"
        return write_lock_of(index, pins, path, needs={"fast": needs, "plain": {"": []}})

    def test_tree_for_all_machines(self, lock: Path, run: Runner) -> None:
        """Packages are named by their sources, and dependencies by labels."""
        report = run("tree", lock, "--json").object
        assert report["target"] is None
        (need,) = report["packages"][0]["dependencies"]
        assert need["labels"] == ["mkl", "null", "open", None]
        assert [report["packages"][package]["name"] for package in need["packages"]] == ["plain"]

    def test_tree_for_one_machine(self, lock: Path, run: Runner) -> None:
        """The chosen builds, with reasons."""
        report = run("tree", lock, "--for", "cuda-12.8-sm90", "--json").object
        assert [package["chosen"]["label"] for package in report["packages"]] == ["gpu"]
        assert report["excluded"] == [{"name": "plain", "reason": "no chosen wheel needs it"}]

    @pytest.mark.parametrize("format_", ["requirements", "cyclonedx", "licenses"])
    def test_exports(self, lock: Path, run: Runner, format_: str, tmp_path: Path) -> None:
        """One object for all machines, or the files with their contents."""
        hosts = ("--for", "linux-x86_64", "--for", "cuda-12.8-sm90")
        report = run("export", lock, "--format", format_, *hosts, "--json").object
        assert [len(target["packages"]) for target in report["targets"]] == [2, 1]
        words = ("--format", format_, *hosts, "-o", f"{tmp_path}/out/", "--json")
        report = run("export", lock, *words).object
        assert all(Path(target["file"]).is_file() for target in report["targets"])


class TestExplain:
    """``explain --json``."""

    def test_order_of_candidates(self, sources: list[str], run: Runner) -> None:
        """The chosen wheel is first, then compatible ones in order, then rejected ones."""
        report = run("explain", *sources, "fast").object
        (project,) = report["projects"]
        assert (project["name"], project["version"]) == ("fast", "2.0")
        assert project["chosen"] == {
            "filename": "fast-2.0-py3-none-any-open.whl",
            "label": "open",
            "properties": ["blas :: library :: openblas"],
            "built_for": [],
        }
        assert [
            (candidate["label"], candidate["verdict"]) for candidate in project["candidates"]
        ] == [
            ("open", "chosen"),
            ("mkl", "compatible"),
            ("null", "compatible"),
            (None, "compatible"),
            ("gpu", "rejected"),
        ]
        assert all(candidate["reason"] for candidate in project["candidates"])
        assert project["candidates"][0]["filename"] == project["chosen"]["filename"]

    def test_properties(self, sources: list[str], run: Runner) -> None:
        """All properties of the label are listed, sorted."""
        report = run("explain", *sources, "fast", "--label", "fast=null").object
        assert report["projects"][0]["chosen"]["properties"] == []

    def test_plain_wheel(self, sources: list[str], run: Runner) -> None:
        """It has no label and no properties."""
        report = run("explain", *sources, "plain").object
        assert report["projects"][0]["chosen"] == {
            "filename": "plain-1.0-py3-none-any.whl",
            "label": None,
            "properties": [],
            "built_for": [],
        }

    def test_no_candidate(self, sources: list[str], run: Runner) -> None:
        """Null, the reasons, and exit code 3; other projects are still explained."""
        report = run("explain", *sources, "gone", "plain", code=3).object
        gone, plain = report["projects"]
        assert (gone["name"], gone["version"], gone["chosen"]) == ("gone", None, None)
        assert [candidate["verdict"] for candidate in gone["candidates"]] == ["rejected"]
        assert plain["chosen"] is not None

    def test_order_of_projects(self, sources: list[str], run: Runner) -> None:
        """Projects have the order of the command line."""
        report = run("explain", *sources, "plain", "fast").object
        assert [project["name"] for project in report["projects"]] == ["plain", "fast"]

    def test_with_dependencies(self, sources: list[str], run: Runner) -> None:
        """With ``--with-deps`` the requested project is first."""
        report = run("explain", *sources, "--with-deps", "plain", "fast").object
        assert {project["name"] for project in report["projects"]} == {"plain", "fast"}

    def test_for_another_machine(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """The target is the host file."""
        host = tmp_path / "host.toml"
        host.write_text(
            '[metadata]\nversion = "0.1"\n[[provider]]\nnamespace = "nvidia"\n'
            '[provider.properties]\ncuda_version_lower_bound = ["12.9", "12.8"]\n'
        )
        report = run("explain", *sources, "--for", host, "fast").object
        assert report["target"] == str(host)
        assert report["projects"][0]["chosen"]["label"] == "gpu"


class TestInstall:
    """``install --json`` and ``install --dry-run --json``."""

    def test_dry_run(
        self, sources: list[str], index: RecordingIndex, run: Runner, tmp_path: Path
    ) -> None:
        """A dry run has the same object except for sizes, downloads no wheel and writes nothing."""
        target = tmp_path / "target"
        dry = run("install", *sources, "--target", target, "--dry-run", "fast").object
        assert not target.exists()
        wheels = [one for one in index.requests_for("/files/") if one.path.endswith(".whl")]
        assert {wheel.status for wheel in wheels} == {206}  # what stands at the end of each
        real = run("install", *sources, "--target", target, "fast").object
        sizes = [dry.pop(key) for key in ("download_size", "installed_size")]
        for key, total in zip(("download_size", "installed_size"), sizes, strict=True):
            assert total == sum(row.pop(key) for row in dry["install"]) > 0
        assert not any(row.pop("cached") for row in dry["install"])
        assert dry.pop("unknown_sizes") == []
        assert dry.pop("seconds").keys() < real.pop("seconds").keys()
        assert {**dry, "dry_run": False} == real
        assert (target / "fast").is_dir()

    def test_installed_packages(
        self, sources: list[str], index: RecordingIndex, folder: Path, run: Runner
    ) -> None:
        """Each has its file, label, source, size, hashes and reason."""
        report = run("install", *HERE, *sources, "--dry-run", "fast").object
        by_name = {entry["name"]: entry for entry in report["install"]}
        path = folder / "fast-2.0-py3-none-any-open.whl"
        assert by_name["fast"] == {
            "name": "fast",
            "version": "2.0",
            "filename": path.name,
            "label": "open",
            "url": index.file_url(path.name),
            "size": path.stat().st_size,
            "hashes": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
            "built_from": None,
            "reason": by_name["fast"]["reason"],
            "download_size": path.stat().st_size,
            "installed_size": by_name["fast"]["installed_size"],
            "cached": False,
        }
        assert by_name["plain"]["label"] is None
        assert (report["remove"], report["keep"]) == ([], [])

    def test_missing_hashes_and_sizes(
        self, sources: list[str], index: RecordingIndex, run: Runner
    ) -> None:
        """Missing hashes and sizes are null or empty."""
        index.faults.hashes = index.faults.sizes = False
        report = run("install", *HERE, *sources, "--dry-run", "plain").object
        (entry,) = report["install"]
        assert (entry["size"], entry["hashes"]) == (None, {})

    def test_replaced_and_kept(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """Replaced packages are in both lists; kept ones have their label."""
        target = ["--target", str(tmp_path / "target")]
        run("install", *sources, *target, "fast==1.0", "plain")
        report = run("install", *sources, *target, "--upgrade", "fast", "plain").object
        assert [entry["label"] for entry in report["install"]] == ["open"]
        assert report["remove"] == [
            {"name": "fast", "version": "1.0", "label": None, "reason": None}
        ]
        kept = {"name": "plain", "version": "1.0", "label": None, "better": None}
        assert report["keep"] == [kept]
        assert [(change["from"], change["to"]) for change in report["variant_changes"]] == [
            (None, "open")
        ]
        report = run("install", *sources, *target, "--upgrade", "fast").object
        assert (report["install"], report["remove"]) == ([], [])
        kept = {"name": "fast", "version": "2.0", "label": "open", "better": None}
        assert kept in report["keep"]

    def test_other_label(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """Requesting a label replaces the installed build of the same version."""
        target = ["--target", str(tmp_path / "target")]
        run("install", *sources, *target, "fast")
        report = run("install", *sources, *target, "-U", "--label", "fast=mkl", "fast").object
        assert [entry["label"] for entry in report["install"]] == ["mkl"]
        gone = {"name": "fast", "version": "2.0", "label": "open", "reason": None}
        assert report["remove"] == [gone]


class TestTheOthers:
    """``probe``, ``list``, ``uninstall`` and ``demo``."""

    def test_probe(self, run: Runner) -> None:
        """Every available namespace, with features and values in order of preference."""
        report = run("probe", "--json").object
        assert list(report["namespaces"]) == list(namespaces())
        for entry in report["namespaces"].values():
            assert (entry["status"] == "supported") == any(
                feature["values"] for feature in entry["features"]
            )
            assert entry["evidence"]

    def test_probe_for_another_machine(self, run: Runner, tmp_path: Path) -> None:
        """The order is that of the host file, not alphabetical."""
        host = tmp_path / "host.toml"
        host.write_text(
            '[metadata]\nversion = "0.1"\n[[provider]]\nnamespace = "some"\n'
            'feature-order = ["zeta", "alpha"]\n'
            '[provider.properties]\nalpha = ["2", "10", "1"]\nzeta = ["b", "a"]\n'
        )
        report = run("probe", "--json", "--for", host).object
        assert report["namespaces"]["some"]["features"] == [
            {"name": "zeta", "values": ["b", "a"]},
            {"name": "alpha", "values": ["2", "10", "1"]},
        ]
        assert report["namespaces"]["some"]["evidence"] == []

    def test_list_and_uninstall(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """A variant has its label and its properties, sorted by name."""
        target = ["--target", str(tmp_path / "target"), "--json"]
        run("install", *sources, *target, "fast")
        report = run("list", *target).object
        assert report["environment"] == str(tmp_path / "target")
        fast, plain = report["packages"]
        assert fast == {
            "name": "fast",
            "version": "2.0",
            "label": "open",
            "properties": ["blas :: library :: openblas"],
            "requested": True,
            "installer": "wheelfit",
            "editable": False,
            "location": str(tmp_path / "target"),
            "project": None,
        }
        assert (plain["name"], plain["label"], plain["properties"]) == ("plain", None, [])
        assert plain["requested"] is False
        report = run("uninstall", *target, "fast", "plain").object
        assert report["removed"][0] == {"name": "fast", "version": "2.0", "label": "open"}

    def test_bridges_check(self, run: Runner, tmp_path: Path) -> None:
        """Wrong statements of a family file are listed, and make the check fail."""
        wheels = ["--no-index", "--find-links", str(tmp_path)]
        report = run("bridges", "check", "cupy", *wheels, "--json", code=1).object
        assert "cupy-cuda13x has no wheels" in report["families"][0]["faults"]

    def test_bridges_update(self, run: Runner, tmp_path: Path) -> None:
        """An update has the same keys with and without changes."""
        text = (Path(catalogue.__file__).parent / "definitions/cupy.toml").read_text("utf-8")
        files = {
            "wheelfit_families/cupy.toml": text.replace("by-default", "format = 1\nby-default")
        }
        files["wheelfit_families/xgboost.toml"] = "format = 2"
        build_wheel(tmp_path, "wheelfit-families", "2999.1.1", files=files)
        wheels = ["--no-index", "--find-links", str(tmp_path), "--json"]
        for words, action in ((wheels, "updated"), (wheels, "current"), (["--remove"], "removed")):
            report = run("bridges", "update", *words, "--json").object
            assert report["action"] == action
            assert list(report["left_out"]) == (["xgboost"] if action != "removed" else [])

    def test_demo_of_machines(
        self, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Machines with and without GPUs get their builds of torch, and no files are left."""
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", None)
        report = run("demo", "--gpu", "--json").object
        assert {machine["machine"]: machine["build"] for machine in report["machines"]} == {
            "cpu-linux": "2.15.0+cpu",
            "h100-580": "2.15.0+cu132",
            "v100-535": "2.14.1+cu126",
            "rtx5090-windows": "2.15.0+cu132",
            "mi300x-rocm7": "2.13.0+rocm7.2",
            "mac-m3": "2.15.0",
        }
        assert tree(tmp_path) == {}
        assert "v100-535: 2.14.1+cu126" in run("demo", "--gpu").out

    def test_demo(self, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The demo also works without an index, says so, and leaves no files."""
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        monkeypatch.setenv("TMPDIR", str(scratch))
        monkeypatch.setattr("tempfile.tempdir", None)
        result = run("demo", "--no-index", "--json")
        assert not result.object["from_registry"]
        assert len(result.object["explanations"]) == 4
        assert result.object["imported"] == "1.0"
        (entry,) = result.object["installed"]["install"]
        assert entry["label"] == result.object["explanations"][0]["projects"][0]["chosen"]["label"]
        assert tree(scratch) == {}


class TestErrors:
    """Errors as objects."""

    def test_faults_of_documents(self, sources: list[str], folder: Path, run: Runner) -> None:
        """With ``--strict`` the faults of an invalid document are listed."""
        (folder / "fast-2.0-variants.json").write_text('{"variants": {"A!": 1}}')
        result = run("install", *HERE, "--dry-run", "--strict", *sources, "fast", code=8)
        (lost,) = result.error["degradations"]
        assert lost["code"] == "invalid-document"
        assert {fault["rule"] for fault in lost["faults"]} == {"F-20"}
        assert "fast-2.0-variants.json" in result.error["where"]
