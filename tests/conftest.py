"""What every kind of test may ask for."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli.running import Runner
from filelock import FileLock
from hypothesis import HealthCheck, settings
from python_runs import run_python
from releases import write_releases

from wheelfit.testing.drivers import FakeDriver, compile_fake_driver, find_compiler

PIP = "pip==26.3"
UV = "uv==0.13.8"
VARIANTLIB = "variantlib==0.2.2"

_LONG = ("corpora", "gigabytes", "backends_long", "binaries_long", "clients_long", "faults_long")
# Folders, modules and fixtures of integration tests; single tests have the marker themselves.
_WHOLE = {
    *("benchmarks", "conformance", "differential", "end_to_end", "faults", "fuzz", "hostile"),
    "property",
}
_WHOLE_MODULE = re.compile(rb"^pytestmark = (\[\s*)?pytest\.mark\.integration\b", re.MULTILINE)
_TOOLS = {
    *("environment_with", "object_storage", "pip", "postgresql", "registry", "uv"),
    "variantlib_python",
}
_SETTINGS = ("CI", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "VIRTUAL_ENV")
_CERTIFICATES = ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE")


# Machines that run tests are busy: neither slow examples nor slow drawing is a fault.
_BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", _BUSY)
settings.register_profile("fast", _BUSY, max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where only the fast tests are asked for."""
    settings.load_profile("fast" if config.option.markexpr == "not integration" else "steady")
    # A program that a shell starts with "&" ignores Control-C, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no folder and no module of integration tests where none is asked for."""
    if config.option.markexpr != "not integration":
        return None
    if collection_path.parent == Path(__file__).parent and collection_path.name in _WHOLE:
        return True
    is_test = collection_path.match("test_*.py") and collection_path.is_file()
    return True if is_test and _WHOLE_MODULE.search(collection_path.read_bytes()) else None


def pytest_collection() -> None:
    """Collect without the garbage collector: what it would look at again and again stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the collected tests out of each later search for garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest applies -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark integration tests; deselect long corpora whose marker is not in ``-m``."""
    tests = Path(__file__).parent
    unasked = {name for name in _LONG if name not in config.option.markexpr}
    folders = {path: path.relative_to(tests).parts[0] for path in {item.path for item in items}}
    left = set()
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        fixtures = set(getattr(item, "fixturenames", ()))
        if _TOOLS & fixtures or folders[item.path] in _WHOLE or "network" in markers:
            item.add_marker("integration")
        if "shared_data" in fixtures:
            item.add_marker("corpora")
            markers.add("corpora")
        if unasked & markers:
            left.add(item)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what wheelfit keeps for a user, as its secret, out of the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of small pages and index files with the facts of some published releases."""
    folder = tmp_path_factory.mktemp("releases")
    write_releases(folder)
    return folder


@pytest.fixture(
    scope="session", params=["facts", pytest.param("mirror", marks=pytest.mark.corpora)]
)
def published_index(request: pytest.FixtureRequest) -> Path:
    """Return an index of published releases: made of their facts, or the mirror of the real one."""
    if request.param == "facts":
        facts: Path = request.getfixturevalue("releases")
        return facts
    mirror: Path = request.getfixturevalue("shared_data")
    return mirror / "variants-index"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real and demo data beside the checkout, a corpus, or skip."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder ../shared/data with the published documents is not here")
    return folder


@pytest.fixture
def bare_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of the caller: pip's configuration, overrides, colours, certificates."""
    hidden = set(_SETTINGS)
    if not (
        request.node.get_closest_marker("network") or _TOOLS.intersection(request.fixturenames)
    ):
        hidden.update(_CERTIFICATES)  # the others may need them for the registry
    for name in list(os.environ):
        if name.startswith(("PIP_", "WHEELFIT_", "NV_VARIANT_")) or name in hidden:
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("WHEELFIT_PROVIDERS_FILE", os.devnull)


@pytest.fixture
def user_settings(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the settings of the user, empty so far."""
    del bare_environment
    path = tmp_path / "wheelfit.toml"
    path.touch()
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(path))
    return path


@pytest.fixture
def own_settings(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of the caller; use a cache and a current folder of the test."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # a checkout may have a .venv


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], own_settings: None) -> Runner:
    """Return a runner of commands, for which the settings of the caller are hidden."""
    del own_settings
    return Runner(capsys)


@pytest.fixture(scope="session")
def registry(request: pytest.FixtureRequest) -> None:
    """Skip where the package registry cannot be reached."""
    _tool(request, PIP)


@pytest.fixture(scope="session")
def pip(request: pytest.FixtureRequest) -> Path:
    """Give the ``pip`` program of an environment of its own."""
    return _tool(request, PIP) / "bin" / "pip"


@pytest.fixture(scope="session")
def uv(request: pytest.FixtureRequest) -> Path:
    """Give the ``uv`` program, the version whose preview knows variants."""
    return _tool(request, UV) / "bin" / "uv"


@pytest.fixture(scope="session")
def variantlib_python(request: pytest.FixtureRequest) -> Path:
    """Give an interpreter that has the reference library."""
    return _tool(request, VARIANTLIB) / "bin" / "python"


@pytest.fixture(scope="session")
def environment_with(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Give a function that returns an interpreter with some packages, or skips."""

    def interpreter(*requirements: str) -> Path:
        return _tool(request, *requirements) / "bin" / "python"

    return interpreter


@pytest.fixture(scope="session")
def fake_driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a scratch folder for fake drivers, or skip without a C compiler."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler (cc, gcc or clang) for the fake NVIDIA driver")
    return tmp_path_factory.mktemp("fake driver")


