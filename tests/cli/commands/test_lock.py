"""Output and options of ``wheelfit lock``; the contents of locks are tested with the library."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from cli.terminal import in_terminal, screen
from programs import run_program

from wheelfit.locking.document import Lock, read_lock
from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.platforms.known_platforms import PYTHONS

CUDA = release_document(
    {
        "cu12": {"nvidia": {"cuda_version_lower_bound": ["12.0"]}},
        "cu13": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
        "null": {},
    },
    providers={"nvidia": NVIDIA},
)
PLATFORMS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "windows-x86_64")
ANYWHERE = "linux-x86_64, linux-aarch64, macos-arm64 and windows-x86_64, Python 3.12"


class LockFolder:
    """Locks of one index in one folder."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self.folder = folder
        self.index = index

    def lock(self, *words: str | Path, code: int = 0, python: str | None = "3.12") -> CommandResult:
        """Lock."""
        version = ["--python-version", python] if python else []
        sources = ["-i", self.index.url, "--no-cache-dir"]
        return self._run("lock", *sources, *version, *words, code=code)

    def add(self, name: str, version: str, **more: object) -> None:
        """Add a plain wheel to the index."""
        build_wheel(self.folder / "index", name, version, **more)  # type: ignore[arg-type]

    def add_variants(self, name: str, version: str, **requires: tuple[str, ...]) -> None:
        """Add a release with variants, with the dependencies of each label."""
        folder = self.folder / "index"
        for label in (None, "null", "cu12", "cu13"):
            needs = requires.get(label or "plain", ())
            document = CUDA if label else None
            build_wheel(folder, name, version, label=label, document=document, requires=needs)
        (folder / f"{name}-{version}-variants.json").write_text(json.dumps(CUDA))

    def read(self, name: str = "pylock.toml") -> Lock:
        """Read a lock."""
        return read_lock((self.folder / name).read_bytes(), where=name)

    def files(self) -> set[str]:
        """Return the names of the existing locks."""
        return {path.name for path in self.folder.glob("pylock*")}


class CachingFolderIndex:
    """A folder index with a given ``Cache-Control``."""

    def __init__(self, folder: Path, control: str | None) -> None:
        self._inner = FolderIndex(folder)
        self._headers = {} if control is None else {"cache-control": control}

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        answer = self._inner(request)
        others = {name: text for name, text in answer.headers.items() if name != "cache-control"}
        return replace(answer, headers={**others, **self._headers})


@pytest.fixture
def setup(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockFolder]:
    """Yield an empty current folder with an index of a release with variants and plain ones."""
    monkeypatch.chdir(tmp_path)
    with RecordingIndex(tmp_path / "index") as index:
        made = LockFolder(run, tmp_path, index)
        made.add_variants("fast", "1.0", cu12=("lib",), cu13=("lib",))
        made.add("lib", "1.0")
        made.add("app", "1.0", requires=("fast",))
        yield made


