"""``wheelfit build``: which wheels, in whose words, from which answers, and nothing by halves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree
from projects.writing import write_project, write_sdist

from wheelfit.testing.plugins import Plugin, simple
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
INTERPRETER = sysconfig.get_config_var("CFLAGS") or ""
"""What setuptools gives to compilers where nothing else is said."""
SEES_ENVIRONMENT = """
def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.path.join(HERE, "count"), "a") as file:
        file.write("x")
    seen = {name: os.environ.get(name) for name in ("CFLAGS", "CXXFLAGS", "FFLAGS", "BLAS")}
    text = f"SETTINGS = {config_settings!r}\\nSEEN = {seen!r}\\n"
    files = {NAME.replace("-", "_") + "/__init__.py": text, **records()}
    return write(folder, STEM + "-py3-none-any.whl", files)
"""
"""Counts how often it builds, and writes down what it was told."""
FORK = '''
"""Stands for forks that no registry has: it hears the settings that they hear, and writes metadata
of the old kind that variantlib wrote for them."""
def texts(settings, *keys):
    found = []
    for key in keys:
        value = (settings or {}).get(key, [])
        found += [value] if isinstance(value, str) else value
    return found

def build_wheel(folder, config_settings=None, metadata_directory=None):
    properties = texts(config_settings, "variant", "variant-name", "variant-property")
    label = (texts(config_settings, "variant-label") or ["null"])[0]
    text = f"SETTINGS = {config_settings!r}\\nHANDED = {texts(config_settings, 'variant')!r}\\n"
    files = {NAME.replace("-", "_") + "/__init__.py": text, **records()}
    if not properties and "null-variant" not in (config_settings or {}):
        return write(folder, STEM + "-py3-none-any.whl", files)
    variant = {}
    for one in properties:
        namespace, feature, value = one.split(" :: ")
        variant.setdefault(namespace, {}).setdefault(feature, []).append(value)
    files[INFO + "/variant.json"] = json.dumps({
        "$schema": "https://variants-schema.wheelnext.dev/v0.0.2.json",
        "default-priorities": {"namespace": ["x86_64", "blas"]},
        "providers": {"x86_64": {"requires": ["x86-64-variant-provider"]},
                      "blas": {"requires": ["blas-provider"]}},
        "variants": {label: variant},
    })
    return write(folder, STEM + "-py3-none-any-" + label + ".whl", files)
'''

MORE_FLAGS = '[tool.wheelfit.build.variants.good]\nflags = ["-O3"]\n'
EMPTY = """def build_wheel(folder, *a, **k):
    name = STEM + "-py3-none-any.whl"
    open(os.path.join(folder, name), "w").close()
    return name
"""
FIXED = """
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


