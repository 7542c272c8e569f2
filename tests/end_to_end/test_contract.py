"""The JSON contract: output has exactly the documented keys."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.locking import write_lock_of
from cli.running import Runner, tree
from jsonschema import Draft202012Validator
from packaging.utils import canonicalize_name
from packaging.version import Version
from referencing import Registry, Resource

from wheelfit.locking.environments import environments_for
from wheelfit.locking.held_back import LockHeldBack
from wheelfit.resolution.resolution import HeldBack
from wheelfit.sources.bridges import catalogue
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.platforms.providers import namespaces

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SCHEMAS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((REFERENCE / "schemas").glob("*.json"))
}
COMMANDS = [
    "explain",
    "explain-all",
    "tree",
    "export",
    "bundle",
    "install",
    "lock",
    "sync",
    "add",
    "remove",
    "probe",
    "host",
    "list",
    "list-outdated",
    "freeze",
    "show",
    "download",
    "why",
    "uninstall",
    "venv",
    "demo",
    "demo-gpu",
    "check",
    "build",
    "test",
    "matrix",
    "publish",
    "init",
    "wheel-make",
    "wheel-repack-plan",
    "wheel-show",
    "wheel-inspect",
    "abi-bounds",
    "index-audit",
    "index-check",
    "index-clean",
    "index-convert",
    "index-export",
    "index-generate",
    "index-import",
    "index-prefetch",
    "index-serve",
    "index-stage",
    "index-status",
    "index-token",
    "index-yank",
    "providers",
    "bridges",
    "bridges-check",
    "bridges-update",
    "cache",
    "recover",
    "config",
    "completion",
    "doctor",
    "check-env",
]


def closed(schema: Any) -> Any:
    """Return a schema without further keys."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "required" in schema:
        result.setdefault("additionalProperties", False)
    return result


RESOURCES = [
    (f"{name}.json", Resource.from_contents(closed(schema))) for name, schema in SCHEMAS.items()
]


def test_held_back() -> None:
    """Packages older than the newest release follow the schemas."""
    release = HeldBack(canonicalize_name("a"), Version("1"), Version("2"), "because b needs it")
    installed = SCHEMAS["install"]["properties"]["held_back"]
    Draft202012Validator(closed(installed)).validate([release.to_mapping()])
    locks = SCHEMAS["lock"]["properties"]["locks"]["items"]["properties"]
    locked = LockHeldBack(release, environments_for(["linux-x86_64"], [(3, 13)]), True)
    Draft202012Validator(closed(locks["held_back"])).validate([locked.to_mapping()])


def check(name: str, value: object) -> None:
    """Check an object against its closed schema."""
    registry: Registry[Any] = Registry().with_resources(RESOURCES)
    Draft202012Validator({"$ref": f"{name}.json"}, registry=registry).validate(value)