class TestWriting:
    """Written locks and the output."""

    def test_text_output(self, setup: LockFolder) -> None:
        """Each new package, each package with variants, and the file have a line."""
        result = setup.lock("app")
        assert result.out.splitlines() == [
            "+ app 1.0",
            "+ fast 1.0",
            "+ lib 1.0",
            "fast 1.0: cu12, cu13, null, plain",
            f"Locked 3 packages for {ANYWHERE} in pylock.toml",
        ]
        assert re.fullmatch(r"Resolved 3 packages in [\d.]+ m?s\n", result.err)
        lock = setup.read()
        assert [str(root) for root in lock.roots or ()] == ["app"]
        assert str(lock.requires_python) == "<3.13,>=3.12"

    def test_json_report(self, setup: LockFolder) -> None:
        """``--json`` has the same information."""
        answer = setup.lock("app", "--json").object
        (lock,) = answer["locks"]
        assert (answer["version"], answer["dry_run"], answer["split_reason"]) == (1, False, None)
        assert answer["seconds"]["resolve"] > 0
        assert (lock["path"], lock["written"], lock["up_to_date"]) == ("pylock.toml", True, False)
        assert lock["for"] == [f"{platform}, Python 3.12" for platform in PLATFORMS]
        assert lock["packages"][1] == {
            "name": "fast",
            "version": "1.0",
            "marker": None,
            "wheels": 4,
            "labels": ["cu12", "cu13", "null", "plain"],
        }
        assert lock["changes"][0] == {
            "name": "app",
            "before": [],
            "after": ["1.0"],
            "details": None,
        }

    @pytest.mark.integration
    def test_progress_in_a_terminal(self, setup: LockFolder) -> None:
        """The progress of the resolution is shown, and cleared at the end."""
        words = ["-m", "wheelfit", "lock", "-i", setup.index.url, "--no-cache-dir", "app"]
        done = in_terminal([*words, "--python-version", "3.12"], {"CI": ""})
        assert done.code == 0
        assert "resolving" in done.shown
        (summary,) = screen(done.shown)
        assert summary.startswith("Resolved 3 packages in ")
        assert done.out.endswith("in pylock.toml\n")

    def test_output_file(self, setup: LockFolder) -> None:
        """``-o`` names a lock file in an existing folder."""
        setup.lock("lib", "-o", "pylock.dev.toml")
        assert setup.files() == {"pylock.dev.toml"}
        result = setup.lock("lib", "-o", "lock.toml", code=2)
        assert "'lock.toml' is not a valid name for a lock file" in result.err
        result = setup.lock("lib", "-o", "no/such/pylock.toml", code=1)
        assert "the folder for the lock does not exist" in result.err

    def test_requirements_files(self, setup: LockFolder) -> None:
        """``-r`` and ``-c`` work as elsewhere; wheels without an allowed hash are not listed."""
        setup.add("lib", "2.0")
        (setup.folder / "in.txt").write_text("lib\n")
        (setup.folder / "limits.txt").write_text("lib<2\n")
        setup.lock("-r", "in.txt", "-c", "limits.txt")
        assert str(setup.read().packages[0].version) == "1.0"
        wheel = setup.folder / "index" / "fast-1.0-py3-none-any-null.whl"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (setup.folder / "in.txt").write_text(f"fast --hash=sha256:{digest}\n")
        setup.lock("-r", "in.txt")
        assert [wheel.filename.text for wheel in setup.read().packages[0].wheels] == [wheel.name]
        (setup.folder / "in.txt").write_text(f"fast --hash=sha256:{digest[::-1]}\n")
        assert "hash-mismatch" in setup.lock("-r", "in.txt", code=4).err

    def test_wheel_file(self, setup: LockFolder) -> None:
        """A wheel file is locked by a relative path, for its project only."""
        setup.add("lib", "2.0")
        wheel = setup.folder / "index" / "fast-1.0-py3-none-any-cu12.whl"
        setup.lock(wheel, "--platform", "linux-x86_64")
        fast, lib = setup.read().packages
        assert [wheel.path for wheel in fast.wheels] == ["index/fast-1.0-py3-none-any-cu12.whl"]
        assert str(lib.version) == "2.0"
        assert [str(root) for root in setup.read().roots or ()] == ["fast==1.0"]

    def test_wheel_url(self, setup: LockFolder) -> None:
        """A wheel by URL is locked with its hash; credentials are removed."""
        name = "lib-1.0-py3-none-any.whl"
        digest = hashlib.sha256((setup.folder / "index" / name).read_bytes()).hexdigest()
        url = setup.index.file_url(name)
        secret = url.replace("://", "://me:secret@")
        setup.lock(f"lib @ {secret}#sha256={digest}")
        (wheel,) = setup.read().packages[0].wheels
        assert (wheel.url, dict(wheel.hashes)) == (url, {"sha256": digest})
        assert "secret" not in (setup.folder / "pylock.toml").read_text()
        result = setup.lock(f"lib @ {url}", "-U", code=3)
        assert "no hash" in result.err

    def test_find_links(self, setup: LockFolder) -> None:
        """Wheels of a folder are locked by relative path and hash."""
        result = setup.lock("lib", "--no-index", "-f", "index")
        assert result.code == 0
        (wheel,) = setup.read().packages[0].wheels
        assert wheel.path == "index/lib-1.0-py3-none-any.whl"
        assert set(wheel.hashes) == {"sha256"}

    def test_no_deps(self, setup: LockFolder) -> None:
        """``--no-deps`` locks only the named packages."""
        setup.lock("app", "--no-deps")
        assert [package.name for package in setup.read().packages] == ["app"]
        assert setup.read().packages[0].needs == {"": ()}


