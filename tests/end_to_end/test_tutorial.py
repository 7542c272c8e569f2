"""The tutorial for maintainers, executed: files, commands and output."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from programs import run_program
from server.running import RunningIndex

from wheelfit.testing.drivers import find_compiler
from wheelfit.wheels.binaries.optimisation import Optimisation, read_optimisation
from wheelfit_runtime.platforms.discovery import Machine

pytestmark = [pytest.mark.network]

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "publish-variants.md"
SERVER = "http://127.0.0.1:8942"
_BLOCK = re.compile(
    r"(?:^`(?P<name>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def can_run() -> str | None:
    """Return why the page cannot be executed here; None if it can."""
    if sys.platform != "linux":
        return "is for Linux"
    detected = Machine().detect("x86_64")
    levels = (
        [feature.values for feature in detected.features if feature.name == "level"]
        if detected
        else []
    )
    if not any("v3" in values for values in levels):
        return "needs an x86-64 processor of level v3"
    if find_compiler() is None or shutil.which("bash") is None:
        return "needs a C compiler and bash"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "needs the headers of Python"
    return None


def plain(text: str) -> str:
    """Return words without sizes, times and versions."""
    text = re.sub(r"\d+(\.\d+)? (B|kB|MB)\b", "SIZE", text)
    text = re.sub(r"\d+ loops, best of 5: [\d.]+ \w+ per loop", "TIMES", text)
    text = re.sub(r"\b\d+\.\d s( +\d+\.\d\d\b)?", "TIME", text)
    text = re.sub(r"\bcp3\d+", "cp3", text)
    text = re.sub(r"setuptools \d[\d.]*\d", "setuptools VERSION", text)
    text = re.sub(r"http://127\.0\.0\.1:\d+", SERVER, text)
    return " ".join(re.sub(r"-{3,}", "-", text).split())


class Reader:
    """A reader who follows the page in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: RunningIndex | None = None
        self._exports: list[str] = []
        self.commands = 0

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def type(self, command: str, shown: list[str]) -> None:
        """Run a command, and compare its output with the page."""
        self.commands += 1
        if command.startswith("pip install"):
            return  # what is tested is installed
        if command.startswith("wheelfit index serve store"):
            self._index = RunningIndex(self._folder / "store")
            return
        if self._index is not None:
            command = command.replace(urlsplit(SERVER).netloc, urlsplit(self._index.origin).netloc)
        if command.startswith("export "):
            self._exports.append(command)
            return
        fails = any(line.lstrip().startswith("error ") for line in shown)
        start = f'wheelfit() {{ "{sys.executable}" -m wheelfit "$@"; }}'
        completed = run_program(
            "bash", "-c", "\n".join([start, *self._exports, command]), code=9 if fails else 0,
            cwd=self._folder, env=self._environ(),
        )  # fmt: skip
        said = completed.stdout + completed.stderr
        printed = iter(map(plain, completed.stdout.splitlines()))
        for line in shown:
            assert plain(line) in printed, f"{command} does not print {line!r} there, but\n{said}"

    def _environ(self) -> dict[str, str]:
        places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: text for name, text in os.environ.items() if not name.startswith("WHEELFIT_")}
        return kept | {
            "PATH": places,
            "COLUMNS": "",
            "NO_COLOR": "1",
            "NO_PROXY": "127.0.0.1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            "WHEELFIT_CACHE_DIR": str(self._folder.parent / "cache"),
            "WHEELFIT_CONFIG_FILE": os.devnull,
        }

    def end(self) -> None:
        """End the started servers."""
        if self._index is not None:
            assert self._index.stop() == 0


def test_tutorial(registry: None, tmp_path: Path) -> None:
    """From a plain project to published variants, every command does what the page says."""
    del registry
    pytest.importorskip("twine", reason="needs the extra `publish`")
    pytest.importorskip("uvicorn", reason="needs the extra `server`")
    if (reason := can_run()) is not None:
        pytest.skip(reason)
    folder = tmp_path / "fastsum"
    folder.mkdir()
    reader = Reader(folder)
    try:
        for block in _BLOCK.finditer(PAGE.read_text("utf-8")):
            if block["kind"] != "console":
                reader.write(block["name"], block["text"])
                continue
            for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, *shown = part.rstrip("\n").split("\n")
                reader.type(command, shown)
    finally:
        reader.end()
    assert reader.commands > 20
    check_code(folder / "dist", ["v3"])
    check_code(folder / "next", ["v3", "v4"])


def check_code(folder: Path, labels: list[str]) -> None:
    """Check that no variant has less optimisation than the plain wheel, or assertions."""
    (plain,) = folder.glob("*x86_64.whl")
    there = compiled(plain)
    for label in labels:
        (path,) = folder.glob(f"*-{label}.whl")
        code = compiled(path)
        assert code.losses_against(there) == ()
        assert code.levels == there.levels
        assert code.code != there.code
        assert not code.is_unoptimised


def compiled(wheel: Path) -> Optimisation:
    """Return the compiler options of the library in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".so")]
        optimisation = read_optimisation(io.BytesIO(archive.read(name)), name)
    assert optimisation is not None
    return optimisation
