"""``wheelfit build``: variants, sources, providers, recipes, backends and results."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree
from programs import is_running, until
from projects.writing import write_project, write_sdist

from wheelfit.testing.plugins import Plugin, simple_plugin
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

TABLE = """
[variant.default-priorities]
namespace = ["x86_64", "blas"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.providers.blas]
static-properties.library = ["openblas", "mkl"]
[variant.variants.null]
[variant.variants.v3]
x86_64.level = ["v3"]
[variant.variants.v3_mkl]
x86_64.level = ["v3"]
blas.library = ["mkl"]
"""
INTERPRETER_FLAGS = sysconfig.get_config_var("CFLAGS") or ""
"""What setuptools gives to compilers where nothing else is said."""
RECORDING_BACKEND = """
def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.path.join(HERE, "count"), "a") as file:
        file.write("x")
    seen = {name: os.environ.get(name) for name in ("CFLAGS", "CXXFLAGS", "FFLAGS", "BLAS")}
    text = f"SETTINGS = {config_settings!r}\\nSEEN = {seen!r}\\n"
    files = {NAME.replace("-", "_") + "/__init__.py": text, **records()}
    return write(folder, STEM + "-py3-none-any.whl", files)
"""
"""Counts how often it builds, and writes down what it was told."""
MORE_FLAGS = '[tool.wheelfit.build.variants.good]\nflags = ["-O3"]\n'
EMPTY = """def build_wheel(folder, *a, **k):
    name = STEM + "-py3-none-any.whl"
    open(os.path.join(folder, name), "w").close()
    return name
"""
REPRODUCIBLE = """
def records(inner=records):
    return inner()
def write(folder, filename, files, inner=write):
    class Fixed(zipfile.ZipFile):
        def writestr(self, name, data):
            super().writestr(zipfile.ZipInfo(name), data)
    real, zipfile.ZipFile = zipfile.ZipFile, Fixed
    try:
        return inner(folder, filename, files)
    finally:
        zipfile.ZipFile = real
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return write(folder, STEM + "-py3-none-any.whl", {"demo.py": "", **records()})
"""
"""Builds the same bytes at any time."""


class Builder:
    """Builds of one project in a temporary folder."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.folder = folder
        self.dist = folder / "dist"
        self.index = folder / "index"
        self.index.mkdir()

    def project(self, table: str = TABLE, backend: str = RECORDING_BACKEND, **more: Any) -> Path:
        """Write a project and append a table to its pyproject.toml."""
        project = write_project(self.folder / "demo", "demo", backend=backend, **more)
        with (project / "pyproject.toml").open("a") as file:
            file.write(table)
        return project

    def rename_backend(self, module: str, project: Path) -> None:
        """Rename the backend of a project to a given module."""
        (project / "own_backend.py").rename(project / f"{module}.py")
        settings = project / "pyproject.toml"
        settings.write_text(settings.read_text().replace('"own_backend"', f'"{module}"'))

    def build(
        self, *words: str | Path, code: int = 0, project: Path | None = None
    ) -> CommandResult:
        """Build with the requirements of the local index."""
        place = self.folder / "demo" if project is None else project
        links = ("--no-index", "--find-links", self.index)
        return self._run("build", place, "-o", self.dist, *links, *words, code=code)

    def names(self) -> set[str]:
        """Return the endings of the file names, such as "-v3"."""
        found = {path.name for path in self.dist.iterdir()} if self.dist.exists() else set()
        return {name.removeprefix("demo-1.0-py3-none-any").removesuffix(".whl") for name in found}

    def read(self, label: str | None, member: str) -> str:
        """Return the text of the member of a wheel whose name ends as given."""
        ending = "" if label is None else f"-{label}"
        with zipfile.ZipFile(self.dist / f"demo-1.0-py3-none-any{ending}.whl") as wheel:
            (name,) = [one for one in wheel.namelist() if one.endswith(member)]
            return wheel.read(name).decode()

    def module(self, label: str | None) -> dict[str, Any]:
        """Return the values that the backend recorded."""
        found: dict[str, Any] = {}
        exec(self.read(label, "__init__.py"), found)
        return found

    def document(self, label: str) -> dict[str, Any]:
        """Return the variant document of a wheel."""
        found: dict[str, Any] = json.loads(self.read(label, "variant.json"))
        return found

    def count(self) -> int:
        """Return the number of builds."""
        path = self.folder / "demo" / "count"
        return len(path.read_text()) if path.exists() else 0


