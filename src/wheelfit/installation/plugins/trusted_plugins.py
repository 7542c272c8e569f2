"""Run trusted plugins: the fifth and the sixth step for one interpreter.

Whether a plugin may be run is decided before any source is read for it. Then its wheels are found,
compared with their trusted hashes, installed into an environment of their own, and the plugin is
run there in a child process. A fault is an answer for its namespace and for no other (P-17).
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
from wheelfit.core.plugin_answer import read_report
from wheelfit.core.trust import command_that_trusts
from wheelfit.installation.plugins.plugin_wheels import OnlyTrusted, resolve_plugin
from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.memoized import Memo
from wheelfit_runtime.errors import HashMismatch, NoFit, WheelfitError
from wheelfit_runtime.platforms.features import Detection, Evidence, PluginOrigin, Status
from wheelfit_runtime.platforms.plugin_process import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.plugin_answer import PluginAnswer
    from wheelfit.core.providers import PluginQuestion
    from wheelfit.core.target import Target
    from wheelfit.core.trust import PluginRules, TrustedTree
    from wheelfit.installation.interpreter import Interpreter
    from wheelfit.installation.plugins.environments import PluginEnvironment, PluginEnvironments
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Repository
    from wheelfit.wheels.unpacked import UnpackedWheel
    from wheelfit_runtime.platforms.plugin_process import PluginReport

_WORDS = 300
"""Characters of a plugin's output kept as evidence."""
_LINES = 3


class TrustedPlugins(Struct):
    """The plugins of steps 5 and 6; each question is answered once."""

    rules: PluginRules
    interpreter: Interpreter
    target: Target
    open_sources: Callable[[], Repository]
    """Opens where wheels come from; called when one is needed."""
    open_environments: Callable[[], PluginEnvironments]
    environ: Mapping[str, str]
    """The environment of the process; a plugin sees little of it (P-35)."""
    deadline: float
    """Seconds a plugin has to answer (P-37)."""
    note: Callable[[str], None]
    """Called before an unreviewed plugin is installed or run (P-18)."""
    tell: Callable[[str], None]
    """Called before any plugin is run: no foreign code runs unseen."""
    answers: Memo[PluginQuestion, Detection] = field(default_factory=Memo)
    environments: PluginEnvironments | None = None

    def refusal(self, question: PluginQuestion) -> str | None:
        """Return the reason a plugin may not be run; nothing is touched to find out (P-14)."""
        return self.rules.judge(question).refusal

    def ask(self, question: PluginQuestion) -> Detection:
        """Install a plugin, unless that is done already, and run it (P-15)."""
        return self.answers.get(question, lambda: self._ask(question))

    def _ask(self, question: PluginQuestion) -> Detection:
        trusted = self.rules.judge(question)
        if trusted.refusal is not None:
            return _not_trusted(question, trusted.refusal)
        if trusted.anything:
            self.note(
                f"every plugin is trusted: {question} of {question.namespace} is installed and "
                "run, whoever published it"
            )
        try:
            environment = self._environment(question, trusted)
        except _ChangedError as changed:
            return _not_trusted(question, str(changed))
        except WheelfitError as error:
            more = f" ({error.note.splitlines()[0]})" if error.note else ""
            return _failed(question, f"plugin {question}", f"not installed: {error}{more}")
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
            return _failed(question, source, report.failure or "no answer", report, origin)
        answer = read_report(report.configs, report.flags)
        if answer.failure is not None:
            return _failed(question, source, answer.failure, report, origin)
        return _answered(question, source, answer, report, origin, environment.sources)

    def _environment(self, question: PluginQuestion, trusted: TrustedTree) -> PluginEnvironment:
        if self.environments is None:
            self.environments = self.open_environments()
        environments = self.environments
        asked = json.dumps(
            [
                sorted(map(str, question.requirements)),
                sorted(trusted.files.items()),
                sorted(self.target.environment.items()),
                [str(tag) for tag in self.target.tags][:1],
            ]
        )
        # What is trusted by its bytes needs no source once it is there; anything else is looked
        # up each time.
        known = None if trusted.anything else environments.remembered(asked)
        if known is not None and known.items() <= trusted.files.items():
            there = environments.find(self.interpreter, known)
            if there is not None:
                return there
        repository = self.open_sources()
        with ExitStack() as stack:
            only = OnlyTrusted(repository, trusted.files)
            try:
                pins = resolve_plugin(
                    question.requirements, repository if trusted.anything else only, self.target
                )
                files = _promised(pins)
                there = None if files is None else environments.find(self.interpreter, files)
                if there is None:
                    folder = Path(
                        stack.enter_context(tempfile.TemporaryDirectory(prefix="wheelfit-"))
                    )
                    wheels = {pin.name: _unpacked(pin.file, repository, folder) for pin in pins}
                    files = files or _found(pins, wheels)
                    there = environments.build(self.interpreter, pins, wheels, files)
            except (NoFit, HashMismatch) as error:
                raise self._changed(error, only, question) from None
        if not trusted.anything:
            environments.remember(asked, there.files)
        return there

    @staticmethod
    def _changed(
        error: WheelfitError, only: OnlyTrusted, question: PluginQuestion
    ) -> WheelfitError | _ChangedError:
        """Return the error to raise: another one where the files of the sources are not trusted."""
        commands = (
            command_that_trusts(requirement, question) for requirement in question.requirements
        )
        again = " and ".join(f"`{command}`" for command in commands)
        if only.changed:
            (name, digest), *_ = only.changed.items()
            return _ChangedError(
                f"{name} is not trusted any more: {only.name} has it with the SHA-256 {digest}, "
                f"which is not the trusted one; find out why, then: {again}"
            )
        if isinstance(error, HashMismatch):
            return _ChangedError(
                f"{error.where} is not trusted any more: its SHA-256 is not the trusted one; "
                f"find out why, then: {again}"
            )
        return error


