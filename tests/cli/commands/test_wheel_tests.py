"""``wheelfit test``: a project's tests with each of its wheels."""

from __future__ import annotations

import os
import platform
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from server.uploading import DOCUMENT

from wheelfit.testing.drivers import FakeDriver, find_compiler
from wheelfit.testing.wheels import build_wheel

UNITTEST = ("--no-index", "--command", "python -m unittest discover -t . -s tests")
LEVELS = {
    "default-priorities": {"namespace": ["x86_64"]},
    "providers": {"x86_64": {"requires": ["x86-64-variant-provider"]}},
    "variants": {f"v{number}": {"x86_64": {"level": [f"v{number}"]}} for number in (1, 4)},
}
CUDA = {
    "default-priorities": {"namespace": ["nvidia"]},
    "providers": {
        "nvidia": {
            "requires": ["nvidia-variant-provider>=0.0.1,<1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        }
    },
    "variants": {"cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}},
}
ARM = os.environ.get("WHEELFIT_TEST_ARM_PYTHON")
on_x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="needs a machine of x86-64, whose levels it is about"
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a project whose source must not be imported by its tests."""
    folder = tmp_path / "project"
    for name, text in {
        "pyproject.toml": "",
        "fast.py": "raise ImportError('this is the source code')",
        "tests/__init__.py": "",
        "tests/test_fast.py": """\
            import unittest
            import fast
            class Test(unittest.TestCase):
                def test(self):
                    self.assertTrue(fast.WORKS)
            """,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    monkeypatch.chdir(folder)
    return folder


def add_wheel(
    label: str | None, *, works: bool = True, document: Any = DOCUMENT, **more: Any
) -> None:
    """Add a wheel to the folder ``dist``."""
    document = document if label else None
    more.setdefault("files", {"fast.py": f"WORKS = {works}"})
    build_wheel(Path("dist"), "fast", "1.0", label=label, document=document, **more)


def by_label(report: dict[str, Any]) -> dict[str, Any]:
    """Return the results by label."""
    return {result["label"] or "plain": result for result in report["results"]}


@pytest.mark.integration
def test_each_wheel(run: Runner) -> None:
    """Each wheel is installed and tested; a wheel that fails or cannot run does not pass."""
    add_wheel(None)
    add_wheel("mkl", works=False)
    add_wheel("open", tag="py2-none-any")
    results = by_label(run("test", *UNITTEST, "--json", code=9).object)
    assert {label: one["state"] for label, one in results.items()} == {
        "plain": "passed",
        "mkl": "failed",
        "open": "not-run",
    }
    assert results["plain"]["how"] == "machine"
    assert results["mkl"]["exit_code"] == 1
    assert "AssertionError: False is not true" in Path(results["mkl"]["log"]).read_text()
    assert "py2-none-any" in results["open"]["reason"] or "tag" in results["open"]["reason"]
    assert results["open"]["log"] is None
    text = run("test", *UNITTEST, code=9).out
    assert "failed with 1: dist/.wheelfit-tests/fast-1.0-py3-none-any-mkl.log" in text


def test_no_wheel_can_run(run: Runner) -> None:
    """If the tests of no wheel can run, the command fails."""
    add_wheel(None, tag="py2-none-any")
    assert run("test", *UNITTEST, "--json", code=10).object["results"][0]["state"] == "not-run"


def test_missing_requirement(run: Runner) -> None:
    """A wheel with a missing requirement fails, with the reason."""
    add_wheel(None, requires=["nowhere-to-be-found"])
    (result,) = run("test", *UNITTEST, "--json", code=9).object["results"]
    assert (result["state"], result["exit_code"]) == ("failed", None)
    assert "nowhere-to-be-found" in result["reason"]


@pytest.mark.integration
def test_publish_refuses_failed_wheels(run: Runner, tmp_path: Path) -> None:
    """B-52: after a test run, variants that did not pass are not published."""
    add_wheel(None)
    add_wheel("mkl")
    add_wheel("open", tag="py2-none-any")
    words = ("publish", "dist", "--to", tmp_path / "index", "--dry-run", "--json")

    def refused(*more: str, code: int) -> list[str]:
        found = run(*words, *more, code=code).object["findings"]
        return [one["where"] for one in found if one["code"] == "untested-wheel"]

    assert refused(code=0) == []
    run("test", *UNITTEST)
    assert refused(code=9) == ["dist/fast-1.0-py2-none-any-open.whl"]
    assert refused("--ignore", "untested-wheel", code=0) == []


@on_x86_64
def test_overridden_machine(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass with an override is reported as described."""
    add_wheel("v4", document=LEVELS)
    monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v4,v3,v2,v1")
    (result,) = run("test", *UNITTEST, "--json").object["results"]
    assert (result["state"], result["how"]) == ("passed", "described")


def test_fake_driver_in_use(
    run: Runner, monkeypatch: pytest.MonkeyPatch, fake_driver: FakeDriver
) -> None:
    """A pass with a fake driver is reported as described."""
    add_wheel("cu128", document=CUDA)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_driver.folder))
    for name, text in fake_driver.environ(devices=["9.0 NVIDIA H100"], cuda="12.8").items():
        monkeypatch.setenv(name, text)
    (result,) = run("test", *UNITTEST, "--json").object["results"]
    assert (result["state"], result["how"]) == ("passed", "described")


@pytest.mark.integration
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_fake_drivers_option(run: Runner, project: Path) -> None:
    """--fake-drivers simulates the GPU that a wheel needs."""
    add_wheel("cu128", document=CUDA)
    (project / "tests/test_fast.py").write_text(ASKS_DRIVER)
    (result,) = run("test", *UNITTEST, "--json", code=10).object["results"]
    assert result["state"] == "not-run"
    (result,) = run("test", *UNITTEST, "--fake-drivers", "--json").object["results"]
    assert (result["state"], result["how"]) == ("passed", "described")


ASKS_DRIVER = """\
import ctypes
import unittest

class Test(unittest.TestCase):
    def test(self):
        version = ctypes.c_int()
        driver = ctypes.CDLL("libcuda.so.1")
        self.assertEqual(driver.cuDriverGetVersion(ctypes.byref(version)), 0)
        self.assertEqual(version.value, 12080)
"""


@on_x86_64
def test_no_fake_driver(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """--fake-drivers does not help for CPU levels, which the reason states."""
    add_wheel("v4", document=LEVELS)
    words = ("--emulate", "never", "--fake-drivers", "--json")
    monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v1")
    (result,) = run("test", *UNITTEST, *words, code=10).object["results"]
    assert "no fake driver" in result["reason"]


@on_x86_64
def test_missing_emulator(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an emulator the tests are not run, with the reason."""
    add_wheel("v1", document=LEVELS)
    monkeypatch.setenv("PATH", "")
    (result,) = run("test", *UNITTEST, "--emulate", "always", "--json", code=10).object["results"]
    assert result["state"] == "not-run"
    assert "is not on PATH" in result["reason"]


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--tests", "nowhere"], "does not exist", 1),
        (["--command", " "], "empty", 2),
        (["--command", "pytest 'tests"], "No closing quotation", 2),
        (["--tests", "tests", "--tests", "more/tests"], "name is taken", 2),
        (["--tests", "."], "name is taken", 2),
        (["elsewhere"], "does not exist", 1),
    ],
)
def test_usage_errors(words: list[str], message: str, code: int, run: Runner) -> None:
    """Invalid options are errors before any test."""
    add_wheel(None)
    Path("more/tests").mkdir(parents=True)
    result = run("test", *words, "--json", code=code)
    assert message in result.error["message"]
    assert result.error["hint"] or message != "does not exist"
    assert not Path("dist/.wheelfit-tests").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_among_the_tests(project: Path, run: Runner) -> None:
    """A dangling link is left out; a circle of links cannot be copied."""
    add_wheel(None, tag="py3-none-any")
    command = ("test", "--no-index", "--command", "python -c 1", "--json")
    (project / "tests" / "dangling").symlink_to("nowhere")
    assert run(*command).object["results"][0]["state"] == "passed"
    (project / "tests" / "circle").symlink_to(".")
    assert "the tests cannot be copied" in run(*command, code=1).error["message"]


@pytest.mark.parametrize("file", [".wheelfit-tests", ".wheelfit-tests/fast-1.0-py3-none-any.log"])
def test_log_that_cannot_be_written(file: str, run: Runner) -> None:
    """A log in whose place something else is cannot be written."""
    add_wheel(None)
    if file.endswith(".log"):
        Path("dist", file).mkdir(parents=True)
    else:
        Path("dist", file).touch()
    result = run("test", "--no-index", "--command", "python -c 1", "--json", code=1)
    assert "the log cannot be written" in result.error["message"]


@pytest.mark.parametrize(("text", "code"), [("[project", 1), ("dependency-groups = 3", 0)])
def test_invalid_pyproject(text: str, code: int, run: Runner) -> None:
    """Invalid TOML is an error before any test; invalid groups are ignored."""
    add_wheel(None)
    Path("pyproject.toml").write_text(text)
    result = run("test", *UNITTEST, "--json", code=code)
    assert (result.object.get("error", {}).get("code") == "invalid-project") == bool(code)
    assert Path("dist/.wheelfit-tests").exists() != bool(code)


@pytest.mark.integration
@pytest.mark.usefixtures("registry")
@on_x86_64
@pytest.mark.skipif(
    not shutil.which("qemu-x86_64-static"), reason="needs qemu-x86_64-static on PATH"
)
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_emulated_processors(run: Runner, project: Path) -> None:
    """Instructions of v3 in a wheel labelled v2 fail on an emulated v2 processor."""
    (project / "fast.py").unlink()
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "fast.c").write_text(SOURCE)
    run("build", "--all")
    results = by_label(run("test", "--emulate", "always", "--json", code=9).object)
    found = {label: (one["state"], one["cpu"]) for label, one in results.items()}
    assert found["v2"] == ("failed", "Nehalem")
    assert found["v3"] == ("passed", "Haswell")
    assert found["v4"] == ("not-run", None)
    assert results["v2"]["exit_code"] == -4  # SIGILL, and no failed test


@pytest.mark.integration
@pytest.mark.skipif(not ARM, reason="needs a Python for Arm, named by WHEELFIT_TEST_ARM_PYTHON")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="Arm is to be emulated")
def test_emulated_arm(run: Runner) -> None:
    """A Python for Arm runs under QEMU on the processor of the label."""
    assert ARM
    versions = {"old": "8a", "new": "8.2a", "newest": "9.0a"}
    document = {
        "default-priorities": {"namespace": ["aarch64"]},
        "providers": {"aarch64": {"requires": ["aarch64-variant-provider"]}},
        "variants": {label: {"aarch64": {"version": [one]}} for label, one in versions.items()},
    }
    machine = "import platform; WORKS = platform.machine() == 'aarch64'"
    for label in (None, *versions):
        tag = "py3-none-linux_aarch64"
        add_wheel(label, document=document, tag=tag, files={"fast.py": machine})
    results = by_label(run("test", *UNITTEST, "--python", ARM, "--json").object)
    assert {label: (one["state"], one["cpu"]) for label, one in results.items()} == {
        "plain": ("passed", "cortex-a57"),
        "old": ("passed", "cortex-a57"),
        "new": ("passed", "cortex-a76"),
        "newest": ("not-run", None),
    }
    assert run("test", "--python", ARM, "--emulate", "never", "--json", code=2).error


PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "fast"
version = "1.0"
[dependency-groups]
test = ["pytest"]
[tool.setuptools]
packages = []
[[tool.setuptools.ext-modules]]
name = "fast"
sources = ["fast.c"]
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider"]
[variant.variants]
v2.x86_64.level = ["v2"]
v3.x86_64.level = ["v3"]
v4.x86_64.level = ["v4"]
"""
SOURCE = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static int compute(void) {
    __asm__ volatile("vpaddd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    return 1;
}
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", "", -1, NULL};
PyMODINIT_FUNC PyInit_fast(void) {
    PyObject *made = PyModule_Create(&module);
    PyModule_AddIntConstant(made, "WORKS", compute());
    return made;
}
"""
