"""Real distributions, installed side by side by pip into a real environment, on fake machines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from python_runs import RUNTIME_SOURCE, plain_environ, run_python
from runtime.declaring import declaration

from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.libraries import compile_library
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.loader.declaration_files import FOLDER

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is one of Linux"),
]

TWO_LINES = "from wheelfit_runtime import load\nload(__name__, into=__name__, submodules=True)\n"
NEEDS = {
    "cu13": ["nvidia :: cuda_version_lower_bound :: 13.0"],
    "cu12": ["nvidia :: cuda_version_lower_bound :: 12.0"],
    "cu11": ["nvidia :: cuda_version_lower_bound :: 11.8"],
    "sm90": ["nvidia :: cuda_version_lower_bound :: 12.0", "nvidia :: sm_arch :: 90_real"],
    "avx512": ["x86_64 :: level :: v4"],
    "avx2": ["x86_64 :: level :: v3"],
    "generic": [],
}
V3 = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v3,v2,v1"}
"""The processor is the same for everybody who runs this."""


def implementation(folder: Path, group: str, name: str, **files: str) -> Path:
    """Build the wheel of an implementation."""
    title = f"{group}-{name}"
    told = declaration(title, *NEEDS[name], distribution=title)
    content = {
        f"{group}_{name}/__init__.py": f"which = {name!r}\n",
        f"{group}_{name}/core.py": f"which = {name!r}\n",
        f"{FOLDER}/{title}.json": json.dumps(told),
        **{path.replace("__", "/"): text for path, text in files.items()},
    }
    return build_wheel(folder, title, "1.0", files=content)


def package(folder: Path, group: str) -> Path:
    """Build the wheel of a package that has implementations."""
    known = [
        {"implementation": name, "install": f"{group}-{name}", "properties": needs}
        for name, needs in NEEDS.items()
    ]
    content = {
        f"{group}/__init__.py": TWO_LINES,
        f"{FOLDER}/{group}.json": json.dumps({"schema": 1, "group": group, "known": known}),
    }
    return build_wheel(folder, group, "1.0", files=content)


class Site(NamedTuple):
    """An environment and what its programs are told."""

    python: Path
    packages: Path
    driver: FakeDriver
    scratch: Path

    def run(
        self, *arguments: str, cuda: str | None = None, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python on a machine.

        :param cuda: version of the driver; None: there is none.
        """
        given = plain_environ("CUDA_", "NVIDIA_", "LD_LIBRARY_PATH")
        given |= {**V3, "WHEELFIT_CACHE_DIR": str(self.scratch / "cache")}
        if cuda is not None:
            given |= {"LD_LIBRARY_PATH": str(self.driver.folder)}
            given |= self.driver.environ(cuda=cuda, devices=["9.0 NVIDIA H100"])
        given |= environ or {}
        return run_python(*arguments, python=self.python, environ=given, cwd=self.scratch)

    def answer(
        self, code: str, *, cuda: str | None = None, environ: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """Run code that must succeed; return what it printed, and its warnings."""
        done = self.run("-c", code, cuda=cuda, environ=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    def add_eggs(self, folder: Path, name: str) -> None:
        """Add a second package with one implementation."""
        for wheel in (package(folder, "eggs"), implementation(folder, "eggs", name)):
            shutil.unpack_archive(wheel, self.packages, "zip")

    def pip(self, *arguments: object) -> None:
        """Run the environment's pip."""
        command = [self.python, "-m", "pip", "--isolated", *arguments]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)


def make_site(folder: Path, driver: FakeDriver, *wheels: Path) -> Site:
    """Return an environment with wheels, and with this wheelfit."""
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "wheelfit.pth").write_text(f"{RUNTIME_SOURCE}\n")
    (folder / "scratch").mkdir()
    site = Site(python, packages, driver, folder / "scratch")
    site.pip("install", "--no-index", "--no-deps", *wheels)
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, fake_driver: FakeDriver) -> Site:
    """Install spam with five implementations side by side."""
    folder = tmp_path_factory.mktemp("side by side")
    wheels = [
        implementation(folder / "wheels", "spam", name)
        for name in ("cu12", "cu11", "avx512", "avx2", "generic")
    ]
    return make_site(folder, fake_driver, package(folder / "wheels", "spam"), *wheels)


