"""Tests of a project with each of its wheels, on this machine or under emulation."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from wheelfit.building.index_file import read_wheel_document
from wheelfit.building.publishing.release_files import FileKind, OutgoingFile, collect_files
from wheelfit.building.table_editing import read_pyproject
from wheelfit.building.wheel_results import FOLDER, How, State, WheelResult, write_results
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import UsageError, reporting_os_errors
from wheelfit.operations.context import Context
from wheelfit.operations.emulation import emulate, emulated_python, native_emulator
from wheelfit.operations.install import InstallRequest, install
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.requests import SourceOptions, request_like
from wheelfit.operations.select import SelectRequest, select
from wheelfit.operations.temporary_folders import scratch_folder
from wheelfit.operations.venv import VenvRequest, create_venv
from wheelfit.testing.drivers import fake_machine
from wheelfit_runtime.errors import FileProblem, WheelfitError
from wheelfit_runtime.platforms.override_names import override_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.operations.emulation import EmulatedPython, Emulator

_CONFIGURATION = ("pyproject.toml", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")
"""Files that test runners read beside the tests."""
_PYTEST = "pytest"
_FAKE_PREFIX = "WHEELFIT_FAKE_"
"""The prefix of the variables of fake drivers (`wheelfit.testing.drivers`)."""


class WheelTestsRequest(SourceOptions):
    """The wheels to test, and how."""

    paths: tuple[str, ...] = ("dist",)
    project: str = "."
    tests: tuple[str, ...] = ()
    command: str = _PYTEST
    extra: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    emulate: Literal["auto", "always", "never"] = "auto"
    fake_drivers: bool = False
    python: str | None = None


@dataclass(frozen=True, slots=True)
class WheelTestsReport:
    """The results of the tests with each wheel."""

    results: tuple[WheelResult, ...]
    """Plain wheels first."""

    def relative_time(self, result: WheelResult) -> float | None:
        """Return the time of a wheel relative to the plain one; None unless both ran here."""
        tags = _tags_of(result.filename)
        for plain in self.results:
            if plain.label is None and _tags_of(plain.filename) == tags and plain.seconds:
                ran_here = plain.how == result.how == "machine"
                return result.seconds / plain.seconds if ran_here and result.seconds else None
        return None

    @property
    def exit_code(self) -> int:
        """9 if the tests of a wheel failed, 10 if those of no wheel could run, else 0."""
        states = {result.state for result in self.results}
        if "failed" in states:
            return 9
        return 0 if "passed" in states else 10

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        results = [
            {**result.to_mapping(), "relative_time": self.relative_time(result)}
            for result in self.results
        ]
        return plain_report(self, results=results)


def _tags_of(filename: str) -> frozenset[object]:
    return frozenset(parse_wheel_filename(filename).tags)


class _TestInterpreter(NamedTuple):
    """The Python that tests run with, and its emulator of processors."""

    python: str | None
    """As ``--python`` takes it."""
    emulator: Emulator | None
    foreign: EmulatedPython | None = None
    """The Python itself if it is of another architecture; then all tests are emulated."""


class _TestMachine(NamedTuple):
    """The machine that tests of a wheel run on, or the reason why there is none."""

    how: How | None = None
    cpu: str | None = None
    """The processor to emulate."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Environment variables that describe another machine than this one."""
    reason: str = ""


