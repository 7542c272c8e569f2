"""Many processes at once, processes that are killed, and what processes run and import."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile import killed, watched
from hostile.conftest import Site
from programs import until

from wheelfit.installation.locking import locked
from wheelfit.testing.index import RecordedRequest
from wheelfit.testing.wheels import build_wheel, release_document

LEVELS = {"blas": {"library": ["mkl", "openblas"]}}
DOCUMENT = release_document({"mkl": {"blas": {"library": ["mkl"]}}}, static=LEVELS)


def start(site: Site, *words: str | Path) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=site.folder / "work",
        env={**os.environ, "TMPDIR": str(site.folder / "tmp")},
    )


def install(site: Site, *words: str | Path) -> list[str | Path]:
    """Return the words that install something."""
    options: list[str | Path] = ["--python", site.venv, "-i", site.index.url]
    return ["-m", "wheelfit", "install", "--json", *options, *words]


def unsound(library: Path) -> list[str]:
    """Return what is wrong with the distributions in a library folder, in words."""
    found: list[str] = []
    owners: dict[str, str] = {}
    names = {
        entry.metadata["Name"] for entry in importlib.metadata.distributions(path=[str(library)])
    }
    for info in sorted(library.glob("*.dist-info")):
        rows = csv.reader((info / "RECORD").read_text().splitlines())
        for path, promise, _ in rows:
            file = library / path
            if not file.is_file():
                found.append(f"{info.name}: {path} is missing")
            elif promise:
                digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest())
                if promise != f"sha256={digest.decode().rstrip('=')}":
                    found.append(f"{info.name}: {path} has another content")
            if owners.setdefault(os.path.realpath(file), info.name) != info.name:
                found.append(f"{path} belongs to two")
        entry = importlib.metadata.Distribution.at(info)
        found += [f"{info.name} lacks {text}" for text in entry.requires or () if text not in names]
    projects = [info.name.partition("-")[0] for info in library.glob("*.dist-info")]
    found += [f"{name} exists twice" for name in projects if projects.count(name) > 1]
    return found


def pip_checks(site: Site) -> None:
    """Let pip say whether everything fits, where there is one."""
    python = next((p for p in (sys.executable, sys._base_executable) if _has_pip(p)), None)  # type: ignore[attr-defined]
    if python is not None:
        completed = subprocess.run(
            [python, "-m", "pip", "--python", site.venv, "check"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout


def _has_pip(python: str) -> bool:
    asked = [python, "-I", "-c", "import pip"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


class TestTogether:
    """Eight processes, one environment, one cache."""

    @pytest.mark.parametrize("same", [False, True], ids=["other packages", "the same"])
    def test_all_succeed_or_say_that_it_is_busy(self, site: Site, same: bool) -> None:  # noqa: FBT001
        """Exit codes are 0 and 6 (environment-busy); in the end everything is there and sound."""
        names = [f"app{number}" for number in range(2 if same else 8)]
        for name in names:
            script = {"console_scripts": {name: f"{name}:main"}}
            site.shelf.put(
                build_wheel(site.wheels, name, "1", requires=["base"], entry_points=script)
            )
        site.shelf.put(build_wheel(site.wheels, "base", "1", label="mkl", document=DOCUMENT))
        site.shelf.put(json.dumps(DOCUMENT).encode(), "base-1-variants.json", metadata=False)
        left = [names[number % len(names)] for number in range(8)]
        for _ in range(8):
            processes = [(name, start(site, *install(site, name))) for name in left]
            left = []
            for name, process in processes:
                out, err = process.communicate(timeout=120)
                assert process.returncode in {0, 6}, out + err
                assert "Traceback" not in out + err
                if process.returncode:
                    # What others change meanwhile is planned anew; only waiting has an end.
                    assert "waited" in json.loads(out)["error"]["message"]
                    left.append(name)
            assert unsound(site.library) == []
            if not left:
                break
        assert left == []
        assert set(site.installed()) == {*names, "base"}
        assert not list(site.library.glob(".wheelfit*"))
        pip_checks(site)

    @pytest.mark.parametrize("there", ["base", "app"])
    def test_another_was_faster(self, site: Site, there: str) -> None:
        """A plan that another process has crossed is made anew with what is downloaded."""
        wheels = {"base": build_wheel(site.wheels, "base", "1")}
        wheels["app"] = build_wheel(site.wheels, "app", "1", requires=["base"])
        for wheel in wheels.values():
            site.shelf.put(wheel)
        with locked(site.library):
            words = ("--no-cache-dir", "app", "base")
            process = start(site, *(word for word in install(site, *words) if word != "--json"))
            fetched = partial(self.fetched, site)
            until(lambda: process.poll() is not None or all(map(fetched, wheels.values())))
            assert process.poll() is None, process.communicate()
            with zipfile.ZipFile(wheels[there]) as archive:
                archive.extractall(site.library)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "planning again" in err
        assert out == f"installed {'app' if there == 'base' else 'base'} 1\n"
        assert set(site.installed()) == {"app", "base"}
        assert unsound(site.library) == []
        assert [len(self.fetched(site, wheel)) for wheel in wheels.values()] == [1, 1]

    def fetched(self, site: Site, wheel: Path) -> list[RecordedRequest]:
        """Return the requests for a wheel as a whole, as far as they are answered."""
        asked = site.index.requests_for(wheel.name)
        return [one for one in asked if one.path.endswith(".whl") and one.sent]

    @pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.corpora)])
    def test_to_and_fro(self, site: Site, rounds: int) -> None:
        """Upgrades and downgrades at once end with one of the versions, whole."""
        for version in ("1", "2"):
            files = {f"demo/part{n}.py": f"{version} {n}" for n in range(200)}
            site.shelf.put(build_wheel(site.wheels, "demo", version, files=files))
        for _ in range(rounds):
            processes = [
                start(site, *install(site, f"demo=={1 + number % 2}")) for number in range(8)
            ]
            for process in processes:
                out, err = process.communicate(timeout=120)
                assert process.returncode in {0, 6}, out + err
            assert unsound(site.library) == []
            contents = {path.read_text()[0] for path in (site.library / "demo").glob("*.py")}
            assert len(contents) == 1


class TestKilled:
    """A process that ends at the worst moment."""

    FILES = ("demo/__init__.py", "demo/data/a.txt")

    @pytest.fixture
    def prepared(self, site: Site) -> Site:
        """Install one version of something, and offer two."""
        for version in ("1", "2"):
            files = {**dict.fromkeys(self.FILES, version), f"demo/only{version}.py": ""}
            script = {"console_scripts": {"demo": "demo:main"}}
            site.shelf.put(
                build_wheel(site.wheels, "demo", version, files=files, entry_points=script)
            )
        site.run("install", "demo==1")
        shutil.copytree(site.venv, site.folder / "before", symlinks=True)
        return site

    def steps(self, site: Site, words: list[str | Path], deadly: int) -> str:
        """Run a command that is killed at a step; return what it said."""
        process = start(site, killed.__file__, str(deadly), site.venv, *words[2:])
        out, err = process.communicate(timeout=120)
        assert process.returncode in {0, -9}, out + err
        return err

    def restore(self, site: Site) -> None:
        """Bring the environment back to what it was."""
        shutil.rmtree(site.venv)
        shutil.copytree(site.folder / "before", site.venv, symlinks=True)

    def check_every(self, site: Site, every: int) -> None:
        """Kill an upgrade at every so many-th step, and run the same again."""
        words = install(site, "demo==2")
        total = int(self.steps(site, words, 0).rpartition("steps: ")[2])
        assert total > 10
        for deadly in range(1, total + 1, every):
            self.restore(site)
            self.steps(site, words, deadly)
            leftovers = list(site.library.glob(".wheelfit-*"))
            told = site.run("list").err
            assert bool(leftovers) == ("interrupted" in told)
            site.run("install", "demo==2")
            assert not list(site.library.glob(".wheelfit-*")), deadly
            assert unsound(site.library) == [], deadly
            assert {p.read_text() for p in map(site.library.joinpath, self.FILES)} == {"2"}
            assert not (site.library / "demo" / "only1.py").exists()

    def test_the_same_command_finishes_the_work(self, prepared: Site) -> None:
        """After a kill it completes what was begun, and `list` points to what is left over."""
        self.check_every(prepared, 6)

    @pytest.mark.corpora
    def test_at_every_step(self, prepared: Site) -> None:
        """The same for every single step."""
        self.check_every(prepared, 1)

    @pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.corpora)])
    def test_a_removal(self, prepared: Site, every: int) -> None:
        """A killed removal can be finished as well, until nothing is left to remove."""
        words: list[str | Path] = ["-m", "wheelfit", "uninstall", "--python", prepared.venv, "demo"]
        total = int(self.steps(prepared, words, 0).rpartition("steps: ")[2])
        for deadly in range(1, total + 1, every):
            self.restore(prepared)
            self.steps(prepared, words, deadly)
            process = start(prepared, *words)  # what was begun is finished first, then looked at
            _, err = process.communicate(timeout=120)
            assert process.returncode in {0, 1}, err
            assert not list(prepared.library.glob(".wheelfit-*")), deadly
            assert prepared.installed() == {}
            assert not [path for path in prepared.library.glob("demo*/**/*") if path.is_file()]

    def test_the_cache_outlives_it(self, prepared: Site) -> None:
        """What a killed download left in the cache is not taken for a wheel."""
        cache = prepared.folder / "cache"
        shutil.rmtree(cache)
        words = install(prepared, "demo==2")
        process = start(prepared, killed.__file__, "3", cache, *words[2:])
        process.communicate(timeout=120)
        assert process.returncode == -9
        prepared.run("install", "demo==2")
        assert unsound(prepared.library) == []


class TestForeignCode:
    """Nothing of an environment is imported, and nothing of it runs but its bare interpreter."""

    def watch(self, site: Site, *words: str | Path) -> dict[str, Any]:
        """Run a command and return what was seen."""
        process = start(site, watched.__file__, site.venv, *words)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        report = json.loads(err.splitlines()[-1])
        assert isinstance(report, dict)
        return report

    @pytest.mark.parametrize("options", [(), ("--compile",)], ids=["", "compiling"])
    def test_nothing_is_imported_afterwards(self, site: Site, options: tuple[str, ...]) -> None:
        """CVE-2026-6357: once files have come into the environment, nothing is imported."""
        wheel = build_wheel(
            site.wheels,
            "demo",
            "1",
            files={f"{name}.py": "raise SystemExit('owned')" for name in ("json", "rich", "demo")},
        )
        site.shelf.put(wheel)
        report = self.watch(site, *install(site, *options, "demo")[2:])
        assert report["changed"]
        assert report["late"] == []
        assert report["from_folder"] == []
        for command in report["programs"]:
            # The environment's interpreter describes itself or compiles; keyring is no part of it.
            assert "-I" in command
            assert "-S" in command or command[-2].endswith("interpreter.py")

    def test_nothing_installed_is_run(self, site: Site) -> None:
        """Modules, commands and providers of installed packages play no part in any command."""
        trap = site.folder / "home" / "sprung"
        evil = f"open({str(trap)!r}, 'w').write(__file__)\n"
        names = ("packaging", "keyring", "json", "typing_extensions", "evil")
        for name in names:
            site.shelf.put(build_wheel(site.wheels, name, "1", files={f"{name}.py": evil}))
        claim = {"requires": ["evil"], "plugin-api": "evil:Plugin"}
        made = release_document(
            {"x": {"evil": {"a": ["b"]}}}, providers={"evil": claim}, namespaces=["evil"]
        )
        site.shelf.put(build_wheel(site.wheels, "demo", "1", label="x", document=made))
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        site.shelf.put(json.dumps(made).encode(), "demo-1-variants.json", metadata=False)
        site.run("install", *names)
        site.run("install", "demo")
        site.run("explain", "demo")
        site.run("list")
        site.run("install", "--force-reinstall", "--compile", "demo")
        site.run("uninstall", "demo")
        assert not trap.exists()

    def test_start_up_files_are_told(self, site: Site) -> None:
        """A wheel that runs code whenever Python starts is pointed out (section 3)."""
        site.shelf.put(build_wheel(site.wheels, "demo", "1", files={"demo.pth": "import demo\n"}))
        result = site.run("install", "demo")
        assert "runs code whenever Python starts: demo.pth" in result.err