@pytest.fixture
def site_with(tmp_path: Path, site: Site) -> Site:
    """Copy the packages for a test that changes them."""
    shutil.copytree(site.packages, tmp_path / "packages")
    (tmp_path / "scratch").mkdir()
    start = tmp_path / "python"
    path = f"{tmp_path}/packages:{RUNTIME_SOURCE}"
    start.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -S "$@"\n')
    start.chmod(0o755)
    return Site(start, tmp_path / "packages", site.driver, tmp_path / "scratch")


WHICH = "import spam; print(spam.which)"


class TestMachines:
    """The scenarios: one environment, many machines."""

    @pytest.mark.parametrize(
        ("cuda", "which", "lost"),
        [
            ("12.4", "cu12", []),
            ("13.2", "cu12", []),
            ("11.8", "cu11", []),
            ("11.4", "avx2", ["spam-cu11", "spam-cu12"]),
            (None, "avx2", []),
        ],
    )
    def test_drivers(self, site: Site, cuda: str | None, which: str, lost: list[str]) -> None:
        """The best for the driver is taken; a warning tells of a GPU that nothing uses."""
        found, warnings = site.answer(WHICH, cuda=cuda)
        assert found == which
        assert warnings.count("VariantWarning") == bool(lost)
        for name in ("cu12", "cu11", "avx512", "avx2", "generic"):
            assert (f"spam-{name} (" in warnings) == (f"spam-{name}" in lost)
        done = site.run("-W", "error", "-c", WHICH, cuda=cuda)
        assert (done.returncode == 0) == (not lost), done.stderr

    @pytest.mark.parametrize(
        ("cuda", "environ", "which"),
        [
            pytest.param(
                None, {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v1"}, "generic", id="modest processor"
            ),
            pytest.param("12.4", {"CUDA_VISIBLE_DEVICES": ""}, "avx2", id="mask of GPUs"),
            pytest.param(None, {"SPAM_IMPLEMENTATION": "avx512"}, "avx512", id="demanded"),
            # The category, or the words it begins with, can be named where Python is started.
            pytest.param("11.4", {"PYTHONWARNINGS": "ignore::UserWarning"}, "avx2", id="category"),
            pytest.param("11.4", {"PYTHONWARNINGS": "ignore:spam uses"}, "avx2", id="words"),
        ],
    )
    def test_nobody_is_warned(
        self, site: Site, cuda: str | None, environ: dict[str, str], which: str
    ) -> None:
        """What a mask hides, somebody demands, or is silenced, is no reason for a warning."""
        assert site.answer(WHICH, cuda=cuda, environ=environ) == (which, "")

    def test_submodules(self, site: Site) -> None:
        """Modules below the implementation are modules below the package."""
        code = "import spam.core, spam_cu12.core as c; print(spam.core is c, spam.core.which)"
        assert site.answer(code, cuda="12.4")[0] == "True cu12"

    def test_no_cuda_in_this_process(self, site: Site, tmp_path: Path) -> None:
        """P-72: the process that imports never initialises CUDA, whoever else does."""
        trace = tmp_path / "trace"
        traced = {"WHEELFIT_FAKE_TRACE": str(trace), "WHEELFIT_FAKE_TRACE_PROCESS": "1"}
        code = "import os, spam; print(os.getpid(), spam.which)"
        pid, which = site.answer(code, cuda="12.4", environ=traced | _fresh(tmp_path))[0].split()
        assert which == "cu12"
        calls = [line.split() for line in trace.read_text().splitlines()]
        assert calls
        assert [name for name, process in calls if process == pid] in ([], ["cuDriverGetVersion"])

    def test_drivers_are_asked_once(self, site: Site, tmp_path: Path) -> None:
        """P-22: what a child process said is remembered for the next process."""
        trace = tmp_path / "trace"
        traced = {"WHEELFIT_FAKE_TRACE": str(trace)} | _fresh(tmp_path)
        assert site.answer(WHICH, cuda="12.4", environ=traced)[0] == "cu12"
        first = trace.read_text()
        assert site.answer(WHICH, cuda="12.4", environ=traced)[0] == "cu12"
        assert trace.read_text() == first

    def test_a_library_that_crashes(self, site: Site, tmp_path: Path) -> None:
        """One that crashes whoever asks it costs the implementation, not the process.

        There is no driver in the kernel: the library is in the image for other machines, or is
        a stub to link with, so nobody is warned.
        """
        broken = {"WHEELFIT_FAKE_ABORT": "nvmlDeviceGetCount_v2"} | _fresh(tmp_path)
        assert site.answer(WHICH, cuda="12.4", environ=broken) == ("avx2", "")

    def test_warnings_as_errors(self, site: Site) -> None:
        """Who makes errors of these warnings gets one, by its category."""
        code = (
            "import warnings, wheelfit_runtime as r\n"
            "warnings.simplefilter('error', r.VariantWarning)\n"
            "try:\n    import spam\n"
            "except r.VariantWarning: print('refused')"
        )
        assert site.answer(code, cuda="11.4")[0] == "refused"

    def test_demanded_by_a_wrong_name(self, site: Site) -> None:
        """The error has the names that are installed."""
        wrong = {"SPAM_IMPLEMENTATION": "cu99"}
        done = site.run("-c", WHICH, environ=wrong)
        assert done.returncode == 1
        assert "installed are avx2, avx512, cu11, cu12, generic" in done.stderr
        told = site.run("-m", "wheelfit_runtime", "explain", environ=wrong)
        assert told.returncode == 3
        words = "  SPAM_IMPLEMENTATION=cu99 is set, which is not installed"
        assert told.stdout.splitlines()[1] == words

    def test_cuda_13_is_loaded(self, site: Site, tmp_path: Path) -> None:
        """What another package has loaded counts: no CUDA 12 beside CUDA 13."""
        library = tmp_path / "libcudart.so.13"
        library.write_bytes(compile_library(library.name, ""))
        code = f"import ctypes; ctypes.CDLL({str(library)!r}); {WHICH}"
        found, warnings = site.answer(code, cuda="13.2")
        assert found == "avx2"
        assert f"this process has CUDA 13: {library} is loaded" in warnings
        mixed = {"WHEELFIT_MIX": "cuda"}
        assert site.answer(code, cuda="13.2", environ=mixed)[0] == "cu12"

    def test_a_child_that_is_forked(self, site: Site) -> None:
        """A forked worker has what its parent has."""
        code = (
            "import multiprocessing as m, spam\n"
            "def which(_):\n    import spam, wheelfit_runtime as r\n"
            "    return spam.which + r.load('spam').which\n"
            "with m.get_context('fork').Pool(2) as pool: print(*pool.map(which, range(4)))"
        )
        assert site.answer(code, cuda="12.4")[0] == " ".join(["cu12cu12"] * 4)

    def test_threads_that_import(self, site: Site) -> None:
        """Thirty-two threads that import at once get one implementation, and one warning."""
        code = (
            "import threading\nfound = []\nstart = threading.Barrier(32)\n"
            "def work():\n    start.wait()\n    import spam\n    found.append(spam.which)\n"
            "threads = [threading.Thread(target=work) for _ in range(32)]\n"
            "[t.start() for t in threads]; [t.join() for t in threads]\n"
            "print(len(found), *set(found))"
        )
        found, warnings = site.answer(code, cuda="11.4")
        assert found == "32 avx2"
        assert warnings.count("VariantWarning") == 1


class TestOtherPackages:
    """What is installed beside it."""

    def test_planned_together(self, site_with: Site, tmp_path: Path) -> None:
        """Eggs that has CUDA 11 only makes spam take CUDA 11, though spam is imported first."""
        site_with.add_eggs(tmp_path, "cu11")
        code = "import spam, eggs; print(spam.which, eggs.which)"
        assert site_with.answer(code, cuda="12.4")[0] == "cu11 cu11"

    def test_one_that_does_not_load(self, site_with: Site) -> None:
        """What cannot be loaded counts as unsupported, and the next is taken."""
        broken = "import ctypes\nctypes.CDLL('libdoes-not-exist.so.12')\n"
        (site_with.packages / "spam_cu12" / "__init__.py").write_text(broken)
        found, warnings = site_with.answer(WHICH, cuda="12.4")
        assert found == "cu11"
        assert "spam-cu12 (cannot be loaded: libdoes-not-exist.so.12" in warnings
        demanded = {"SPAM_IMPLEMENTATION": "cu12"}
        done = site_with.run("-c", WHICH, cuda="12.4", environ=demanded)
        hint = "hint: unset SPAM_IMPLEMENTATION to choose another implementation\n"
        assert done.stderr.endswith(hint)

    def test_packages_that_use_each_other(self, site_with: Site, tmp_path: Path) -> None:
        """Threads that import two packages, of which one uses the other, do not wait for ever."""
        site_with.add_eggs(tmp_path, "avx2")
        slow = "import time\ntime.sleep(0.05)\n"
        (site_with.packages / "spam_avx2" / "__init__.py").write_text(
            f"{slow}import eggs\nwhich = eggs.which\n"
        )
        (site_with.packages / "eggs_avx2" / "__init__.py").write_text(f"{slow}which = 'eggs'\n")
        code = (
            "import importlib, threading\nfound = []\nstart = threading.Barrier(32)\n"
            "def work(name):\n    start.wait()\n"
            "    found.append(importlib.import_module(name).which)\n"
            "names = ['spam', 'eggs', 'spam_avx2', 'eggs_avx2'] * 8\n"
            "threads = [threading.Thread(target=work, args=(name,)) for name in names]\n"
            "[t.start() for t in threads]; [t.join() for t in threads]\n"
            "print(len(found), *set(found))"
        )
        assert site_with.answer(code)[0] == "32 eggs"

    def test_threads_that_want_modules_below(self, site_with: Site) -> None:
        """Threads that want one before the package is all there get that of what is taken."""
        (site_with.packages / "spam_cu12" / "__init__.py").write_text(
            "import sys, time\nfrom . import core\nsys.has_begun.set()\ntime.sleep(0.05)\n"
            "raise OSError('no library')\n"
        )
        code = (
            "import importlib, sys, threading\nfound = []\nsys.has_begun = threading.Event()\n"
            "def work(name):\n    name == 'spam' or sys.has_begun.wait()\n"
            "    found.append(importlib.import_module(name).which)\n"
            "names = ['spam', 'spam.core'] * 8\n"
            "threads = [threading.Thread(target=work, args=(name,)) for name in names]\n"
            "[t.start() for t in threads]; [t.join() for t in threads]\n"
            "import spam_cu11.core, spam.core\n"
            "print(len(found), *set(found), spam.core is spam_cu11.core)"
        )
        assert site_with.answer(code, cuda="12.4")[0] == "16 cu11 True"

    def test_one_that_comes_back(self, site_with: Site, tmp_path: Path) -> None:
        """What an implementation uses may use modules below the package, as if it were there."""
        site_with.add_eggs(tmp_path, "avx2")
        (site_with.packages / "spam_cu12" / "__init__.py").write_text(
            "import eggs\nwhich = eggs.which\n"
        )
        (site_with.packages / "eggs_avx2" / "__init__.py").write_text(
            "from spam.core import which\n"
        )
        assert site_with.answer(WHICH, cuda="12.4")[0] == "cu12"

    def test_gpu_code(self, site_with: Site, tmp_path: Path) -> None:
        """GPUs are asked for in a child process where a declaration names their code."""
        shutil.unpack_archive(implementation(tmp_path, "spam", "sm90"), site_with.packages, "zip")
        fresh = _fresh(tmp_path)
        assert site_with.answer(WHICH, cuda="12.4", environ=fresh)[0] == "sm90"
        old = {"WHEELFIT_FAKE_DEVICES": "7.5 Tesla T4"} | _fresh(tmp_path / "old")
        assert site_with.answer(WHICH, cuda="12.4", environ=old)[0] == "cu12"

    def test_nothing_fits(self, site_with: Site) -> None:
        """An import that fails says why each does, and what to install."""
        for name in ("avx512", "avx2", "generic"):
            (site_with.packages / FOLDER / f"spam-{name}.json").unlink()
        done = site_with.run("-c", f"try:\n    {WHICH}\nexcept ImportError as e: print(e, e.name)")
        assert done.returncode == 0
        assert "spam-cu12: needs an NVIDIA driver for CUDA 12.0 or newer" in done.stdout
        assert "spam-cu11: needs an NVIDIA driver for CUDA 11.8 or newer" in done.stdout
        hint = "hint: this machine can use: pip install spam-avx2 (or spam-generic) spam"
        assert done.stdout.strip().endswith(hint)
        assert done.stderr == ""

    def test_hostile_files(self, site_with: Site) -> None:
        """Whatever lies among the declarations, an import goes on, and names the file."""
        folder = site_with.packages / FOLDER
        (folder / "deep.json").write_text("[" * 30_000)
        os.mkfifo(folder / "pipe.json")
        (folder / "endless.json").symlink_to("/dev/zero")
        found, warnings = site_with.answer(WHICH, cuda="12.4")
        assert found == "cu12"
        for name in ("deep", "pipe", "endless"):
            assert f"{FOLDER}/{name}.json: " in warnings


class TestCommand:
    """``python -m wheelfit_runtime``."""

    def test_explain(self, site: Site) -> None:
        """People read what would be taken, and why not the others."""
        done = site.run("-m", "wheelfit_runtime", "explain", "spam", cuda="11.8")
        assert done.returncode == 0
        lines = done.stdout.splitlines()
        assert lines[:4] == [
            "spam: cu11 would be used",
            "  * cu11 (spam_cu11): nvidia :: cuda_version_lower_bound :: 11.8",
            "  + avx2 (spam_avx2): x86_64 :: level :: v3",
            "  + generic (spam_generic): needs nothing",
        ]
        assert "      needs x86_64 :: level :: v4; here it is v3" in lines
        # Of the machine that is told on which something here depends.
        assert lines[-4:] == [
            "all agree on cuda 11",
            "nvidia: cuda_version_lower_bound 11.8",
            "x86_64: level v3",
            "  WHEELFIT_OVERRIDE_X86_64_LEVEL=v3,v2,v1",
        ]

    def test_explain_to_programs(self, site: Site) -> None:
        """Programs get the same as JSON."""
        done = site.run("-m", "wheelfit_runtime", "explain", "--json", cuda="12.4")
        told = json.loads(done.stdout)
        assert [group["chosen"] for group in told["groups"]] == ["cu12"]
        assert told["machine"]["x86_64"]["overrides"] == ["WHEELFIT_OVERRIDE_X86_64_LEVEL=v3,v2,v1"]

    def test_explain_a_wrong_override(self, site: Site) -> None:
        """An override that cannot be used is shown as it was written."""
        wrong = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "garbage;"}
        done = site.run("-m", "wheelfit_runtime", "explain", "spam", environ=wrong)
        assert "  WHEELFIT_OVERRIDE_X86_64_LEVEL=garbage;\n" in done.stdout

    def test_explain_what_is_not_there(self, site: Site) -> None:
        """A group without an implementation is not a success."""
        done = site.run("-m", "wheelfit_runtime", "explain", "ham")
        assert (done.returncode, done.stdout.splitlines()[0]) == (
            3,
            "ham: no implementation is installed",
        )

    def test_table(self, site: Site) -> None:
        """The declarations can be had as a module."""
        done = site.run("-m", "wheelfit_runtime", "table")
        scope: dict[str, dict[str, object]] = {}
        exec(done.stdout, scope)
        assert "spam-cu12.json" in scope["TABLE"]

    def test_usage(self, site: Site) -> None:
        """What is not a subcommand is answered with those there are."""
        assert site.run("-m", "wheelfit_runtime", "--help").returncode == 0
        for wrong in ([], ["choose"]):
            done = site.run("-m", "wheelfit_runtime", *wrong)
            assert done.returncode == 2
            assert "explain" in done.stderr


def _fresh(folder: Path) -> dict[str, str]:
    """Return what keeps answers of other tests away."""
    return {"WHEELFIT_CACHE_DIR": str(folder / "fresh cache")}
