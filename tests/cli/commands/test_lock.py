"""What ``wheelfit lock`` says and writes; what stands in a lock is tested with the library."""

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


class Office:
    """Lock from one index into one folder."""

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
        """Add a plain wheel."""
        build_wheel(self.folder / "index", name, version, **more)  # type: ignore[arg-type]

    def add_variants(self, name: str, version: str, **requires: tuple[str, ...]) -> None:
        """Add a release with a plain wheel and variants, with what each of them needs."""
        folder = self.folder / "index"
        for label in (None, "null", "cu12", "cu13"):
            needs = requires.get(label or "plain", ())
            document = CUDA if label else None
            build_wheel(folder, name, version, label=label, document=document, requires=needs)
        (folder / f"{name}-{version}-variants.json").write_text(json.dumps(CUDA))

    def read(self, name: str = "pylock.toml") -> Lock:
        """Read a lock that was written."""
        return read_lock((self.folder / name).read_bytes(), where=name)

    def files(self) -> set[str]:
        """Return the names of the locks that are there."""
        return {path.name for path in self.folder.glob("pylock*")}


class Stating:
    """A server of a folder that states how long its pages count.

    :param control: the ``Cache-Control`` of pages; None: none.
    """

    def __init__(self, folder: Path, control: str | None) -> None:
        self._inner = FolderIndex(folder)
        self._headers = {} if control is None else {"cache-control": control}

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        answer = self._inner(request)
        others = {name: text for name, text in answer.headers.items() if name != "cache-control"}
        return replace(answer, headers={**others, **self._headers})