class TestEnvironments:
    """Pythons and platforms of a lock."""

    def test_default_python(self, setup: LockFolder) -> None:
        """Without --python-version the lock is for the current version, with a note."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        result = setup.lock("lib", python=None)
        assert f"locking for Python {version}; --python-version names others" in result.err
        assert ANYWHERE.replace("3.12", version) in result.out

    def test_several_pythons_and_platforms(self, setup: LockFolder) -> None:
        """The lock is for each combination of platform and Python."""
        result = setup.lock("lib", "--python-version", "3.13", "--platform", "linux-x86_64")
        assert "Locked 1 package for linux-x86_64, Python 3.12 and 3.13 in pylock" in result.out

    def test_environments_of_the_project(self, setup: LockFolder) -> None:
        """The project's settings are replaced by options and by named machines."""
        (setup.folder / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\ndependencies = ["lib"]\n'
            '[tool.wheelfit]\nplatform = ["macos-arm64"]\npython-version = ["3.13", "3.12"]\n'
        )
        assert "for macos-arm64, Python 3.12 and 3.13 in" in setup.lock(python=None).out
        setup.lock("--check", python=None)
        assert (
            "for windows-x86_64, Python 3.12 in" in setup.lock("--platform", "windows-x86_64").out
        )
        setup.lock("--for", "linux-x86_64", "-o", "pylock.host.toml", python=None)
        assert setup.read("pylock.host.toml").environments

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--platform", "amiga"], "'amiga' is not a platform"),
            (["--platform", "linux-x86_64@new"], "'linux-x86_64@new' is not a platform"),
            (["--python-version", "new"], "'new' is not a Python version"),
            (["--python-version", "3.99"], "unknown Python version 3.99"),
            (["--python-version", "2.7"], "unknown Python version 2.7"),
            (["--for", "macos-arm64"], "cannot be combined"),
        ],
    )
    def test_invalid_environments(self, setup: LockFolder, words: list[str], message: str) -> None:
        """Unknown names and contradictory options are usage errors."""
        assert message in setup.lock("lib", *words, code=2).err
        assert setup.files() == set()

    def test_equal_metadata_is_fetched_once(self, setup: LockFolder) -> None:
        """Metadata with equal hashes is fetched once for all platforms."""
        for tag in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64"):
            setup.add("same", "1.0", tag=f"cp312-cp312-{tag}")
            setup.add("own", "1.0", tag=f"cp312-cp312-{tag}", description=f"for {tag}\n")
        setup.lock("same", "own")
        asked = [request.path.rpartition("/")[2] for request in setup.index.requests]
        assert sum(name.startswith("same-1.0") for name in asked) == 1
        assert sum(name.startswith("own-1.0") for name in asked) == 3

    def test_glibc_version(self, setup: LockFolder) -> None:
        """A glibc version in the platform limits the wheels."""
        setup.add("new", "1.0", tag="cp312-cp312-manylinux_2_34_x86_64")
        setup.lock("new", "--platform", "linux-x86_64")
        result = setup.lock("new", "--platform", "linux-x86_64@2.28", code=3)
        assert "no-compatible-wheel" in result.err

    def test_lock_does_not_depend_on_the_machine(
        self, setup: LockFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """F-120: neither the machine's GPU nor its Python changes the lock."""
        setup.lock("app")
        first = (setup.folder / "pylock.toml").read_bytes()
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8")
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "9.0")
        (setup.folder / "pylock.toml").unlink()
        result = setup.lock("app")
        assert "warning" not in result.err
        assert (setup.folder / "pylock.toml").read_bytes() == first

    SCRIPT = """
import sys
from wheelfit.cli.main import main
code = main(sys.argv[1:])
looked = [n for n in sys.modules if "platforms.probes" in n or n.endswith(".provider")]
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.known_platforms import PYTHONS
print(code, looked, Machine().detect("nvidia").status.value)
"""

    @pytest.mark.integration
    def test_no_detection(self, setup: LockFolder, fake_driver: FakeDriver) -> None:
        """F-120: with and without a GPU the bytes are the same, and nothing is detected."""
        driver = fake_driver.environ(devices=["9.0 NVIDIA H100"], cuda="12.8")
        library = {"LD_LIBRARY_PATH": str(fake_driver.folder), "NVIDIA_VISIBLE_DEVICES": "void"}
        words = ["lock", "-q", "-i", setup.index.url, "--no-cache-dir", "app"]
        found = []
        for more in ({**driver, **library}, {"WHEELFIT_OVERRIDE_NVIDIA": ""}):
            completed = run_program(
                sys.executable, "-c", self.SCRIPT, *words, "--python-version", "3.12",
                env={**os.environ, **more},
            )  # fmt: skip
            path = setup.folder / "pylock.toml"
            found.append((completed.stdout.splitlines()[-1], path.read_bytes()))
            path.unlink()
        assert found[0][0] == "0 [] supported"
        assert found[1][0] in {"0 [] disabled", "0 [] nothing"}
        assert found[0][1] == found[1][1]

    def test_lock_does_not_depend_on_the_interpreter(self, setup: LockFolder) -> None:
        """F-120: with ``--python-version`` the interpreter does not change the lock."""
        other = setup.folder / "python"
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        tag = here.replace(".", "")
        changed = f"s/{here}[.]/3.14./g; s/cp{tag}/cp314/g; s/x86_64/riscv64/g; s/glibc/musl/g"
        other.write_text(f'#!/bin/sh\n"{sys.executable}" "$@" | sed "{changed}"\n')
        other.chmod(0o755)
        result = setup.lock("lib", "--python", other, "--dry-run", python=None)
        assert "locking for Python 3.14" in result.err  # it is another one
        found = []
        for python in (sys.executable, other):
            setup.lock("app", "--python", python)
            found.append((setup.folder / "pylock.toml").read_bytes())
            (setup.folder / "pylock.toml").unlink()
        assert found[0] == found[1]


