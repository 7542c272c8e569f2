"""``wheelfit abi bounds``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cli.running import Runner
from programs import run_program
from wheels.binaries.compiling import Workshop, as_wheel, versions_of_fast

from wheelfit.testing.binaries import elf_file
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

LINUX = "manylinux_2_28_x86_64"
TAG = f"py3-none-{LINUX}"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Write wheels of a library: 1.1 adds a symbol, 2.0 changes the SONAME."""
    folder = tmp_path / "dist"
    for version, soname, exports in (
        ("1.0", "libfast.so.1", ["fast_new"]),
        ("1.1", "libfast.so.1", ["fast_new", "fast_scale"]),
        ("1.2.3", "libfast.so.1", ["fast_new", "fast_scale"]),
        ("2.0", "libfast.so.2", ["fast_new", "fast_scale"]),
    ):
        files = {f"fast_lib/{soname}": elf_file(soname=soname, exports=exports)}
        build_wheel(folder, "Fast.Lib", version, files=files, tag=TAG)
    return folder


@pytest.fixture
def consumer(tmp_path: Path) -> Path:
    """Write a wheel that uses the library."""
    files = {
        "user/_native.so": elf_file(
            needed=["libfast.so.1", "libc.so.6"], imports=["fast_new", "fast_scale", "malloc"]
        )
    }
    return build_wheel(tmp_path, "user", "1.0", files=files, tag=TAG)


EXPECTED = [
    f"user-1.0-{TAG}.whl uses 2 symbols of libfast.so.1",
    "  1.0: lacks fast_scale",
    "  1.1: fits",
    "  1.2.3: fits",
    "  2.0: has no libfast.so.1",
    "properties:",
    "  abi_dependency :: fast_lib :: 1.1",
    "  abi_dependency :: fast_lib :: 1.2",
    "requirement: fast-lib>=1.1,<2.0",
]


def test_bounds_from_a_folder(dist: Path, consumer: Path, run: Runner) -> None:
    """B-61, P-46: the wheels of a folder are examined oldest first."""
    result = run("abi", "bounds", consumer, "--against", dist)
    assert result.out.splitlines() == EXPECTED
    assert "changes of types and layouts cannot be detected" in result.err


def test_bare_name_is_a_path(consumer: Path, run: Runner) -> None:
    """A bare name is a path and no index is contacted; the hint shows project:NAME."""
    error = run("abi", "bounds", consumer, "--against", "fast-lib", "--json", code=1).error
    assert (error["code"], error["where"]) == ("file-problem", "fast-lib")
    assert "project:NAME" in error["hint"]


def test_numpy_needs_versions_only(tmp_path: Path, run: Runner) -> None:
    """B-61: for NumPy version numbers are enough, so none of its wheels is fetched."""
    folder = tmp_path / "numpy"
    for version in ("1.24.4", "1.26.4", "2.1.0"):
        build_wheel(folder, "numpy", version, files={"numpy/core.so": elf_file()}, tag=TAG)
    text = b"\0numpy._core._multiarray_umath\0(NumPy 1.25) but the running NumPy has C-API version"
    files = {"user/_native.so": elf_file(sections={".rodata": text})}
    wheel = build_wheel(tmp_path, "user", "1.0", files=files, tag=TAG)
    with RecordingIndex(folder) as index:
        words = ["--against", "project:numpy", "--index-url", index.url, "--no-cache-dir"]
        result = run("abi", "bounds", wheel, *words)
        assert not [request for request in index.requests if request.path.endswith(".whl")]
    assert result.out.splitlines() == [
        f"{wheel.name} uses the C API of NumPy",
        "  1.24.4: is older than the C API of 1.25",
        "  1.26.4: fits",
        "  2.1.0: fits",
        "properties:",
        "  abi_dependency :: numpy :: 1.26",
        "  abi_dependency :: numpy :: 2.1",
        "requirement: numpy>=1.26.4",
    ]