@pytest.fixture
def builder(run: Runner, tmp_path: Path) -> Builder:
    """Return a builder in a temporary folder."""
    return Builder(run, tmp_path)


class TestSelection:
    """Options that select the wheels to build."""

    def test_default_is_a_plain_wheel(self, builder: Builder) -> None:
        """B-10, A-35: without options a plain wheel is built, whatever the table lists."""
        builder.project()
        result = builder.build()
        assert builder.names() == {""}
        assert result.out.splitlines() == [str(builder.dist / "demo-1.0-py3-none-any.whl")]

    def test_label_of_the_table(self, builder: Builder) -> None:
        """A-36: A label selects an entry of the table; the document has only that (B-2, F-24)."""
        builder.project()
        result = builder.build("--variant", "v3_mkl")
        assert builder.names() == {"-v3_mkl"}
        assert builder.document("v3_mkl") == {
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["x86_64", "blas"]},
            "providers": {
                "blas": {"static-properties": {"library": ["openblas", "mkl"]}},
                "x86_64": {"requires": ["x86-64-variant-provider<1"]},
            },
            "variants": {"v3_mkl": {"blas": {"library": ["mkl"]}, "x86_64": {"level": ["v3"]}}},
        }
        assert "converted from a plain wheel" in result.out

    @pytest.mark.parametrize("words", [["--variant", "v4"], ["-C", "variant-label=v4"]])
    def test_unknown_label(self, builder: Builder, words: list[str]) -> None:
        """A-36: the error about an unknown label lists the known labels; nothing is built."""
        builder.project()
        result = builder.build(*words, code=1)
        assert "there are: null, v3, v3_mkl" in result.err
        assert (builder.count(), builder.dist.exists()) == (0, False)

    @pytest.mark.parametrize(
        ("words", "label"),
        [
            (["--property", "x86_64 :: level :: v3"], "fa7c1393"),
            (["-C", "variant-name=x86_64::level::v3"], "fa7c1393"),
            (
                ["-C", "variant-name=x86_64::level::v3", "-C", "variant-name=x86_64::aes::on"],
                "7e3cb5eb",
            ),
            (["--variant", "x8664v3", "--property", "x86_64::level::v3"], "x8664v3"),
            (["--null"], "null"),
            (["--variant", "null"], "null"),
            (["-C", "null-variant"], "null"),
            (["-C", "variant-label=null"], "null"),
            (["-C", "variant-label=v3_mkl"], "v3_mkl"),
        ],
    )
    def test_label_of_the_wheel(self, builder: Builder, words: list[str], label: str) -> None:
        """A-33, A-34, B-11, B-19: A label is derived, given or null, by options and settings."""
        builder.project()
        builder.build(*words)
        assert builder.names() == {f"-{label}"}

    def test_all(self, builder: Builder) -> None:
        """--all builds each label and a plain wheel, with a single run of the backend."""
        builder.project()
        builder.build("--all")
        assert builder.names() == {"", "-null", "-v3", "-v3_mkl"}
        assert builder.count() == 1

    def test_several_options(self, builder: Builder) -> None:
        """Selecting options add up; --plain adds a plain wheel and --no-plain removes it."""
        builder.project()
        builder.build("--variant", "v3", "--variant", "v3_mkl", "--null", "--plain")
        assert builder.names() == {"", "-null", "-v3", "-v3_mkl"}
        builder.build("--all", "--no-plain", "-o", builder.folder / "more")
        assert len(list((builder.folder / "more").iterdir())) == 3

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--all", "--variant", "v3"], "--all and single variants exclude"),
            (["--no-plain"], "nothing to build"),
            (["--variant", "a", "--variant", "b", "--property", "x::y::z"], "2 labels"),
            (["--variant", "v3", "-C", "variant-label=v3"], "by the config setting variant-label"),
            (["--editable", "--all"], "an editable wheel is built alone"),
            (["--provider", "x"], "wheelfit knows no provider for x"),
            (["--provider", "nvidia"], "is for projects without a [variant] table"),
        ],
    )
    def test_conflicting_options(self, builder: Builder, words: list[str], message: str) -> None:
        """Conflicting options are a usage error; nothing is built."""
        builder.project()
        assert message in builder.build(*words, code=2).err
        assert builder.count() == 0

    def test_misspelt_setting(self, builder: Builder) -> None:
        """B-14: A config setting that resembles a variant setting is an error."""
        builder.project()
        assert (
            "unknown config setting variant-lable"
            in builder.build("-C", "variant-lable=v3", code=1).err
        )

    def test_label_with_other_properties(self, builder: Builder) -> None:
        """B-16: A label of the table cannot be used for other properties."""
        builder.project()
        result = builder.build("--variant", "v3", "-p", "x86_64::level::v4", code=1)
        assert "has other properties" in result.err

    def test_variant_without_a_table(self, builder: Builder) -> None:
        """B-8: without a table a variant needs --provider for its namespace."""
        builder.project(table="")
        result = builder.build("--null", code=1)
        assert "no [variant] table" in result.err
        builder.build("--null", "--provider", "x86_64=x86-64-variant-provider<1")
        assert builder.document("null")["variants"] == {"null": {}}
        builder.build("--null", "--provider", "nvidia")
        provider = builder.document("null")["providers"]["nvidia"]
        assert provider["plugin-api"] == "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
        assert "the project lists none" in builder.build("--all", code=2).err

    def test_faulty_table(self, builder: Builder) -> None:
        """B-1: every fault of the table is reported with its path."""
        builder.project(table='[variant]\nx = 1\n[variant.providers.a]\nrequires = "b"\n')
        result = builder.build("--variant", "v3", "--json", code=1)
        paths = {fault["path"] for fault in result.error["faults"]}
        assert {"variant.x", "variant.providers.a.requires"} <= paths

    def test_editable_variant(self, builder: Builder) -> None:
        """B-10: an editable wheel is a variant only if one is requested."""
        project = builder.project()
        builder.build("--editable", "--variant", "v3")
        assert str(project) in builder.read("v3", ".pth")
        assert builder.document("v3")["variants"] == {"v3": {"x86_64": {"level": ["v3"]}}}


