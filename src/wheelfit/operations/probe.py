"""The supported values of a machine, and records of machines."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.properties import parse_namespace
from wheelfit.core.provider_lookup import Plugins, ProviderPolicy
from wheelfit.errors import UsageError
from wheelfit.installation.environment import open_environment
from wheelfit.operations.machine import ChosenMachine, choose_machine
from wheelfit.operations.plain_data import detection_json, plain_fields, plain_report
from wheelfit.operations.plugins import open_plugins
from wheelfit.operations.requests import MachineOptions, request_like
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import FileProblem, os_reason
from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection
from wheelfit_runtime.platforms.scrubbing import Scrubber
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.operations.context import Context


def namespaces_json(detections: Iterable[Detection]) -> dict[str, object]:
    """Return detections as plain data, by namespace."""
    return {detection.namespace: detection_json(detection) for detection in detections}


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """A record that was written or opened."""

    folder: str
    differing: tuple[str, ...]
    """Namespaces for which it differs from the present detection."""
    is_new: bool
    """Whether it was written by this command."""

    def to_json(self) -> dict[str, object]:
        """Return the object of the record in ``--json``."""
        return plain_fields(self, "folder differing")


def write_record(name: str, machine: ChosenMachine) -> ProbeRecord:
    """Record this machine.

    :param name: the folder; an earlier record in it is replaced.
    :raises FileProblem: the folder has other content, or cannot be written.
    """
    assert isinstance(machine.detector, Machine)  # noqa: S101 - --record excludes other machines
    try:
        differing = recording.record(Path(name), machine.detector)
    except FileExistsError:
        raise FileProblem(
            "the folder contains files that are not a record", where=name, hint="name a new folder"
        ) from None
    except OSError as error:
        raise FileProblem(
            f"the record cannot be written: {os_reason(error)}",
            where=name,
            hint="name a new folder, where there is room",
        ) from None
    return ProbeRecord(name, differing, is_new=True)


def open_record(name: str, current: ChosenMachine) -> tuple[ChosenMachine, ProbeRecord]:
    """Open a recorded machine.

    :param current: this machine, chosen by the same options.
    :raises FileProblem: it cannot be read, or is not a record.
    """
    folder = Path(name)
    try:
        machine = recording.open_recorded(folder)
        description = recording.description(folder)["description"]
        expected = recording.expected(folder)
        detected = json.loads(json.dumps(recording.as_expected(machine)))  # tuples become lists
        differing = tuple(
            name for name, values in detected.items() if expected.get(name, values) != values
        )
    except (OSError, ValueError) as error:
        reason = str(error)
        if isinstance(error, OSError):
            reason = f"{Path(error.filename or '').name}: {os_reason(error)}"
        raise FileProblem(
            f"not a record of a machine: {reason}",
            where=name,
            hint="write one with: `wheelfit probe --record DIR`",
        ) from None
    chosen = structs.replace(
        current,
        name=name,
        description=description,
        detector=_with_options_of(current, machine),
        namespaces=machine.namespaces,
        overrides=machine.overrides_in_effect(),
        policy=ProviderPolicy(disabled=current.policy.disabled),
    )
    return chosen, ProbeRecord(name, differing, is_new=False)


def _with_options_of(current: ChosenMachine, recorded: Machine) -> Machine:
    """Return a recorded machine with the detection options of this one (P-123, P-153)."""
    if not isinstance(current.detector, Machine):
        return recorded
    view = current.detector.view
    return Machine(
        replace(
            recorded.view, rocm_same_major=view.rocm_same_major, tpu_generation=view.tpu_generation
        )
    )


class ProbeRequest(MachineOptions):
    """The machine to probe."""

    namespaces: tuple[str, ...] = ()
    python: str | None = None
    record: str | None = None
    replay: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The supported values of a machine."""

    machine: ChosenMachine
    detections: tuple[Detection, ...]
    record: ProbeRecord | None = None
    """The record that was written or replayed; None: neither."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "record",
            machine=self.machine.name,
            **self.machine.to_mapping(),
            namespaces=namespaces_json(self.detections),
        )

    def host_file(self) -> str:
        """Return the host file that describes the machine."""
        from wheelfit.core.host_file import HostFile
        from wheelfit.operations.hosts import host_text

        machine, host = self.machine, self.machine.host
        # A record written on another machine was scrubbed there.
        scrubber = Scrubber.of(SystemView(environ=machine.context.environ))
        file = HostFile.from_detections(
            self.detections,
            machine.target,
            created_by=f"wheelfit {__version__}",
            origin="this machine" if host is None else f"{host.kind} {host.public_name}",
            overrides=machine.all_overrides,
            scrub=scrubber.text,
        )
        return host_text(file)


def probe(request: ProbeRequest, context: Context) -> ProbeReport:
    """Detect the supported values of a machine, probing its drivers again.

    :param request: the machine, and the folder of a record to write or to replay.
    :param context: the environment variables and the reporter.
    :raises UsageError: the request names several machines.
    :raises FileProblem: a record cannot be written, or is not one.
    :raises UserError: a named namespace is unknown.
    """
    _check_one_machine(request)
    environment = open_environment(request.python, environ=context.environ, may_be_own=True)
    machine = choose_machine(request, environment.target, context, use_probe_cache=False)
    record = None
    if request.replay:
        machine, record = open_record(request.replay, machine)
    rules = machine.plugin_rules
    trusted = (entry.namespace for entry in rules.entries)
    namespaces = request.namespaces or [*machine.namespaces, *filter(None, trusted)]
    with open_plugins(rules, environment, request, machine.context) as plugins:
        detections = tuple(_detect(namespaces, request, machine, plugins))
    if request.record:
        record = write_record(request.record, machine)
    return ProbeReport(machine, detections, record)


def _check_one_machine(request: ProbeRequest) -> None:
    values = {"--record": request.record, "--replay": request.replay, "--for": request.host}
    options = [option for option, value in values.items() if value]
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
            machine.disabled_detection(namespace)
            or machine.detect(namespace)
            or _ask_plugin(namespace, machine, plugins)
            or _undetected(namespace, request, machine)
        )


def _undetected(namespace: str, request: ProbeRequest, machine: ChosenMachine) -> Detection:
    """Return a detection without values for a known namespace without a usable provider.

    :raises UserError: the namespace is unknown.
    """
    from wheelfit.operations.providers import ProvidersRequest, check_namespaces

    check_namespaces([namespace], request_like(ProvidersRequest, request), machine.context)
    return Detection(namespace, source="no provider is available")


def _ask_plugin(namespace: str, machine: ChosenMachine, plugins: Plugins) -> Detection | None:
    """Return the answer of the plugin that is trusted for a namespace; None without one."""
    question = machine.plugin_rules.question(namespace)
    if question is None:
        return None
    refusal = plugins.refusal(question)
    if refusal is not None:
        return Detection(namespace, source=refusal, step="not-trusted")
    return plugins.ask(question)
