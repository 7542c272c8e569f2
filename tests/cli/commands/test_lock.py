"""Output and options of ``wheelfit lock``; the contents of locks are tested with the library."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from cli.terminal import in_terminal, screen

from wheelfit.locking.document import Lock, read_lock
from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.testing.worlds import NVIDIA
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
def lock_folder(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LockFolder]:
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

    def test_text_output(self, lock_folder: LockFolder) -> None:
        """Each new package, each package with variants, and the file have a line."""
        result = lock_folder.lock("app")
        assert result.out.splitlines() == [
            "+ app 1.0",
            "+ fast 1.0",
            "+ lib 1.0",
            "fast 1.0: cu12, cu13, null, plain",
            f"Locked 3 packages for {ANYWHERE} in pylock.toml",
        ]
        assert re.fullmatch(r"Resolved 3 packages in [\d.]+ m?s\n", result.err)
        lock = lock_folder.read()
        assert [str(root) for root in lock.roots or ()] == ["app"]
        assert str(lock.requires_python) == "<3.13,>=3.12"

    def test_json_report(self, lock_folder: LockFolder) -> None:
        """``--json`` has the same information."""
        answer = lock_folder.lock("app", "--json").object
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
    def test_progress_in_a_terminal(self, lock_folder: LockFolder) -> None:
        """The progress of the resolution is shown, and cleared at the end."""
        words = ["-m", "wheelfit", "lock", "-i", lock_folder.index.url, "--no-cache-dir", "app"]
        done = in_terminal([*words, "--python-version", "3.12"], {"CI": ""})
        assert done.code == 0
        assert "resolving" in done.shown
        (summary,) = screen(done.shown)
        assert summary.startswith("Resolved 3 packages in ")
        assert done.out.endswith("in pylock.toml\n")

    def test_output_file(self, lock_folder: LockFolder) -> None:
        """``-o`` names a lock file in an existing folder."""
        lock_folder.lock("lib", "-o", "pylock.dev.toml")
        assert lock_folder.files() == {"pylock.dev.toml"}
        result = lock_folder.lock("lib", "-o", "lock.toml", code=2)
        assert "'lock.toml' is not a valid name" in result.err
        result = lock_folder.lock("lib", "-o", "no/such/pylock.toml", code=1)
        assert "the folder for the lock does not exist" in result.err

    def test_requirements_files(self, lock_folder: LockFolder) -> None:
        """``-r`` and ``-c`` work as elsewhere; wheels without an allowed hash are not listed."""
        lock_folder.add("lib", "2.0")
        (lock_folder.folder / "in.txt").write_text("lib\n")
        (lock_folder.folder / "limits.txt").write_text("lib<2\n")
        lock_folder.lock("-r", "in.txt", "-c", "limits.txt")
        assert str(lock_folder.read().packages[0].version) == "1.0"
        wheel = lock_folder.folder / "index" / "fast-1.0-py3-none-any-null.whl"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (lock_folder.folder / "in.txt").write_text(f"fast --hash=sha256:{digest}\n")
        lock_folder.lock("-r", "in.txt")
        assert [wheel.filename.text for wheel in lock_folder.read().packages[0].wheels] == [
            wheel.name
        ]
        (lock_folder.folder / "in.txt").write_text(f"fast --hash=sha256:{digest[::-1]}\n")
        assert "hash-mismatch" in lock_folder.lock("-r", "in.txt", code=4).err

    def test_wheel_file(self, lock_folder: LockFolder) -> None:
        """A wheel file is locked by a relative path, for its project only."""
        lock_folder.add("lib", "2.0")
        wheel = lock_folder.folder / "index" / "fast-1.0-py3-none-any-cu12.whl"
        lock_folder.lock(wheel, "--platform", "linux-x86_64")
        fast, lib = lock_folder.read().packages
        assert [wheel.path for wheel in fast.wheels] == ["index/fast-1.0-py3-none-any-cu12.whl"]
        assert str(lib.version) == "2.0"
        assert [str(root) for root in lock_folder.read().roots or ()] == ["fast==1.0"]

    def test_wheel_url(self, lock_folder: LockFolder) -> None:
        """A wheel by URL is locked with its hash; credentials are removed."""
        name = "lib-1.0-py3-none-any.whl"
        digest = hashlib.sha256((lock_folder.folder / "index" / name).read_bytes()).hexdigest()
        url = lock_folder.index.file_url(name)
        secret = url.replace("://", "://me:secret@")
        lock_folder.lock(f"lib @ {secret}#sha256={digest}")
        (wheel,) = lock_folder.read().packages[0].wheels
        assert (wheel.url, dict(wheel.hashes)) == (url, {"sha256": digest})
        assert "secret" not in (lock_folder.folder / "pylock.toml").read_text()
        result = lock_folder.lock(f"lib @ {url}", "-U", code=3)
        assert "no hash" in result.err

    def test_find_links(self, lock_folder: LockFolder) -> None:
        """Wheels of a folder are locked by relative path and hash."""
        result = lock_folder.lock("lib", "--no-index", "-f", "index")
        assert result.code == 0
        (wheel,) = lock_folder.read().packages[0].wheels
        assert wheel.path == "index/lib-1.0-py3-none-any.whl"
        assert set(wheel.hashes) == {"sha256"}

    def test_no_deps(self, lock_folder: LockFolder) -> None:
        """``--no-deps`` locks only the named packages."""
        lock_folder.lock("app", "--no-deps")
        assert [package.name for package in lock_folder.read().packages] == ["app"]
        assert lock_folder.read().packages[0].needs == {"": ()}


class TestEnvironments:
    """Pythons and platforms of a lock."""

    def test_default_python(self, lock_folder: LockFolder) -> None:
        """Without --python-version the lock is for the current version, with a note."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        result = lock_folder.lock("lib", python=None)
        assert f"locking for Python {version}; --python-version names others" in result.err
        assert ANYWHERE.replace("3.12", version) in result.out

    def test_several_pythons_and_platforms(self, lock_folder: LockFolder) -> None:
        """The lock is for each combination of platform and Python."""
        result = lock_folder.lock("lib", "--python-version", "3.13", "--platform", "linux-x86_64")
        assert "Locked 1 package for linux-x86_64, Python 3.12 and 3.13 in pylock" in result.out

    def test_environments_of_the_project(self, lock_folder: LockFolder) -> None:
        """The project's settings are replaced by options and by named machines."""
        (lock_folder.folder / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\ndependencies = ["lib"]\n'
            '[tool.wheelfit]\nplatform = ["macos-arm64"]\npython-version = ["3.13", "3.12"]\n'
        )
        assert "for macos-arm64, Python 3.12 and 3.13 in" in lock_folder.lock(python=None).out
        lock_folder.lock("--check", python=None)
        assert (
            "for windows-x86_64, Python 3.12 in"
            in lock_folder.lock("--platform", "windows-x86_64").out
        )
        lock_folder.lock("--for", "linux-x86_64", "-o", "pylock.host.toml", python=None)
        assert lock_folder.read("pylock.host.toml").environments

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
    def test_invalid_environments(
        self, lock_folder: LockFolder, words: list[str], message: str
    ) -> None:
        """Unknown names and contradictory options are usage errors."""
        assert message in lock_folder.lock("lib", *words, code=2).err
        assert lock_folder.files() == set()

    def test_equal_metadata_is_fetched_once(self, lock_folder: LockFolder) -> None:
        """Metadata with equal hashes is fetched once for all platforms."""
        for tag in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64"):
            lock_folder.add("same", "1.0", tag=f"cp312-cp312-{tag}")
            lock_folder.add("own", "1.0", tag=f"cp312-cp312-{tag}", description=f"for {tag}\n")
        lock_folder.lock("same", "own")
        asked = [request.path.rpartition("/")[2] for request in lock_folder.index.requests]
        assert sum(name.startswith("same-1.0") for name in asked) == 1
        assert sum(name.startswith("own-1.0") for name in asked) == 3

    def test_glibc_version(self, lock_folder: LockFolder) -> None:
        """A glibc version in the platform limits the wheels."""
        lock_folder.add("new", "1.0", tag="cp312-cp312-manylinux_2_34_x86_64")
        lock_folder.lock("new", "--platform", "linux-x86_64")
        result = lock_folder.lock("new", "--platform", "linux-x86_64@2.28", code=3)
        assert "no-compatible-wheel" in result.err

    def test_lock_does_not_depend_on_the_machine(
        self, lock_folder: LockFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """F-120: neither the machine's GPU nor its Python changes the lock."""
        lock_folder.lock("app")
        first = (lock_folder.folder / "pylock.toml").read_bytes()
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8")
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "9.0")
        (lock_folder.folder / "pylock.toml").unlink()
        result = lock_folder.lock("app")
        assert "warning" not in result.err
        assert (lock_folder.folder / "pylock.toml").read_bytes() == first

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
    def test_no_detection(self, lock_folder: LockFolder, fake_driver: FakeDriver) -> None:
        """F-120: with and without a GPU the bytes are the same, and nothing is detected."""
        driver = fake_driver.environ(devices=["9.0 NVIDIA H100"], cuda="12.8")
        library = {"LD_LIBRARY_PATH": str(fake_driver.folder), "NVIDIA_VISIBLE_DEVICES": "void"}
        words = ["lock", "-q", "-i", lock_folder.index.url, "--no-cache-dir", "app"]
        found = []
        for more in ({**driver, **library}, {"WHEELFIT_OVERRIDE_NVIDIA": ""}):
            completed = subprocess.run(
                [sys.executable, "-c", self.SCRIPT, *words, "--python-version", "3.12"],
                env={**os.environ, **more},
                capture_output=True,
                text=True,
                check=True,
            )
            path = lock_folder.folder / "pylock.toml"
            found.append((completed.stdout.splitlines()[-1], path.read_bytes()))
            path.unlink()
        assert found[0][0] == "0 [] supported"
        assert found[1][0] in {"0 [] disabled", "0 [] nothing"}
        assert found[0][1] == found[1][1]

    def test_lock_does_not_depend_on_the_interpreter(self, lock_folder: LockFolder) -> None:
        """F-120: with ``--python-version`` the interpreter does not change the lock."""
        other = lock_folder.folder / "python"
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        tag = here.replace(".", "")
        changed = f"s/{here}[.]/3.14./g; s/cp{tag}/cp314/g; s/x86_64/riscv64/g; s/glibc/musl/g"
        other.write_text(f'#!/bin/sh\n"{sys.executable}" "$@" | sed "{changed}"\n')
        other.chmod(0o755)
        result = lock_folder.lock("lib", "--python", other, "--dry-run", python=None)
        assert "locking for Python 3.14" in result.err  # it is another one
        found = []
        for python in (sys.executable, other):
            lock_folder.lock("app", "--python", python)
            found.append((lock_folder.folder / "pylock.toml").read_bytes())
            (lock_folder.folder / "pylock.toml").unlink()
        assert found[0] == found[1]