class TestChanges:
    """Locking with an existing lock."""

    def test_up_to_date(self, setup: LockFolder) -> None:
        """An up-to-date lock is not written."""
        setup.lock("app")
        before = (setup.folder / "pylock.toml").stat().st_ino
        result = setup.lock("app")
        assert (
            result.out.splitlines()[-1] == f"pylock.toml is up to date: 3 packages for {ANYWHERE}"
        )
        assert (setup.folder / "pylock.toml").stat().st_ino == before

    def test_upgrade(self, setup: LockFolder) -> None:
        """Locked versions are kept without ``-U`` or ``-P``."""
        setup.lock("app", "lib")
        setup.add("lib", "2.0")
        setup.add("app", "2.0", requires=("fast",))
        assert "up to date" in setup.lock("app", "lib").out
        assert "~ lib 1.0 -> 2.0" in setup.lock("app", "lib", "-P", "lib").out.splitlines()
        assert setup.lock("app", "lib", "-U").out.startswith("~ app 1.0 -> 2.0\n")

    def test_additional_requirement(self, setup: LockFolder) -> None:
        """An additional requirement keeps the locked versions."""
        setup.lock("app")
        before = {(package.name, package.version) for package in setup.read().packages}
        setup.add("lib", "2.0")
        setup.add("app", "2.0")
        setup.add("besides", "1.0", requires=("lib",))
        result = setup.lock("app", "besides")
        assert "+ besides 1.0" in result.out
        after = {(package.name, package.version) for package in setup.read().packages}
        assert before < after
        assert len(after) == len(before) + 1

    def test_open_requires_python(self, setup: LockFolder) -> None:
        """A project without an upper bound is locked for all known Pythons."""
        (setup.folder / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.12"\n'
            'dependencies = ["lib"]\n'
        )
        result = setup.lock("--json", python=None)
        last = max(PYTHONS)
        pythons = {text.rpartition(" ")[2] for text in result.object["locks"][0]["for"]}
        assert pythons == {f"3.{minor}" for minor in range(12, last[1] + 1)}
        assert result.object["locks"][0]["requires_python"] == f">=3.12,<3.{last[1] + 1}"

    def test_check(self, setup: LockFolder) -> None:
        """--check writes nothing and reports the differences."""
        result = setup.lock("app", "--check", code=31)
        assert "the lock file does not exist yet [lock-outdated]" in result.err
        assert setup.files() == set()
        setup.lock("app")
        assert "up to date" in setup.lock("app", "--check").out
        result = setup.lock("lib<1.0.1", "--check", code=31)
        assert "the lock is out of date [lock-outdated]" in result.err
        assert "- app 1.0\n" in result.err
        error = setup.lock("lib", "--check", "--json", code=31).error
        assert error["changes"][0] == {
            "name": "app",
            "before": ["1.0"],
            "after": [],
            "details": None,
        }

    def test_check_of_requirements(self, setup: LockFolder) -> None:
        """Other requirements with the same packages make a lock outdated."""
        setup.lock("app")
        result = setup.lock("app", "fast", "--check", code=31)
        assert "something besides versions and files is different" in result.err

    def test_dry_run(self, setup: LockFolder) -> None:
        """A dry run reports what would be locked."""
        result = setup.lock("app", "--dry-run")
        assert f"Would lock 3 packages for {ANYWHERE} in pylock.toml" in result.out
        assert setup.files() == set()

    def test_additional_label(self, setup: LockFolder) -> None:
        """A release with other labels than before is reported."""
        setup.lock("fast", "--label", "fast=cu12")
        result = setup.lock("fast")
        assert result.out.splitlines()[0].startswith("~ fast 1.0: with cu13")

    def test_other_number_of_wheels(self, setup: LockFolder) -> None:
        """A release with another number of wheels is reported."""
        for tag in ("macosx_11_0_arm64", "manylinux_2_17_x86_64", "win_amd64"):
            setup.add("wide", "1.0", tag=f"py3-none-{tag}")
        setup.lock("wide", "--platform", "macos-arm64", "--platform", "linux-x86_64")
        result = setup.lock("wide", "--platform", "macos-arm64")
        assert result.out.startswith("~ wide 1.0: 1 wheel instead of 2\n")
        result = setup.lock("wide", "--platform", "macos-arm64", "--platform", "windows-x86_64")
        assert result.out.startswith("~ wide 1.0: 2 wheels instead of 1\n")

    def test_invalid_lock(self, setup: LockFolder) -> None:
        """An invalid lock is an error and is not overwritten."""
        (setup.folder / "pylock.toml").write_text("lock-version = 3")
        before = tree(setup.folder)
        stderr = setup.lock("app", code=1).err
        assert "invalid-lock" in stderr
        assert "hint: delete it to lock anew, or name another file" in stderr
        assert tree(setup.folder) == before

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
    def test_pipe_and_missing_folder(self, setup: LockFolder) -> None:
        """A pipe or a missing folder is an error before any request."""
        os.mkfifo(setup.folder / "pylock.toml")
        setup.index.clear_requests()
        assert "it is a pipe" in setup.lock("app", code=1).err
        setup.lock("app", "-o", Path("gone", "pylock.toml"), code=1)
        assert setup.index.requests == []

    def test_upgrade_without_effect(self, setup: LockFolder) -> None:
        """Upgrading a package that is not in the lock causes a warning."""
        result = setup.lock("app", "-P", "ap", "-P", "App")
        assert "warning: --upgrade-package ap has no effect: ap is not needed\n" in result.err


