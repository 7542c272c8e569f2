"""No code of an environment is imported or executed during or after its changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from end_to_end.homes import make_home, site_of

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

SHADOWS = (
    "encodings",
    "json",
    "pip",
    "packaging",
    "site",
    "zipfile",
    "wheelfit",
    "_distutils_hack",
)


def trap(mark: Path, name: str) -> str:
    """Return a module that leaves a mark when it is imported."""
    return f"open({str(mark)!r}, 'a').write({name + chr(10)!r})\n"


def run(python: str | Path, *words: str | Path, code: int | None = 0) -> str:
    """Run wheelfit with an interpreter in an empty folder, and return its output."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "PYTHON", "WHEELFIT_")) and name != "VIRTUAL_ENV"
    }
    completed = subprocess.run(
        [python, "-m", "wheelfit", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={
            **environ,
            "PIP_CONFIG_FILE": os.devnull,
            "WHEELFIT_CACHE_DIR": str(CACHE),
            "VIRTUAL_ENV": str(Path(python).parent.parent),  # it is active
        },
    )
    assert "Traceback" not in completed.stderr
    assert code is None or completed.returncode == code, completed.stderr
    return completed.stdout + completed.stderr


CACHE = Path(os.devnull).parent / "no-cache"  # each test names its own


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> None:
    """Use a separate cache for every test."""
    global CACHE  # noqa: PLW0603 - read by run()
    CACHE = tmp_path / "cache"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Return the file that traps write."""
    return tmp_path / "what-ran"


@pytest.fixture
def index(tmp_path: Path, mark: Path) -> Iterator[RecordingIndex]:
    """Serve wheels with traps of every kind."""
    folder = tmp_path / "index"
    for version in ("1.0", "2.0"):
        build_wheel(
            folder,
            "trapped",
            version,
            requires=["other"],
            files={
                "trapped/__init__.py": trap(mark, "trapped"),
                "sitecustomize.py": trap(mark, "sitecustomize of the wheel"),
                "usercustomize.py": trap(mark, "usercustomize of the wheel"),
                "pip/__init__.py": trap(mark, "pip of the wheel"),
                "keyring.py": trap(mark, "keyring of the wheel"),
                f"trapped-{version}.data/scripts/python-config": "#!python\n"
                + trap(mark, "script"),
                f"trapped-{version}.data/purelib/isal/__init__.py": trap(mark, "isal of the wheel"),
            },
            entry_points={"console_scripts": {"trapped": "trapped:main"}},
        )
    build_wheel(folder, "other", "1.0", files={"other/__init__.py": trap(mark, "other")})
    with RecordingIndex(folder) as server:
        yield server


@pytest.fixture
def target(tmp_path: Path, mark: Path) -> Path:
    """Make an environment full of traps."""
    place = tmp_path / "target"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    site = site_of(place)
    (site / "trap.pth").write_text(f"import sys; exec({trap(mark, 'trap.pth')!r})\n")
    (site / "sitecustomize.py").write_text(trap(mark, "sitecustomize"))
    (site / "usercustomize.py").write_text(trap(mark, "usercustomize"))
    for name in SHADOWS:
        (site / name).mkdir()
        for module in ("__init__", "__main__", "tags", "markers", "aliases"):
            (site / name / f"{module}.py").write_text(trap(mark, f"{name}.{module}"))
    for name in ("pip", "wheelfit", "uv", "nvidia-smi"):
        script = place / "bin" / name
        script.write_text(f"#!{sys.executable}\n{trap(mark, f'bin/{name}')}")
        script.chmod(0o755)
    return place


def test_traps_work(target: Path, mark: Path) -> None:
    """The interpreter of the environment triggers them at its start."""
    subprocess.run([target / "bin" / "python", "-c", "import pip"], check=True)
    assert {"trap.pth", "sitecustomize", "pip.__init__"} <= set(mark.read_text().splitlines())


def test_other_environment(target: Path, index: RecordingIndex, mark: Path, tmp_path: Path) -> None:
    """No command runs code of the environment it works on, or of the packages it installs."""
    sources = ["-i", index.url]
    here: list[str | Path] = ["--python", target]
    shutil.rmtree(site_of(target) / "pip")  # the wheel brings another
    (site_of(target) / "sitecustomize.py").unlink()
    (site_of(target) / "usercustomize.py").unlink()
    install: list[str | Path] = ["install", *here, *sources, "--startup-files", "allow"]
    run(sys.executable, *install, "trapped==1.0", "--compile")
    run(sys.executable, *install, "-U", "trapped")
    run(sys.executable, *install, "--force-reinstall", "trapped")
    run(sys.executable, "install", *here, *sources, "--dry-run", "trapped")
    lock = tmp_path / "pylock.toml"
    run(sys.executable, "lock", *sources, "-o", lock, "other", *here, code=None)
    run(sys.executable, "sync", *here, *sources, lock, code=None)
    run(sys.executable, *install, "trapped")
    for words in (
        ["list"], ["doctor"], ["explain", *sources, "trapped"], ["recover"],
        ["doctor", "--json"], ["list", "--json"], ["probe"],
    ):  # fmt: skip
        run(sys.executable, *words, *([] if words[0] == "probe" else here), code=None)
    run(sys.executable, "uninstall", *here, "trapped", "other")
    assert not mark.exists(), mark.read_text()
    assert not (site_of(target) / "trapped").exists()


# --- from the environment itself ---------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make an environment that contains wheelfit itself."""
    return make_home(tmp_path / "home")


def _later(name: str, home: Path, mark: Path, folder: Path) -> Path:
    """Build a later release of an installed package with traps in all modules."""
    site = site_of(home)
    modules = {
        str(path.relative_to(site)): trap(mark, str(path.relative_to(site)))
        for path in (site / name).rglob("*.py")
    }
    return build_wheel(folder, name, "99.0", files=modules)


@pytest.mark.parametrize("name", ["packaging", "rich", "wheelfit", "filelock"])
@pytest.mark.parametrize("how", [[], ["--json", "--verbose"]], ids=["plain", "json"])
def test_self_upgrade(name: str, how: list[str], home: Path, mark: Path, tmp_path: Path) -> None:
    """CVE-2026-6357: while its modules are replaced, wheelfit uses the old ones."""
    path = _later(name, home, mark, tmp_path / "wheels")
    # Its needs are read at the end, and take a part of packaging that is seldom needed.
    info = site_of(home) / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: odd\nVersion: 1.0\nRequires-Dist: {name} (===1.0)\n"
    )
    result = run(home / "bin" / "python", "install", "--no-index", "--no-deps", path, *how)
    assert "99.0" in result
    assert "odd 1.0 needs" in result
    assert not mark.exists(), mark.read_text()
    assert (site_of(home) / f"{name}-99.0.dist-info").is_dir()


def test_self_removal(home: Path) -> None:
    """Wheelfit removes itself on request, and the command succeeds."""
    result = run(home / "bin" / "python", "uninstall", "wheelfit")
    assert "removed wheelfit" in result
    assert not (site_of(home) / "wheelfit" / "__init__.py").exists()


def test_optional_modules(home: Path, index: RecordingIndex, mark: Path) -> None:
    """Optional modules of wheelfit are not imported once a wheel installs them."""
    python = home / "bin" / "python"
    shutil.rmtree(site_of(home) / "isal")
    shutil.rmtree(next(site_of(home).glob("isal-*.dist-info")))
    run(python, "install", "-i", index.url, "--startup-files", "allow", "trapped")
    assert not mark.exists(), mark.read_text()