def test_bounds_from_an_index(dist: Path, consumer: Path, run: Runner) -> None:
    """B-61: an index gives the same bounds; its wheels are fetched as they are needed."""
    with RecordingIndex(dist) as index:
        words = ["--against", "fast-lib", "--index-url", index.url, "--no-cache-dir"]
        result = run("abi", "bounds", consumer, *words)
        assert result.out.splitlines() == EXPECTED
        some = run("abi", "bounds", consumer, "--newest", "2", *words).out.splitlines()
        assert [line for line in some if line.startswith("  ") and ": " in line][:2] == EXPECTED[
            3:5
        ]
        words[1] = "fast-lib>=1.1,<2"
        bounded = run("abi", "bounds", consumer, *words)
        assert "requirement: fast-lib>=1.1\n" in bounded.out
        assert "1.2.3 is the newest examined release" in bounded.err
        words[1] = "gone"
        assert run("abi", "bounds", consumer, *words, "--json", code=3).error["code"] == (
            "project-not-found"
        )


def test_only_loaded_libraries_are_fetched(consumer: Path, tmp_path: Path, run: Runner) -> None:
    """B-61: only the libraries that are loaded are fetched from wheels of an index, by ranges."""
    folder = tmp_path / "large"
    for version in ("1.0", "1.1", "1.2"):
        soname = "libfast.so.2" if version == "1.2" else "libfast.so.1"
        exports = ["fast_new", "fast_scale"][: 1 if version == "1.0" else 2]
        files: dict[str, bytes | str] = {
            f"fast/{soname}": elf_file(soname=soname, needed=["libmore.so"], exports=exports),
            "fast/libmore.so": elf_file(soname="libmore.so", exports=["more"]),
            "fast/libother.so": elf_file(
                sections={".rodata": random.Random(1).randbytes(4_000_000)}
            ),
        }
        build_wheel(folder, "fast", version, files=files, tag=TAG)
    with RecordingIndex(folder) as index:
        words = ["--against", "project:fast", "--index-url", index.url, "--no-cache-dir"]
        said = run("abi", "bounds", consumer, *words).out.splitlines()
        for version in ("1.0", "1.1", "1.2"):
            assert 0 < index.bytes_sent(f"fast-{version}-{TAG}.whl") < 2_000_000
    assert said[1:4] == ["  1.0: lacks fast_scale", "  1.1: fits", "  1.2: has no libfast.so.1"]


