"""The examination of a machine, an environment or a process.

Modules that need packages beside the standard library are imported inside functions, so that a
report is possible where such a package is missing.
"""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Location, Report
from wheelfit.doctor.diagnoses import (
    DIAGNOSES,
    ENVIRONMENT_UNUSABLE,
    OWN_REQUIREMENT_UNMET,
    WRONG_PLATFORM,
)
from wheelfit.doctor.own_requirements import unmet_requirements
from wheelfit.doctor.settings import read_machine_settings, settings_findings
from wheelfit.errors import UnusableInterpreter, UsageError, did_you_mean
from wheelfit.operations.diagnosis import Diagnosis, SourcesReport
from wheelfit.operations.requests import (
    EnvironmentOptions,
    MachineOptions,
    SourceOptions,
    request_like,
)
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.scrubbing import Scrubber
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.agreements import Agreement
    from wheelfit.core.target import Target
    from wheelfit.doctor.environment import EnvironmentContents
    from wheelfit.doctor.machine import TimedProcesses
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.sources.settings import NamedIndex, PinnedProject


class DoctorRequest(EnvironmentOptions, MachineOptions):
    """The environment, machine or process to examine, and the findings of interest."""

    runtime: int | None = None
    """The ID of a process to examine; 0: this one; None: a machine and an environment."""
    full: bool = False
    allow_mixed: tuple[str, ...] = ()
    agreement_table: tuple[Agreement, ...] = ()
    ignore: tuple[str, ...] = ()
    repair: bool = False
    index_table: tuple[NamedIndex, ...] = ()
    pin_table: tuple[PinnedProject, ...] = ()
    bridge: tuple[str, ...] = ()
    shipped_bridges: bool = False


def diagnose(request: DoctorRequest, context: Context) -> Diagnosis:
    """Diagnose a machine and an environment, or a process.

    :raises UsageError: a kind of finding is unknown, or the process would be of another machine.
    """
    for code in request.ignore:
        if code not in DIAGNOSES:
            otherwise = "`wheelfit doctor -v` prints the code of each finding"
            hint = did_you_mean(code, DIAGNOSES, otherwise)
            raise UsageError(f"unknown finding {code!r}", hint=hint)
    if request.runtime is not None and request.host:
        raise UsageError("--runtime examines a process of this machine", hint="name no other one")
    unmet = unmet_requirements(files=True)
    if request.repair:
        if unmet:
            from wheelfit.doctor.repair import repair

            repair(unmet, context.environ, context.reporter.remark)
            unmet = ()
        context.reporter.remark("everything that wheelfit depends on is installed")
    try:
        if request.runtime is not None:
            diagnosis = _diagnose_process(request.runtime)
        else:
            diagnosis = _diagnose_environment(request, context)
    except WheelfitError:
        raise
    except Exception:
        if not unmet:
            raise
        # Too broken to examine anything: the findings are what wheelfit lacks.
        view = SystemView(environ=context.environ)
        diagnosis = Diagnosis("this machine", (), _scrubber(view, context.environ))
    location = Location("wheelfit")
    own = (location.finding(OWN_REQUIREMENT_UNMET, str(requirement)) for requirement in unmet)
    diagnosis = replace(diagnosis, findings=(*own, *diagnosis.findings))
    return diagnosis.without(request.ignore)


def _diagnose_process(number: int) -> Diagnosis:
    from wheelfit.doctor.process import examine_process, process_findings

    view = SystemView()
    process = examine_process(number or None, view)
    return Diagnosis(
        "this machine",
        Report.of(process_findings(process)).findings,
        Scrubber.of(view),
        process=process,
    )


def _diagnose_environment(request: DoctorRequest, context: Context) -> Diagnosis:
    from wheelfit.core.agreements import binding_agreements
    from wheelfit.doctor import machine as machines
    from wheelfit.doctor.environment import diagnose_packages, examine_environment
    from wheelfit.doctor.machine import Hardware

    environment, unusable = _open_environment(request, context.environ)
    machine, real, timed = _open_machine(request, environment.target, context)
    detections = tuple(
        detection
        for namespace in machine.namespaces
        if (detection := machine.disabled_detection(namespace) or machine.detect(namespace))
    )
    contents = examine_environment(environment, machine.target, full=request.full)

    windows = machine.target.environment.get("sys_platform") == "win32"
    hardware = Hardware.of(detections, windows=windows)
    agreements = binding_agreements(request.agreement_table, request.allow_mixed)
    report = diagnose_packages(contents, machine.target, hardware, machine.support, agreements)
    findings = [*unusable, *report.findings]
    settings = None
    sources = SourcesReport()
    if request.host is None:
        sources = _sources(request, context, environment, contents)
        view = real.view
        settings = read_machine_settings(view)
        findings += machines.detection_findings(
            detections,
            machines.read_nvidia_files(view),
            translated=machines.is_translated(view),
        )
        findings += machines.interpreter_findings(machine.target, view)
        of_conda = (text for text in machine.overrides if text.startswith(overrides.CONDA_PREFIX))
        in_effect = dict.fromkeys((*real.overrides_in_effect(), *of_conda))
        findings += machines.override_findings(in_effect, view, real.namespaces)
        findings += settings_findings(settings, detections, contents.libraries)
    return Diagnosis(
        machine.name,
        Report.of(_with_remedies_for(findings, request)).findings,
        _scrubber(real.view, context.environ),
        host=None if machine.host is None else machine.host.to_mapping(),
        overrides=machine.overrides,
        target=machine.target,
        environment=environment,
        detections=detections,
        probes=tuple(timed.probes),
        settings=settings,
        sources=sources,
        contents=contents,
    )