class TestMachines:
    """``--for``, which locks for named machines."""

    def lock(self, setup: LockFolder, *words: str, code: int = 0) -> CommandResult:
        """Lock for machines with their own Pythons."""
        return setup.lock(*words, python=None, code=code)

    def test_one_file(self, setup: LockFolder) -> None:
        """Only the wheels of the machines are locked."""
        hosts = ("--for", "cuda-12.8-sm90", "--for", "macos-arm64")
        result = self.lock(setup, "app", *hosts)
        assert result.out.endswith(
            "Locked 3 packages for cuda-12.8-sm90 and macos-arm64 in pylock.toml\n"
        )
        labels = {wheel.filename.label for wheel in setup.read().packages[1].wheels}
        assert labels == {"cu12", "null"}
        assert "up to date" in self.lock(setup, "app", *hosts, "--check").out

    def test_file_for_each_machine(self, setup: LockFolder) -> None:
        """Machines that need different dependencies get one file each, with the reason."""
        setup.add("lib", "2.0")
        setup.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        result = self.lock(setup, "split", *hosts)
        assert setup.files() == {"pylock.cuda-12-8-sm90.toml", "pylock.cuda-13-0-sm90.toml"}
        assert "warning: one lock cannot serve all of these machines, so each has its own" in (
            result.err
        )
        assert "in pylock.cuda-12-8-sm90.toml" in result.out
        versions = [
            str(setup.read(f"pylock.cuda-{cuda}-sm90.toml").packages[0].version)
            for cuda in ("12-8", "13-0")
        ]
        assert versions == ["1.0", "2.0"]
        answer = self.lock(setup, "split", *hosts, "--json").object
        assert [lock["for"] for lock in answer["locks"]] == [["cuda-12.8-sm90"], ["cuda-13.0-sm90"]]
        assert "no marker of a lock file distinguishes the two" in answer["split_reason"]
        assert [lock["up_to_date"] for lock in answer["locks"]] == [True, True]

    def test_unwritable_file(self, setup: LockFolder) -> None:
        """If the lock of one machine cannot be written, none is."""
        setup.add("lib", "2.0")
        setup.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        (setup.folder / "pylock.cuda-13-0-sm90.toml").symlink_to("missing")
        assert "dangling link" in self.lock(setup, "split", *hosts, code=1).err
        assert setup.files() == {"pylock.cuda-13-0-sm90.toml"}

    def test_remaining_lock_files(self, setup: LockFolder) -> None:
        """Lock files that are no longer written are named."""
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        self.lock(setup, "fast", *hosts)
        setup.add("lib", "2.0")
        setup.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        stays = "is an older lock that was not updated"
        assert f"warning: pylock.toml {stays}" in self.lock(setup, "split", *hosts).err
        stderr = self.lock(setup, "fast", *hosts).err
        assert stderr.count(stays) == 2
        assert f"warning: pylock.cuda-13-0-sm90.toml {stays}" in stderr

    def test_file_names(self, setup: LockFolder) -> None:
        """Host files with the same name get distinct lock files, also where case is ignored."""
        setup.add("lib", "2.0")
        setup.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = []
        for name, version in (
            ("a/node.1", "12.8"),
            ("b/Node.1", "13.0"),
            ("c/node.1-2", "13.0"),
        ):
            path = setup.folder / f"{name}.toml"
            path.parent.mkdir()
            (path).write_text(
                '[metadata]\nversion = "0.1"\ncreated-by = "a test"\n'
                '[platform]\nmachine = "x86_64"\nglibc = "2.39"\n'
                '[[provider]]\nnamespace = "nvidia"\n'
                f'[provider.properties]\ncuda_version_lower_bound = ["{version[:2]}.0"]\n'
            )
            hosts += ["--for", str(path)]
        self.lock(setup, "split", *hosts, "-o", "pylock.prod.toml")
        assert setup.files() == {
            "pylock.prod-node-1-1.toml",
            "pylock.prod-Node-1-2-2.toml",
            "pylock.prod-node-1-2.toml",
        }

    def test_unknown_host(self, setup: LockFolder) -> None:
        """An unknown host is an error before any request."""
        setup.index.clear_requests()
        assert "unknown-host" in self.lock(setup, "app", "--for", "nothing", code=1).err
        assert setup.index.requests == []


