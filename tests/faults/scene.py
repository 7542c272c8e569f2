"""A stage for accidents: an environment, a cache and an index, and commands that meet their end.

Everything a command may change lies below one folder, so that it can be put back as it was,
and looked at as a whole. Commands are the real ones, in processes of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STEPPER = Path(__file__).with_name("stepper.py")
"""The program that stops commands, see there."""

HANGS = 124
"""The exit code of a command that had to be stopped, as ``timeout`` has it."""

_PATIENCE = 240.0  # a connection that always ends after 5 % takes over a minute of retries


@dataclass(frozen=True, slots=True)
class Step:
    """Say at which system call something happens to a command, and what."""

    at: int = 0
    """The number of the call, from 1; 0 for none."""
    act: str = "kill"
    """See `faults.stepper`."""
    errno: int = 0
    """With which error the call fails."""
    only: tuple[str, ...] = ()
    """Names of the calls that fail; empty for any."""
    data: Path | None = None
    """Where to put what is written."""
    numbers: Mapping[int, int] = field(default_factory=dict)
    """Which file numbers to pretend in place of which."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Hold how a command ended."""

    code: int
    """Its exit status, negative for a signal."""
    out: str
    err: str
    fired: bool = False
    """Whether what the step says did happen."""
    calls: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """The system calls that changed something, with the paths."""


class Scene:
    """Hold an environment and all that belongs to it.

    :param folder: where to make it; everything is below it.
    :param index: URL of the index, or empty for none.
    :param host: the machine to choose for, in place of this one.
    """

    def __init__(self, folder: Path, index: str = "", *, host: str = "cpu-x86_64-v3") -> None:
        self.folder = folder
        self.index = index
        self.host = host
        self.state = folder / "state"
        """All that may change."""
        self.environment = self.state / "env"
        self.cache = self.state / "cache"
        self.home = self.state / "home"
        self.temporary = self.state / "tmp"
        self.variables: dict[str, str] = {}
        """What every command finds in its environment besides."""
        self._kept = folder / "kept"
        self._numbers = 0
        for path in (self.cache, self.home, self.temporary, self._kept):
            path.mkdir(parents=True)
        venv.EnvBuilder(symlinks=True, with_pip=False).create(self.environment)

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.environment / "bin" / "python"

    @property
    def library(self) -> Path:
        """Where its packages lie."""
        return (
            self.environment
            / "lib"
            / f"python{sys.version_info[0]}.{sys.version_info[1]}"
            / ("site-packages")
        )

    def environ(self, **more: str) -> dict[str, str]:
        """Return the variables of a command: nothing of whoever runs the tests."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "LANG": "C.UTF-8",
            "VIRTUAL_ENV": str(self.environment),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INPUT": "1",
            "WHEELFIT_CONFIG_FILE": os.devnull,
            "WHEELFIT_PROVIDERS_FILE": os.devnull,
            **self.variables,
            **more,
        }

    def command(self, *words: str | Path) -> list[str]:
        """Return the command line of wheelfit; index, cache and machine are added."""
        told = [str(word) for word in words]
        line = [sys.executable, "-m", "wheelfit", *told]
        if told[0] in {"install", "sync", "lock"}:
            line += ["--cache-dir", str(self.cache)]
            line += ["--index-url", self.index] if self.index else ["--no-index"]
        if told[0] in {"install", "sync"} and "--for" not in told:
            line += ["--for", self.host]
        return line

    def start(self, *words: str | Path, environ: Mapping[str, str] = {}) -> subprocess.Popen[str]:
        """Begin a command."""
        return subprocess.Popen(
            self.command(*words),
            env=self.environ(**environ),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str | Path, step: Step | None = None) -> Ended:
        """Run a command of wheelfit, to its end or its death."""
        return self.run_line(self.command(*words), step)

    def must(self, *words: str | Path) -> Ended:
        """Run a command that shall succeed."""
        ended = self.run(*words)
        assert ended.code == 0, ended
        return ended

    def run_line(self, line: Sequence[str], step: Step | None = None) -> Ended:
        """Run any command, as `run` does."""
        self._numbers += 1
        report = self.folder / f"report-{self._numbers}.json"
        if step is not None:
            orders = report.with_suffix(".orders")
            orders.write_text(
                json.dumps(
                    {
                        "roots": [str(self.state)],
                        "report": str(report),
                        "at": step.at,
                        "act": step.act,
                        "errno": step.errno,
                        "only": step.only,
                        "data": "" if step.data is None else str(step.data),
                        "numbers": dict(step.numbers),
                    }
                )
            )
            line = [sys.executable, "-I", "-S", str(STEPPER), str(orders), "--", *line]
        try:
            completed = subprocess.run(
                line,
                env=self.environ(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Ended(HANGS, "", f"still running after {_PATIENCE:g} s: {error.stderr!r}")
        if step is None:
            return Ended(completed.returncode, completed.stdout, completed.stderr)
        found = json.loads(report.read_text())
        report.unlink()
        orders.unlink()
        calls = tuple(found["calls"])
        return Ended(found["status"], completed.stdout, completed.stderr, found["fired"], calls)

    def numbers(self) -> dict[str, int]:
        """Return the number of each file, by its path below `state`."""
        return {
            str(path.relative_to(self.state)): path.lstat().st_ino
            for path in (self.state, *self.state.rglob("*"))
        }

    def keep(self, name: str) -> None:
        """Keep everything as it is now, to come back to it."""
        kept = self._kept / name
        if kept.exists():
            shutil.rmtree(kept)
        _copy(self.state, kept)

    def back_to(self, name: str) -> None:
        """Make everything as it was when it was kept."""
        shutil.rmtree(self.state)
        _copy(self._kept / name, self.state)

    def kept(self, name: str) -> Path:
        """Return the folder in which a state was kept."""
        return self._kept / name


def _copy(source: Path, target: Path) -> None:
    # cp keeps links between files, which copytree makes files of their own.
    subprocess.run(["cp", "-a", source, target], check=True)


def can_step() -> str | None:
    """Say why commands cannot be stopped at system calls here, or None if they can."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "the stepper is for Linux on x86-64"
    completed = subprocess.run(["cp", "--version"], capture_output=True, check=False)
    return None if completed.returncode == 0 else "needs cp"


def snapshot(folder: Path) -> dict[str, str]:
    """Return all there is below a folder: kind, mode and content, by path."""
    return dict(_entries(folder, ""))


def _entries(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = prefix + entry.name
        mode = f"{stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode):o}"
        if entry.is_symlink():
            yield name, f"-> {os.readlink(entry.path)}"  # noqa: PTH115
        elif entry.is_dir():
            yield name, f"folder {mode}"
            yield from _entries(Path(entry.path), f"{name}/")
        else:
            digest = hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()
            yield name, f"file {mode} {digest[:24]}"


def difference(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Say in a few lines how two snapshots differ; empty if they are equal."""
    lines = [f"missing {name}" for name in wanted.keys() - found.keys()]
    lines += [f"left over {name}" for name in found.keys() - wanted.keys()]
    lines += [
        f"changed {name}: {found[name]}, not {wanted[name]}"
        for name in wanted.keys() & found.keys()
        if wanted[name] != found[name]
    ]
    return sorted(lines)
