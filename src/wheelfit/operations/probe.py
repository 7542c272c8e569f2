"""The probe of a machine: what it supports, and from which evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.properties import parse_namespace
from wheelfit.errors import UsageError
from wheelfit.installation.environment import open_environment
from wheelfit.operations.detections import detection_json
from wheelfit.operations.machine import choose_machine
from wheelfit.operations.plugins import plugins_by_themselves
from wheelfit.operations.requests import MachineOptions
from wheelfit_runtime.platforms.features import Detection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.provider_steps import Plugins
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.machine_records import Record


@dataclass(frozen=True, kw_only=True)
class ProbeRequest(MachineOptions):
    """The machine to probe."""

    namespaces: tuple[str, ...] = ()
    python: str | None = None
    record: str | None = None
    replay: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a machine supports."""

    machine: ChosenMachine
    detections: tuple[Detection, ...]
    record: Record | None = None
    """What was written or replayed; None: neither."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "machine": self.machine.name,
            **self.machine.to_mapping(),
            "record": None if self.record is None else self.record.to_json(),
            "namespaces": {one.namespace: detection_json(one) for one in self.detections},
        }

    def host_file(self) -> str:
        """Return the host file that describes the machine."""
        from wheelfit.core.host_file import HostFile
        from wheelfit.operations.hosts import host_text
        from wheelfit_runtime import __version__
        from wheelfit_runtime.platforms.scrubbing import Scrubber
        from wheelfit_runtime.platforms.surroundings import Surroundings

        machine, host = self.machine, self.machine.host
        # What was written down on another machine was scrubbed there.
        scrubber = Scrubber.of(Surroundings(environ=machine.context.environ))
        file = HostFile.from_detections(
            self.detections,
            machine.target,
            created_by=f"wheelfit {__version__}",
            origin="this machine" if host is None else f"{host.kind} {host.record}",
            overrides=machine.in_effect,
            scrub=scrubber.text,
        )
        return host_text(file)


def probe(request: ProbeRequest, context: Context) -> ProbeReport:
    """Detect what a machine supports; drivers are asked anew.

    :param request: the machine, and the folder of a record to write or to replay.
    :param context: the surroundings.
    :raises UsageError: the request names several machines.
    :raises FileProblem: a record cannot be written, or is none.
    :raises UserError: nothing is known of a namespace that is named.
    """
    _check_one_machine(request)
    environment = open_environment(request.python, environ=context.environ)
    machine = choose_machine(request, environment.target(), context, recall=False)
    record = None
    if request.replay:
        from wheelfit.operations.machine_records import open_record

        machine, record = open_record(request.replay, machine)
    rules = machine.plugin_rules
    named = (entry.namespace for entry in rules.entries)
    namespaces = request.namespaces or [*machine.namespaces, *filter(None, named)]
    with plugins_by_themselves(rules, environment, request, machine.context) as plugins:
        detections = tuple(_detect(namespaces, request, machine, plugins))
    if request.record:
        from wheelfit.operations.machine_records import write_record

        record = write_record(request.record, machine)
    return ProbeReport(machine, detections, record)


def _check_one_machine(request: ProbeRequest) -> None:
    given = {"--record": request.record, "--replay": request.replay, "--for": request.host}
    options = [option for option, value in given.items() if value]
    if (request.record or request.replay) and len(options) > 1:
        raise UsageError(
            f"{' and '.join(options)} name different machines",
            hint="--record is about this machine; --replay and --for are about another",
        )


def _detect(
    namespaces: Iterable[str], request: ProbeRequest, machine: ChosenMachine, plugins: Plugins
) -> Iterable[Detection]:
    for text in dict.fromkeys(namespaces):
        namespace = parse_namespace(text)
        yield (
            machine.switched_off(namespace)
            or machine.detect(namespace)
            or _ask_plugin(namespace, machine, plugins)
            or _undetected(namespace, request, machine)
        )


def _undetected(namespace: str, request: ProbeRequest, machine: ChosenMachine) -> Detection:
    """Return that nobody can be asked about a namespace that is known, as a static one is.

    :raises UserError: nothing is known of it.
    """
    from wheelfit.operations.providers import ProvidersRequest, check_namespaces

    known = ProvidersRequest(
        python=request.python,
        cache_dir=request.cache_dir,
        no_cache_dir=request.no_cache_dir,
        provider_table=request.provider_table,
    )
    check_namespaces([namespace], known, machine.context)
    return Detection(namespace, source="no provider that wheelfit may ask")


def _ask_plugin(namespace: str, machine: ChosenMachine, plugins: Plugins) -> Detection | None:
    """Return the answer of the plugin that is trusted for a namespace; None without one."""
    question = machine.plugin_rules.question(namespace)
    if question is None:
        return None
    refusal = plugins.refusal(question)
    if refusal is not None:
        return Detection(namespace, source=refusal, step="not-trusted")
    return plugins.ask(question)
