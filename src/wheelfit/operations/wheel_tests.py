"""Tests of a project with each of its wheels, on this machine or under emulation."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from wheelfit.building.wheel_results import FOLDER, WheelResult, write_results
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import UsageError
from wheelfit.operations.context import Context
from wheelfit.operations.requests import SourceOptions
from wheelfit_runtime.errors import FileProblem, WheelfitError
from wheelfit_runtime.platforms.override_names import names_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.building.publishing.release_files import OutgoingFile
    from wheelfit.building.wheel_results import How, State
    from wheelfit.core.document import VariantDocument

_CONFIGURATION = ("pyproject.toml", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")
"""Files that test runners read beside the tests."""
_PYTEST = "pytest"
_QEMU = "qemu-x86_64-static", "qemu-x86_64"
_PROCESSORS = {"v1": "qemu64", "v2": "Nehalem", "v3": "Haswell"}
"""Processors of QEMU, each of the very level; none has AVX-512, which v4 needs."""
_LEVEL = "WHEELFIT_OVERRIDE_X86_64_LEVEL"
_FAKE = "WHEELFIT_FAKE_"
"""The prefix of the variables of fake drivers (`wheelfit.testing.drivers`)."""


@dataclass(frozen=True, kw_only=True)
class WheelTestsRequest(SourceOptions):
    """The wheels to test, and how."""

    paths: tuple[str, ...] = ("dist",)
    project: str = "."
    tests: tuple[str, ...] = ()
    command: str = _PYTEST
    extra: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    emulate: Literal["auto", "always", "never"] = "auto"
    python: str | None = None


@dataclass(frozen=True, slots=True)
class WheelTestsReport:
    """The results of the tests with each wheel."""

    results: tuple[WheelResult, ...]
    """Plain wheels first."""

    def times_plain(self, result: WheelResult) -> float | None:
        """Return the time of a wheel in that of the plain one; None if both did not run here."""
        tags = _tags_of(result.filename)
        for plain in self.results:
            if plain.label is None and _tags_of(plain.filename) == tags and plain.seconds:
                alike = plain.how == result.how == "machine"
                return result.seconds / plain.seconds if alike and result.seconds else None
        return None

    @property
    def exit_code(self) -> int:
        """9 if the tests of a wheel failed, 10 if those of no wheel could run, else 0."""
        states = {one.state for one in self.results}
        if "failed" in states:
            return 9
        return 0 if "passed" in states else 10

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "results": [
                {**one.to_mapping(), "times_plain": self.times_plain(one)} for one in self.results
            ],
        }


def _tags_of(filename: str) -> frozenset[object]:
    return frozenset(parse_wheel_filename(filename).tags)


class _Place(NamedTuple):
    """Where the tests of a wheel run, or why nowhere."""

    how: How | None = None
    level: str | None = None
    reason: str = ""

    @property
    def cpu(self) -> str | None:
        return None if self.level is None else _PROCESSORS[self.level]


def run_wheel_tests(request: WheelTestsRequest, context: Context) -> WheelTestsReport:
    """Run a project's tests with each of its wheels, and record the results beside the wheels.

    Each wheel gets a virtual environment of its own. The tests are copied to a folder without the
    source code of the project, so that they import the wheel.

    :raises FileProblem: there are no wheels, or no such tests.
    :raises UsageError: the command is empty, or nothing names the tests.
    """
    from wheelfit.building.publishing.release_files import FileKind, collect

    if not shlex.split(request.command):
        raise UsageError("the command of the tests is empty", where="--command")
    sources = _test_sources(request)
    outgoing = collect([Path(path) for path in request.paths])
    wheels = [one for one in outgoing.files if one.kind is not FileKind.SOURCE]
    if not wheels:
        raise FileProblem(
            "there are no wheels to test",
            where=", ".join(request.paths),
            hint="`wheelfit build --all` builds them",
        )
    results = []
    with context.reporter.steps("testing") as step:
        for wheel in wheels:
            step(f"testing {wheel.filename}")
            result = _tested(wheel, sources, request, context)
            write_results(wheel.path.parent, [result])
            results.append(result)
    return WheelTestsReport(tuple(results))


def _test_sources(request: WheelTestsRequest) -> tuple[Path, ...]:
    """Return the files and folders that the tests are in, with what configures them."""
    project = Path(request.project)
    tests = [project / name for name in request.tests or ("tests", "test")]
    there = [path for path in tests if path.exists()]
    if request.tests and len(there) < len(tests):
        missing = next(path for path in tests if path not in there)
        raise FileProblem("there is no such file or folder", where=str(missing))
    if not there and request.command == _PYTEST:
        raise UsageError(
            f"{project} has neither a folder tests nor test",
            hint="name the tests with --tests, or with --command those that the wheel has: "
            '--command "pytest --pyargs NAME"',
        )
    beside = [project / name for name in (*_CONFIGURATION, "conftest.py")]
    return (*there, *(path for path in beside if path.is_file()))


def _tested(
    wheel: OutgoingFile, sources: Sequence[Path], request: WheelTestsRequest, context: Context
) -> WheelResult:
    """Return the result of one wheel."""
    place = _place_of(wheel, request, context)
    label = None if wheel.label is None else str(wheel.label)
    result = WheelResult(
        filename=wheel.filename,
        label=label,
        sha256=wheel.sha256,
        state="not-run",
        how=place.how,
        cpu=place.cpu,
        reason=place.reason,
    )
    if place.how is None:
        return result
    from wheelfit.operations.temporary_folders import scratch_folder

    with scratch_folder() as folder:
        try:
            python = _environment_with(wheel, folder / "env", place, request, context)
        except WheelfitError as error:
            why = ": ".join(filter(None, (str(error), error.note)))
            return replace(result, state="failed", reason=f"it cannot be installed: {why}")
        work = folder / "work"
        _copy(sources, work)
        log = wheel.path.parent / FOLDER / f"{wheel.path.stem}.log"
        log.parent.mkdir(exist_ok=True)
        command = _command(request.command, python, place, context)
        started = time.monotonic()
        code = _run(command, work, log, _variables(python, context.environ))
        seconds = round(time.monotonic() - started, 3)
    state: State = "passed" if code == 0 else "failed"
    return replace(result, state=state, seconds=seconds, exit_code=code, log=str(log))


# --- where ---------------------------------------------------------------------------------


def _place_of(wheel: OutgoingFile, request: WheelTestsRequest, context: Context) -> _Place:
    """Return where the tests of a wheel run."""
    from wheelfit.building.index_file import read_wheel_document

    document = None if wheel.label is None else read_wheel_document(wheel.path)
    why_not = _objection(wheel, document, request, context)
    level = _level_of(wheel, document)
    if request.emulate == "always" or (why_not and request.emulate == "auto"):
        emulated, why = _emulated(wheel, document, level, request, context)
        if emulated is not None:
            return emulated
        if request.emulate == "always":
            return _Place(reason=why)
        why_not = f"{why_not}; {why}" if why else why_not
    if why_not:
        return _Place(reason=why_not)
    is_described = bool(names_in(context.environ)) or any(
        name.startswith(_FAKE) for name in context.environ
    )
    return _Place("described" if is_described and wheel.label is not None else "machine")


def _objection(
    wheel: OutgoingFile,
    document: VariantDocument | None,
    request: WheelTestsRequest,
    context: Context,
) -> str:
    """Return why this machine does not support a wheel; empty if it does (F-90)."""
    from wheelfit.operations.select import SelectRequest, select

    asked = SelectRequest(filenames=(wheel.filename,), document=document, python=request.python)
    (verdict,) = select(asked, Context(context.environ)).verdicts
    return verdict.reason if verdict.verdict == "rejected" else ""


def _level_of(wheel: OutgoingFile, document: VariantDocument | None) -> str | None:
    """Return the level of x86-64 that is all a wheel needs; None if it needs anything else."""
    if document is None or wheel.label is None:
        return "v1"
    needed = document.variants.get(wheel.label, ())
    levels = {one.value for one in needed if (one.namespace, one.feature) == ("x86_64", "level")}
    if len(levels) < len(tuple(needed)):
        return None
    return max(levels, default="v1")


def _emulated(
    wheel: OutgoingFile,
    document: VariantDocument | None,
    level: str | None,
    request: WheelTestsRequest,
    context: Context,
) -> tuple[_Place | None, str]:
    """Return the emulation that a wheel can run under, or why there is none."""
    if level is None:
        return None, "QEMU emulates levels of x86-64 only"
    if level not in _PROCESSORS:
        return None, f"QEMU emulates no processor of x86-64-{level}"
    emulated = Context({**context.environ, **_described_level(level)})
    if why := _objection(wheel, document, request, emulated):
        return None, "" if request.emulate == "auto" else why
    if _qemu(context.environ) is None:
        return None, f"{_QEMU[0]}, which could emulate x86-64-{level}, is not on PATH"
    return _Place("emulated", level), ""


def _described_level(level: str) -> dict[str, str]:
    return {_LEVEL: ",".join(f"v{number}" for number in range(int(level[1:]), 0, -1))}


def _qemu(environ: Mapping[str, str]) -> str | None:
    """Return QEMU for programs of x86-64, from ``PATH``."""
    found = (shutil.which(name, path=environ.get("PATH")) for name in _QEMU)
    return next((path for path in found if path), None)


# --- the run -------------------------------------------------------------------------------


def _environment_with(
    wheel: OutgoingFile, folder: Path, place: _Place, request: WheelTestsRequest, context: Context
) -> Path:
    """Create an environment with exactly one wheel and what its tests need; return its Python."""
    from wheelfit.operations.install import InstallRequest, install
    from wheelfit.operations.venv import VenvRequest, create_venv

    environ = {**context.environ, **(_described_level(place.level) if place.level else {})}
    silent = Context(environ)
    made = create_venv(VenvRequest(path=str(folder), python=request.python), silent)
    sources = {one.name: getattr(request, one.name) for one in fields(SourceOptions)}
    extras = f"[{','.join(request.extra)}]" if request.extra else ""
    groups, needed = _test_requirements(request)
    install(
        InstallRequest(
            python=made.python,
            requirements=(f"{wheel.path.absolute()}{extras}", *needed),
            of_group=groups,
            compile=True,  # or the first wheel pays for it, and the times mean nothing
            **sources,
        ),
        silent,
    )
    return Path(made.python)


def _test_requirements(request: WheelTestsRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dependency groups of the tests, and requirements where there are none.

    The group ``test``, or else ``tests``, counts if none is named.
    """
    import tomllib

    path = Path(request.project) / "pyproject.toml"
    names = request.group
    if not names and path.is_file():
        groups = tomllib.loads(path.read_text("utf-8")).get("dependency-groups", {})
        names = tuple(name for name in ("test", "tests") if name in groups)[:1]
    is_pytest = shlex.split(request.command)[0] == _PYTEST
    return tuple(f"{path}:{name}" for name in names), (_PYTEST,) if is_pytest else ()