class Yard:
    """Build in one folder."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.folder = folder
        self.dist = folder / "dist"
        self.index = folder / "index"
        self.index.mkdir()

    def project(self, table: str = TABLE, backend: str = SEES_ENVIRONMENT, **more: Any) -> Path:
        """Write a project, and say more in its pyproject.toml."""
        project = write_project(self.folder / "demo", "demo", backend=backend, **more)
        with (project / "pyproject.toml").open("a") as file:
            file.write(table)
        return project

    def known_as(self, module: str, project: Path) -> None:
        """Call the backend of a project as another one is called."""
        path = project.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        text = (project / "own_backend.py").read_text()
        if "." in module:
            text = text.replace("os.path.abspath(__file__)", "os.path.dirname(__file__)")
        path.write_text(text)
        (project / "own_backend.py").unlink()
        settings = project / "pyproject.toml"
        settings.write_text(settings.read_text().replace('"own_backend"', f'"{module}"'))

    def build(
        self, *words: str | Path, code: int = 0, project: Path | None = None
    ) -> CommandResult:
        """Build, with what lies in the index."""
        place = self.folder / "demo" if project is None else project
        links = ("--no-index", "--find-links", self.index)
        return self._run("build", place, "-o", self.dist, *links, *words, code=code)

    def names(self) -> set[str]:
        """Return what of the file names is not the same in all."""
        found = {path.name for path in self.dist.iterdir()} if self.dist.exists() else set()
        return {name.removeprefix("demo-1.0-py3-none-any").removesuffix(".whl") for name in found}

    def read(self, label: str | None, member: str) -> str:
        """Return a member of a wheel, by the end of its name."""
        ending = "" if label is None else f"-{label}"
        with zipfile.ZipFile(self.dist / f"demo-1.0-py3-none-any{ending}.whl") as wheel:
            (name,) = [one for one in wheel.namelist() if one.endswith(member)]
            return wheel.read(name).decode()

    def module(self, label: str | None) -> dict[str, Any]:
        """Return what the backend wrote down."""
        found: dict[str, Any] = {}
        exec(self.read(label, "__init__.py"), found)
        return found

    def document(self, label: str) -> dict[str, Any]:
        """Return the document of a wheel."""
        found: dict[str, Any] = json.loads(self.read(label, "variant.json"))
        return found

    def count(self) -> int:
        """Return how often the backend built."""
        path = self.folder / "demo" / "count"
        return len(path.read_text()) if path.exists() else 0


@pytest.fixture
def yard(run: Runner, tmp_path: Path) -> Yard:
    """Give a place to build in."""
    return Yard(run, tmp_path)


class TestWhich:
    """What is asked for."""

    def test_plain(self, yard: Yard) -> None:
        """B-10, A-35: without a word a plain wheel is built, whatever the table has."""
        yard.project()
        result = yard.build()
        assert yard.names() == {""}
        assert result.out.splitlines() == [str(yard.dist / "demo-1.0-py3-none-any.whl")]

    def test_a_label(self, yard: Yard) -> None:
        """A-36: a label selects an entry of the table; the document has only that (B-2, F-24)."""
        yard.project()
        result = yard.build("--variant", "v3_mkl")
        assert yard.names() == {"-v3_mkl"}
        assert yard.document("v3_mkl") == {
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
    def test_an_unknown_label(self, yard: Yard, words: list[str]) -> None:
        """A-36: an unknown one is an error that lists the known ones; nothing was built."""
        yard.project()
        result = yard.build(*words, code=1)
        assert "there are: null, v3, v3_mkl" in result.err
        assert (yard.count(), yard.dist.exists()) == (0, False)

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
        ],
    )
    def test_names(self, yard: Yard, words: list[str], label: str) -> None:
        """A-33, A-34, B-19: a label is derived, given, or null, by options as by settings."""
        yard.project()
        yard.build(*words)
        assert yard.names() == {f"-{label}"}

    def test_everything(self, yard: Yard) -> None:
        """All labels of the table, and a plain wheel beside them; one build is enough for that."""
        yard.project()
        yard.build("--all")
        assert yard.names() == {"", "-null", "-v3", "-v3_mkl"}
        assert yard.count() == 1

    def test_several(self, yard: Yard) -> None:
        """Options add up; a plain wheel comes along where it is wished."""
        yard.project()
        yard.build("--variant", "v3", "--variant", "v3_mkl", "--null", "--plain")
        assert yard.names() == {"", "-null", "-v3", "-v3_mkl"}
        yard.build("--all", "--no-plain", "-o", yard.folder / "more")
        assert len(list((yard.folder / "more").iterdir())) == 3

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--all", "--variant", "v3"], "--all and single variants exclude"),
            (["--no-plain"], "nothing to build"),
            (["--variant", "a", "--variant", "b", "--property", "x::y::z"], "2 labels"),
            (["--variant", "v3", "-C", "variant-label=v3"], "by the config setting variant-label"),
            (["--editable", "--all"], "an editable wheel is built alone"),
            (["--dialect", "latin"], "unknown dialect 'latin'"),
            (["--provider", "x"], "has no requirement"),
        ],
    )
    def test_not_both(self, yard: Yard, words: list[str], message: str) -> None:
        """What excludes each other is not a command, and nothing is run."""
        yard.project()
        assert message in yard.build(*words, code=2).err
        assert yard.count() == 0

    def test_unknown_settings(self, yard: Yard) -> None:
        """B-14: a setting that sounds like a variant and is none is an error."""
        yard.project()
        assert (
            "unknown config setting variant-lable"
            in yard.build("-C", "variant-lable=v3", code=1).err
        )

    def test_the_label_of_others(self, yard: Yard) -> None:
        """B-16: a label of the table keeps its properties."""
        yard.project()
        result = yard.build("--variant", "v3", "-p", "x86_64::level::v4", code=1)
        assert "stands for other properties" in result.err

    def test_no_table(self, yard: Yard) -> None:
        """B-8: without a table a variant needs somebody who knows its namespace."""
        yard.project(table="")
        result = yard.build("--null", code=1)
        assert "no [variant] table" in result.err
        yard.build("--null", "--provider", "x86_64=x86-64-variant-provider<1")
        assert yard.document("null")["variants"] == {"null": {}}
        assert "the project lists none" in yard.build("--all", code=2).err

    def test_a_faulty_table(self, yard: Yard) -> None:
        """B-1: every fault is named with its path."""
        yard.project(table='[variant]\nx = 1\n[variant.providers.a]\nrequires = "b"\n')
        result = yard.build("--variant", "v3", "--json", code=1)
        paths = {fault["path"] for fault in result.error["faults"]}
        assert {"variant.x", "variant.providers.a.requires"} <= paths

    def test_editable(self, yard: Yard) -> None:
        """B-10: an editable wheel is a variant if that is asked for, and only then."""
        project = yard.project()
        yard.build("--editable", "--variant", "v3")
        assert str(project) in yard.read("v3", ".pth")
        assert yard.document("v3")["variants"] == {"v3": {"x86_64": {"level": ["v3"]}}}


class TestSources:
    """What a project may lie in."""

    def test_an_archive(self, yard: Yard) -> None:
        """A source distribution is built from as a folder is; the folder is not touched."""
        project = yard.project()
        path = write_sdist(yard.folder, project, "demo")
        yard.build("--variant", "v3", project=path)
        assert yard.names() == {"-v3"}
        assert yard.count() == 0

    def test_sdist(self, yard: Yard) -> None:
        """With --sdist the wheels come of what is published, not of what lies around."""
        backend = """