@pytest.fixture
def office(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """Serve a release with variants and a few plain ones; the current folder is empty."""
    monkeypatch.chdir(tmp_path)
    with RecordingIndex(tmp_path / "index") as index:
        made = Office(run, tmp_path, index)
        made.add_variants("fast", "1.0", cu12=("lib",), cu13=("lib",))
        made.add("lib", "1.0")
        made.add("app", "1.0", requires=("fast",))
        yield made


class TestWriting:
    """A lock is written, and what is in it is told."""

    def test_it_is_told(self, office: Office) -> None:
        """One line for each package that came, for each with variants, and for the file."""
        result = office.lock("app")
        assert result.out.splitlines() == [
            "+ app 1.0",
            "+ fast 1.0",
            "+ lib 1.0",
            "fast 1.0: cu12, cu13, null, plain",
            f"Locked 3 packages for {ANYWHERE} in pylock.toml",
        ]
        assert re.fullmatch(r"Resolved 3 packages in [\d.]+ m?s\n", result.err)
        lock = office.read()
        assert [str(root) for root in lock.roots or ()] == ["app"]
        assert str(lock.requires_python) == "<3.13,>=3.12"

    def test_for_programs(self, office: Office) -> None:
        """``--json`` has the same."""
        answer = office.lock("app", "--json").object
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
    def test_on_a_terminal(self, office: Office) -> None:
        """It is shown for what is resolved; at the end nothing of that is left."""
        words = ["-m", "wheelfit", "lock", "-i", office.index.url, "--no-cache-dir", "app"]
        done = in_terminal([*words, "--python-version", "3.12"], {"CI": ""})
        assert done.code == 0
        assert "resolving" in done.shown
        (summary,) = screen(done.shown)
        assert summary.startswith("Resolved 3 packages in ")
        assert done.out.endswith("in pylock.toml\n")

    def test_into_a_named_file(self, office: Office) -> None:
        """``-o`` names another one, in a folder that is there."""
        office.lock("lib", "-o", "pylock.dev.toml")
        assert office.files() == {"pylock.dev.toml"}
        result = office.lock("lib", "-o", "lock.toml", code=2)
        assert "'lock.toml' is not a valid name" in result.err
        result = office.lock("lib", "-o", "no/such/pylock.toml", code=1)
        assert "the folder for the lock does not exist" in result.err

    def test_requirements_files(self, office: Office) -> None:
        """``-r`` and ``-c`` as everywhere; only wheels with an allowed hash are listed."""
        office.add("lib", "2.0")
        (office.folder / "in.txt").write_text("lib\n")
        (office.folder / "limits.txt").write_text("lib<2\n")
        office.lock("-r", "in.txt", "-c", "limits.txt")
        assert str(office.read().packages[0].version) == "1.0"
        wheel = office.folder / "index" / "fast-1.0-py3-none-any-null.whl"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (office.folder / "in.txt").write_text(f"fast --hash=sha256:{digest}\n")
        office.lock("-r", "in.txt")
        assert [wheel.filename.text for wheel in office.read().packages[0].wheels] == [wheel.name]
        (office.folder / "in.txt").write_text(f"fast --hash=sha256:{digest[::-1]}\n")
        assert "hash-mismatch" in office.lock("-r", "in.txt", code=4).err

    def test_a_given_wheel(self, office: Office) -> None:
        """Stands for its project, and gets a path from the lock; a login stays out of it."""
        office.add("lib", "2.0")
        wheel = office.folder / "index" / "fast-1.0-py3-none-any-cu12.whl"
        office.lock(wheel, "--platform", "linux-x86_64")
        fast, lib = office.read().packages
        assert [wheel.path for wheel in fast.wheels] == ["index/fast-1.0-py3-none-any-cu12.whl"]
        assert str(lib.version) == "2.0"
        assert [str(root) for root in office.read().roots or ()] == ["fast==1.0"]

    def test_a_url(self, office: Office) -> None:
        """Is locked as it is, with the hash that was given; a login in it is not."""
        name = "lib-1.0-py3-none-any.whl"
        digest = hashlib.sha256((office.folder / "index" / name).read_bytes()).hexdigest()
        url = office.index.file_url(name)
        secret = url.replace("://", "://me:secret@")
        office.lock(f"lib @ {secret}#sha256={digest}")
        (wheel,) = office.read().packages[0].wheels
        assert (wheel.url, dict(wheel.hashes)) == (url, {"sha256": digest})
        assert "secret" not in (office.folder / "pylock.toml").read_text()
        result = office.lock(f"lib @ {url}", "-U", code=3)
        assert "no hash" in result.err

    def test_from_a_folder(self, office: Office) -> None:
        """Wheels of a folder get paths from the lock, and the hash that no index promises."""
        result = office.lock("lib", "--no-index", "-f", "index")
        assert result.code == 0
        (wheel,) = office.read().packages[0].wheels
        assert wheel.path == "index/lib-1.0-py3-none-any.whl"
        assert set(wheel.hashes) == {"sha256"}

    def test_without_needs(self, office: Office) -> None:
        """``--no-deps`` locks what is named and nothing else."""
        office.lock("app", "--no-deps")
        assert [package.name for package in office.read().packages] == ["app"]
        assert office.read().packages[0].needs == {"": ()}


class TestEnvironments:
    """For which Pythons and platforms a lock is."""

    def test_the_python_in_use(self, office: Office) -> None:
        """None is named: the version of the interpreter in use counts, and that is said."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        result = office.lock("lib", python=None)
        assert f"locking for Python {version}; --python-version names others" in result.err
        assert ANYWHERE.replace("3.12", version) in result.out

    def test_several(self, office: Office) -> None:
        """Each platform with each Python."""
        result = office.lock("lib", "--python-version", "3.13", "--platform", "linux-x86_64")
        assert "Locked 1 package for linux-x86_64, Python 3.12 and 3.13 in pylock" in result.out

    def test_of_the_project(self, office: Office) -> None:
        """A project says what it is locked for; options and named machines replace that."""
        (office.folder / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\ndependencies = ["lib"]\n'
            '[tool.wheelfit]\nplatform = ["macos-arm64"]\npython-version = ["3.13", "3.12"]\n'
        )
        assert "for macos-arm64, Python 3.12 and 3.13 in" in office.lock(python=None).out
        office.lock("--check", python=None)
        assert (
            "for windows-x86_64, Python 3.12 in" in office.lock("--platform", "windows-x86_64").out
        )
        office.lock("--for", "linux-x86_64", "-o", "pylock.host.toml", python=None)
        assert office.read("pylock.host.toml").environments

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
    def test_what_there_is_not(self, office: Office, words: list[str], message: str) -> None:
        """Names that mean nothing, and options that contradict each other."""
        assert message in office.lock("lib", *words, code=2).err
        assert office.files() == set()

    def test_equal_metadata_is_read_once(self, office: Office) -> None:
        """What the index promises to be the same is asked for once, for however many platforms."""
        for tag in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64"):
            office.add("same", "1.0", tag=f"cp312-cp312-{tag}")
            office.add("own", "1.0", tag=f"cp312-cp312-{tag}", description=f"for {tag}\n")
        office.lock("same", "own")
        asked = [request.path.rpartition("/")[2] for request in office.index.requests]
        assert sum(name.startswith("same-1.0") for name in asked) == 1
        assert sum(name.startswith("own-1.0") for name in asked) == 3

    def test_an_older_libc(self, office: Office) -> None:
        """A version behind a platform says what its wheels may want at most."""
        office.add("new", "1.0", tag="cp312-cp312-manylinux_2_34_x86_64")
        office.lock("new", "--platform", "linux-x86_64")
        result = office.lock("new", "--platform", "linux-x86_64@2.28", code=3)
        assert "no-compatible-wheel" in result.err

    def test_the_machine_does_not_matter(
        self, office: Office, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """F-120: what is stated of the machine's GPU, and its Python, change not one byte."""
        office.lock("app")
        first = (office.folder / "pylock.toml").read_bytes()
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8")
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "9.0")
        (office.folder / "pylock.toml").unlink()
        result = office.lock("app")
        assert "warning" not in result.err
        assert (office.folder / "pylock.toml").read_bytes() == first

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
    def test_with_and_without_a_gpu(self, office: Office, fake_driver: FakeDriver) -> None:
        """F-120: where a driver shows a GPU the bytes are the same, and nobody looked."""
        driver = fake_driver.environ(devices=["9.0 NVIDIA H100"], cuda="12.8")
        library = {"LD_LIBRARY_PATH": str(fake_driver.folder), "NVIDIA_VISIBLE_DEVICES": "void"}
        words = ["lock", "-q", "-i", office.index.url, "--no-cache-dir", "app"]
        found = []
        for more in ({**driver, **library}, {"WHEELFIT_OVERRIDE_NVIDIA": ""}):
            completed = subprocess.run(
                [sys.executable, "-c", self.SCRIPT, *words, "--python-version", "3.12"],
                env={**os.environ, **more},
                capture_output=True,
                text=True,
                check=True,
            )
            path = office.folder / "pylock.toml"
            found.append((completed.stdout.splitlines()[-1], path.read_bytes()))
            path.unlink()
        assert found[0][0] == "0 [] supported"
        assert found[1][0] in {"0 [] disabled", "0 [] nothing"}
        assert found[0][1] == found[1][1]

    def test_other_interpreters(self, office: Office) -> None:
        """F-120: with ``--python-version`` it does not matter which Python is there."""
        other = office.folder / "python"
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        tag = here.replace(".", "")
        changed = f"s/{here}[.]/3.14./g; s/cp{tag}/cp314/g; s/x86_64/riscv64/g; s/glibc/musl/g"
        other.write_text(f'#!/bin/sh\n"{sys.executable}" "$@" | sed "{changed}"\n')
        other.chmod(0o755)
        result = office.lock("lib", "--python", other, "--dry-run", python=None)
        assert "locking for Python 3.14" in result.err  # it is another one
        found = []
        for python in (sys.executable, other):
            office.lock("app", "--python", python)
            found.append((office.folder / "pylock.toml").read_bytes())
            (office.folder / "pylock.toml").unlink()
        assert found[0] == found[1]