def _unpacked(file: File, repository: Repository, folder: Path) -> UnpackedWheel:
    """Return a freshly unpacked wheel, since files trusted by hash do not come from a cache."""
    path = repository.download(file, folder)
    return LocalFiles().unpacked(replace(file, url=path.as_uri()), folder)


class _ChangedError(Exception):
    """Raised when the files differ from the trusted ones."""


def _promised(pins: Sequence[Pin]) -> Mapping[str, str] | None:
    """Return the files by name with SHA-256; None when the source does not promise one of them."""
    files = {pin.filename.text: pin.file.hashes.get("sha256", "") for pin in pins}
    return MappingProxyType(files) if all(files.values()) else None


def _found(
    pins: Sequence[Pin], wheels: Mapping[NormalizedName, UnpackedWheel]
) -> Mapping[str, str]:
    return MappingProxyType({pin.filename.text: wheels[pin.name].sha256 for pin in pins})


def _origin(question: PluginQuestion, environment: PluginEnvironment) -> PluginOrigin:
    name = question.requirements[0].name
    parsed = (parse_wheel_filename(file) for file in environment.files)
    version = next((str(one.version) for one in parsed if one.name == name), "")
    return PluginOrigin(name, version, tuple(sorted(environment.files.items())))


def _answered(
    question: PluginQuestion,
    source: str,
    answer: PluginAnswer,
    report: PluginReport,
    origin: PluginOrigin,
    sources: Mapping[str, str],
) -> Detection:
    evidence = [Evidence(question.endpoint, f"answered in {report.seconds:.2f} s")]
    for name, digest in origin.files:
        source_of_it = f" from {sources[name]}" if sources.get(name) else ""
        evidence.append(Evidence(name, f"sha256 {digest}{source_of_it}"))
    if report.confinement:
        evidence.append(Evidence("confined by", ", ".join(report.confinement)))
    if report.unconfined:
        evidence.append(Evidence("not confined", ", ".join(report.unconfined)))
    if report.output.strip():
        evidence.append(Evidence("its standard output", _last(report.output)))
    supported = any(config.values for config in answer.features)
    return Detection(
        question.namespace,
        answer.features,
        Status.SUPPORTED if supported else Status.NOTHING,
        source=source,
        evidence=tuple(evidence),
        warnings=(*report.notes, *answer.warnings),
        step="plugin",
        version=origin.version,
        seconds=report.seconds,
        plugin=origin,
    )


def _failed(
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
                evidence.append(Evidence(f"its {stream}", _last(text)))
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


def _not_trusted(question: PluginQuestion, why: str) -> Detection:
    return Detection(question.namespace, source=why, step="not-trusted")


def _last(text: str) -> str:
    """Return the last words of a text in one line; there may be megabytes of them."""
    lines = [line.strip() for line in text[-8192:].splitlines() if line.strip()]
    return " | ".join(lines[-_LINES:])[-_WORDS:]