@pytest.fixture(autouse=True)
def own_settings(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the user's settings."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return a function that runs commands."""
    return Runner(capsys)


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
    for label in (None, *VARIANTS):
        document = DOCUMENT if label else None
        build_wheel(folder, "fast", "2.0", label=label, document=document, requires=["plain"])
    (folder / "fast-2.0-variants.json").write_text(json.dumps(DOCUMENT))
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
        """There is a valid schema for each command and for errors."""
        assert sorted(SCHEMAS) == sorted([*COMMANDS, "error"])
        for schema in SCHEMAS.values():
            Draft202012Validator.check_schema(schema)

    @pytest.mark.parametrize("name", [*COMMANDS, "error"])
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
        check(name, json.loads(example))

    def test_additional_keys(self) -> None:
        """Schemas permit further keys, which may be added within a version."""
        for schema in SCHEMAS.values():
            assert '"additionalProperties": false' not in json.dumps(schema)


class TestWheels:
    """``wheel make --json`` and ``wheel show --json``."""

    def test_make_and_show(self, folder: Path, tmp_path: Path, run: Runner) -> None:
        """Results and failures; wheels with a variant and without."""
        out, wheel = tmp_path / "out", folder / "plain-1.0-py3-none-any.whl"
        words = ("-p", "x86_64 :: level :: v3", "--provider", "x86_64", "--label", "v3")
        report = run("wheel", "make", wheel, "-o", out, *words, "--json").object
        check("wheel-make", report)
        assert report["wheels"][0]["label"] == "v3"
        (out / "bad-1.0-py3-none-any-v3.whl").write_bytes(b"no archive")
        other = ("--label", "other", "-o", tmp_path / "more")
        report = run("wheel", "relabel", out, *other, "--keep-going", "--json", code=9).object
        check("wheel-make", report)
        assert [one["error"]["code"] for one in report["failed"]] == ["invalid-wheel"]
        report = run("wheel", "show", wheel, out / "plain-1.0-py3-none-any-v3.whl", "--json").object
        check("wheel-show", report)
        assert [wheel["label"] for wheel in report["wheels"]] == [None, "v3"]
        third = build_wheel(tmp_path, "plain-v3", "1.0", files={"plain.py": ""})
        check("wheel-repack-plan", run("wheel", "repack", "--plan", wheel, third, "--json").object)

    def test_repair(self, tmp_path: Path, run: Runner) -> None:
        """``wheel repair --json``: results keep their labels, and failures have a reason."""
        script = "import shutil, sys; 'bad' in sys.argv[1] or shutil.copy(*sys.argv[1:])"
        command = f"{shlex.join([sys.executable, '-c', script])} {{wheel}} {{dest_dir}}"
        tag = "py3-none-linux_x86_64"
        for name in ("good", "bad"):
            build_wheel(tmp_path / "built", name, "1.0", tag=tag, label="mkl", document=DOCUMENT)
        words = ("--command", command, "-o", tmp_path / "repaired", "--keep-going", "--json")
        report = run("wheel", "repair", tmp_path / "built", *words, code=9).object
        check("wheel-make", report)
        assert [wheel["label"] for wheel in report["wheels"]] == ["mkl"]
        assert [one["error"]["code"] for one in report["failed"]] == ["build-failed"]


class TestExplainAll:
    """``explain --all --json``."""

    def test_labels(self, sources: list[str], run: Runner) -> None:
        """Each label has its wheels and the machines that choose it."""
        report = run("explain", "--all", *sources, "fast", "plain").object
        check("explain-all", report)
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
        check("tree", report)
        assert report["target"] is None
        (need,) = report["packages"][0]["dependencies"]
        assert need["labels"] == ["mkl", "null", "open", None]
        assert [report["packages"][package]["name"] for package in need["packages"]] == ["plain"]

    def test_tree_for_one_machine(self, lock: Path, run: Runner) -> None:
        """The chosen builds, with reasons."""
        report = run("tree", lock, "--for", "cuda-12.8-sm90", "--json").object
        check("tree", report)
        assert [package["chosen"]["label"] for package in report["packages"]] == ["gpu"]
        assert report["excluded"] == [{"name": "plain", "reason": "no chosen wheel needs it"}]

    @pytest.mark.parametrize("format_", ["requirements", "cyclonedx", "licenses"])
    def test_exports(self, lock: Path, run: Runner, format_: str, tmp_path: Path) -> None:
        """One object for all machines, or the files with their contents."""
        hosts = ("--for", "linux-x86_64", "--for", "cuda-12.8-sm90")
        report = run("export", lock, "--format", format_, *hosts, "--json").object
        check("export", report)
        assert [len(target["packages"]) for target in report["targets"]] == [2, 1]
        words = ("--format", format_, *hosts, "-o", f"{tmp_path}/out/", "--json")
        report = run("export", lock, *words).object
        check("export", report)
        assert all(Path(target["file"]).is_file() for target in report["targets"])


class TestDependencies:
    """``add --json`` and ``remove --json``."""

    def test_add_and_remove(
        self, sources: list[str], run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The objects of the lock and of the environment are nested."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
        words = [*sources, "--target", "packages"]
        report = run("add", *words, "plain").object
        check("add", report)
        assert [one["name"] for one in report["sync"]["install"]] == ["plain"]
        report = run("remove", *words, "--dry-run", "plain").object
        check("remove", report)
        assert report["lock"]["locks"][0]["changes"][0]["after"] == []
        assert report["sync"] is None


def test_freeze(sources: list[str], run: Runner, tmp_path: Path) -> None:
    """The installed packages as requirements."""
    run("install", *sources, "--target", tmp_path / "frozen", "--label", "fast=mkl", "fast")
    report = run("freeze", "--target", tmp_path / "frozen", "--json").object
    check("freeze", report)
    assert [package["label"] for package in report["packages"]] == ["mkl", None]
    words: list[str | Path] = ["-d", tmp_path / "out", "plain"]
    check("download", run("download", *sources, *words).object)
    check("show", run("show", "--target", tmp_path / "frozen", "--json", "fast").object)
    check("why", run("why", "--target", tmp_path / "frozen", "--json", "plain").object)


class TestExplain:
    """``explain --json``."""

    def test_order_of_candidates(self, sources: list[str], run: Runner) -> None:
        """The chosen wheel is first, then compatible ones in order, then rejected ones."""
        report = run("explain", *sources, "fast").object
        check("explain", report)
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
        check("explain", report)
        assert report["projects"][0]["chosen"]["properties"] == []

    def test_plain_wheel(self, sources: list[str], run: Runner) -> None:
        """It has no label and no properties."""
        report = run("explain", *sources, "plain").object
        check("explain", report)
        assert report["projects"][0]["chosen"] == {
            "filename": "plain-1.0-py3-none-any.whl",
            "label": None,
            "properties": [],
            "built_for": [],
        }

    def test_no_candidate(self, sources: list[str], run: Runner) -> None:
        """Null, the reasons, and exit code 3; other projects are still explained."""
        report = run("explain", *sources, "gone", "plain", code=3).object
        check("explain", report)
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
        check("explain", report)
        assert {project["name"] for project in report["projects"]} == {"plain", "fast"}

    def test_for_another_machine(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """The target is the host file."""
        host = tmp_path / "host.toml"
        host.write_text(
            '[metadata]\nversion = "0.1"\n[[provider]]\nnamespace = "nvidia"\n'
            '[provider.properties]\ncuda_version_lower_bound = ["12.9", "12.8"]\n'
        )
        report = run("explain", *sources, "--for", host, "fast").object
        check("explain", report)
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
        check("install", dry)
        assert not target.exists()
        wheels = [one for one in index.requests_for("/files/") if one.path.endswith(".whl")]
        assert {wheel.status for wheel in wheels} == {206}  # what stands at the end of each
        real = run("install", *sources, "--target", target, "fast").object
        check("install", real)
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
        check("install", report)
        (entry,) = report["install"]
        assert (entry["size"], entry["hashes"]) == (None, {})

    def test_replaced_and_kept(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """Replaced packages are in both lists; kept ones have their label."""
        target = ["--target", str(tmp_path / "target")]
        run("install", *sources, *target, "fast==1.0", "plain")
        report = run("install", *sources, *target, "--upgrade", "fast", "plain").object
        check("install", report)
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
        check("install", report)
        assert (report["install"], report["remove"]) == ([], [])
        kept = {"name": "fast", "version": "2.0", "label": "open", "better": None}
        assert kept in report["keep"]

    def test_other_label(self, sources: list[str], run: Runner, tmp_path: Path) -> None:
        """Requesting a label replaces the installed build of the same version."""
        target = ["--target", str(tmp_path / "target")]
        run("install", *sources, *target, "fast")
        report = run("install", *sources, *target, "-U", "--label", "fast=mkl", "fast").object
        check("install", report)
        assert [entry["label"] for entry in report["install"]] == ["mkl"]
        gone = {"name": "fast", "version": "2.0", "label": "open", "reason": None}
        assert report["remove"] == [gone]


class TestTheOthers:
    """``probe``, ``list``, ``uninstall`` and ``demo``."""

    def test_probe(self, run: Runner) -> None:
        """Every available namespace, with features and values in order of preference."""
        report = run("probe", "--json").object
        check("probe", report)
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
        check("probe", report)
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
        check("list", report)
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
        check("uninstall", report)
        assert report["removed"][0] == {"name": "fast", "version": "2.0", "label": "open"}

    def test_bridges_check(self, run: Runner, tmp_path: Path) -> None:
        """Wrong statements of a family file are listed, and make the check fail."""
        wheels = ["--no-index", "--find-links", str(tmp_path)]
        report = run("bridges", "check", "cupy", *wheels, "--json", code=1).object
        check("bridges-check", report)
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
            check("bridges-update", report)
            assert report["action"] == action
            assert list(report["left_out"]) == (["xgboost"] if action != "removed" else [])

    def test_demo_of_machines(
        self, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Machines with and without GPUs get their builds of torch, and no files are left."""
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", None)
        report = run("demo", "--gpu", "--json").object
        check("demo-gpu", report)
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
        check("demo", result.object)
        assert not result.object["from_registry"]
        assert len(result.object["explanations"]) == 4
        assert result.object["imported"] == "1.0"
        (entry,) = result.object["installed"]["install"]
        assert entry["label"] == result.object["explanations"][0]["projects"][0]["chosen"]["label"]
        assert tree(scratch) == {}


class TestErrors:
    """Errors as objects."""

    @pytest.mark.parametrize(
        ("words", "code", "reference"),
        [
            (["explain", "absent"], 3, "project-not-found"),
            (["explain", "fast>9"], 3, "no-solution"),
            (["install", *HERE, "--dry-run", "fast", "--label", "fast=nope"], 3, "unknown-label"),
            (["install", *HERE, "--dry-run", "gone"], 3, "no-compatible-wheel"),
            (["install", "--dry-run", "fast =="], 1, "invalid-requirement"),
            (["install"], 2, "usage"),
            (["install", "--what"], 2, "usage"),
        ],
    )
    def test_keys(
        self, words: list[str], code: int, reference: str, sources: list[str], run: Runner
    ) -> None:
        """Code, exit code and message always; place, note and hint where present."""
        result = run(*words, *sources, code=code)
        check("error", result.object)
        assert (result.error["code"], result.error["exit_code"]) == (reference, code)
        assert result.error["message"]
        assert "error" not in result.err  # it is told once

    def test_faults_of_documents(self, sources: list[str], folder: Path, run: Runner) -> None:
        """With ``--strict`` the faults of an invalid document are listed."""
        (folder / "fast-2.0-variants.json").write_text('{"variants": {"A!": 1}}')
        result = run("install", *HERE, "--dry-run", "--strict", *sources, "fast", code=8)
        check("error", result.object)
        (lost,) = result.error["degradations"]
        assert lost["code"] == "invalid-document"
        assert {fault["rule"] for fault in lost["faults"]} == {"F-20"}
        assert "fast-2.0-variants.json" in result.error["where"]


class TestForMaintainers:
    """Commands for publishers."""

    def test_init(self, run: Runner, tmp_path: Path) -> None:
        """`init` reports the files, and what is known of each namespace."""
        (tmp_path / "pyproject.toml").write_text("[project]\n")
        words = ("init", tmp_path, "--variant", "v3=x86_64 :: level :: v3", "--json")
        check("init", run(*words).object)
        check("init", run("init", "--explain", "--json").object)

    def test_publish(self, run: Runner, tmp_path: Path) -> None:
        """`publish` has the same keys for plans, results and refusals."""
        pytest.importorskip("twine", reason="needs the extra `publish`")
        wheel = build_wheel(tmp_path / "dist", "fast", "1.0")
        words = ("publish", tmp_path / "dist", "--to", tmp_path / "index", "--json")
        for more in ("--dry-run",), (), ("--strict",):
            check("publish", run(*words, *more).object)
        wheel.write_bytes(b"nothing")
        check("publish", run(*words, code=9).object)
