"""Real virtual environments, made once a session and copied for each test."""

from __future__ import annotations

import hashlib
import inspect
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from installation.bench import Bench, Install, Pip, Tree

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.metadata import read_document
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.installation.apply import Applied, apply
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.plan import plan
from wheelfit.resolution.release_choice import ReleaseChoice
from wheelfit.resolution.resolution import Pin, Resolution
from wheelfit.sources.cache import Store
from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.page import File
from wheelfit.sources.wheel_store import WheelStore
from wheelfit.testing.wheels import unpack_wheel

MakeVenv = Callable[[], Path]


@pytest.fixture
def make_venv(empty_venv: Path, tmp_path: Path) -> MakeVenv:
    """Return a function that makes fresh virtual environments."""
    count = iter(range(100))

    def make() -> Path:
        # A copy works as well as the original: its interpreter is a link, and the place of
        # ``pyvenv.cfg`` decides about the prefix.
        folder = tmp_path / f"venv{next(count)}"
        shutil.copytree(empty_venv, folder, symlinks=True)
        return folder

    return make


@pytest.fixture
def venv(make_venv: MakeVenv) -> Path:
    """Return the folder of a fresh virtual environment."""
    return make_venv()


@pytest.fixture(scope="session")
def seen_template(empty_venv: Path) -> Environment:
    """Return the template as the installer sees it."""
    return open_environment(str(empty_venv), environ=os.environ)


@pytest.fixture
def environment(venv: Path, empty_venv: Path, seen_template: Environment) -> Environment:
    """Return a fresh virtual environment as the installer sees it.

    A copy of the template would only name other folders, so its interpreter is not asked.
    """

    def move(path: Path) -> Path:
        inside = path.is_relative_to(empty_venv)
        return venv / path.relative_to(empty_venv) if inside else path

    interpreter, template = seen_template.interpreter, str(empty_venv)
    moved = interpreter._replace(
        executable=move(interpreter.executable),
        prefix=venv,
        schemes=interpreter.schemes.moved(template, venv),
        site_packages=tuple(map(move, interpreter.site_packages)),
    )
    schemes = seen_template.schemes.moved(template, venv)
    search = tuple(map(move, seen_template.search))
    return Environment(
        moved, seen_template.kind, schemes, schemes, search, venv, seen_template.signer
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder for wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def pip() -> Pip:
    """Return a function that runs the pip of another interpreter on an environment."""
    for python in _pythons():
        completed = subprocess.run(
            [python, "-m", "pip", "--version"], capture_output=True, check=False, text=True
        )
        if completed.returncode == 0:
            break
    else:
        pytest.skip("no interpreter with pip was found")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "pip", *map(str, arguments)],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull},
        )

    return run


def _pythons() -> list[str]:
    candidates = [sys.executable, sys._base_executable, shutil.which("python3")]  # type: ignore[attr-defined]
    return [candidate for candidate in candidates if candidate]


@pytest.fixture(scope="session")
def pin() -> Callable[..., Pin]:
    """Return a function that makes the pin a resolver would make for a wheel."""

    def make(path: Path, *, supported: PropertySet | None = None, **changes: Any) -> Pin:
        filename = parse_wheel_filename(path.name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        file = File(filename.text, path.as_uri(), {"sha256": digest}, size=path.stat().st_size)
        properties = EMPTY
        if filename.label is not None and "properties" not in changes:
            with zipfile.ZipFile(path) as archive:
                (name,) = (n for n in archive.namelist() if n.endswith("/variant.json"))
                document = read_document(archive.read(name), where=name)
            properties = document.variants[filename.label]
        values: dict[str, Any] = {
            "name": filename.name,
            "version": filename.version,
            "file": file,
            "filename": filename,
            # How it was chosen is not a concern of the installer.
            "choice": cast("ReleaseChoice", None),
            "properties": properties,
            "supported": properties if supported is None else supported,
            "reason": "the only wheel",
        }
        return Pin(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def install(pin: Callable[..., Pin]) -> Install:
    """Return a function that plans and applies the installation of given wheels.

    Options that `apply` has go there, all others into the pins.
    """

    def run(environment: Environment, *paths: Path, **options: Any) -> Applied:
        known = set(inspect.signature(apply).parameters)
        chosen = {key: options.pop(key) for key in known & options.keys()}
        reinstall = options.pop("reinstall", False)
        pins = tuple(pin(path, **options) for path in paths)
        found = plan(Resolution(pins), environment.installed(), reinstall=reinstall)
        wheels = {one.name: unpack_wheel(path) for one, path in zip(pins, paths, strict=True)}
        return apply(found, environment, wheels, **chosen)

    return run


@pytest.fixture(scope="session")
def tree() -> Tree:
    """Return a function that describes everything below a folder: mode and content."""

    def describe(folder: Path) -> dict[str, str]:
        found = {}
        for path in sorted(folder.rglob("*")):
            mode = oct(path.lstat().st_mode)
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_dir():
                found[name] = mode
            else:
                found[name] = f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        return found

    return describe


@pytest.fixture
def bench(environment: Environment, home: Path, install: Install, tree: Tree) -> Bench:
    """Return a fresh environment with a folder of wheels."""
    return Bench(environment, home, install, tree)


@pytest.fixture
def again(pin: Callable[..., Pin], tmp_path: Path) -> Install:
    """Return a function that installs wheels from one store, whatever is there already."""

    def run(
        environment: Environment,
        *paths: Path,
        note: Callable[[str], None] = print,
        **options: Any,
    ) -> Applied:
        pins = tuple(map(pin, paths))
        files = LocalFiles(WheelStore(Store(tmp_path / "cache"), note=note))
        found = plan(Resolution(pins), environment.installed(), reinstall=True)
        unpacked = {pin.name: files.unpacked(pin.file, tmp_path) for pin in pins}
        return apply(found, environment, unpacked, **options)

    return run
