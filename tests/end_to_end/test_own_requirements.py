"""wheelfit does not break itself, and detects and repairs damage by others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from end_to_end.homes import make_home, required, site_of
from programs import run_program

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with wheelfit itself, which no test may change."""
    home = make_home(tmp_path_factory.mktemp("own") / "home")
    run(home, "list")  # keeps its bytecode
    return home


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    """Make another one to be changed; its files are links to the first."""
    shutil.copytree(whole, tmp_path / "home", symlinks=True, copy_function=os.link)
    return tmp_path / "home"


def run(
    home: Path, *words: str | Path, code: int = 0, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the wheelfit of an environment, which is active."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "PYTHON", "UV_", "WHEELFIT_")) and name != "VIRTUAL_ENV"
    }
    kept |= {"PIP_CONFIG_FILE": os.devnull, "WHEELFIT_CACHE_DIR": str(home.parent / "cache")}
    kept["VIRTUAL_ENV"] = str(home)
    completed = run_program(
        home / "bin" / "python", "-m", "wheelfit", *map(str, words), code=code, timeout=300,
        cwd=home.parent, env=kept | (environ or {}),
    )  # fmt: skip
    assert "Traceback" not in completed.stdout + completed.stderr
    return completed


def in_a_line(text: str) -> str:
    """Return a text with its lines joined."""
    return " ".join(text.split())


def remove(home: Path, names: Iterable[str]) -> None:
    """Remove files and records of distributions, unlike any installer."""
    site = site_of(home)
    for name in names:
        found = required()[name]
        tops = {path.parts[0] for path in found.files or () if path.parts[0] != ".."}
        for top in tops:
            if (site / top).is_dir():
                shutil.rmtree(site / top)
            else:
                (site / top).unlink(missing_ok=True)


def listing(home: Path) -> list[str]:
    """Return the installed packages."""
    return sorted(path.name for path in site_of(home).glob("*.dist-info"))