class TestChanges:
    """Locking with an existing lock."""

    def test_up_to_date(self, lock_folder: LockFolder) -> None:
        """An up-to-date lock is not written."""
        lock_folder.lock("app")
        before = (lock_folder.folder / "pylock.toml").stat().st_ino
        result = lock_folder.lock("app")
        assert (
            result.out.splitlines()[-1] == f"pylock.toml is up to date: 3 packages for {ANYWHERE}"
        )
        assert (lock_folder.folder / "pylock.toml").stat().st_ino == before

    def test_upgrade(self, lock_folder: LockFolder) -> None:
        """Locked versions are kept without ``-U`` or ``-P``."""
        lock_folder.lock("app", "lib")
        lock_folder.add("lib", "2.0")
        lock_folder.add("app", "2.0", requires=("fast",))
        assert "up to date" in lock_folder.lock("app", "lib").out
        assert "~ lib 1.0 -> 2.0" in lock_folder.lock("app", "lib", "-P", "lib").out.splitlines()
        assert lock_folder.lock("app", "lib", "-U").out.startswith("~ app 1.0 -> 2.0\n")

    def test_additional_requirement(self, lock_folder: LockFolder) -> None:
        """An additional requirement keeps the locked versions."""
        lock_folder.lock("app")
        before = {(package.name, package.version) for package in lock_folder.read().packages}
        lock_folder.add("lib", "2.0")
        lock_folder.add("app", "2.0")
        lock_folder.add("besides", "1.0", requires=("lib",))
        result = lock_folder.lock("app", "besides")
        assert "+ besides 1.0" in result.out
        after = {(package.name, package.version) for package in lock_folder.read().packages}
        assert before < after
        assert len(after) == len(before) + 1

    def test_open_requires_python(self, lock_folder: LockFolder) -> None:
        """A project without an upper bound is locked for all known Pythons."""
        (lock_folder.folder / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.12"\n'
            'dependencies = ["lib"]\n'
        )
        result = lock_folder.lock("--json", python=None)
        last = max(PYTHONS)
        pythons = {text.rpartition(" ")[2] for text in result.object["locks"][0]["for"]}
        assert pythons == {f"3.{minor}" for minor in range(12, last[1] + 1)}
        assert result.object["locks"][0]["requires_python"] == f">=3.12,<3.{last[1] + 1}"

    def test_check(self, lock_folder: LockFolder) -> None:
        """--check writes nothing and reports the differences."""
        result = lock_folder.lock("app", "--check", code=31)
        assert "the lock file does not exist yet [lock-outdated]" in result.err
        assert lock_folder.files() == set()
        lock_folder.lock("app")
        assert "up to date" in lock_folder.lock("app", "--check").out
        result = lock_folder.lock("lib<1.0.1", "--check", code=31)
        assert "the lock is out of date [lock-outdated]" in result.err
        assert "- app 1.0\n" in result.err
        error = lock_folder.lock("lib", "--check", "--json", code=31).error
        assert error["changes"][0] == {
            "name": "app",
            "before": ["1.0"],
            "after": [],
            "details": None,
        }

    def test_check_of_requirements(self, lock_folder: LockFolder) -> None:
        """Other requirements with the same packages make a lock outdated."""
        lock_folder.lock("app")
        result = lock_folder.lock("app", "fast", "--check", code=31)
        assert "something besides its packages is different" in result.err

    def test_dry_run(self, lock_folder: LockFolder) -> None:
        """A dry run reports what would be locked."""
        result = lock_folder.lock("app", "--dry-run")
        assert f"Would lock 3 packages for {ANYWHERE} in pylock.toml" in result.out
        assert lock_folder.files() == set()

    def test_additional_label(self, lock_folder: LockFolder) -> None:
        """A release with other labels than before is reported."""
        lock_folder.lock("fast", "--label", "fast=cu12")
        result = lock_folder.lock("fast")
        assert result.out.splitlines()[0].startswith("~ fast 1.0: with cu13")

    def test_other_number_of_wheels(self, lock_folder: LockFolder) -> None:
        """A release with another number of wheels is reported."""
        for tag in ("macosx_11_0_arm64", "manylinux_2_17_x86_64", "win_amd64"):
            lock_folder.add("wide", "1.0", tag=f"py3-none-{tag}")
        lock_folder.lock("wide", "--platform", "macos-arm64", "--platform", "linux-x86_64")
        result = lock_folder.lock("wide", "--platform", "macos-arm64")
        assert result.out.startswith("~ wide 1.0: 1 wheel instead of 2\n")
        result = lock_folder.lock(
            "wide", "--platform", "macos-arm64", "--platform", "windows-x86_64"
        )
        assert result.out.startswith("~ wide 1.0: 2 wheels instead of 1\n")

    def test_invalid_lock(self, lock_folder: LockFolder) -> None:
        """An invalid lock is an error and is not overwritten."""
        (lock_folder.folder / "pylock.toml").write_text("lock-version = 3")
        before = tree(lock_folder.folder)
        stderr = lock_folder.lock("app", code=1).err
        assert "invalid-lock" in stderr
        assert "hint: delete it to lock anew, or name another file with --output" in stderr
        assert tree(lock_folder.folder) == before

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
    def test_pipe_and_missing_folder(self, lock_folder: LockFolder) -> None:
        """A pipe or a missing folder is an error before any request."""
        os.mkfifo(lock_folder.folder / "pylock.toml")
        lock_folder.index.forget()
        assert "it is a pipe" in lock_folder.lock("app", code=1).err
        lock_folder.lock("app", "-o", Path("gone", "pylock.toml"), code=1)
        assert lock_folder.index.requests == []

    def test_upgrade_without_effect(self, lock_folder: LockFolder) -> None:
        """Upgrading a package that is not in the lock causes a warning."""
        result = lock_folder.lock("app", "-P", "ap", "-P", "App")
        assert "warning: --upgrade-package ap has no effect: ap is not needed\n" in result.err