class TestSources:
    """Forms of the project."""

    def test_source_archive(self, builder: Builder) -> None:
        """A source archive is built as a folder is; the folder remains unchanged."""
        project = builder.project()
        path = write_sdist(builder.folder, project, "demo")
        builder.build("--variant", "v3", project=path)
        assert builder.names() == {"-v3"}
        assert builder.count() == 0

    def test_wheels_from_the_sdist(self, builder: Builder) -> None:
        """With --sdist the wheels are built from the source distribution, not from the folder."""
        backend = """
import tarfile
def build_sdist(folder, config_settings=None):
    name = STEM + ".tar.gz"
    with tarfile.open(os.path.join(folder, name), "w:gz") as archive:
        for one in ("pyproject.toml", "own_backend.py", "about.json"):
            archive.add(os.path.join(HERE, one), STEM + "/" + one)
    return name
"""
        project = builder.project(backend=RECORDING_BACKEND + backend)
        report = builder.build("--sdist", "--all", "--json").object
        assert report["sdist"] == str(builder.dist / "demo-1.0.tar.gz")
        assert len(report["wheels"]) == 4
        assert builder.count() == 0
        again = builder.build("--sdist", project=project / "about.json", code=1)
        assert "neither a folder nor a source archive" in again.err

    def test_current_folder(self, builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
        """The default project is the current folder, and the default output is dist."""
        project = builder.project()
        monkeypatch.chdir(project)
        builder._run("build", "--no-index")
        assert [path.name for path in (project / "dist").iterdir()] == ["demo-1.0-py3-none-any.whl"]
        assert builder.build(project=project / "pyproject.toml").code == 0

    def test_setup_py_only(self, builder: Builder) -> None:
        """A project with only a ``setup.py`` needs setuptools (PEP 517), which is missing here."""
        project = builder.folder / "old"
        project.mkdir()
        (project / "setup.py").write_text("")
        assert "setuptools" in builder.build(project=project, code=3).err

    def test_no_project(self, builder: Builder) -> None:
        """A folder without a project, and a missing path, are errors."""
        assert "no project found" in builder.build(project=builder.index, code=1).err
        assert "the path does not exist" in builder.build(project=builder.folder / "x", code=1).err


class TestMarkers:
    """Dependencies with variant markers."""

    def test_markers_in_plain_and_variant_wheels(self, builder: Builder) -> None:
        """B-40: variant markers are resolved in the plain wheel and remain in the variants."""
        texts = [
            "one; 'x86_64' in variant_namespaces",
            "two; 'x86_64' not in variant_namespaces and python_version > '3'",
            "three",
        ]
        builder.project(dependencies=texts, dynamic=True)
        builder.build("--all")
        assert "Requires-Dist: one" not in builder.read(None, "METADATA")
        assert 'Requires-Dist: two; python_version > "3"' in builder.read(None, "METADATA")
        assert "Requires-Dist: three" in builder.read(None, "METADATA")
        for text in texts:
            assert f"Requires-Dist: {text}" in builder.read("v3", "METADATA")

    def test_dependencies_of_the_build_table(self, builder: Builder) -> None:
        """Dependencies of the build table are treated alike."""
        table = """[tool.wheelfit.build]
dependencies = ["six", "four; 'v3' in variant_label", "five; 'blas' in variant_namespaces"]
"""
        builder.project(TABLE + table, dependencies=["six"])
        builder.build("--all")
        needed = {
            label: re.findall("Requires-Dist: (.*)", builder.read(label, "METADATA"))
            for label in (None, "v3")
        }
        assert needed == {
            None: ["six"],
            "v3": ["six", "four; 'v3' in variant_label", "five; 'blas' in variant_namespaces"],
        }
        builder.project(TABLE + '[tool.wheelfit.build]\ndependencies = ["a b", 1]\n')
        faults = builder.build("--json", code=1).error["faults"]
        assert [fault["path"] for fault in faults] == [
            "tool.wheelfit.build.dependencies[0]", "tool.wheelfit.build.dependencies[1]",
        ]  # fmt: skip


class TestProviders:
    """Validation of properties."""

    def test_built_in_provider(self, builder: Builder) -> None:
        """A-37, B-25: properties of built-in providers are validated before the build."""
        builder.project()
        for text, message in [
            ("x86_64 :: level :: v9", "no provider offers x86_64 :: level with the value v9"),
            ("x86_64 :: levle :: v3", "x86_64 has no feature levle; it has level, "),
            ("blas :: library :: atlas", "none of atlas"),
        ]:
            result = builder.build("--property", text, code=1)
            assert message in result.err
            assert "invalid-document" in result.err
        two = ("--property", "x86_64 :: level :: v3", "--property", "x86_64 :: level :: v4")
        assert "has 2 values" in builder.build(*two, code=1).err
        assert "no provider" in builder.build("--property", "a :: b :: c", code=1).err
        assert (builder.count(), builder.dist.exists()) == (0, False)
        validated = builder.build("--variant", "v3_mkl", "--json").object["wheels"][0]["validators"]
        assert validated == {"blas": "static list", "x86_64": "built-in provider"}

    def table_with(self, plugin: Plugin, key: str = "requires") -> str:
        """Return a table in which a plugin knows about a namespace."""
        return f"""
[variant.default-priorities]
namespace = ["tech"]
[variant.providers.tech]
{key} = ["{plugin.name}"]
plugin-api = "{plugin.endpoint}"
[variant.variants.good]
tech.kind = ["a"]
[variant.variants.bad]
tech.kind = ["z"]
"""

    def test_no_provider(self, builder: Builder) -> None:
        """B-25: A property that no provider validates is built with a warning."""
        plugin = simple_plugin("tech", {"kind": ["a"]}, valid={"kind": ["a", "b"]})
        plugin.wheel(builder.index)
        builder.project(self.table_with(plugin))
        result = builder.build("--variant", "bad")
        assert "the properties of tech are not validated" in result.err
        assert "tech_provider" not in builder.read("bad", "variant.json").replace(
            "tech_provider.p", ""
        )
        result = builder.build("--variant", "bad", "--ask-plugins", code=1)
        assert "the provider has no value z (P-28)" in result.err
        found = builder.build("--variant", "good", "--ask-plugins", "--json").object
        assert found["warnings"] == []
        (wheel,) = found["wheels"]
        assert wheel["validators"] == {"tech": "plugin tech-provider 1.0.0"}

    def test_plugin_among_the_build_requirements(self, builder: Builder) -> None:
        """B-25: A plugin among the build requirements validates properties."""
        plugin = simple_plugin("tech", {"kind": ["a"]})
        plugin.wheel(builder.index)
        builder.project(self.table_with(plugin), requires=[plugin.name])
        assert "has no value z" in builder.build("--variant", "bad", code=1).err

    def build_time_plugin(self, *, compatible: bool = True, values: str = "['a', 'b']") -> Plugin:
        """Return a plugin that runs at build time."""
        source = f"""
print("noise")
class Feature:
    def __init__(self, name, values):
        self.name, self.values, self.multi_value = name, values, False
class Plugin:
    all_properties_compatible = {compatible}
    @classmethod
    def get_supported_configs(cls):
        return [Feature("kind", {values}), Feature("age", ["old"])]
    get_all_configs = get_supported_configs
"""
        files = {"tech_provider/__init__.py": "", "tech_provider/plugin.py": source}
        return Plugin("tech-provider", "1.5", "tech", "tech_provider.plugin:Plugin", files)

    def test_values_of_a_build_time_plugin(self, builder: Builder) -> None:
        """B-12, B-20, B-22: the plugin is installed, and its values are listed in every wheel."""
        plugin = self.build_time_plugin()
        plugin.wheel(builder.index)
        builder.project(self.table_with(plugin, "build-requires"))
        found = builder.build("--variant", "good", "--null", "--json").object
        for label in ("good", "null"):
            assert builder.document(label)["providers"] == {
                "tech": {
                    "feature-order": ["kind", "age"],
                    "static-properties": {"age": ["old"], "kind": ["a", "b"]},
                }
            }
        assert found["wheels"][0]["plugins"] == {"tech": "tech-provider 1.5"}
        assert builder.count() == 1

    @pytest.mark.parametrize(
        ("plugin", "message"),
        [
            ({"compatible": False}, "cannot be run at build time (B-21)"),
            ({"values": "1 / 0"}, "its plugin failed: it raised ZeroDivisionError"),
            ({"values": "['z']"}, "the provider has no value a (B-22)"),
        ],
    )
    def test_invalid_plugin_answers(
        self, builder: Builder, plugin: dict[str, Any], message: str
    ) -> None:
        """B-21, B-23: invalid answers of a plugin are errors before the build."""
        made = self.build_time_plugin(**plugin)
        made.wheel(builder.index)
        builder.project(self.table_with(made, "build-requires"))
        assert message in builder.build("--variant", "good", code=1).err
        assert (builder.count(), builder.dist.exists()) == (0, False)

    def test_inconsistent_plugin_answers(self, builder: Builder) -> None:
        """B-24: A plugin whose answers differ between builds is an error."""
        plugin = self.build_time_plugin(values="['a', 'x%s' % __import__('os').urandom(8).hex()]")
        plugin.wheel(builder.index)
        builder.project(self.table_with(plugin, "build-requires") + MORE_FLAGS)
        result = builder.build("--variant", "good", "--null", code=1)
        assert "inconsistent-documents" in result.err
        assert (builder.count(), builder.dist.exists()) == (2, False)

    def test_missing_plugin(self, builder: Builder) -> None:
        """B-23: A missing plugin is a missing build requirement."""
        builder.project(self.table_with(self.build_time_plugin(), "build-requires"))
        result = builder.build("--variant", "good", code=3)
        assert "tech-provider" in result.err
        assert builder.build().code == 0  # a plain wheel needs none

    def test_plugin_without_isolation(self, builder: Builder) -> None:
        """Without isolation the plugin must be installed already."""
        builder.project(self.table_with(self.build_time_plugin(), "build-requires"))
        result = builder.build(
            "--variant", "good", "--no-isolation", "--python", sys.executable, code=1
        )
        assert "its plugin is not installed: tech-provider" in result.err


class TestRecipes:
    """``[tool.wheelfit.build]`` and compiler flags."""

    def test_flags_on_request(self, builder: Builder) -> None:
        """B-26: compilers get flags on request only, after the flags that are set already."""
        builder.project()
        builder.build("--variant", "v3")
        assert builder.module("v3")["SEEN"]["CFLAGS"] is None
        os.environ["CFLAGS"] = "-g"
        try:
            result = builder.build("--all", "--flags")
        finally:
            del os.environ["CFLAGS"]
        seen = builder.module("v3")["SEEN"]
        # Flags of the interpreter stand where the variable would replace them.
        assert seen["CFLAGS"] == "-g -march=x86-64-v3"
        assert seen["CXXFLAGS"] == f"{INTERPRETER_FLAGS} -march=x86-64-v3".strip()
        assert seen["FFLAGS"] == "-march=x86-64-v3"
        assert builder.module("null")["SEEN"]["CFLAGS"] == "-g"
        assert builder.module("v3_mkl")["SEEN"] == seen
        assert builder.count() == 4  # one above; null and plain are one; v3_mkl is told its BLAS
        assert "-march=x86-64-v3" in result.out

    def test_flags_without_effect(self, builder: Builder) -> None:
        """Flags that change nothing cause a warning."""
        builder.project(backend=REPRODUCIBLE)
        result = builder.build("--variant", "v3", "--null", "--flags")
        assert "have the same contents: -march=x86-64-v3 made no difference" in result.err

    def test_settings_of_one_variant(self, builder: Builder) -> None:
        """A table has settings for all wheels and for single labels; the command line overrides."""
        table = """
[tool.wheelfit.build]
flags = ["-O3"]
config-settings = { every = "yes", which = "all" }
[tool.wheelfit.build.plain]
environment = { BLAS = "none" }
[tool.wheelfit.build.variants.v3_mkl]
flags = true
config-settings = { which = ["mkl", "v3"] }
environment = { BLAS = "mkl" }
"""
        builder.project(TABLE + table)
        builder.build("--all")
        assert builder.module(None)["SEEN"]["BLAS"] == "none"
        assert builder.module("v3")["SEEN"] == {
            "CFLAGS": f"{INTERPRETER_FLAGS} -O3".strip(),
            "CXXFLAGS": f"{INTERPRETER_FLAGS} -O3".strip(),
            "FFLAGS": None, "BLAS": None,
        }  # fmt: skip
        mkl = builder.module("v3_mkl")
        assert mkl["SETTINGS"] == {"every": "yes", "which": ["mkl", "v3"]}
        assert mkl["SEEN"]["CFLAGS"] == f"{INTERPRETER_FLAGS} -march=x86-64-v3 -O3".strip()
        assert mkl["SEEN"]["BLAS"] == "mkl"
        assert builder.count() == 3
        builder.build("--variant", "v3_mkl", "-C", "which=mine", "-C", "more=1")
        expected = {"every": "yes", "which": "mine", "more": "1"}
        assert builder.module("v3_mkl")["SETTINGS"] == expected

    def test_faults_of_the_build_table(self, builder: Builder) -> None:
        """All faults of the build table are reported at once, with their paths."""
        table = """
[tool.wheelfit.build]
flags = 3
speed = "high"
[tool.wheelfit.build.variants."No Label"]
[tool.wheelfit.build.variants.v3]
environment = { A = 1, "B=C" = "x" }
config-settings = { a = [1], variant-name = "x" }
"""
        builder.project(TABLE + table)
        result = builder.build("--json", code=1)
        assert result.error["code"] == "invalid-project"
        paths = {fault["path"] for fault in result.error["faults"]}
        assert {path.removeprefix("tool.wheelfit.build") for path in paths} == {
            ".flags", ".speed", '.variants["No Label"]',
            ".variants.v3.environment.A", '.variants.v3.environment["B=C"]',
            ".variants.v3.config-settings.a[0]", ".variants.v3.config-settings.variant-name",
        }  # fmt: skip

    def test_other_commands_ignore_the_table(
        self, builder: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Other commands ignore the build table; `config show` lists it."""
        monkeypatch.chdir(builder.project(TABLE + "[tool.wheelfit.build]\nflags = true\n"))
        assert "flags = true" in builder._run("config", "show").out
        assert "build" not in builder._run("config", "show", "install").out

    def test_recipe_of_an_unknown_label(self, builder: Builder) -> None:
        """Settings for an unknown label cause a warning."""
        builder.project(TABLE + "[tool.wheelfit.build.variants.v33]\nflags = true\n")
        assert "tool.wheelfit.build.variants.v33 names no variant" in builder.build().err

    def test_flags_for_another_architecture(self, builder: Builder) -> None:
        """Flags for another architecture are refused before the backend runs."""
        table = TABLE.replace("x86_64", "aarch64").replace("x86-64", "aarch64")
        builder.project(table.replace('level = ["v3"]', 'version = ["8.2a"]'))
        result = builder.build("--variant", "v3", "--flags", code=1)
        assert "cannot use compiler flags for aarch64" in result.err
        assert builder.count() == 0


class TestBackends:
    """Backends, some of which know variants."""

    def test_released_backend(self, builder: Builder) -> None:
        """B-17: a backend that is known by name gets no settings for variants."""
        builder.rename_backend("mesonpy", builder.project())
        result = builder.build("--variant", "v3")
        assert "converted from a plain wheel" in result.out
        assert not builder.module("v3")["SETTINGS"]

    def test_properties_for_meson(self, builder: Builder) -> None:
        """A-33: Meson gets the properties as an option, with any released backend."""
        builder.rename_backend("mesonpy", builder.project())
        builder.build("-C", "variant=x86_64::level::v3", "-C", "setup-args=-Da=b")
        assert builder.names() == {"-fa7c1393"}
        assert builder.module("fa7c1393")["SETTINGS"] == {
            "setup-args": ["-Da=b", "-Dvariant=['x86_64 :: level :: v3']"]
        }

    def test_properties_for_other_backends(self, builder: Builder) -> None:
        """Properties for the build system are an error with other backends; nothing is built."""
        builder.project()
        result = builder.build("-C", "variant=x86_64::level::v3", code=1)
        assert "cannot pass properties to a build system" in result.err
        assert builder.count() == 0

    def test_backend_builds_an_unrequested_variant(self, builder: Builder) -> None:
        """B-10: A variant in place of a plain wheel is an error."""
        backend = """
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return write(folder, STEM + "-py3-none-any-null.whl", records())
"""
        builder.project(backend=backend)
        assert "built variant null of demo instead of a plain wheel" in builder.build(code=1).err


class TestResults:
    """Wheels, errors and reports."""

    def test_failing_build(self, builder: Builder) -> None:
        """The output of a failing backend is logged and its end is shown; no file remains."""
        builder.project(
            backend='\ndef build_wheel(*a, **k):\n    print("no luck")\n    sys.exit(3)\n'
        )
        before = tree(builder.folder / "demo")
        result = builder.build("--all", code=1)
        assert (
            "demo cannot be built as a wheel: its build backend failed [build-failed]" in result.err
        )
        assert "no luck" in result.err
        log = re.search(r"where: (\S+\.log)", result.err)
        assert log is not None
        assert "no luck" in Path(log[1]).read_text()
        Path(log[1]).unlink()
        assert not builder.dist.exists()
        left = {
            name: one
            for name, one in tree(builder.folder / "demo").items()
            if "pycache" not in name
        }
        assert left == before

    def test_no_wheel_if_one_fails(self, builder: Builder) -> None:
        """B-31: if one build fails, no wheel is delivered."""
        backend = """
def build_wheel(folder, config_settings=None, metadata_directory=None, inner=build_wheel):
    if "v3" in os.environ.get("CFLAGS", ""):
        sys.exit(3)
    return inner(folder)
"""
        builder.project(backend=RECORDING_BACKEND + backend)
        builder.build("--all", "--flags", code=1)
        assert builder.count() == 1
        assert not builder.dist.exists()

    def test_rebuild(self, builder: Builder) -> None:
        """A new build replaces earlier wheels; equal sources give equal wheels (B-39)."""
        builder.project(backend=REPRODUCIBLE)
        builder.build("--all")
        before = tree(builder.dist)
        builder.dist.joinpath("demo-1.0-py3-none-any-v3.whl").write_text("old")
        builder.build("--all")
        assert tree(builder.dist) == before

    def test_output_folder_cannot_be_written(self, builder: Builder) -> None:
        """An output folder that cannot be written is an error, and no wheel is moved."""
        builder.project()
        builder.dist.write_text("a file")
        assert "cannot be written" in builder.build(code=1).err
        assert "cannot be written" in builder.build("-o", builder.dist / "new", code=1).err
        assert builder.count() == 0
        builder.dist.unlink()
        (builder.dist / "demo-1.0-py3-none-any-v3.whl").mkdir(parents=True)
        assert "a folder of this name" in builder.build("--all", code=1).err
        assert [path.name for path in builder.dist.iterdir()] == ["demo-1.0-py3-none-any-v3.whl"]

    @pytest.mark.parametrize(
        ("backend", "message"),
        [
            ("def build_wheel(*a, **k):\n    return 'x.whl'\n", "did not put the wheel x.whl into"),
            (
                EMPTY,
                "built an invalid wheel",
            ),
        ],
    )
    def test_invalid_wheel(self, builder: Builder, backend: str, message: str) -> None:
        """B-34: an invalid wheel is not converted."""
        builder.project(backend=f"\n{backend}")
        assert message in builder.build("--variant", "v3", code=1).err

    @pytest.mark.parametrize("line", ["NAME = 'other'", "VERSION = '2.0'"])
    def test_wheel_of_another_release(self, builder: Builder, line: str) -> None:
        """A wheel must have the name and version of the project."""
        stem = 'STEM = NAME + "-" + VERSION\nINFO = STEM + ".dist-info"\n'
        builder.project(backend=f"{RECORDING_BACKEND}\n{line}\n{stem}")
        assert "it should be demo 1.0" in builder.build(code=1).err

    def test_wheels_of_several_versions(self, builder: Builder) -> None:
        """All wheels of one command must have the same version."""
        backend = """
VERSION = "1." + str(len(os.environ.get("CFLAGS", "")))
STEM = NAME + "-" + VERSION
INFO = STEM + ".dist-info"
"""
        builder.project(backend=RECORDING_BACKEND + backend, dynamic=True)
        assert "of several releases" in builder.build("--all", "--flags", code=1).err

    def test_json_report(self, builder: Builder) -> None:
        """The JSON report has label, flags, size and path of each wheel."""
        builder.project()
        report = builder.build("--variant", "v3", "--flags", "--json").object
        (wheel,) = report["wheels"]
        assert wheel["label"] == "v3"
        assert wheel["flags"] == ["-march=x86-64-v3"]
        assert wheel["method"] == "converted"
        assert (wheel["size"], wheel["path"]) == (
            Path(wheel["path"]).stat().st_size, str(builder.dist / wheel["filename"]),
        )  # fmt: skip

    def test_no_isolation(self, builder: Builder) -> None:
        """With --no-isolation the backend runs in the given environment."""
        builder.project(backend="", requires=["not-to-be-had"])
        builder.build("--no-isolation", "--python", sys.executable)
        assert builder.module(None)["PYTHON"] == sys.executable

    def test_build_requirement_by_url(self, builder: Builder) -> None:
        """The project may require a URL for its build; its requirements may not."""
        helper = write_project(builder.folder / "helper", "helper")
        wheel = build_wheel(builder.folder / "elsewhere", "other", "1.0")
        urls = [f"helper @ {helper.as_uri()}", f"other @ {wheel.as_uri()}"]
        builder.project(backend="import helper, other" + RECORDING_BACKEND, requires=urls)
        builder.build("--variant", "v3")
        assert builder.names() == {"-v3"}
        write_project(helper, "helper", requires=[urls[1]])  # which is somebody else's wish
        assert "only you may request a URL" in builder.build(code=1).err

    def test_backend_not_installed(self, builder: Builder) -> None:
        """A missing backend is named, without a traceback."""
        project = builder.project()
        (project / "own_backend.py").unlink()
        result = builder.build(code=1)
        assert "demo is built by own_backend, which is not installed" in result.err

    def test_build_requirements(self, builder: Builder) -> None:
        """Build requirements come from the sources; the error names the project that needs them."""
        build_wheel(builder.index, "helper", "1.0")
        builder.project(backend="import helper" + RECORDING_BACKEND, requires=["helper"])
        builder.build()
        builder.project(requires=["helper>2"])
        result = builder.build(code=3)
        assert "it is needed to build demo" in result.err

    def test_interrupt(self, builder: Builder) -> None:
        """Ctrl-C ends the backend with its children, and no wheel remains."""
        backend = """
def build_wheel(*a, **k):
    import subprocess, time
    child = subprocess.Popen(["sleep", "60"])
    with open(os.path.join(HERE, "children"), "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(60)
"""
        project = builder.project(backend=backend)
        process = subprocess.Popen(
            [sys.executable, "-m", "wheelfit", "build", project, "-o", builder.dist, "--no-index"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        noted = project / "children"
        until(lambda: noted.exists() and len(noted.read_text().split()) == 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, "interrupted" in errors) == (130, True)
        for pid in map(int, noted.read_text().split()):
            until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
        assert not builder.dist.exists()
