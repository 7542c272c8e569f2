"""Find out what is wrong here, and what to do about it.

Looks at the machine with all its probes, at environment variables and tools, and at everything
that is installed: whether it fits the machine, and whether it goes together. --runtime looks at a
running process instead. Nothing that is installed is imported, and without --repair nothing is
changed and no network is used. The report is made to be sent: host names, serial numbers and
credentials are left out.

It reports packages that wheelfit itself depends on and that are missing, damaged or of an
unsuitable version; --repair installs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.checking import DOCTOR
from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.variants import AGREEMENT_SETTINGS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from wheelfit.check.findings import Finding
    from wheelfit.cli.diagnosis import Diagnosis
    from wheelfit.cli.output import Output
    from wheelfit.core.target import Target
    from wheelfit.doctor.own_requirements import UnmetRequirement
    from wheelfit.doctor.timing import TimedProcesses
    from wheelfit.install.environment import Environment
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.platforms.discovery import Machine
    from wheelfit.platforms.scrubbing import Scrubber
    from wheelfit.platforms.surroundings import Surroundings

EXIT_CODES = {"machine": 11, "settings": 12, "packages": 13, "process": 14}
"""The exit code of a fault in each area; with several, the first one counts."""


OPTIONS = (DOCTOR, ENVIRONMENT, MACHINE, AGREEMENT_SETTINGS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Examine, say what was found, and return the exit code of the first area with a fault."""
    from dataclasses import replace

    from wheelfit.cli.diagnosis import lines_of, mapping_of
    from wheelfit.doctor.own_requirements import unmet_requirements
    from wheelfit.errors import UsageError, WheelfitError

    _check_codes((*arguments.only, *arguments.ignore))
    if arguments.replay and arguments.host:
        raise UsageError("--replay and --for both name a machine", hint="choose one")
    if arguments.runtime is not None and (arguments.replay or arguments.host):
        raise UsageError("--runtime looks at a process of this machine", hint="name no other one")
    unmet = unmet_requirements(files=True)
    if arguments.repair:
        if unmet:
            from wheelfit.doctor.repair import repair

            repair(unmet, environ, output.say)
            unmet = ()
        output.say("everything that wheelfit depends on is installed")
    try:
        if arguments.runtime is not None:
            found = _of_process(arguments.runtime)
        else:
            found = _of_environment(arguments, output, environ)
    except WheelfitError:
        raise
    except Exception:
        if not unmet:
            raise
        found = _of_nothing(environ)
    found = replace(found, findings=(*_about_ourselves(unmet), *found.findings))
    found = found.reduced(only=arguments.only, ignore=arguments.ignore)
    output.result_json(mapping_of(found))
    for line, style in lines_of(found, verbose=output.verbosity > 0, quiet=output.verbosity < 0):
        output.result(line, style)
    return _exit_code(found.findings, strict=arguments.strict)


