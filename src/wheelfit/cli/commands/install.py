"""Install packages, each in the build that fits the machine.

What is installed already and will do is kept. Everything is checked before the environment is
touched; if anything fails, it is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.cli.options import (
    add_choice,
    add_environment,
    add_machine,
    add_requirements,
    add_sources,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.opened import Opened
    from wheelfit.cli.output import Output
    from wheelfit.cli.progress import Bars
    from wheelfit.install.breakage import Breakage
    from wheelfit.install.choice import Circumstances
    from wheelfit.install.installed import Installed
    from wheelfit.install.plan import Plan
    from wheelfit.resolve.request import Request
    from wheelfit.resolve.resolution import Pin, Resolution


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_requirements(parser)
    group = parser.add_argument_group("installation")
    group.add_argument("--dry-run", action="store_true", help="only say what would be done")
    group.add_argument(
        "-U", "--upgrade", action="store_true", help="take the newest versions of what is named"
    )
    group.add_argument(
        "-P",
        "--upgrade-package",
        action="append",
        default=[],
        metavar="NAME",
        help="take the newest version of this package, named or not",
    )
    group.add_argument(
        "--force-reinstall", action="store_true", help="replace even what is the same"
    )
    group.add_argument(
        "--require-hashes", action="store_true", help="every package must have a --hash"
    )
    group.add_argument("--compile", action="store_true", help="write bytecode files too")
    group.add_argument(
        "--replace-files", action="store_true", help="overwrite files that no package owns"
    )
    group.add_argument(
        "--break-system-packages", action="store_true", help="even in a managed environment"
    )
    add_environment(parser)
    add_sources(parser)
    add_machine(parser)
    add_choice(parser)
    _add_pip_habits(parser)


def _add_pip_habits(parser: ArgumentParser) -> None:
    """Take the options of pip that ask for what is done anyway, so that old scripts go on."""
    group = parser.add_argument_group("accepted for pip's sake; they change nothing")
    for name, meaning in _PIP_SWITCHES.items():
        group.add_argument(name, action="store_true", help=meaning)
    group.add_argument(
        "--only-binary", action="append", metavar="NAMES", help="only wheels are ever installed"
    )
    group.add_argument("--progress-bar", metavar="KIND", help="see --no-progress")


_PIP_SWITCHES = {
    "--prefer-binary": "only wheels are ever installed",
    "--no-compile": "bytecode is written on request only",
    "--no-input": "nothing is ever asked",
    "--no-warn-script-location": "nothing is said of PATH",
    "--disable-pip-version-check": "pip is not used",
}


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Resolve, download, check and install."""
    from wheelfit.cli.environments import tell_unnamed_environment
    from wheelfit.cli.opened import open_for_choice
    from wheelfit.cli.pip_rules import check_changes, check_place
    from wheelfit.install.breakage import breakages

    opened = open_for_choice(arguments, environ, output)
    with opened.repository:
        environment = opened.environment
        check_place(opened.rules, arguments)
        if not arguments.dry_run:
            # Before anything is fetched: a download in vain helps nobody.
            check_changes(opened.rules, environment)
            environment.check_allowed(break_system_packages=arguments.break_system_packages)
            environment.check_writable()
        tell_unnamed_environment(arguments, environ, environment, output)
        decided = _decide(arguments, opened)
        if decided.planned and not arguments.dry_run:
            decided = _carry_out(decided, arguments, output, opened)
        planned = decided.planned
        broken = breakages(planned, decided.installed, environment.interpreter.environment)
        _report(
            planned, decided.resolution, output, broken, opened.machine, dry_run=arguments.dry_run
        )
        _warn_of_idle_labels(opened, planned, output)
    return 0


class _Decided(NamedTuple):
    """What to do, and what it was decided by."""

    planned: Plan
    resolution: Resolution
    installed: Sequence[Installed]
    """What is there."""