def test_only_first_and_last_of_a_release_series_are_fetched(
    consumer: Path, tmp_path: Path, run: Runner
) -> None:
    """B-61: only the ends of a release series are fetched; an unreadable release sets no bound."""
    folder = tmp_path / "many"
    payload = random.Random(1).randbytes(300_000)
    versions = [f"1.{number}" for number in range(40)]
    for number, version in enumerate(versions):
        soname = f"libfast.so.{1 + number // 30}"
        library = elf_file(soname=soname, exports=["fast_new", "fast_scale"][: 1 + number // 10])
        if number == 20:
            library = library[:80]
        files: dict[str, bytes | str] = {"fast/data.bin": payload, f"fast/{soname}": library}
        build_wheel(folder, "fast", version, files=files, tag=TAG)
    with RecordingIndex(folder) as index:
        words = ["--against", "project:fast", "--index-url", index.url, "--no-cache-dir"]
        found = run("abi", "bounds", consumer, *words, "--newest", "0", "--json").object
        wheels = [request for request in index.requests if request.path.endswith(".whl")]
        assert len(wheels) == 80
        assert {wheel.status for wheel in wheels} == {206}
        assert sum(wheel.sent for wheel in wheels) < 40 * 150_000
    assert (found["first"], found["broken_by"]) == ("1.10", "1.30")
    assert found["requirement"] == "fast>=1.10,<1.30"
    undecided = {
        release["version"]: release["undecided"]
        for release in found["releases"]
        if release["undecided"]
    }
    assert undecided.keys() == {"1.20"}
    assert undecided["1.20"].startswith("the file cannot be read: libfast.so.1: ")
    assert "1.20" not in found["values"]


def test_json_report(dist: Path, consumer: Path, run: Runner) -> None:
    """B-61: the JSON report has properties, bounds and missing symbols."""
    found = run("abi", "bounds", consumer, "--against", dist, "--namespace", "abi", "--json").object
    assert found["properties"] == ["abi :: fast_lib :: 1.1", "abi :: fast_lib :: 1.2"]
    assert (found["first"], found["broken_by"]) == ("1.1", "2.0")
    assert found["releases"][0]["missing_symbols"] == ["fast_scale"]


def test_libraries_without_wheels(tmp_path: Path, run: Runner) -> None:
    """B-61: bare libraries are examined with the versions and the project on the command line."""
    (tmp_path / "workshop").mkdir()
    workshop = Workshop(tmp_path / "workshop")
    libraries = versions_of_fast(workshop)
    user = workshop.user(libraries["1.1"])
    against = [
        word for version, path in libraries.items() for word in ("--against", f"{version}={path}")
    ]
    result = run("abi", "bounds", user, *against, "--project", "fast")
    assert result.out.splitlines()[-3:] == [
        "  abi_dependency :: fast :: 1.1",
        "  abi_dependency :: fast :: 1.2",
        "requirement: fast>=1.1,<2.0",
    ]
    nameless = run("abi", "bounds", user, *against).out.splitlines()
    assert nameless[-2:] == ["values: 1.1, 1.2", "versions: >=1.1,<2.0"]


def test_exports_table_of_the_library(
    dist: Path, consumer: Path, tmp_path: Path, run: Runner
) -> None:
    """B-61: the library's abi-exports table sets the level at which values are compatible."""
    project = tmp_path / "pyproject.toml"
    words: list[str | Path] = ["abi", "bounds", consumer, "--against", dist]
    words += ["--exports", project]
    project.write_text('[variant.abi-exports]\nlevel = "patch"\nlibraries = ["libfast*"]\n')
    assert ":: 1.2.3\n" in run(*words).out
    project.write_text('[variant.abi-exports]\nlevel = "epoch"\n')
    error = run(*words, "--json", code=1).error
    assert (error["code"], error["faults"][0]["path"]) == (
        "invalid-document",
        "variant.abi-exports.level",
    )
    project.write_text("[project]\n")
    assert run(*words, "--json", code=1).error["code"] == "file-problem"
    project.write_text("=")
    assert run(*words, "--json", code=1).error["code"] == "file-problem"


CARRIER = "abi-exports.json"
LIBRARY = """\
[build-system]
requires = ["setuptools>=70.1"]
build-backend = "setuptools.build_meta"
[project]
name = "fast"
version = "{version}"
[tool.setuptools]
packages = ["fast"]
[tool.setuptools.package-data]
fast = ["*.so*"]
[variant.abi-exports]
level = "major"
libraries = ["libfast*"]
"""


def test_exports_table_inside_wheels(
    dist: Path, consumer: Path, tmp_path: Path, run: Runner
) -> None:
    """B-61: the library's wheels carry its abi-exports table to the projects that use it."""
    project = tmp_path / "pyproject.toml"
    project.write_text('[variant.abi-exports]\nlevel = "major"\nlibraries = ["libfast*"]\n')
    carrying = tmp_path / "carrying"
    run("wheel", "repack", dist, "--exports", project, "-o", carrying)
    with zipfile.ZipFile(next(carrying.glob("*-1.1-*"))) as wheel:
        (member,) = (name for name in wheel.namelist() if name.endswith(f".dist-info/{CARRIER}"))
        content = json.loads(wheel.read(member))
    assert content == {"schema": 1, "level": "major", "libraries": ["libfast*"]}
    result = run("abi", "bounds", consumer, "--against", carrying)
    values = [line for line in result.out.splitlines() if " :: " in line]
    assert values == [f"  abi_dependency :: fast_lib :: {one}" for one in ("1.1.0", "1.2.3")]
    assert "the library promises that its major releases are compatible" in result.err
    project.write_text('[variant.abi-exports]\nlevel = "minor"\n')
    other = run("abi", "bounds", consumer, "--against", carrying, "--exports", project)
    assert other.out.splitlines() == EXPECTED


@pytest.mark.parametrize("content", ['{"level": "minor"}', '{"schema": 1, "level": "epoch"}', "{"])
def test_unreadable_exports_table(content: str, consumer: Path, run: Runner) -> None:
    """B-61: an unreadable abi-exports table is ignored with a note."""
    files: dict[str, bytes | str] = {
        "lib/libfast.so.1": elf_file(soname="libfast.so.1", exports=["fast_new", "fast_scale"]),
        f"fast-1.0.dist-info/{CARRIER}": content,
    }
    wheel = build_wheel(consumer.parent / "one", "fast", "1.0", files=files, tag=TAG)
    result = run("abi", "bounds", consumer, "--against", wheel)
    assert ":: 1.0\n" in result.out
    assert f"its {CARRIER} is ignored" in result.err


@pytest.mark.network
@pytest.mark.integration
def test_built_and_installed_library(registry: None, tmp_path: Path, run: Runner) -> None:
    """B-61: A real library is built and installed, and its user is built with the installed one."""
    del registry
    (tmp_path / "workshop").mkdir()
    workshop = Workshop(tmp_path / "workshop")
    libraries = versions_of_fast(workshop)
    wheels, site = tmp_path / "dist", tmp_path / "site-packages"
    for version in ("1.0", "1.1", "1.2"):
        project = tmp_path / f"project-{version}"
        (project / "fast").mkdir(parents=True)
        (project / "fast/libfast.so.1").write_bytes(libraries[version].read_bytes())
        (project / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {LINUX}\n")
        (project / "pyproject.toml").write_text(LIBRARY.format(version=version))
        run("build", project, "-o", wheels)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    (chosen,) = wheels.glob("fast-1.1-*.whl")
    subprocess.run([*command, "--target", str(site), str(chosen)], check=True)
    installed = site / "fast/libfast.so.1"
    user = as_wheel(tmp_path, "user", "1.0", workshop.user(installed), TAG)
    by_wheels = run("abi", "bounds", user, "--against", wheels).out.splitlines()
    assert by_wheels[-3:] == [
        "  abi_dependency :: fast :: 1.1.0",
        "  abi_dependency :: fast :: 1.2.0",
        "requirement: fast>=1.1",
    ]
    words = ["--against", f"1.1={installed}", "--project", "fast"]
    assert (
        run("abi", "bounds", user, *words).out.splitlines()[-2] == "  abi_dependency :: fast :: 1"
    )


def test_no_compatible_release(dist: Path, consumer: Path, run: Runner) -> None:
    """B-61: if no release fits, the error lists the reason of each release."""
    files = {"fast_lib/libfast.so.1": elf_file(soname="libfast.so.1", exports=["fast_scale"])}
    odd = build_wheel(dist, "fast-lib", "0.9", files=files, tag=TAG)
    against: list[str | Path] = ["--against", odd, "--against", next(dist.glob("*-1.0-*"))]
    error = run("abi", "bounds", consumer, *against, "--json", code=3).error
    assert error["code"] == "no-compatible-release"
    assert error["note"] == "0.9: lacks fast_new\n1.0: lacks fast_scale"
    result = run("abi", "bounds", consumer, *against, "--built-with", "1.0")
    assert result.out.splitlines()[1:3] == ["  0.9: lacks fast_new", "  1.0: fits"]


def test_symbols_of_no_release(dist: Path, consumer: Path, run: Runner) -> None:
    """B-61: symbols that no release exports may belong to other libraries, with a note."""
    result = run("abi", "bounds", consumer, "--against", next(dist.glob("*-1.0-*")))
    assert "1.0: fits" in result.out
    assert "no examined release has fast_scale and malloc: these symbols are of other" in result.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--against", "1.0=a.so", "--against", "1.0=b.so"],
        ["--against", "1..0=a.so"],
        ["--against", "dist", "--built-with", "new"],
        ["--against", "dist", "--project", "-"],
        ["--against", "dist", "--newest", "-1"],
    ],
)
def test_usage_errors(words: list[str], consumer: Path, run: Runner) -> None:
    """B-61: command lines without a meaning are usage errors."""
    run("abi", "bounds", consumer, *words, "--no-index", code=2)


def test_only_one_project(dist: Path, consumer: Path, run: Runner) -> None:
    """B-61: only one project can be examined at a time."""
    other = build_wheel(dist.parent / "other", "other", "1.0", tag=TAG)
    run("abi", "bounds", consumer, "--against", dist, "--against", other, code=2)


@pytest.mark.network
def test_published_library(registry: None, tmp_path: Path, run: Runner) -> None:
    """B-61: A published library with a dependency fits only the releases with its SONAME."""
    del registry
    wheel = "cmeel-urdfdom==6.0.0"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wheel]
    completed = run_program(*command, "--dest", str(tmp_path), code=None)
    if completed.returncode:
        pytest.skip(f"{wheel} cannot be had from the package registry: {completed.stderr}")
    (consumer,) = tmp_path.glob("*.whl")
    found = run(
        "abi", "bounds", consumer, "--against", "cmeel-tinyxml2>=10,<=11.0.0", "--json"
    ).object
    assert found["libraries"] == ["libtinyxml2.so.11"]
    assert {
        release["version"].partition(".")[0]: release["fits"] for release in found["releases"]
    } == {
        "10": False,
        "11": True,
    }
    assert found["values"] == ["11.0"]