# --- it does not break itself --------------------------------------------------------------------


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Build releases that wheelfit does not work with, and some irrelevant to it."""
    folder = tmp_path / "wheels"
    build_wheel(folder, "urllib3", "1.26.20", files={"urllib3/__init__.py": ""})
    build_wheel(folder, "mdurl", "0.0.1", files={"mdurl/__init__.py": ""})
    build_wheel(folder, "old-client", "1.0", requires=["urllib3<2"])
    build_wheel(folder, "harmless", "1.0", files={"harmless.py": ""})
    build_wheel(folder, "rich", "99", requires=["brand-new"])
    return folder


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["urllib3<2"], "urllib3 would be 1.26.20, and wheelfit 0.1.0 requires urllib3<3,>=2.8"),
        (["old-client"], "urllib3 would be 1.26.20, and wheelfit 0.1.0 requires"),
        (["mdurl<0.1"], "mdurl would be 0.0.1, and markdown-it-py"),
        (["--no-deps", "urllib3<2", "harmless"], "urllib3 would be 1.26.20"),
        (["--dry-run", "urllib3<2"], "urllib3 would be 1.26.20"),
        (["--no-deps", "rich==99"], "brand-new would be missing, and rich 99 requires brand-new"),
    ],
    ids=["itself", "as a dependency", "two levels", "without dependencies", "dry run", "more"],
)
def test_refused_install(whole: Path, wheels: Path, words: list[str], reason: str) -> None:
    """An installation that would break wheelfit changes nothing, and says why and what to do."""
    before = listing(whole)
    done = run(whole, "install", "--no-index", "-f", wheels, *words, code=7)
    assert "[own-requirement]" in done.stderr
    assert reason in in_a_line(done.stderr)
    assert "--python or --target" in in_a_line(done.stderr)
    assert listing(whole) == before


def test_other_installs(home: Path, wheels: Path, tmp_path: Path) -> None:
    """Other packages are installed, and any package into other environments."""
    run(home, "install", "--no-index", "-f", wheels, "harmless")
    run(home, "install", "--no-index", "-f", wheels, "old-client", "--target", tmp_path / "there")
    assert (tmp_path / "there" / "urllib3-1.26.20.dist-info").is_dir()
    run(home, "uninstall", "harmless")
    assert "harmless-1.0.dist-info" not in listing(home)


def test_existing_damage(home: Path, wheels: Path) -> None:
    """A requirement that was already unmet is no reason for a refusal."""
    build_wheel(wheels, "truststore", "0.1", files={"truststore/__init__.py": ""})
    remove(home, ["truststore"])
    run(home, "install", "--no-index", "-f", wheels, "harmless", "truststore==0.1")


@pytest.mark.parametrize("words", [[], ["--dry-run"]], ids=["really", "dry run"])
@pytest.mark.parametrize("name", ["packaging", "mdurl"])
def test_refused_uninstall(whole: Path, name: str, words: list[str]) -> None:
    """Dependencies of wheelfit are not removed by it."""
    done = run(whole, "uninstall", name, *words, code=7)
    assert f"{name} would be removed" in in_a_line(done.stderr)


def test_refused_sync(whole: Path, wheels: Path, tmp_path: Path) -> None:
    """A lock with a release that breaks wheelfit is not synced into its environment."""
    with RecordingIndex(wheels) as index:
        lock = tmp_path / "pylock.toml"
        run(whole, "lock", "-i", index.url, "-o", lock, "urllib3")
        done = run(whole, "sync", lock, code=7)
        assert "urllib3 would be 1.26.20" in in_a_line(done.stderr)
        run(whole, "sync", lock, "--target", tmp_path / "there")


# --- what others have broken ---------------------------------------------------------------------


def test_doctor_and_recover_without_dependencies(home: Path) -> None:
    """Without any dependency of wheelfit both start and report."""
    remove(home, required())
    done = run(home, "recover")
    assert "no change was interrupted" in done.stdout
    run(home, "recover", "--python", sys.executable, "--dry-run")
    done = run(home, "doctor", code=13)
    for name in ("packaging", "urllib3", "msgspec", "rich"):
        assert f"wheelfit 0.1.0 requires {name}" in in_a_line(done.stdout)
    assert "wheelfit doctor --repair" in done.stdout
    report = json.loads(run(home, "doctor", "--json", code=13).stdout)
    assert {finding["code"] for finding in report["findings"]} == {"own-requirement-unmet"}
    assert report["summary"]["errors"] == len(report["findings"]) >= 8
    run(home, "doctor", "--runtime", "self", code=13)
    run(home, "--version")
    run(home, "recover", "--help")


def test_other_commands(home: Path) -> None:
    """They end with an error of wheelfit, not with an ImportError."""
    remove(home, required())
    for words in (["install", "a"], ["list"], ["lock", "a"], ["uninstall", "a"]):
        done = run(home, *words, code=70)
        assert "[broken-installation]" in done.stderr
        assert "wheelfit doctor" in done.stderr


def test_recovery_without_dependencies(home: Path, wheels: Path, tmp_path: Path) -> None:
    """An interrupted change is undone without any dependency of wheelfit."""
    target = tmp_path / "target"
    run(home, "install", "--no-index", "-f", wheels, "harmless", "--target", target)
    before = sorted(path.name for path in target.iterdir())
    build_wheel(wheels, "harmless", "2.0", files={"harmless.py": "2", "more.py": ""})
    # A kill at the last step, when all files are in their places.
    program = (
        "import os, sys\n"
        "from wheelfit.cli.main import main\n"
        "def watch(event, arguments):\n"
        "    if event == 'os.rename' and str(arguments[1]).endswith('committed'):\n"
        "        os.kill(os.getpid(), 9)\n"
        "sys.addaudithook(watch)\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    killed = subprocess.run(
        [home / "bin/python", "-c", program, "install", "--no-index", "-f", wheels, "-U",
         "harmless", "--target", target],
        check=False, capture_output=True, timeout=120,
        env={
            "PATH": os.environ["PATH"],
            "WHEELFIT_CACHE_DIR": str(tmp_path / "cache"),
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],  # where the change is signed from
        },
    )  # fmt: skip
    assert killed.returncode == -9, killed
    assert (target / "more.py").exists()
    remove(home, required())
    done = run(home, "recover", "--target", target)
    assert "an interrupted change was undone" in done.stdout
    assert sorted(path.name for path in target.iterdir()) == before
    assert (target / "harmless.py").read_text() == ""


def test_unsuitable_release(home: Path) -> None:
    """An unsuitable release is named: urllib3 1.x, which may be importable."""
    site = site_of(home)
    remove(home, ["urllib3"])
    (site / "urllib3").mkdir()
    (site / "urllib3/__init__.py").write_text("")
    info = site / "urllib3-1.26.20.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: urllib3\nVersion: 1.26.20\n")
    done = run(home, "install", "-i", "http://127.0.0.1:9/simple", "anything", code=70)
    assert "urllib3<3,>=2.8, but urllib3 1.26.20 is installed" in in_a_line(done.stderr)
    done = run(home, "doctor", code=13)
    assert "urllib3 1.26.20 is installed" in in_a_line(done.stdout)


def test_deleted_files(home: Path) -> None:
    """A package whose folder was deleted is named, though its record exists."""
    shutil.rmtree(site_of(home) / "packaging")
    done = run(home, "doctor", code=13)
    assert "are missing, such as packaging/__init__.py" in in_a_line(done.stdout)
    done = run(home, "list", code=70)
    assert "packaging" in done.stderr


# --- repair --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("registry")
@pytest.mark.network
def test_repair(home: Path) -> None:
    """With pip from ensurepip everything is reinstalled; a failure of pip is shown."""
    remove(home, ["packaging", "urllib3", "mdurl", "rich"])
    shutil.rmtree(site_of(home) / "msgspec")
    environ = {"PATH": os.defpath}  # without uv
    environ |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    offline = {**environ, "PIP_NO_INDEX": "1"}
    done = run(home, "doctor", "--repair", code=70, environ=offline)
    assert "-m ensurepip" in in_a_line(done.stderr)
    assert "the repair failed" in in_a_line(done.stderr)
    assert "No matching distribution found for " in in_a_line(done.stderr)
    done = run(home, "doctor", "--repair", "--runtime", "self", environ=environ)
    assert "-m pip install --no-deps --force-reinstall" in in_a_line(done.stderr)
    run(home, "list")
    done = run(home, "doctor", "--repair", "--runtime", "self")
    assert "everything that wheelfit depends on is installed" in done.stderr
    assert "pip install" not in done.stderr


def test_repair_with_uv(home: Path, uv: Path) -> None:
    """In an environment without pip, as made by uv and pipx, uv installs what is missing."""
    remove(home, ["mdurl"])
    environ = {"PATH": os.pathsep.join((str(uv.parent), os.defpath))}
    environ |= {name: value for name, value in os.environ.items() if name.startswith("UV_")}
    done = run(home, "doctor", "--repair", "--runtime", "self", environ=environ)
    assert f"{uv} pip install --python" in in_a_line(done.stderr)
    assert not list(site_of(home).glob("pip"))
    run(home, "list")