def _request(arguments: Namespace, opened: Opened, installed: Sequence[Installed]) -> Request:
    from packaging.utils import canonicalize_name

    from wheelfit.install.installed import by_name
    from wheelfit.resolve.request import Request

    wanted = opened.wanted
    there = by_name(installed)
    staying = {} if arguments.force_reinstall else there
    return Request(
        requirements=wanted.requirements,
        wheels=wanted.wheels,
        constraints=wanted.constraints,
        installed={name: entry.present() for name, entry in staying.items()},
        there={name: entry.version for name, entry in there.items()},
        upgrade=arguments.upgrade,
        upgrade_only=frozenset(canonicalize_name(name) for name in arguments.upgrade_package),
        prereleases=opened.prereleases,
        dependencies=not arguments.no_deps,
        require_hashes=arguments.require_hashes
        or opened.rules.require_hashes
        or bool(wanted.hashes)
        or any(file.require_hashes for file in wanted.files),
        hashes_required_by=opened.rules.said_by("require-hashes")
        if opened.rules.require_hashes
        else "",
    )


def _decide(arguments: Namespace, opened: Opened) -> _Decided:
    """Resolve, and see that the result is what was wished and can be where it shall be."""
    from wheelfit.install.plan import plan
    from wheelfit.resolve.resolver import resolve

    installed = opened.environment.installed()
    resolution = resolve(_request(arguments, opened, installed), opened.candidates)
    _check_wishes(opened, resolution)
    planned = plan(resolution, installed, reinstall=arguments.force_reinstall)
    _check_place(planned, opened)
    return _Decided(planned, resolution, installed)


def _check_wishes(opened: Opened, resolution: Resolution) -> None:
    """Refuse a result in which a required property occurs nowhere: the wish was in vain."""
    from wheelfit.errors import NoCompatibleWheel

    present = [pin.properties for pin in resolution.pins]
    present += [kept.properties for kept in resolution.kept]
    for wish in opened.candidates.policy.preferences.unmet(present):
        raise NoCompatibleWheel(
            f"{wish} is required, but no package of the result has a variant with it",
            hint="wheelfit explain shows what each package offers",
        )


def _check_place(planned: Plan, opened: Opened) -> None:
    """Refuse to put wheels for another Python into an environment that could not use them."""
    from wheelfit.errors import UsageError
    from wheelfit.install.environment import Kind

    environment = opened.environment
    if environment.kind is not Kind.ENVIRONMENT:
        return
    tags = environment.target().tags
    for pin in planned.install:
        if tags.best(pin.filename.tags) is None:
            raise UsageError(
                f"{pin.filename.text} is right for {opened.machine.name}, "
                "but cannot run in this environment",
                where=environment.name,
                hint="--target DIR puts everything into a folder that can be taken there",
            )


def _warn_of_idle_labels(opened: Opened, planned: Plan, output: Output) -> None:
    """Say when a label is asked for of a package that is not there: a slip of the name, likely."""
    names = {pin.name for pin in planned.install} | {entry.name for entry in planned.keep}
    for name, label in opened.candidates.policy.preferences.labels.items():
        if name not in names:
            output.warn(f"--label {name}={label} changes nothing: {name} is not needed")


def _carry_out(decided: _Decided, arguments: Namespace, output: Output, opened: Opened) -> _Decided:
    """Download and install; return what was done in the end.

    A wheel that is not what it was chosen for gives way to the next, and a plan that another
    process has crossed gives way to a new one. What is downloaded already is not fetched again.
    """
    import tempfile
    from pathlib import Path

    from wheelfit.cli.downloads import named_by_origin
    from wheelfit.cli.progress import Bars
    from wheelfit.install.apply import PLANS, PlanOutdated, apply

    wheels: dict[str, Path] = {}
    left = PLANS
    with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder, Bars(output) as bars:
        while decided.planned:
            if not _fetch(decided.planned, wheels, Path(folder), opened, output, bars):
                decided = _decide(arguments, opened)
                continue
            left -= 1
            paths = {pin.name: wheels[pin.file.url] for pin in decided.planned.install}
            try:
                with named_by_origin(decided.planned.install, paths):
                    applied = apply(
                        decided.planned,
                        opened.environment,
                        paths,
                        progress=bars.transfer(_count(decided.planned.install), "unpacked"),
                        replace=arguments.replace_files,
                        compile_bytecode=arguments.compile,
                        break_system_packages=arguments.break_system_packages,
                        circumstances=_circumstances(opened),
                    )
            except PlanOutdated:
                if not left:
                    raise
                output.say("note: another process changed the environment; planning anew", "dim")
                decided = _decide(arguments, opened)
                continue
            for note in applied.notes:
                output.say(f"note: {note}", "dim")
            break
    return decided