class TestChanges:
    """Against a lock that is there."""

    def test_up_to_date(self, office: Office) -> None:
        """Nothing is written, and it is said."""
        office.lock("app")
        before = (office.folder / "pylock.toml").stat().st_ino
        result = office.lock("app")
        assert (
            result.out.splitlines()[-1] == f"pylock.toml is up to date: 3 packages for {ANYWHERE}"
        )
        assert (office.folder / "pylock.toml").stat().st_ino == before

    def test_versions_stay_until_an_upgrade(self, office: Office) -> None:
        """``-U`` and ``-P`` take newer ones."""
        office.lock("app", "lib")
        office.add("lib", "2.0")
        office.add("app", "2.0", requires=("fast",))
        assert "up to date" in office.lock("app", "lib").out
        assert "~ lib 1.0 -> 2.0" in office.lock("app", "lib", "-P", "lib").out.splitlines()
        assert office.lock("app", "lib", "-U").out.startswith("~ app 1.0 -> 2.0\n")

    def test_a_changed_request(self, office: Office) -> None:
        """What is asked for besides is added to what is locked, which stays."""
        office.lock("app")
        before = {(package.name, package.version) for package in office.read().packages}
        office.add("lib", "2.0")
        office.add("app", "2.0")
        office.add("besides", "1.0", requires=("lib",))
        result = office.lock("app", "besides")
        assert "+ besides 1.0" in result.out
        after = {(package.name, package.version) for package in office.read().packages}
        assert before < after
        assert len(after) == len(before) + 1

    def test_an_unbounded_python(self, office: Office) -> None:
        """A project for any later Python is locked for those that there are."""
        (office.folder / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.12"\n'
            'dependencies = ["lib"]\n'
        )
        result = office.lock("--json", python=None)
        last = max(PYTHONS)
        pythons = {text.rpartition(" ")[2] for text in result.object["locks"][0]["for"]}
        assert pythons == {f"3.{minor}" for minor in range(12, last[1] + 1)}
        assert result.object["locks"][0]["requires_python"] == f">=3.12,<3.{last[1] + 1}"

    def test_check(self, office: Office) -> None:
        """Writes nothing; out of date is an error of its own that lists what is different."""
        result = office.lock("app", "--check", code=31)
        assert "the lock file does not exist yet [lock-outdated]" in result.err
        assert office.files() == set()
        office.lock("app")
        assert "up to date" in office.lock("app", "--check").out
        result = office.lock("lib<1.0.1", "--check", code=31)
        assert "the lock is out of date [lock-outdated]" in result.err
        assert "- app 1.0\n" in result.err
        error = office.lock("lib", "--check", "--json", code=31).error
        assert error["changes"][0] == {
            "name": "app",
            "before": ["1.0"],
            "after": [],
            "details": None,
        }

    def test_check_of_what_is_no_package(self, office: Office) -> None:
        """Other requirements with the same packages are another lock."""
        office.lock("app")
        result = office.lock("app", "fast", "--check", code=31)
        assert "something besides its packages is different" in result.err

    def test_dry_run(self, office: Office) -> None:
        """Says the same in another mood."""
        result = office.lock("app", "--dry-run")
        assert f"Would lock 3 packages for {ANYWHERE} in pylock.toml" in result.out
        assert office.files() == set()

    def test_labels_that_come(self, office: Office) -> None:
        """A release that lists more or fewer labels than before."""
        office.lock("fast", "--label", "fast=cu12")
        result = office.lock("fast")
        assert result.out.splitlines()[0].startswith("~ fast 1.0: with cu13")

    def test_plain_wheels_that_go(self, office: Office) -> None:
        """They are counted."""
        for tag in ("macosx_11_0_arm64", "manylinux_2_17_x86_64", "win_amd64"):
            office.add("wide", "1.0", tag=f"py3-none-{tag}")
        office.lock("wide", "--platform", "macos-arm64", "--platform", "linux-x86_64")
        result = office.lock("wide", "--platform", "macos-arm64")
        assert result.out.startswith("~ wide 1.0: 1 wheel instead of 2\n")
        result = office.lock("wide", "--platform", "macos-arm64", "--platform", "windows-x86_64")
        assert result.out.startswith("~ wide 1.0: 2 wheels instead of 1\n")

    def test_a_broken_lock_is_not_overwritten(self, office: Office) -> None:
        """Whoever has a file of that name learns what is wrong with it."""
        (office.folder / "pylock.toml").write_text("lock-version = 3")
        before = tree(office.folder)
        stderr = office.lock("app", code=1).err
        assert "invalid-lock" in stderr
        assert "hint: delete it to lock anew, or name another file with --output" in stderr
        assert tree(office.folder) == before

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
    def test_nothing_to_read_or_write(self, office: Office) -> None:
        """A pipe is not waited for, and a folder that is not there costs no resolution."""
        os.mkfifo(office.folder / "pylock.toml")
        office.index.forget()
        assert "it is a pipe" in office.lock("app", code=1).err
        office.lock("app", "-o", Path("gone", "pylock.toml"), code=1)
        assert office.index.requests == []

    def test_an_upgrade_of_nothing(self, office: Office) -> None:
        """A name that is not in the lock is a slip, most likely."""
        result = office.lock("app", "-P", "ap", "-P", "App")
        assert "warning: --upgrade-package ap has no effect: ap is not needed\n" in result.err


