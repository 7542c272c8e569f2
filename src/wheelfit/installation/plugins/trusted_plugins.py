"""Runs of trusted plugins: steps 5 and 6 of the search for a provider, for one interpreter.

Trust is checked before any source is read. Then the wheels of the plugin are resolved, compared
with their trusted hashes and installed into an environment of their own, in which the plugin runs
in a child process. A failure affects only the namespace of the plugin (P-17).
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.plugin_answer import PluginAnswer, read_report
from wheelfit.core.trust import PluginRules, TrustedTree, command_that_trusts
from wheelfit.installation.plugins.plugin_wheels import TrustedFiles, resolve_plugin
from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.memoized import Memo
from wheelfit_runtime.errors import HashMismatch, NoFit, WheelfitError
from wheelfit_runtime.platforms.features import Detection, Evidence, PluginOrigin, Status, status_of
from wheelfit_runtime.platforms.plugin_process import PluginReport, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.providers import PluginQuestion
    from wheelfit.core.target import Target
    from wheelfit.installation.interpreter import Interpreter
    from wheelfit.installation.plugins.environments import PluginEnvironment, PluginEnvironments
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Repository
    from wheelfit.wheels.unpacked import UnpackedWheel

_MAX_OUTPUT = 300
"""Characters of a plugin's output kept as evidence."""
_MAX_OUTPUT_LINES = 3


class TrustedPlugins(Struct):
    """The plugins for steps 5 and 6 of a provider search; each question is answered once."""

    rules: PluginRules
    interpreter: Interpreter
    target: Target
    open_sources: Callable[[], Repository]
    """Opens the sources of wheels; called on first use."""
    open_environments: Callable[[], PluginEnvironments]
    environ: Mapping[str, str]
    """The environment variables of this process; a plugin gets few of them (P-35)."""
    deadline: float
    """The time limit of a plugin, in seconds (P-37)."""
    note: Callable[[str], None]
    """Called before an unreviewed plugin is installed or run (P-18)."""
    tell: Callable[[str], None]
    """Called with a message before any plugin runs."""
    answers: Memo[PluginQuestion, Detection] = field(default_factory=Memo)
    environments: PluginEnvironments | None = None

    def refusal(self, question: PluginQuestion) -> str | None:
        """Return the reason a plugin may not be run, without reading any source (P-14)."""
        return self.rules.judge(question).refusal

    def ask(self, question: PluginQuestion) -> Detection:
        """Install a plugin, unless that is done already, and run it (P-15)."""
        return self.answers.get(question, lambda: self._ask(question))

    def _ask(self, question: PluginQuestion) -> Detection:
        trusted = self.rules.judge(question)
        if trusted.refusal is not None:
            return _untrusted_detection(question, trusted.refusal)
        if trusted.trusts_all:
            self.note(
                f"every plugin is trusted: {question} of {question.namespace} is installed and "
                "run, regardless of its publisher"
            )
        try:
            environment = self._environment(question, trusted)
        except _ChangedError as changed:
            return _untrusted_detection(question, str(changed))
        except WheelfitError as error:
            detail = f" ({error.note.splitlines()[0]})" if error.note else ""
            return _failed_detection(
                question, f"plugin {question}", f"not installed: {error}{detail}"
            )
        origin = _origin(question, environment)
        source = f"plugin {origin.name} {origin.version}"
        self.tell(f"asking {source} about {question.namespace}")
        report = ask(
            str(environment.python),
            question.endpoint,
            method="get_supported_configs",
            environ=self.environ,
            deadline=self.deadline,
        )
        if report.failure is not None or report.configs is None:
            return _failed_detection(
                question, source, report.failure or "no answer", report, origin
            )
        answer = read_report(report.configs, report.flags)
        if answer.failure is not None:
            return _failed_detection(question, source, answer.failure, report, origin)
        return _detection(question, source, answer, report, origin, environment.sources)

    def _environment(self, question: PluginQuestion, trusted: TrustedTree) -> PluginEnvironment:
        if self.environments is None:
            self.environments = self.open_environments()
        environments = self.environments
        question_key = json.dumps(
            [
                sorted(map(str, question.requirements)),
                sorted(trusted.files.items()),
                sorted(self.target.environment.items()),
                [str(tag) for tag in self.target.tags][:1],
            ]
        )
        # Plugins trusted by hash need no source once installed; others are resolved each time.
        cached_files = None if trusted.trusts_all else environments.cached_files(question_key)
        if cached_files is not None and cached_files.items() <= trusted.files.items():
            environment = environments.find(self.interpreter, cached_files)
            if environment is not None:
                return environment
        repository = self.open_sources()
        with ExitStack() as stack:
            trusted_files = TrustedFiles(repository, trusted.files)
            try:
                pins = resolve_plugin(
                    question.requirements,
                    repository if trusted.trusts_all else trusted_files,
                    self.target,
                )
                files = _listed_hashes(pins)
                environment = None if files is None else environments.find(self.interpreter, files)
                if environment is None:
                    folder = Path(
                        stack.enter_context(tempfile.TemporaryDirectory(prefix="wheelfit-"))
                    )
                    wheels = {pin.name: _unpacked(pin.file, repository, folder) for pin in pins}
                    files = files or _computed_hashes(pins, wheels)
                    environment = environments.build(self.interpreter, pins, wheels, files)
            except (NoFit, HashMismatch) as error:
                raise self._error_for_changed_files(error, trusted_files, question) from None
        if not trusted.trusts_all:
            environments.cache_files(question_key, environment.files)
        return environment

    @staticmethod
    def _error_for_changed_files(
        error: WheelfitError, trusted_files: TrustedFiles, question: PluginQuestion
    ) -> WheelfitError | _ChangedError:
        """Return the error to raise; it names files that differ from the trusted ones."""
        commands = (
            command_that_trusts(requirement, question) for requirement in question.requirements
        )
        commands_in_words = " and ".join(f"`{command}`" for command in commands)
        if trusted_files.changed:
            (name, digest), *_ = trusted_files.changed.items()
            return _ChangedError(
                f"{name} is no longer trusted: {trusted_files.name} has it with SHA-256 {digest}, "
                f"which differs from the trusted one; find out why, then: {commands_in_words}"
            )
        if isinstance(error, HashMismatch):
            return _ChangedError(
                f"{error.where} is no longer trusted: its SHA-256 differs from the trusted one; "
                f"find out why, then: {commands_in_words}"
            )
        return error