class TestUnchanged:
    """Up-to-date locks, which are not resolved again."""

    @pytest.fixture
    def cached(
        self, setup: LockFolder, run: Runner, tmp_path: Path
    ) -> Callable[..., CommandResult]:
        """Return a function that locks with a cache."""
        setup.add("kettle", "1", requires=["lid"])
        setup.add("lid", "1")
        words: list[str | Path] = ["--cache-dir", tmp_path / "cache", "--python-version", "3.12"]

        def lock(*more: str, code: int = 0) -> CommandResult:
            setup.index.clear_requests()
            return run("lock", "-i", setup.index.url, *words, *more, code=code)

        lock("kettle")
        return lock

    def metadata(self, setup: LockFolder) -> list[str]:
        """Return the requested paths other than pages."""
        return [request.path for request in setup.index.requests if "/simple/" not in request.path]

    def test_only_pages_are_requested(
        self, setup: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """Each page is requested once, and nothing else; the report is the same."""
        for words in (["--check"], [], ["--dry-run"]):
            result = cached("kettle", *words)
            assert "pylock.toml is up to date: 2 packages for" in result.out
            assert sorted(request.path for request in setup.index.requests) == [
                "/simple/kettle/",
                "/simple/lid/",
            ]

    def test_newer_release(self, setup: LockFolder, cached: Callable[..., CommandResult]) -> None:
        """A newer release does not make a lock outdated."""
        setup.add("lid", "2")
        assert "up to date" in cached("kettle", "--check").out
        assert self.metadata(setup) == []

    def test_upgrade_is_resolved(
        self, setup: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """An upgrade is resolved."""
        setup.add("lid", "2")
        cached("kettle", "--check", "--upgrade", code=31)
        cached("kettle", "--check", "--upgrade-package", "lid", code=31)
        assert "~ lid 1 -> 2" in cached("kettle", "--upgrade").out

    def test_additional_wheel_of_a_locked_release(
        self, setup: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """A new file of a locked release makes the lock outdated."""
        setup.add("lid", "1", tag="py3-none-manylinux_2_17_x86_64")
        assert "2 wheels instead of 1" in cached("kettle", "--check", code=31).err
        cached("kettle")
        assert "up to date" in cached("kettle", "--check").out

    def test_deleted_release(self, setup: LockFolder, cached: Callable[..., CommandResult]) -> None:
        """A deleted release is replaced."""
        setup.add("lid", "2")
        (setup.folder / "index" / "lid-1-py3-none-any.whl").unlink()
        assert "~ lid 1 -> 2" in cached("kettle", "--check", code=31).err

    @pytest.mark.parametrize(
        "words",
        [
            ["kettle", "lid"],
            ["kettle", "--platform", "macos-arm64"],
            ["kettle", "--exclude", "lid"],
        ],
    )
    def test_other_requirements(
        self, cached: Callable[..., CommandResult], words: list[str]
    ) -> None:
        """Other requirements, platforms and settings are resolved."""
        cached(*words, "--check", code=31)

    def test_edited_lock(self, setup: LockFolder, cached: Callable[..., CommandResult]) -> None:
        """An edited lock is compared with a resolution."""
        path = setup.folder / "pylock.toml"
        path.write_text(path.read_text().replace("tool.wheelfit", "tool.other"))
        cached("kettle", "--check", code=31)

    @pytest.mark.parametrize("control", ["max-age=600", None])
    def test_fresh_pages_are_not_requested(
        self, run: Runner, setup: LockFolder, tmp_path: Path, control: str | None
    ) -> None:
        """Fresh cached pages are not requested; local files are always read."""
        setup.add("lid", "1")
        links = tmp_path / "links"
        links.mkdir()
        with RecordingIndex(CachingFolderIndex(tmp_path / "index", control)) as index:
            words: list[str | Path] = ["lock", "-i", index.url, "lid"]
            words += ["--cache-dir", tmp_path / "cache"]
            words += ["--find-links", links, "--python-version", "3.12"]
            run(*words)
            index.clear_requests()
            assert "up to date" in run(*words, "--check").out
            assert index.requests == []
            build_wheel(links, "lid", "1", tag="py3-none-manylinux_2_17_x86_64")
            assert "2 wheels instead of 1" in run(*words, "--check", code=31).err

    def test_stale_pages_are_requested(
        self, run: Runner, setup: LockFolder, tmp_path: Path
    ) -> None:
        """Stale pages are requested and are then fresh again."""
        setup.add("lid", "1")
        with RecordingIndex(CachingFolderIndex(tmp_path / "index", "max-age=1")) as index:
            words: list[str | Path] = ["lock", "-i", index.url, "lid"]
            words += ["--cache-dir", tmp_path / "cache"]
            run(*words)
            index.clear_requests()
            time.sleep(1.1)
            run(*words, "--check")
            assert [request.path for request in index.requests] == ["/simple/lid/"]
            time.sleep(1.1)
            setup.add("lid", "1", tag="py3-none-manylinux_2_17_x86_64")
            assert "2 wheels instead of 1" in run(*words, "--check", code=31).err

    def test_no_cache(self, setup: LockFolder, cached: Callable[..., CommandResult]) -> None:
        """Without a cache the lock is resolved, with the same result."""
        assert "up to date" in cached("kettle", "--check", "--no-cache-dir").out
        assert self.metadata(setup)