def test_compiled_libraries_in_wheels(tmp_path: Path, run: Runner) -> None:
    """B-61: compiled libraries are found inside wheels."""
    (tmp_path / "workshop").mkdir()
    workshop = Workshop(tmp_path / "workshop")
    libraries = versions_of_fast(workshop)
    folder = tmp_path / "dist"
    for version, path in libraries.items():
        as_wheel(folder, "fast", version, path, TAG)
    user = as_wheel(tmp_path, "user", "1", workshop.user(libraries["1.1"]), TAG)
    result = run("abi", "bounds", user, "--against", folder)
    assert "requirement: fast>=1.1,<2.0" in result.out


def test_versioned_cpp_namespaces(tmp_path: Path, run: Runner) -> None:
    """B-61: A library with a version in its C++ namespace fits while that namespace exists."""
    folder = tmp_path / "absl"
    for version, namespace in (("1.0", "12lts_20230802"), ("2.0", "12lts_20240722")):
        exports = [f"_ZN4absl{namespace}3NowEv"]
        files = {"absl/libabsl.so": elf_file(soname="libabsl.so", exports=exports)}
        build_wheel(folder, "absl", version, files=files, tag=TAG)
    module = elf_file(needed=["libabsl.so"], imports=["_ZN4absl12lts_202407223NowEv"])
    wheel = build_wheel(tmp_path, "user", "1.0", files={"user/_c.so": module}, tag=TAG)
    result = run("abi", "bounds", wheel, "--against", folder)
    assert "  1.0: lacks _ZN4absl12lts_202407223NowEv" in result.out.splitlines()
    assert "absl::lts_20240722 (1 symbol) is in releases 20240722.* of Abseil only" in result.err
    assert result.out.splitlines()[-1] == "requirement: absl>=2.0"


def test_bounds_of_python(tmp_path: Path, run: Runner) -> None:
    """B-61: Python is examined by name, as a library is."""
    pytest.importorskip("abi3info")
    new = "PyType_GetName"
    path = tmp_path / "fast.abi3.so"
    path.write_bytes(elf_file(exports=["PyInit_fast"], imports=["PyModule_Create2", new]))
    result = run("abi", "bounds", path, "--against", "python>=3.10,<3.13")
    assert result.out.splitlines() == [
        "fast.abi3.so uses 2 symbols of Python",
        f"  3.10: lacks {new}",
        "  3.11: fits",
        "  3.12: fits",
        "values: 3.11, 3.12",
        "versions: >=3.11",
    ]
    run("abi", "bounds", path, "--against", "python>=x", code=2)
    run("abi", "bounds", path, "--against", "python", "--against", "python", code=2)
    run("abi", "bounds", path, "--against", "python<3.8", code=3)