import tarfile
def build_sdist(folder, config_settings=None):
    name = STEM + ".tar.gz"
    with tarfile.open(os.path.join(folder, name), "w:gz") as archive:
        for one in ("pyproject.toml", "own_backend.py", "about.json"):
            archive.add(os.path.join(HERE, one), STEM + "/" + one)
    return name
"""
        project = yard.project(backend=SEES_ENVIRONMENT + backend)
        report = yard.build("--sdist", "--all", "--json").object
        assert report["sdist"] == str(yard.dist / "demo-1.0.tar.gz")
        assert len(report["wheels"]) == 4
        assert yard.count() == 0
        again = yard.build("--sdist", project=project / "about.json", code=1)
        assert "neither a folder nor a source archive" in again.err

    def test_the_current_folder(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a name the project of the current folder is built, into dist."""
        project = yard.project()
        monkeypatch.chdir(project)
        yard._run("build", "--no-index")
        assert [path.name for path in (project / "dist").iterdir()] == ["demo-1.0-py3-none-any.whl"]
        assert yard.build(project=project / "pyproject.toml").code == 0

    def test_before_pyproject(self, yard: Yard) -> None:
        """A project with a ``setup.py`` alone is built by setuptools (PEP 517); here is none."""
        project = yard.folder / "old"
        project.mkdir()
        (project / "setup.py").write_text("")
        assert "setuptools" in yard.build(project=project, code=3).err

    def test_nothing_there(self, yard: Yard) -> None:
        """A folder without a project is an error that names it."""
        assert "no project found" in yard.build(project=yard.index, code=1).err
        assert "the path does not exist" in yard.build(project=yard.folder / "x", code=1).err


class TestMarkers:
    """Dependencies that speak of variants."""

    def test_plain_and_variants(self, yard: Yard) -> None:
        """B-40: they are resolved in the plain wheel, and stay in the variants."""
        texts = [
            "one; 'x86_64' in variant_namespaces",
            "two; 'x86_64' not in variant_namespaces and python_version > '3'",
            "three",
        ]
        yard.project(dependencies=texts, dynamic=True)
        yard.build("--all")
        assert "Requires-Dist: one" not in yard.read(None, "METADATA")
        assert 'Requires-Dist: two; python_version > "3"' in yard.read(None, "METADATA")
        assert "Requires-Dist: three" in yard.read(None, "METADATA")
        for text in texts:
            assert f"Requires-Dist: {text}" in yard.read("v3", "METADATA")

    def test_of_the_table(self, yard: Yard) -> None:
        """What backends refuse to read the project says elsewhere; it is resolved likewise."""
        table = """[tool.wheelfit.build]
dependencies = ["six", "four; 'v3' in variant_label", "five; 'blas' in variant_namespaces"]
"""
        yard.project(TABLE + table, dependencies=["six"])
        yard.build("--all")
        needed = {
            label: re.findall("Requires-Dist: (.*)", yard.read(label, "METADATA"))
            for label in (None, "v3")
        }
        assert needed == {
            None: ["six"],
            "v3": ["six", "four; 'v3' in variant_label", "five; 'blas' in variant_namespaces"],
        }
        yard.project(TABLE + '[tool.wheelfit.build]\ndependencies = ["a b", 1]\n')
        faults = yard.build("--json", code=1).error["faults"]
        assert [fault["path"] for fault in faults] == [
            "tool.wheelfit.build.dependencies[0]", "tool.wheelfit.build.dependencies[1]",
        ]  # fmt: skip