@pytest.fixture(scope="session")
def fake_driver(fake_driver_folder: Path) -> FakeDriver:
    """Return a driver with NVML and libcuda."""
    return compile_fake_driver(fake_driver_folder / "both")


def _tool(request: pytest.FixtureRequest, *requirements: str) -> Path:
    """Return an environment with one tool, made once and kept in pytest's cache folder."""
    if request.config.pluginmanager.has_plugin("cacheprovider"):
        folder: Path = request.config.cache.mkdir("tools")
    else:  # with -p no:cacheprovider nothing is kept
        temporary: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        folder = temporary.getbasetemp() / "tools"
        folder.mkdir(exist_ok=True)
    requirement = " ".join(requirements)
    place = folder / requirement.replace(" ", "+")
    with FileLock(f"{place}.lock"):
        if (place / "complete").exists():
            return place
        # Our own pip puts another one there, in half the time that venv needs for it.
        venv = ["-m", "venv", "--clear", "--without-pip", str(place)]
        subprocess.run([sys.executable, *venv], check=True)
        pip = ["-m", "pip", "--python", str(place), "install", "--quiet"]
        completed = run_python(*pip, PIP, *requirements, deadline=1200)
        if completed.returncode:
            # Nothing but the registry can be missing here; a typing error would fail everywhere.
            pytest.skip(
                f"{requirement} cannot be had from the package registry: {completed.stderr}"
            )
        (place / "complete").touch()
    return place


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Return a function that makes a folder read-only, even for root."""
    undo: list[list[str]] = []

    def make(folder: Path) -> None:
        folder.chmod(0o555)
        undo.append(["chmod", "755", str(folder)])
        if not os.access(folder, os.W_OK):
            return
        # Root may write whatever the mode says; nobody may write to an immutable folder.
        for command, back in (
            (["chattr", "+i", folder], ["chattr", "-i", folder]),
            (["mount", "--bind", "-o", "ro", folder, folder], ["umount", folder]),
        ):
            completed = subprocess.run(list(map(str, command)), capture_output=True, check=False)
            if completed.returncode == 0:
                undo.append(list(map(str, back)))
                if not os.access(folder, os.W_OK):
                    return
        pytest.skip("this user may write everywhere, and folders cannot be made immutable")

    yield make
    for command in reversed(undo):
        subprocess.run(command, check=True)


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path, str], Path]]:
    """Return a function that makes a folder with a file system of its own, as of size ``4m``."""
    with ExitStack() as undo:

        def make(folder: Path, size: str) -> Path:
            folder.mkdir(parents=True)
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("this user may not mount file systems")
            undo.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
            return folder

        yield make


@pytest.fixture(scope="session")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an empty virtual environment, to be copied or only read."""
    place = tmp_path_factory.mktemp("template") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    return place


@pytest.fixture
def managed(tmp_path: Path) -> Path:
    """Make an interpreter that belongs to another package manager."""
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    ask = "import sysconfig, sys; print(sys.prefix, sysconfig.get_path('stdlib'), sep='\\n')"

    def answer(python: Path) -> list[str]:
        return run_python("-c", ask, python=python).stdout.splitlines()

    prefix, stdlib = map(Path, answer(base))
    home = tmp_path / "managed"
    moved = home / stdlib.relative_to(prefix)
    moved.mkdir(parents=True)
    for entry in stdlib.iterdir():
        if entry.name not in ("EXTERNALLY-MANAGED", "site-packages"):
            (moved / entry.name).symlink_to(entry)
    (home / "bin").mkdir()
    shutil.copy2(base.resolve(), home / "bin" / "python3")
    (moved / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=Use apt.\n")
    if answer(home / "bin" / "python3") != [str(home), str(moved)]:
        pytest.skip("this interpreter cannot be moved")
    info = moved / "site-packages" / "here-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: here\nVersion: 1.0\n")
    (info / "RECORD").write_text("here-1.0.dist-info/METADATA,,\nhere-1.0.dist-info/RECORD,,\n")
    return home / "bin" / "python3"