def _copy(sources: Sequence[Path], folder: Path) -> None:
    """Copy files and folders of a project to a folder of their own."""
    folder.mkdir()
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, folder / source.name)
        else:
            shutil.copy2(source, folder / source.name)


def _command(text: str, python: Path, place: _Place, context: Context) -> list[str]:
    """Return the words of the command, with programs of the environment, under QEMU if asked."""
    program, *words = shlex.split(text)
    script = python.with_name(program)
    if re.fullmatch(r"python[\d.]*", program):
        command = [str(python), *words]
    elif script.is_file() and os.name != "nt":
        command = [str(python), str(script), *words]  # QEMU starts no scripts
    else:
        command = [shutil.which(program, path=_path_of(python, context.environ)) or program, *words]
    qemu = _qemu(context.environ)
    if place.cpu is None or qemu is None:
        return command
    return [qemu, "-cpu", place.cpu, *command]


def _run(command: Sequence[str], folder: Path, log: Path, environ: Mapping[str, str]) -> int:
    """Run a command in a folder with its output in a file; return its exit code."""
    with log.open("wb") as output:
        try:
            process = subprocess.run(
                command,
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            raise FileProblem(
                f"the command cannot be started: {error.strerror}",
                where=command[0],
                hint="name a program on PATH, or one that the tests' requirements bring",
            ) from None
    return process.returncode


def _variables(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the command: those of its environment, and no other packages."""
    kept = {name: environ[name] for name in environ.keys() - {"PYTHONHOME", "PYTHONPATH"}}
    return {
        **kept,
        "PATH": _path_of(python, environ),
        "VIRTUAL_ENV": str(python.parent.parent),
        "PYTHONNOUSERSITE": "1",
    }


def _path_of(python: Path, environ: Mapping[str, str]) -> str:
    return os.pathsep.join(filter(None, (str(python.parent), environ.get("PATH", ""))))