def _sources(
    request: DoctorRequest,
    context: Context,
    environment: Environment,
    contents: EnvironmentContents,
) -> SourcesReport:
    """Return the sources of files on this machine, as far as they can be read."""
    from wheelfit.operations.indexes import configured_sources, read_settings
    from wheelfit.operations.owner_indexes import OwnerIndexes

    options = request_like(SourceOptions, request)
    sources = SourcesReport()
    try:
        settings = read_settings(options, context.environ, prefix=environment.interpreter.prefix)
        sources = SourcesReport(configured_sources(settings))
        owners_view = OwnerIndexes(options, settings, context.environ)
    except WheelfitError as error:
        context.reporter.warn(f"{error.message} ({error.where})" if error.where else error.message)
        return sources
    return SourcesReport(
        sources.configured,
        owners_view.indexes(),
        tuple(owners_view.builds(package.installed for package in contents.packages)),
    )


def _open_environment(
    request: DoctorRequest, environ: Mapping[str, str]
) -> tuple[Environment, list[Finding]]:
    """Open the environment to examine; if the active one is broken, that is a finding."""
    from wheelfit.operations.environments import open_environment_of

    try:
        return open_environment_of(request, environ, may_be_own=True), []
    except UnusableInterpreter as error:
        if request.python is not None:
            raise
        message = f"{error.where}: {error.message}" if error.where else error.message
        activating = {"VIRTUAL_ENV", "CONDA_PREFIX"}
        others = {name: value for name, value in environ.items() if name not in activating}
        finding = Location("VIRTUAL_ENV").finding(ENVIRONMENT_UNUSABLE, message)
        return open_environment_of(request, others, may_be_own=True), [finding]


def _scrubber(examined: SystemView, environ: Mapping[str, str]) -> Scrubber:
    """Return a scrubber of the names of the examined machine and of this one."""
    names = dict(Scrubber.of(SystemView(environ=dict(environ))).names)
    names |= dict(Scrubber.of(examined).names)
    return Scrubber(tuple(sorted(names.items(), key=lambda item: -len(item[0]))))


def _open_machine(
    request: DoctorRequest, current: Target, context: Context
) -> tuple[ChosenMachine, Machine, TimedProcesses]:
    """Return the machine that packages must fit, the one with the settings, and its processes.

    Drivers are probed again, so that a cached answer never hides a fault.
    """
    from msgspec import structs

    from wheelfit.doctor.machine import TimedProcesses
    from wheelfit.operations.machine import choose_machine

    chosen = choose_machine(request, current, context, use_probe_cache=False)
    detector = chosen.detector
    view = detector.view if isinstance(detector, Machine) else SystemView(environ=context.environ)
    timed = TimedProcesses(view.processes)
    real = Machine(replace(view, processes=timed))
    if request.host is None:
        chosen = structs.replace(chosen, detector=real)
    return chosen, real, timed


def _with_remedies_for(findings: Iterable[Finding], request: DoctorRequest) -> Iterator[Finding]:
    """Add the requested environment and machine to the commands in remedies."""
    places = {name: getattr(request, name) for name in ("python", "prefix", "target", "root")}
    environment_options = "".join(
        f" --{name} {quote(value)}" for name, value in places.items() if value
    )
    machine_option = f" --for {quote(request.host)}" if request.host else ""
    for finding in findings:
        destination = environment_options
        if finding.code == WRONG_PLATFORM.code and request.host and not request.target:
            destination = " --target DIR"  # an environment has wheels for its own Python only
        remedy = finding.remedy
        for command, options in (
            ("wheelfit install", destination + machine_option),
            ("wheelfit uninstall", environment_options),
        ):
            remedy = remedy.replace(f"{command} ", f"{command}{options} ")
        yield finding._replace(remedy=remedy)