class TestMachines:
    """``--for``, which locks for named machines."""

    def lock(self, lock_folder: LockFolder, *words: str, code: int = 0) -> CommandResult:
        """Lock for machines with their own Pythons."""
        return lock_folder.lock(*words, python=None, code=code)

    def test_one_file(self, lock_folder: LockFolder) -> None:
        """Only the wheels of the machines are locked."""
        hosts = ("--for", "cuda-12.8-sm90", "--for", "macos-arm64")
        result = self.lock(lock_folder, "app", *hosts)
        assert result.out.endswith(
            "Locked 3 packages for cuda-12.8-sm90 and macos-arm64 in pylock.toml\n"
        )
        labels = {wheel.filename.label for wheel in lock_folder.read().packages[1].wheels}
        assert labels == {"cu12", "null"}
        assert "up to date" in self.lock(lock_folder, "app", *hosts, "--check").out

    def test_file_for_each_machine(self, lock_folder: LockFolder) -> None:
        """Machines that need different dependencies get one file each, with the reason."""
        lock_folder.add("lib", "2.0")
        lock_folder.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        result = self.lock(lock_folder, "split", *hosts)
        assert lock_folder.files() == {"pylock.cuda-12-8-sm90.toml", "pylock.cuda-13-0-sm90.toml"}
        assert "warning: one lock cannot serve all of these machines, so each has its own" in (
            result.err
        )
        assert "in pylock.cuda-12-8-sm90.toml" in result.out
        versions = [
            str(lock_folder.read(f"pylock.cuda-{cuda}-sm90.toml").packages[0].version)
            for cuda in ("12-8", "13-0")
        ]
        assert versions == ["1.0", "2.0"]
        answer = self.lock(lock_folder, "split", *hosts, "--json").object
        assert [lock["for"] for lock in answer["locks"]] == [["cuda-12.8-sm90"], ["cuda-13.0-sm90"]]
        assert "no marker of a lock file distinguishes the two" in answer["split_reason"]
        assert [lock["up_to_date"] for lock in answer["locks"]] == [True, True]

    def test_remaining_lock_files(self, lock_folder: LockFolder) -> None:
        """Lock files that are no longer written are named."""
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        self.lock(lock_folder, "fast", *hosts)
        lock_folder.add("lib", "2.0")
        lock_folder.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        stays = "is an older lock that was not updated"
        assert f"warning: pylock.toml {stays}" in self.lock(lock_folder, "split", *hosts).err
        stderr = self.lock(lock_folder, "fast", *hosts).err
        assert stderr.count(stays) == 2
        assert f"warning: pylock.cuda-13-0-sm90.toml {stays}" in stderr

    def test_file_names(self, lock_folder: LockFolder) -> None:
        """Host files with the same name get distinct lock files."""
        lock_folder.add("lib", "2.0")
        lock_folder.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = []
        for folder, version in (("a", "12.8"), ("b", "13.0")):
            (lock_folder.folder / folder).mkdir()
            path = lock_folder.folder / folder / "node.1.toml"
            (path).write_text(
                '[metadata]\nversion = "0.1"\ncreated-by = "a test"\n'
                '[platform]\nmachine = "x86_64"\nglibc = "2.39"\n'
                '[[provider]]\nnamespace = "nvidia"\n'
                f'[provider.properties]\ncuda_version_lower_bound = ["{version[:2]}.0"]\n'
            )
            hosts += ["--for", str(path)]
        self.lock(lock_folder, "split", *hosts, "-o", "pylock.prod.toml")
        assert lock_folder.files() == {"pylock.prod-node-1-1.toml", "pylock.prod-node-1-2.toml"}

    def test_unknown_host(self, lock_folder: LockFolder) -> None:
        """An unknown host is an error before any request."""
        lock_folder.index.forget()
        assert "unknown-host" in self.lock(lock_folder, "app", "--for", "nothing", code=1).err
        assert lock_folder.index.requests == []