class TestProviders:
    """Who knows what is valid."""

    def test_built_in(self, yard: Yard) -> None:
        """A-37, B-25: what wheelfit knows itself is checked before anything is built."""
        yard.project()
        for text, message in [
            ("x86_64 :: level :: v9", "no provider offers x86_64 :: level with the value v9"),
            ("x86_64 :: levle :: v3", "x86_64 has no feature levle; it has level, "),
            ("blas :: library :: atlas", "none of atlas"),
        ]:
            result = yard.build("--property", text, code=1)
            assert message in result.err
            assert "invalid-document" in result.err
        two = ("--property", "x86_64 :: level :: v3", "--property", "x86_64 :: level :: v4")
        assert "has 2 values" in yard.build(*two, code=1).err
        assert "no provider" in yard.build("--property", "a :: b :: c", code=1).err
        assert (yard.count(), yard.dist.exists()) == (0, False)
        validated = yard.build("--variant", "v3_mkl", "--json").object["wheels"][0]["validated"]
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

    def test_unknown(self, yard: Yard) -> None:
        """B-25: where nobody can tell, it is said that nothing was validated."""
        plugin = simple("tech", {"kind": ["a"]}, valid={"kind": ["a", "b"]})
        plugin.wheel(yard.index)
        yard.project(self.table_with(plugin))
        result = yard.build("--variant", "bad")
        assert "the properties of tech are not validated" in result.err
        assert "tech_provider" not in yard.read("bad", "variant.json").replace(
            "tech_provider.p", ""
        )
        result = yard.build("--variant", "bad", "--ask-plugins", code=1)
        assert "the provider has no value z (P-28)" in result.err
        found = yard.build("--variant", "good", "--ask-plugins", "--json").object
        assert found["warnings"] == []
        (wheel,) = found["wheels"]
        assert wheel["validated"] == {"tech": "plugin tech-provider 1.0.0"}

    def test_installed(self, yard: Yard) -> None:
        """B-25: a plugin that is among the build requirements anyway is asked."""
        plugin = simple("tech", {"kind": ["a"]})
        plugin.wheel(yard.index)
        yard.project(self.table_with(plugin), requires=[plugin.name])
        assert "has no value z" in yard.build("--variant", "bad", code=1).err

    def asked(self, *, compatible: bool = True, values: str = "['a', 'b']") -> Plugin:
        """Make a plugin that can be asked at build time."""
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

    def test_at_build_time(self, yard: Yard) -> None:
        """B-20, B-22: its answer becomes the list of every wheel, in its order; it is named.

        B-12: it is installed for the build, though [build-system] does not ask for it.
        """
        plugin = self.asked()
        plugin.wheel(yard.index)
        yard.project(self.table_with(plugin, "build-requires"))
        found = yard.build("--variant", "good", "--null", "--json").object
        for label in ("good", "null"):
            assert yard.document(label)["providers"] == {
                "tech": {
                    "feature-order": ["kind", "age"],
                    "static-properties": {"age": ["old"], "kind": ["a", "b"]},
                }
            }
        assert found["wheels"][0]["plugins"] == {"tech": "tech-provider 1.5"}
        assert yard.count() == 1

    @pytest.mark.parametrize(
        ("plugin", "message"),
        [
            ({"compatible": False}, "cannot be run at build time (B-21)"),
            ({"values": "1 / 0"}, "its plugin failed: it raised ZeroDivisionError"),
            ({"values": "['z']"}, "the provider has no value a (B-22)"),
        ],
    )
    def test_bad_answers(self, yard: Yard, plugin: dict[str, Any], message: str) -> None:
        """B-21, B-23: what cannot be used is known before anything is built."""
        made = self.asked(**plugin)
        made.wheel(yard.index)
        yard.project(self.table_with(made, "build-requires"))
        assert message in yard.build("--variant", "good", code=1).err
        assert (yard.count(), yard.dist.exists()) == (0, False)

    def test_two_answers(self, yard: Yard) -> None:
        """B-24: a plugin that answers each build differently makes no release."""
        plugin = self.asked(values="['a', 'x%s' % __import__('os').urandom(8).hex()]")
        plugin.wheel(yard.index)
        yard.project(self.table_with(plugin, "build-requires") + MORE_FLAGS)
        result = yard.build("--variant", "good", "--null", code=1)
        assert "inconsistent-documents" in result.err
        assert (yard.count(), yard.dist.exists()) == (2, False)

    def test_no_plugin(self, yard: Yard) -> None:
        """B-23: a plugin that cannot be had is a build requirement that cannot be had."""
        yard.project(self.table_with(self.asked(), "build-requires"))
        result = yard.build("--variant", "good", code=3)
        assert "tech-provider" in result.err
        assert yard.build().code == 0  # a plain wheel needs none

    def test_not_isolated(self, yard: Yard) -> None:
        """Without isolation nothing is installed, so a plugin must be there."""
        yard.project(self.table_with(self.asked(), "build-requires"))
        result = yard.build(
            "--variant", "good", "--no-isolation", "--python", sys.executable, code=1
        )
        assert "its plugin is not installed: tech-provider" in result.err