def run_wheel_tests(request: WheelTestsRequest, context: Context) -> WheelTestsReport:
    """Run a project's tests with each of its wheels, and record the results beside the wheels.

    Each wheel gets a virtual environment of its own. The tests are copied to a folder without the
    source code of the project, so that they import the wheel.

    :param request: the wheels, the tests, and where they may run.
    :param context: the environment variables and the reporter.
    :raises FileProblem: there are no wheels, or no such tests; or tests cannot be copied, or
        results not be written.
    :raises InvalidDocument: the project's ``pyproject.toml`` is not TOML.
    :raises UsageError: the command is empty, no tests are named or found, two files of tests have
        the same name, or an option cannot be read.
    """
    # Faults of options and of the project are reported before anything runs.
    _words_of(request.command)
    _test_requirements(request)
    sources = _test_sources(request)
    outgoing = collect_files([Path(path) for path in request.paths])
    wheels = [file for file in outgoing.files if file.kind is not FileKind.SOURCE]
    if not wheels:
        raise FileProblem(
            "no wheels to test",
            where=", ".join(request.paths),
            hint="`wheelfit build --all` builds them",
        )
    results = []
    with scratch_folder() as scratch, context.reporter.steps("testing") as step:
        interpreter = _open_interpreter(request, scratch, context)
        for wheel in wheels:
            step(f"testing {wheel.filename}")
            result = _test_wheel(wheel, sources, interpreter, request, context)
            folder = wheel.path.parent
            with reporting_os_errors("the results cannot be written", where=str(folder)):
                write_results(folder, [result])
            results.append(result)
    return WheelTestsReport(tuple(results))


def _open_interpreter(
    request: WheelTestsRequest, scratch: Path, context: Context
) -> _TestInterpreter:
    """Return the Python of the tests, in an environment if its architecture is another one."""
    foreign = emulated_python(request.python)
    if foreign is None:
        return _TestInterpreter(request.python, native_emulator())
    if request.emulate == "never":
        raise UsageError(
            f"a Python for {foreign.emulator.architecture} runs under QEMU only",
            where="--emulate never",
        )
    python = foreign.create_environment(scratch / "base", context.environ)
    return _TestInterpreter(str(python), foreign.emulator, foreign)


def _test_sources(request: WheelTestsRequest) -> tuple[Path, ...]:
    """Return the files and folders of the tests, with their configuration."""
    project = Path(request.project)
    tests = [project / name for name in request.tests or ("tests", "test")]
    existing = [path for path in tests if path.exists()]
    if request.tests and len(existing) < len(tests):
        missing = next(path for path in tests if path not in existing)
        raise FileProblem(
            "the file or folder does not exist",
            where=str(missing),
            hint="name tests that exist with --tests",
        )
    names = ["", "..", *(path.name for path in existing)]
    for path in existing:
        if names.count(path.name) > 1:
            raise UsageError(
                "the tests are copied to one folder, in which this name is taken",
                where=str(path),
                hint="name other folders with --tests, or test each alone",
            )
    if not existing and request.command == _PYTEST:
        raise UsageError(
            f"{project} has neither a folder tests nor test",
            hint="name the tests with --tests, or with --command those that the wheel has: "
            '--command "pytest --pyargs NAME"',
        )
    configuration = [project / name for name in (*_CONFIGURATION, "conftest.py")]
    return (*existing, *(path for path in configuration if path.is_file()))


def _test_wheel(
    wheel: OutgoingFile,
    sources: Sequence[Path],
    interpreter: _TestInterpreter,
    request: WheelTestsRequest,
    context: Context,
) -> WheelResult:
    """Return the result of one wheel."""
    document = None if wheel.label is None else read_wheel_document(wheel.path)
    with scratch_folder() as folder:
        machines = _TestMachines(wheel, document, interpreter, request, context)
        machine = machines.choose(folder)
        result = WheelResult(
            filename=wheel.filename,
            label=None if wheel.label is None else str(wheel.label),
            sha256=wheel.sha256,
            state="not-run",
            how=machine.how,
            cpu=machine.cpu,
            reason=machine.reason,
        )
        if machine.how is None:
            return result
        machine_context = Context({**context.environ, **machine.variables})
        try:
            python = _create_environment(
                wheel, folder / "env", interpreter, machine, request, machine_context
            )
        except WheelfitError as error:
            cause = ": ".join(filter(None, (str(error), error.note)))
            return replace(result, state="failed", reason=f"it cannot be installed: {cause}")
        work = folder / "work"
        _copy(sources, work)
        log = wheel.path.parent / FOLDER / f"{wheel.path.stem}.log"
        with reporting_os_errors("the log cannot be written", where=str(log)):
            log.parent.mkdir(exist_ok=True)
            log.write_bytes(b"")
        command = _command(request.command, python, machine_context)
        started = time.monotonic()
        code = _run(command, work, log, _variables(python, machine_context.environ))
        seconds = round(time.monotonic() - started, 3)
    state: State = "passed" if code == 0 else "failed"
    return replace(result, state=state, seconds=seconds, exit_code=code, log=str(log))