class TestUnchanged:
    """Up-to-date locks, which are not resolved again."""

    @pytest.fixture
    def cached(
        self, lock_folder: LockFolder, run: Runner, tmp_path: Path
    ) -> Callable[..., CommandResult]:
        """Return a function that locks with a cache."""
        lock_folder.add("kettle", "1", requires=["lid"])
        lock_folder.add("lid", "1")
        words: list[str | Path] = ["--cache-dir", tmp_path / "cache", "--python-version", "3.12"]

        def lock(*more: str, code: int = 0) -> CommandResult:
            lock_folder.index.forget()
            return run("lock", "-i", lock_folder.index.url, *words, *more, code=code)

        lock("kettle")
        return lock

    def metadata(self, lock_folder: LockFolder) -> list[str]:
        """Return the requested paths other than pages."""
        return [
            request.path for request in lock_folder.index.requests if "/simple/" not in request.path
        ]

    def test_only_pages_are_requested(
        self, lock_folder: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """Each page is requested once, and nothing else; the report is the same."""
        for words in (["--check"], [], ["--dry-run"]):
            result = cached("kettle", *words)
            assert "pylock.toml is up to date: 2 packages for" in result.out
            assert sorted(request.path for request in lock_folder.index.requests) == [
                "/simple/kettle/",
                "/simple/lid/",
            ]

    def test_newer_release(
        self, lock_folder: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """A newer release does not make a lock outdated."""
        lock_folder.add("lid", "2")
        assert "up to date" in cached("kettle", "--check").out
        assert self.metadata(lock_folder) == []

    def test_upgrade_is_resolved(
        self, lock_folder: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """An upgrade is resolved."""
        lock_folder.add("lid", "2")
        cached("kettle", "--check", "--upgrade", code=31)
        cached("kettle", "--check", "--upgrade-package", "lid", code=31)
        assert "~ lid 1 -> 2" in cached("kettle", "--upgrade").out

    def test_additional_wheel_of_a_locked_release(
        self, lock_folder: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """A new file of a locked release makes the lock outdated."""
        lock_folder.add("lid", "1", tag="py3-none-manylinux_2_17_x86_64")
        assert "2 wheels instead of 1" in cached("kettle", "--check", code=31).err
        cached("kettle")
        assert "up to date" in cached("kettle", "--check").out

    def test_deleted_release(
        self, lock_folder: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """A deleted release is replaced."""
        lock_folder.add("lid", "2")
        (lock_folder.folder / "index" / "lid-1-py3-none-any.whl").unlink()
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

    def test_edited_lock(
        self, lock_folder: LockFolder, cached: Callable[..., CommandResult]
    ) -> None:
        """An edited lock is compared with a resolution."""
        path = lock_folder.folder / "pylock.toml"
        path.write_text(path.read_text().replace("tool.wheelfit", "tool.other"))
        cached("kettle", "--check", code=31)

    @pytest.mark.parametrize("control", ["max-age=600", None])
    def test_fresh_pages_are_not_requested(
        self, run: Runner, lock_folder: LockFolder, tmp_path: Path, control: str | None
    ) -> None:
        """Fresh cached pages are not requested; local files are always read."""
        lock_folder.add("lid", "1")
        links = tmp_path / "links"
        links.mkdir()
        with RecordingIndex(CachingFolderIndex(tmp_path / "index", control)) as index:
            words: list[str | Path] = ["lock", "-i", index.url, "lid"]
            words += ["--cache-dir", tmp_path / "cache"]
            words += ["--find-links", links, "--python-version", "3.12"]
            run(*words)
            index.forget()
            assert "up to date" in run(*words, "--check").out
            assert index.requests == []
            build_wheel(links, "lid", "1", tag="py3-none-manylinux_2_17_x86_64")
            assert "2 wheels instead of 1" in run(*words, "--check", code=31).err

    def test_stale_pages_are_requested(
        self, run: Runner, lock_folder: LockFolder, tmp_path: Path
    ) -> None:
        """Stale pages are requested and are then fresh again."""
        lock_folder.add("lid", "1")
        with RecordingIndex(CachingFolderIndex(tmp_path / "index", "max-age=1")) as index:
            words: list[str | Path] = ["lock", "-i", index.url, "lid"]
            words += ["--cache-dir", tmp_path / "cache"]
            run(*words)
            index.forget()
            time.sleep(1.1)
            run(*words, "--check")
            assert [request.path for request in index.requests] == ["/simple/lid/"]
            time.sleep(1.1)
            lock_folder.add("lid", "1", tag="py3-none-manylinux_2_17_x86_64")
            assert "2 wheels instead of 1" in run(*words, "--check", code=31).err

    def test_no_cache(self, lock_folder: LockFolder, cached: Callable[..., CommandResult]) -> None:
        """Without a cache the lock is resolved, with the same result."""
        assert "up to date" in cached("kettle", "--check", "--no-cache-dir").out
        assert self.metadata(lock_folder)