def _circumstances(opened: Opened) -> Circumstances:
    """Say in the record of each distribution what it was chosen by (P-73)."""
    from wheelfit.install.choice import Circumstances

    host = opened.machine.host
    return Circumstances(None if host is None else host.record, opened.machine.in_effect)


def _fetch(
    planned: Plan,
    wheels: dict[str, Path],
    folder: Path,
    opened: Opened,
    output: Output,
    bars: Bars,
) -> bool:
    """Download what is not there yet; return whether every wheel is what it was chosen for.

    :param wheels: the downloaded files by the URL in the plan; grows.
    """
    from wheelfit.cli.downloads import download

    missing = [pin for pin in planned.install if pin.file.url not in wheels]
    paths, refused = download(missing, opened.candidates, folder, bars)
    wheels |= {pin.file.url: paths[pin.name] for pin in missing if pin.name in paths}
    for pin, reason in refused:
        # The warning comes with what is taken instead, one line per release (F-136).
        output.detail(f"{pin.filename.text} is not taken: {reason}")
        opened.candidates.reject(pin.filename, reason)
    return not refused


def _plugins(resolution: Resolution) -> list[dict[str, object]]:
    """Return the plugins that were asked about packages of the result, each once (P-21)."""
    asked = {
        detection.namespace: detection.plugin
        for pin in resolution.pins
        if pin.choice.support is not None
        for detection in pin.choice.support.detections.values()
        if detection.plugin is not None
    }
    return [{"namespace": namespace, **plugin.to_mapping()} for namespace, plugin in asked.items()]


def _count(pins: Sequence[Pin]) -> str:
    return "1 wheel" if len(pins) == 1 else f"{len(pins)} wheels"


def _report(
    planned: Plan,
    resolution: Resolution,
    output: Output,
    broken: Sequence[Breakage],
    machine: ChosenMachine,
    *,
    dry_run: bool,
) -> None:
    answer = {
        "version": 1,
        "dry_run": dry_run,
        **machine.to_mapping(),
        **planned.to_mapping(),
        "breaks": [one.to_mapping() for one in broken],
        "plugins": _plugins(resolution),
        "degradations": [
            {"name": pin.name, "version": str(pin.version), **one.to_mapping()}
            for pin in resolution.pins
            for one in pin.choice.degradations
        ],
    }
    output.result_json(answer)
    for note in (*resolution.notes, *broken):
        output.warn(str(note))
    for pin in planned.install:
        for remark in pin.choice.remarks:
            output.say(f"note: {remark}", "dim")
        for remark in pin.choice.metadata.notes:
            output.detail(remark)
    for detail in resolution.details:
        output.detail(detail)
    old = {entry.name: entry for entry in planned.remove}
    verb = "would install" if dry_run else "installed"
    for pin in planned.install:
        replaced = f", replacing {old[pin.name].version}" if pin.name in old else ""
        if pin.name in old and old[pin.name].label != pin.label:
            replaced += f" ({old[pin.name].label or 'plain'})"
        # One line for each package that had a choice; for the others there is nothing to say.
        had_choice = pin.label is not None or any(
            verdict.filename.label for verdict in pin.choice.selection.verdicts
        )
        why = f": {pin.reason}" if had_choice else ""
        output.result(f"{verb} {pin}{replaced}{why}")
    for entry in planned.keep:
        if output.verbosity > 0:
            output.result(f"kept {entry}")
    if not planned and not (resolution.pins or planned.keep):
        output.result("nothing to do: the files ask for nothing")
    elif not planned:
        output.result("nothing to do: what is installed meets every requirement")