# --- the machine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TestMachines:
    """The machines that the tests of a wheel may run on: this one, emulated or described."""

    wheel: OutgoingFile
    document: VariantDocument | None
    """Its ``variant.json``; None for a plain wheel."""
    interpreter: _TestInterpreter
    request: WheelTestsRequest
    context: Context

    def choose(self, folder: Path) -> _TestMachine:
        """Return the machine that the tests run on.

        :param folder: for fake drivers.
        """
        request, environ = self.request, self.context.environ
        must_emulate = self.interpreter.foreign is not None or request.emulate == "always"
        objection = "" if must_emulate else self._objection()
        if must_emulate or (objection and request.emulate == "auto"):
            machine, reason = self._emulated(is_only=must_emulate)
            if machine is not None:
                return machine
            objection = "; ".join(filter(None, (objection, reason)))
        if objection and request.fake_drivers and not must_emulate:
            variables = self._fake_drivers(folder)
            reason = "there is no fake driver for that"
            if variables:
                reason = self._objection(variables)
                if not reason:
                    return _TestMachine("described", variables=variables)
            objection = f"{objection}; {reason}"
        if objection:
            return _TestMachine(reason=objection)
        is_described = bool(override_variables(environ)) or any(
            name.startswith(_FAKE_PREFIX) for name in environ
        )
        is_variant = self.wheel.label is not None
        return _TestMachine("described" if is_described and is_variant else "machine")

    def _objection(self, variables: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the reason why a machine does not support the wheel; empty if it does (F-90).

        :param variables: variables that describe another machine.
        """
        request = SelectRequest(
            filenames=(self.wheel.filename,), document=self.document, python=self.interpreter.python
        )
        (verdict,) = select(request, Context({**self.context.environ, **variables})).verdicts
        return verdict.reason if verdict.verdict == "rejected" else ""

    def _emulated(self, *, is_only: bool) -> tuple[_TestMachine | None, str]:
        """Return the emulation that the wheel can run under, or why there is none.

        :param is_only: whether emulation is the only way to run it.
        """
        emulator = self.interpreter.emulator
        if emulator is None:
            return None, "QEMU emulates no processor of this machine's architecture"
        level = emulator.level_of(self.document, self.wheel.label)
        feature = f"{emulator.architecture} :: {emulator.feature}"
        if level is None:
            return None, f"QEMU emulates values of {feature} only"
        if level not in emulator.processors:
            return None, f"QEMU emulates no processor of exactly {feature} :: {level}"
        variables = emulator.override(level)
        if why := self._objection(variables):
            return None, why if is_only else ""
        if emulator.find(self.context.environ) is None:
            return None, (
                f"{emulator.program}, which could emulate {feature} :: {level}, is not on PATH"
            )
        return _TestMachine("emulated", emulator.processors[level], variables), ""

    def _fake_drivers(self, folder: Path) -> Mapping[str, str] | None:
        """Return the variables for fake drivers that show the machine the wheel requires."""
        if self.document is None or self.wheel.label is None:
            return None
        needed = self.document.variants.get(self.wheel.label, ())
        return fake_machine(needed, folder / "drivers", self.context.environ)


# --- the run -------------------------------------------------------------------------------


def _create_environment(
    wheel: OutgoingFile,
    folder: Path,
    interpreter: _TestInterpreter,
    machine: _TestMachine,
    request: WheelTestsRequest,
    context: Context,
) -> Path:
    """Create an environment with a wheel and the requirements of its tests; return its Python."""
    silent = Context(context.environ)
    if interpreter.foreign is not None:
        python = interpreter.foreign.create_environment(folder, context.environ, machine.cpu)
    else:
        python = Path(
            create_venv(VenvRequest(path=str(folder), python=interpreter.python), silent).python
        )
    extras = f"[{','.join(request.extra)}]" if request.extra else ""
    groups, requirements = _test_requirements(request)
    install(
        request_like(
            InstallRequest,
            request,
            python=str(python),
            requirements=(f"{wheel.path.absolute()}{extras}", *requirements),
            dependency_group=groups,
            # Else the time of the first wheel would contain the compilation.
            compile=interpreter.foreign is None,
        ),
        silent,
    )
    if machine.cpu is not None and interpreter.foreign is None and interpreter.emulator is not None:
        emulate(python, (interpreter.emulator.find(context.environ) or "", "-cpu", machine.cpu))
    return python


def _test_requirements(request: WheelTestsRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dependency groups of the tests, and requirements where there are none.

    The default group is ``test``, or else ``tests``.
    """
    path = Path(request.project) / "pyproject.toml"
    names = request.group
    if not names and path.is_file():
        _, project = read_pyproject(path.read_bytes(), where=str(path))
        groups = project.get("dependency-groups")
        if isinstance(groups, dict):
            names = tuple(name for name in ("test", "tests") if name in groups)[:1]
    is_pytest = _words_of(request.command)[0] == _PYTEST
    return tuple(f"{path}:{name}" for name in names), (_PYTEST,) if is_pytest else ()


def _copy(sources: Sequence[Path], folder: Path) -> None:
    """Copy files and folders of a project to a folder of their own, without dangling links.

    :raises FileProblem: one cannot be copied, as a pipe or a circle of links.
    """
    message = "the tests cannot be copied"
    folder.mkdir()
    for source in sources:
        with reporting_os_errors(message, where=str(source)):
            if not source.is_dir():
                shutil.copy2(source, folder / source.name)
                continue
            try:
                shutil.copytree(source, folder / source.name, ignore_dangling_symlinks=True)
            except shutil.Error as error:
                path, _, reason = error.args[0][0]  # of the first file
                raise FileProblem(f"{message}: {reason}", where=str(path)) from None


def _words_of(command: str) -> list[str]:
    """Split a command as a shell does.

    :raises UsageError: it is empty, or has an unclosed quote.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(
            f"the command of the tests cannot be read: {error}", where="--command"
        ) from None
    if not words:
        raise UsageError("the command of the tests is empty", where="--command")
    return words


def _command(text: str, python: Path, context: Context) -> list[str]:
    """Return the words of the command, with programs of the environment."""
    program, *words = _words_of(text)
    script = python.with_name(program)
    if re.fullmatch(r"python[\d.]*", program):
        return [str(python), *words]
    if script.is_file() and os.name != "nt":
        return [str(python), str(script), *words]  # a path of any length
    return [shutil.which(program, path=_path_of(python, context.environ)) or program, *words]


def _run(command: Sequence[str], folder: Path, log: Path, environ: Mapping[str, str]) -> int:
    """Run a command in a folder with its output in a file; return its exit code."""
    with (
        log.open("wb") as output,
        reporting_os_errors(
            "the command cannot be started",
            where=command[0],
            hint="name a program on PATH, or one that the tests' requirements bring",
        ),
    ):
        return subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode


def _variables(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a command that imports only packages of its environment."""
    inherited = {name: environ[name] for name in environ.keys() - {"PYTHONHOME", "PYTHONPATH"}}
    return {
        **inherited,
        "PATH": _path_of(python, environ),
        "VIRTUAL_ENV": str(python.parent.parent),
        "PYTHONNOUSERSITE": "1",
    }


def _path_of(python: Path, environ: Mapping[str, str]) -> str:
    return os.pathsep.join(filter(None, (str(python.parent), environ.get("PATH", ""))))