class TestMachines:
    """With ``--for`` the lock is for machines that are named."""

    def lock(self, office: Office, *words: str, code: int = 0) -> CommandResult:
        """Lock for machines; their own Pythons count."""
        return office.lock(*words, python=None, code=code)

    def test_one_file(self, office: Office) -> None:
        """Only what one of them takes is listed."""
        hosts = ("--for", "cuda-12.8-sm90", "--for", "macos-arm64")
        result = self.lock(office, "app", *hosts)
        assert result.out.endswith(
            "Locked 3 packages for cuda-12.8-sm90 and macos-arm64 in pylock.toml\n"
        )
        labels = {wheel.filename.label for wheel in office.read().packages[1].wheels}
        assert labels == {"cu12", "null"}
        assert "up to date" in self.lock(office, "app", *hosts, "--check").out

    def test_a_file_for_each(self, office: Office) -> None:
        """What one file cannot say is written into one for each, with the reason."""
        office.add("lib", "2.0")
        office.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        result = self.lock(office, "split", *hosts)
        assert office.files() == {"pylock.cuda-12-8-sm90.toml", "pylock.cuda-13-0-sm90.toml"}
        assert "warning: one lock cannot serve all of these machines, so each has its own" in (
            result.err
        )
        assert "in pylock.cuda-12-8-sm90.toml" in result.out
        versions = [
            str(office.read(f"pylock.cuda-{cuda}-sm90.toml").packages[0].version)
            for cuda in ("12-8", "13-0")
        ]
        assert versions == ["1.0", "2.0"]
        answer = self.lock(office, "split", *hosts, "--json").object
        assert [lock["for"] for lock in answer["locks"]] == [["cuda-12.8-sm90"], ["cuda-13.0-sm90"]]
        assert "no marker of a lock file distinguishes the two" in answer["split_reason"]
        assert [lock["up_to_date"] for lock in answer["locks"]] == [True, True]

    def test_locks_of_another_time(self, office: Office) -> None:
        """When machines move to files of their own, or back, the older locks are named."""
        hosts = ("--for", "cuda-12.8-sm90", "--for", "cuda-13.0-sm90")
        self.lock(office, "fast", *hosts)
        office.add("lib", "2.0")
        office.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        stays = "is an older lock that was not updated"
        assert f"warning: pylock.toml {stays}" in self.lock(office, "split", *hosts).err
        stderr = self.lock(office, "fast", *hosts).err
        assert stderr.count(stays) == 2
        assert f"warning: pylock.cuda-13-0-sm90.toml {stays}" in stderr

    def test_names_of_files(self, office: Office) -> None:
        """Host files of one name in two folders get files that are told apart."""
        office.add("lib", "2.0")
        office.add_variants("split", "1.0", cu12=("lib<2",), cu13=("lib>=2",))
        hosts = []
        for folder, version in (("a", "12.8"), ("b", "13.0")):
            (office.folder / folder).mkdir()
            path = office.folder / folder / "node.1.toml"
            (path).write_text(
                '[metadata]\nversion = "0.1"\ncreated-by = "a test"\n'
                '[platform]\nmachine = "x86_64"\nglibc = "2.39"\n'
                '[[provider]]\nnamespace = "nvidia"\n'
                f'[provider.properties]\ncuda_version_lower_bound = ["{version[:2]}.0"]\n'
            )
            hosts += ["--for", str(path)]
        self.lock(office, "split", *hosts, "-o", "pylock.prod.toml")
        assert office.files() == {"pylock.prod-node-1-1.toml", "pylock.prod-node-1-2.toml"}

    def test_an_unknown_machine(self, office: Office) -> None:
        """Is an error before anything is asked."""
        office.index.forget()
        assert "unknown-host" in self.lock(office, "app", "--for", "nothing", code=1).err
        assert office.index.requests == []