def _unpacked(file: File, repository: Repository, folder: Path) -> UnpackedWheel:
    """Return a freshly unpacked wheel, since files trusted by hash do not come from a cache."""
    path = repository.download(file, folder)
    return LocalFiles().unpacked(replace(file, url=path.as_uri()), folder)


class _ChangedError(Exception):
    """Raised when the files differ from the trusted ones."""


def _listed_hashes(pins: Sequence[Pin]) -> Mapping[str, str] | None:
    """Return the SHA-256 of each file by name; None if the source does not list one of them."""
    files = {pin.filename.text: pin.file.hashes.get("sha256", "") for pin in pins}
    return MappingProxyType(files) if all(files.values()) else None


def _computed_hashes(
    pins: Sequence[Pin], wheels: Mapping[NormalizedName, UnpackedWheel]
) -> Mapping[str, str]:
    return MappingProxyType({pin.filename.text: wheels[pin.name].sha256 for pin in pins})


def _origin(question: PluginQuestion, environment: PluginEnvironment) -> PluginOrigin:
    name = question.requirements[0].name
    filenames = (parse_wheel_filename(file) for file in environment.files)
    version = next((str(filename.version) for filename in filenames if filename.name == name), "")
    return PluginOrigin(name, version, tuple(sorted(environment.files.items())))


def _detection(
    question: PluginQuestion,
    source: str,
    answer: PluginAnswer,
    report: PluginReport,
    origin: PluginOrigin,
    sources: Mapping[str, str],
) -> Detection:
    evidence = [Evidence(question.endpoint, f"answered in {report.seconds:.2f} s")]
    for name, digest in origin.files:
        suffix = f" from {sources[name]}" if sources.get(name) else ""
        evidence.append(Evidence(name, f"sha256 {digest}{suffix}"))
    if report.confinement:
        evidence.append(Evidence("confined by", ", ".join(report.confinement)))
    if report.unconfined:
        evidence.append(Evidence("not confined", ", ".join(report.unconfined)))
    if report.output.strip():
        evidence.append(Evidence("its standard output", _end_of_output(report.output)))
    return Detection(
        question.namespace,
        answer.features,
        status_of(answer.features),
        source=source,
        evidence=tuple(evidence),
        warnings=(*report.notes, *answer.warnings),
        step="plugin",
        version=origin.version,
        seconds=report.seconds,
        plugin=origin,
    )


def _failed_detection(
    question: PluginQuestion,
    source: str,
    why: str,
    report: PluginReport | None = None,
    origin: PluginOrigin | None = None,
) -> Detection:
    evidence = [Evidence(source, why)]
    if report is not None:
        for stream, text in (("output", report.output), ("error output", report.errors)):
            if text.strip():
                evidence.append(Evidence(f"its {stream}", _end_of_output(text)))
    return Detection(
        question.namespace,
        status=Status.FAILED,
        source=source,
        evidence=tuple(evidence),
        step="plugin",
        version="" if origin is None else origin.version,
        seconds=0.0 if report is None else report.seconds,
        plugin=origin,
    )


def _untrusted_detection(question: PluginQuestion, why: str) -> Detection:
    return Detection(question.namespace, source=why, step="not-trusted")


def _end_of_output(text: str) -> str:
    """Return the end of an output of any size, on one line."""
    lines = [line.strip() for line in text[-8192:].splitlines() if line.strip()]
    return " | ".join(lines[-_MAX_OUTPUT_LINES:])[-_MAX_OUTPUT:]