class TestRecipes:
    """``[tool.wheelfit.build]``, flags, and what of it costs a build."""

    def test_flags(self, yard: Yard) -> None:
        """B-26: compilers get flags on request only, behind those that are there."""
        yard.project()
        yard.build("--variant", "v3")
        assert yard.module("v3")["SEEN"]["CFLAGS"] is None
        os.environ["CFLAGS"] = "-g"
        try:
            result = yard.build("--all", "--flags")
        finally:
            del os.environ["CFLAGS"]
        seen = yard.module("v3")["SEEN"]
        # Flags of the interpreter stand where the variable would replace them.
        assert seen["CFLAGS"] == "-g -march=x86-64-v3"
        assert seen["CXXFLAGS"] == f"{INTERPRETER} -march=x86-64-v3".strip()
        assert seen["FFLAGS"] == "-march=x86-64-v3"
        assert yard.module("null")["SEEN"]["CFLAGS"] == "-g"
        assert yard.module("v3_mkl")["SEEN"] == seen
        assert yard.count() == 4  # one above; null and plain are one; v3_mkl is told its BLAS
        assert "-march=x86-64-v3" in result.out

    def test_no_difference(self, yard: Yard) -> None:
        """Flags that changed nothing are told: likely the build does not listen to them."""
        yard.project(backend=FIXED)
        result = yard.build("--variant", "v3", "--null", "--flags")
        assert "have the same contents: -march=x86-64-v3 made no difference" in result.err

    def test_of_a_variant(self, yard: Yard) -> None:
        """A table says what holds for every wheel, and what for one; the command line counts."""
        table = """
[tool.wheelfit.build]
flags = ["-O3"]
config-settings = { every = "yes", which = "all" }
[tool.wheelfit.build.plain]
environment = { BLAS = "none" }
[tool.wheelfit.build.variants.v3_mkl]
flags = true
pass-properties = false
config-settings = { which = ["mkl", "v3"] }
environment = { BLAS = "mkl" }
"""
        yard.project(TABLE + table)
        yard.build("--all")
        assert yard.module(None)["SEEN"]["BLAS"] == "none"
        assert yard.module("v3")["SEEN"] == {
            "CFLAGS": f"{INTERPRETER} -O3".strip(), "CXXFLAGS": f"{INTERPRETER} -O3".strip(),
            "FFLAGS": None, "BLAS": None,
        }  # fmt: skip
        mkl = yard.module("v3_mkl")
        assert mkl["SETTINGS"] == {"every": "yes", "which": ["mkl", "v3"]}
        assert mkl["SEEN"]["CFLAGS"] == f"{INTERPRETER} -march=x86-64-v3 -O3".strip()
        assert mkl["SEEN"]["BLAS"] == "mkl"
        assert yard.count() == 3
        yard.build("--variant", "v3_mkl", "-C", "which=mine", "-C", "more=1")
        expected = {"every": "yes", "which": "mine", "more": "1"}
        assert yard.module("v3_mkl")["SETTINGS"] == expected

    def test_faults(self, yard: Yard) -> None:
        """Whatever is wrong in the table is told at once with its path."""
        table = """
[tool.wheelfit.build]
flags = 3
dialect = "latin"
speed = "high"
[tool.wheelfit.build.variants."No Label"]
[tool.wheelfit.build.variants.v3]
pass-properties = "yes"
environment = { A = 1, "B=C" = "x" }
config-settings = { a = [1], variant-name = "x" }
"""
        yard.project(TABLE + table)
        result = yard.build("--json", code=1)
        assert result.error["code"] == "invalid-project"
        paths = {fault["path"] for fault in result.error["faults"]}
        assert {path.removeprefix("tool.wheelfit.build") for path in paths} == {
            ".flags", ".dialect", ".speed", '.variants["No Label"]', ".variants.v3.pass-properties",
            ".variants.v3.environment.A", '.variants.v3.environment["B=C"]',
            ".variants.v3.config-settings.a[0]", ".variants.v3.config-settings.variant-name",
        }  # fmt: skip

    def test_another_command(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        """Other commands in that project pass over the table, and the settings show it."""
        monkeypatch.chdir(yard.project(TABLE + "[tool.wheelfit.build]\nflags = true\n"))
        assert "flags = true" in yard._run("config", "show").out
        assert "build" not in yard._run("config", "show", "install").out

    def test_of_no_variant(self, yard: Yard) -> None:
        """A recipe of a label that there is not is told; it may be a slip."""
        yard.project(TABLE + "[tool.wheelfit.build.variants.v33]\nflags = true\n")
        assert "tool.wheelfit.build.variants.v33 names no variant" in yard.build().err

    def test_other_machines(self, yard: Yard) -> None:
        """Flags for a machine that this is not are refused before the backend runs."""
        table = TABLE.replace("x86_64", "aarch64").replace("x86-64", "aarch64")
        yard.project(table.replace('level = ["v3"]', 'version = ["8.2a"]'))
        result = yard.build("--variant", "v3", "--flags", code=1)
        assert "cannot use compiler flags for aarch64" in result.err
        assert yard.count() == 0


class TestDialects:
    """Backends that know variants; forks are stood for by small backends of that name."""

    def told(self, yard: Yard, module: str, *words: str) -> dict[str, Any]:
        """Build as variant v3 with a backend that is called so, and return what it was told."""
        yard.known_as(module, yard.project(backend=FORK))
        result = yard.build("--variant", "v3", *words)
        assert "as a variant" in result.out
        assert "converting its document of layout L2" in result.err
        assert yard.document("v3")["$schema"].endswith("/peps/850/v0.2.0.json")
        assert yard.document("v3")["providers"]["blas"] == {
            "static-properties": {"library": ["openblas", "mkl"]}
        }
        found: dict[str, Any] = yard.module("v3")["SETTINGS"]
        return found

    def test_meson_python(self, yard: Yard) -> None:
        """Its fork takes properties by two names; one of them its build system gets too (A-33)."""
        settings = self.told(yard, "mesonpy")
        assert settings == {"variant-name": ["x86_64 :: level :: v3"], "variant-label": "v3"}
        yard.build("-C", "variant=x86_64::level::v3", "-C", "variant-label=v3", "-C", "a=b")
        settings = yard.module("v3")["SETTINGS"]
        assert settings == {
            "a": "b", "variant": ["x86_64 :: level :: v3"], "variant-label": "v3"
        }  # fmt: skip
        yard.build("--all")
        assert yard.names() == {"", "-null", "-v3", "-v3_mkl"}
        assert yard.module("null")["SETTINGS"] == {"null-variant": "true"}
        assert not yard.module(None)["SETTINGS"]

    def test_hatchling(self, yard: Yard) -> None:
        """Its fork has another name for properties, and none for the null variant."""
        settings = self.told(yard, "hatchling.build")
        assert settings == {"variant-property": ["x86_64 :: level :: v3"], "variant-label": "v3"}
        result = yard.build("--null")
        assert "has no setting for variant null" in result.err
        assert "converted" in result.out

    def test_as_drafted(self, yard: Yard) -> None:
        """B-11: the interface of the draft selects by label; nobody can tell who has it."""
        backend = """
def build_wheel(folder, config_settings=None, metadata_directory=None, inner=build_wheel):
    assert config_settings == {"variant-label": "v3"}
    return inner(folder, {"variant-label": "v3", "variant-name": "x86_64 :: level :: v3"})
"""
        yard.project(TABLE + '[tool.wheelfit.build]\ndialect = "draft"\n', FORK + backend)
        assert "as a variant" in yard.build("--variant", "v3").out

    def test_releases(self, yard: Yard) -> None:
        """B-17: the name of a backend does not say that it knows variants."""
        yard.known_as("mesonpy", yard.project())
        result = yard.build("--variant", "v3")
        assert "converted from a plain wheel" in result.out
        assert not yard.module("v3")["SETTINGS"]

    def test_switched_off(self, yard: Yard) -> None:
        """``--dialect none`` lets a fork build plain wheels too."""
        yard.known_as("mesonpy", yard.project(backend=FORK))
        assert "converted" in yard.build("--variant", "v3", "--dialect", "none").out

    def test_handed_to_meson(self, yard: Yard) -> None:
        """A-33: Meson gets the properties as its option, though no released backend knows them."""
        yard.known_as("mesonpy", yard.project())
        yard.build("-C", "variant=x86_64::level::v3", "-C", "setup-args=-Da=b")
        assert yard.names() == {"-fa7c1393"}
        assert yard.module("fa7c1393")["SETTINGS"] == {
            "setup-args": ["-Da=b", "-Dvariant=['x86_64 :: level :: v3']"]
        }
        yard.build("--all", "--pass-properties")
        assert yard.module("null")["SETTINGS"] == {"setup-args": ["-Dvariant=[]"]}
        assert not yard.module(None)["SETTINGS"]

    def test_handed_to_nobody(self, yard: Yard) -> None:
        """What cannot be handed over is an error, and nothing is built."""
        yard.project()
        result = yard.build("--variant", "v3", "--pass-properties", code=1)
        assert "no way to hand properties to a build system" in result.err
        assert yard.count() == 0

    @pytest.mark.parametrize(
        ("backend", "message"),
        [
            ("label = 'v3'; properties = []; config_settings = {}", "built a plain wheel"),
            ("properties = ['x86_64 :: level :: v4']", "built another variant"),
        ],
    )
    def test_disobedience(self, yard: Yard, backend: str, message: str) -> None:
        """B-18: what a backend gives is not believed."""
        start = "    label = (texts"
        yard.known_as(
            "mesonpy", yard.project(backend=FORK.replace(start, f"    {backend}\n{start}"))
        )
        assert message in yard.build("--variant", "v3", code=1).err
        assert not yard.dist.exists()

    def test_a_variant_unasked(self, yard: Yard) -> None:
        """B-10: a variant where a plain wheel was asked for is no wheel to publish."""
        backend = (
            FORK
            + """
def build_wheel(folder, config_settings=None, metadata_directory=None, inner=build_wheel):
    return inner(folder, {"null-variant": ""})
"""
        )
        yard.project(backend=backend)
        assert "built variant null instead of a plain wheel" in yard.build(code=1).err


class TestResults:
    """Nothing by halves."""

    def test_failure(self, yard: Yard) -> None:
        """What the backend printed is kept and its end shown; nothing is left behind."""
        yard.project(backend='\ndef build_wheel(*a, **k):\n    print("no luck")\n    sys.exit(3)\n')
        before = tree(yard.folder / "demo")
        result = yard.build("--all", code=1)
        assert (
            "demo cannot be built as a wheel: its build backend failed [build-failed]" in result.err
        )
        assert "no luck" in result.err
        log = re.search(r"where: (\S+\.log)", result.err)
        assert log is not None
        assert "no luck" in Path(log[1]).read_text()
        Path(log[1]).unlink()
        assert not yard.dist.exists()
        left = {
            name: one for name, one in tree(yard.folder / "demo").items() if "pycache" not in name
        }
        assert left == before

    def test_the_last_fails(self, yard: Yard) -> None:
        """B-31: the wheels before it are not delivered either."""
        backend = """
def build_wheel(folder, config_settings=None, metadata_directory=None, inner=build_wheel):
    if "v3" in os.environ.get("CFLAGS", ""):
        sys.exit(3)
    return inner(folder)
"""
        yard.project(backend=SEES_ENVIRONMENT + backend)
        yard.build("--all", "--flags", code=1)
        assert yard.count() == 1
        assert not yard.dist.exists()

    def test_again(self, yard: Yard) -> None:
        """What was built before gives way; of equal sources the wheels are equal (B-39)."""
        yard.project(backend=FIXED)
        yard.build("--all")
        before = tree(yard.dist)
        yard.dist.joinpath("demo-1.0-py3-none-any-v3.whl").write_text("old")
        yard.build("--all")
        assert tree(yard.dist) == before

    def test_no_room(self, yard: Yard) -> None:
        """A folder that cannot be written is an error before any name is given."""
        yard.project()
        yard.dist.write_text("a file")
        assert "cannot be written" in yard.build(code=1).err
        yard.dist.unlink()
        (yard.dist / "demo-1.0-py3-none-any-v3.whl").mkdir(parents=True)
        assert "a folder of this name" in yard.build("--all", code=1).err
        assert [path.name for path in yard.dist.iterdir()] == ["demo-1.0-py3-none-any-v3.whl"]

    @pytest.mark.parametrize(
        ("backend", "message"),
        [
            ("def build_wheel(*a, **k):\n    return 'x.whl'\n", "there is no wheel"),
            (
                EMPTY,
                "built an invalid wheel",
            ),
        ],
    )
    def test_unsound(self, yard: Yard, backend: str, message: str) -> None:
        """B-34: what is no wheel is not made into a variant."""
        yard.project(backend=f"\n{backend}")
        assert message in yard.build("--variant", "v3", code=1).err

    @pytest.mark.parametrize("line", ["NAME = 'other'", "VERSION = '2.0'"])
    def test_another_release(self, yard: Yard, line: str) -> None:
        """What the project says of itself its wheels must be."""
        stem = 'STEM = NAME + "-" + VERSION\nINFO = STEM + ".dist-info"\n'
        yard.project(backend=f"{SEES_ENVIRONMENT}\n{line}\n{stem}")
        assert "it should be demo 1.0" in yard.build(code=1).err

    def test_several_releases(self, yard: Yard) -> None:
        """Wheels of one command are of one release."""
        backend = """
VERSION = "1." + str(len(os.environ.get("CFLAGS", "")))
STEM = NAME + "-" + VERSION
INFO = STEM + ".dist-info"
"""
        yard.project(backend=SEES_ENVIRONMENT + backend, dynamic=True)
        assert "of several releases" in yard.build("--all", "--flags", code=1).err

    def test_json(self, yard: Yard) -> None:
        """A program gets all that is known of each wheel."""
        yard.project()
        report = yard.build("--variant", "v3", "--flags", "--json").object
        (wheel,) = report["wheels"]
        assert wheel["label"] == "v3"
        assert wheel["flags"] == ["-march=x86-64-v3"]
        assert wheel["how"] == "converted"
        assert (wheel["size"], wheel["path"]) == (
            Path(wheel["path"]).stat().st_size, str(yard.dist / wheel["filename"]),
        )  # fmt: skip

    def test_without_isolation(self, yard: Yard) -> None:
        """The backend runs in the environment that is named, with what that has."""
        yard.project(backend="", requires=["not-to-be-had"])
        yard.build("--no-isolation", "--python", sys.executable)
        assert yard.module(None)["PYTHON"] == sys.executable

    def test_what_lies_elsewhere(self, yard: Yard) -> None:
        """A build requirement may be a URL, as for forks of backends: the project is trusted."""
        helper = write_project(yard.folder / "helper", "helper")
        wheel = build_wheel(yard.folder / "elsewhere", "other", "1.0")
        urls = [f"helper @ {helper.as_uri()}", f"other @ {wheel.as_uri()}"]
        yard.project(backend="import helper, other" + SEES_ENVIRONMENT, requires=urls)
        yard.build("--variant", "v3")
        assert yard.names() == {"-v3"}
        write_project(helper, "helper", requires=[urls[1]])  # which is somebody else's wish
        assert "only you may request a URL" in yard.build(code=1).err

    def test_no_backend(self, yard: Yard) -> None:
        """A backend that nobody installed is named, without pages of Python's words."""
        project = yard.project()
        (project / "own_backend.py").unlink()
        result = yard.build(code=1)
        assert "demo is built by own_backend, which is not installed" in result.err

    def test_what_building_needs(self, yard: Yard) -> None:
        """Build requirements are had from the sources, or the error says for whom."""
        build_wheel(yard.index, "helper", "1.0")
        yard.project(backend="import helper" + SEES_ENVIRONMENT, requires=["helper"])
        yard.build()
        yard.project(requires=["helper>2"])
        result = yard.build(code=3)
        assert "it is needed to build demo" in result.err

    def test_interrupted(self, yard: Yard) -> None:
        """Ctrl-C ends the backend with all it started, and leaves nothing."""
        backend = """
def build_wheel(*a, **k):
    import subprocess, time
    child = subprocess.Popen(["sleep", "60"])
    with open(os.path.join(HERE, "children"), "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(60)
"""
        project = yard.project(backend=backend)
        process = subprocess.Popen(
            [sys.executable, "-m", "wheelfit", "build", project, "-o", yard.dist, "--no-index"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        noted = project / "children"
        self.wait(lambda: noted.exists() and len(noted.read_text().split()) == 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, "interrupted" in errors) == (130, True)
        for pid in map(int, noted.read_text().split()):
            self.wait(partial(self.is_gone, pid))
        assert not yard.dist.exists()

    @staticmethod
    def is_gone(pid: int) -> bool:
        """Return whether a process has ended, whether anybody took note of that or not."""
        try:
            return " Z " in Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True

    @staticmethod
    def wait(until: Callable[[], bool]) -> None:
        """Wait until something is so."""
        for _ in range(600):
            if until():
                return
            time.sleep(0.05)
        pytest.fail("it never was")