def _check_codes(codes: Iterable[str]) -> None:
    from difflib import get_close_matches

    from wheelfit.doctor.diagnoses import DIAGNOSES
    from wheelfit.errors import UsageError

    for code in codes:
        if code not in DIAGNOSES:
            close = get_close_matches(code, DIAGNOSES, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "docs/reference/doctor.md lists them"
            raise UsageError(f"there is no kind of finding {code!r}", hint=hint)


def _exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    from wheelfit.check.findings import Severity
    from wheelfit.doctor.diagnoses import DIAGNOSES

    counted = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    areas = {DIAGNOSES[one.code] for one in findings if one.severity in counted}
    return min((EXIT_CODES[area] for area in areas), default=0)


def _about_ourselves(unmet: Iterable[UnmetRequirement]) -> Iterable[Finding]:
    """Return the findings about what wheelfit itself depends on."""
    from wheelfit.check.findings import Place
    from wheelfit.doctor.diagnoses import OWN_REQUIREMENT_UNMET

    return [Place("wheelfit").found(OWN_REQUIREMENT_UNMET, str(one)) for one in unmet]


# --- examining ------------------------------------------------------------------------------


def _of_nothing(environ: Mapping[str, str]) -> Diagnosis:
    """Return an empty report, for where wheelfit is too broken to look at anything."""
    from wheelfit.cli.diagnosis import Diagnosis
    from wheelfit.platforms.surroundings import Surroundings

    return Diagnosis("this machine", (), _scrubber(Surroundings(environ=dict(environ)), environ))


def _of_process(number: int) -> Diagnosis:
    from wheelfit.check.findings import Count, Report
    from wheelfit.cli.diagnosis import Diagnosis
    from wheelfit.doctor.process import about_process, examine_process
    from wheelfit.platforms.scrubbing import Scrubber
    from wheelfit.platforms.surroundings import Surroundings

    surroundings = Surroundings()
    process = examine_process(number or None, surroundings)
    return Diagnosis(
        "this machine",
        Report.of(about_process(process), (), Count()).findings,
        Scrubber.of(surroundings),
        process=process,
    )


def _of_environment(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> Diagnosis:
    from wheelfit.check.findings import Count, Report
    from wheelfit.cli.diagnosis import Diagnosis, remedies_for
    from wheelfit.core.agreements import binding
    from wheelfit.doctor import machine as machines
    from wheelfit.doctor.environment import about_contents, examine_environment
    from wheelfit.doctor.hardware import Hardware
    from wheelfit.doctor.settings import about_settings, read_settings

    environment, unusable = _open_environment(arguments, environ)
    machine, real, timed = _open_machine(arguments, environment.target(), environ, output)
    detections = tuple(
        detection
        for namespace in machine.namespaces
        if (detection := machine.switched_off(namespace) or machine.detect(namespace))
    )
    contents = examine_environment(environment, machine.target, full=arguments.full)

    windows = machine.target.environment.get("sys_platform") == "win32"
    if arguments.replay:  # its interpreter is not recorded, and this one is of this machine
        windows = real.surroundings.system == "Windows"
    hardware = Hardware.of(detections, windows=windows)
    agreements = binding(arguments.agreement_table, arguments.allow_mixed)
    report = about_contents(contents, machine.target, hardware, machine.support, agreements)
    findings = [*unusable, *report.findings]
    settings = None
    if arguments.host is None:
        seen = real.surroundings
        settings = read_settings(seen)
        findings += machines.about_detections(
            detections,
            machines.read_nvidia_files(seen),
            translated=machines.is_translated(seen),
        )
        findings += machines.about_interpreter(machine.target, seen)
        findings += machines.about_overrides(real.overrides_in_effect(), seen, real.namespaces)
        findings += about_settings(
            settings,
            detections,
            contents.libraries,
            contents.modules if settings.module_folders else {},
            _scripts(environment) if seen.is_real else None,
        )
    return Diagnosis(
        machine.name,
        Report.of(remedies_for(findings, arguments), (), Count()).findings,
        _scrubber(real.surroundings, environ),
        host=None if machine.host is None else machine.host.to_mapping(),
        replayed=arguments.replay is not None,
        overrides=machine.overrides,
        target=machine.target,
        environment=environment,
        detections=detections,
        asked=timed.asked,
        settings=settings,
        contents=contents,
    )


def _open_environment(
    arguments: Namespace, environ: Mapping[str, str]
) -> tuple[Environment, list[Finding]]:
    """Open what is to be examined; an active environment that is broken is a finding itself."""
    from wheelfit.check.findings import Place
    from wheelfit.doctor.diagnoses import ENVIRONMENT_UNUSABLE
    from wheelfit.errors import UnusableInterpreter
    from wheelfit.operations.environments import open_environment_of

    try:
        return open_environment_of(arguments, environ), []
    except UnusableInterpreter as error:
        if arguments.python is not None:
            raise
        words = f"{error.where}: {error.message}" if error.where else error.message
        others = {name: value for name, value in environ.items() if name != "VIRTUAL_ENV"}
        found = Place("VIRTUAL_ENV").found(ENVIRONMENT_UNUSABLE, words)
        return open_environment_of(arguments, others), [found]


def _scripts(environment: Environment) -> str | None:
    from wheelfit.install.environment import Kind

    return str(environment.schemes.scripts) if environment.kind is Kind.ENVIRONMENT else None


def _scrubber(seen: Surroundings, environ: Mapping[str, str]) -> Scrubber:
    """Return what hides the names of the machine looked at, and of the one that looks."""
    from wheelfit.platforms.scrubbing import Scrubber
    from wheelfit.platforms.surroundings import Surroundings

    names = dict(Scrubber.of(Surroundings(environ=dict(environ))).names)
    names |= dict(Scrubber.of(seen).names)
    return Scrubber(tuple(sorted(names.items(), key=lambda item: -len(item[0]))))


def _open_machine(
    arguments: Namespace, current: Target, environ: Mapping[str, str], output: Output
) -> tuple[ChosenMachine, Machine, TimedProcesses]:
    """Return the machine to judge for, the one whose settings count, and who keeps the time.

    Drivers are asked anew, so that a remembered answer never hides what is wrong.
    """
    from dataclasses import replace

    from wheelfit.doctor.timing import TimedProcesses
    from wheelfit.operations.machine import choose_machine, options_in_effect
    from wheelfit.platforms.discovery import Machine

    chosen = choose_machine(arguments, current, environ, output, recall=False)
    if arguments.replay:
        from wheelfit.cli.records import open_record

        recorded, _ = open_record(arguments.replay, chosen)
        options = options_in_effect(arguments)
        overrides = (*recorded.overrides, *options)
        chosen = replace(recorded, policy=chosen.policy, overrides=overrides)
    looked = chosen.detector if isinstance(chosen.detector, Machine) else Machine(environ=environ)
    timed = TimedProcesses(looked.surroundings.processes)
    real = Machine.over(replace(looked.surroundings, processes=timed))
    if arguments.host is None:
        chosen = replace(chosen, detector=real)
    return chosen, real, timed