class TestUnchanged:
    """A lock that nothing has changed for is known to be up to date, and not resolved again."""

    @pytest.fixture
    def cached(self, office: Office, run: Runner, tmp_path: Path) -> Callable[..., CommandResult]:
        """Return what locks with a cache."""
        office.add("kettle", "1", requires=["lid"])
        office.add("lid", "1")
        words: list[str | Path] = ["--cache-dir", tmp_path / "cache", "--python-version", "3.12"]

        def lock(*more: str, code: int = 0) -> CommandResult:
            office.index.forget()
            return run("lock", "-i", office.index.url, *words, *more, code=code)

        lock("kettle")
        return lock

    def metadata(self, office: Office) -> list[str]:
        """Return for which wheels something besides pages was asked for."""
        return [request.path for request in office.index.requests if "/simple/" not in request.path]

    def test_nothing_is_resolved(
        self, office: Office, cached: Callable[..., CommandResult]
    ) -> None:
        """Each page is asked for once, and nothing else; the report is the same."""
        for words in (["--check"], [], ["--dry-run"]):
            result = cached("kettle", *words)
            assert "pylock.toml is up to date: 2 packages for" in result.out
            assert sorted(request.path for request in office.index.requests) == [
                "/simple/kettle/",
                "/simple/lid/",
            ]

    def test_a_newer_release_changes_nothing(
        self, office: Office, cached: Callable[..., CommandResult]
    ) -> None:
        """What is locked stays, as where it is resolved."""
        office.add("lid", "2")
        assert "up to date" in cached("kettle", "--check").out
        assert self.metadata(office) == []

    def test_an_upgrade_is_resolved(
        self, office: Office, cached: Callable[..., CommandResult]
    ) -> None:
        """Whoever wants newer versions gets them."""
        office.add("lid", "2")
        cached("kettle", "--check", "--upgrade", code=31)
        cached("kettle", "--check", "--upgrade-package", "lid", code=31)
        assert "~ lid 1 -> 2" in cached("kettle", "--upgrade").out

    def test_another_wheel_of_a_locked_release(
        self, office: Office, cached: Callable[..., CommandResult]
    ) -> None:
        """A locked release that has other files than before is an older lock."""
        office.add("lid", "1", tag="py3-none-manylinux_2_17_x86_64")
        assert "2 wheels instead of 1" in cached("kettle", "--check", code=31).err
        cached("kettle")
        assert "up to date" in cached("kettle", "--check").out

    def test_a_locked_release_that_is_gone(
        self, office: Office, cached: Callable[..., CommandResult]
    ) -> None:
        """A release that is not offered any more is replaced."""
        office.add("lid", "2")
        (office.folder / "index" / "lid-1-py3-none-any.whl").unlink()
        assert "~ lid 1 -> 2" in cached("kettle", "--check", code=31).err

    @pytest.mark.parametrize(
        "words",
        [
            ["kettle", "lid"],
            ["kettle", "--platform", "macos-arm64"],
            ["kettle", "--exclude", "lid"],
        ],
    )
    def test_another_request(self, cached: Callable[..., CommandResult], words: list[str]) -> None:
        """Other requirements, platforms and settings are another lock."""
        cached(*words, "--check", code=31)

    def test_an_edited_lock(self, office: Office, cached: Callable[..., CommandResult]) -> None:
        """A lock that somebody has edited is held against a resolution."""
        path = office.folder / "pylock.toml"
        path.write_text(path.read_text().replace("tool.wheelfit", "tool.other"))
        cached("kettle", "--check", code=31)

    @pytest.mark.parametrize("control", ["max-age=600", None])
    def test_fresh_pages_are_not_asked_for(
        self, run: Runner, office: Office, tmp_path: Path, control: str | None
    ) -> None:
        """What the index calls fresh, or says nothing of, is relied on; local files never are."""
        office.add("lid", "1")
        links = tmp_path / "links"
        links.mkdir()
        with RecordingIndex(Stating(tmp_path / "index", control)) as index:
            words: list[str | Path] = ["lock", "-i", index.url, "lid"]
            words += ["--cache-dir", tmp_path / "cache"]
            words += ["--find-links", links, "--python-version", "3.12"]
            run(*words)
            index.forget()
            assert "up to date" in run(*words, "--check").out
            assert index.requests == []
            build_wheel(links, "lid", "1", tag="py3-none-manylinux_2_17_x86_64")
            assert "2 wheels instead of 1" in run(*words, "--check", code=31).err

    def test_pages_that_are_no_longer_fresh(
        self, run: Runner, office: Office, tmp_path: Path
    ) -> None:
        """They are asked for again, and then count from that time on."""
        office.add("lid", "1")
        with RecordingIndex(Stating(tmp_path / "index", "max-age=1")) as index:
            words: list[str | Path] = ["lock", "-i", index.url, "lid"]
            words += ["--cache-dir", tmp_path / "cache"]
            run(*words)
            index.forget()
            time.sleep(1.1)
            run(*words, "--check")
            assert [request.path for request in index.requests] == ["/simple/lid/"]
            time.sleep(1.1)
            office.add("lid", "1", tag="py3-none-manylinux_2_17_x86_64")
            assert "2 wheels instead of 1" in run(*words, "--check", code=31).err

    def test_without_a_cache(self, office: Office, cached: Callable[..., CommandResult]) -> None:
        """With nothing kept it is resolved, with the same answer."""
        assert "up to date" in cached("kettle", "--check", "--no-cache-dir").out
        assert self.metadata(office)
