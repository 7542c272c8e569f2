"""Show which wheel would be chosen, and why not the others.

Each project named is looked at by itself: the newest release that fits the requirement and has a
wheel that fits the machine. With --with-deps everything is resolved together, as install would, and
every package that comes in variants is explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options import (
    add_choice,
    add_environment,
    add_machine,
    add_requirements,
    add_sources,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.opened import Opened
    from wheelfit.cli.output import Output
    from wheelfit.resolve.explain import Explanation


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_requirements(parser)
    parser.add_argument(
        "--with-deps", action="store_true", help="resolve as install would, and explain all of it"
    )
    add_environment(parser)
    add_sources(parser)
    add_machine(parser)
    add_choice(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Explain what was named; the exit code is 3 when something has no wheel that fits."""
    from wheelfit.cli.explanations import print_explanation
    from wheelfit.cli.opened import open_for_choice
    from wheelfit.errors import NoCompatibleWheel

    opened = open_for_choice(arguments, environ, output)
    with opened.repository:
        explanations = (
            _together(arguments, opened, output) if arguments.with_deps else _apart(opened)
        )
    output.result_json(
        {
            "version": 1,
            "target": opened.machine.name,
            **opened.machine.to_mapping(),
            "projects": [one.to_mapping() for one in explanations],
        }
    )
    for number, explanation in enumerate(explanations):
        if number:
            output.result()
        print_explanation(explanation, opened.machine, output)
    present = [explanation.properties for explanation in explanations]
    vain = list(opened.candidates.policy.preferences.in_vain(present))
    for wish in vain:
        more = "" if arguments.with_deps else " (with --with-deps what they need is looked at too)"
        output.warn(f"{wish} is required, but nothing of this has a variant with it{more}")
    fits = all(explanation.chosen is not None for explanation in explanations)
    # What install would refuse as a whole is refused here too.
    refused = not fits or (arguments.with_deps and bool(vain))
    return NoCompatibleWheel.exit_code if refused else 0


def _apart(opened: Opened) -> list[Explanation]:
    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.resolve.explain import explain_project, explain_release
    from wheelfit.resolve.request import given_wheel
    from wheelfit.sources.page import ProjectPage

    wanted = opened.wanted
    constraints = [asked.requirement for asked in wanted.constraints]
    explanations = []
    named = [asked for asked in wanted.requirements if asked.requirement.url is not None]
    given = [given_wheel(str(asked.requirement.url), where=asked.where) for asked in named]
    for wheel in (*wanted.wheels, *given):
        filename = parse_wheel_filename(wheel.file.filename)
        opened.candidates.give(ProjectPage(filename.name, (wheel.file,), "the request"))
        explanations.append(explain_release(opened.candidates, filename.name, filename.version))
    return explanations + [
        explain_project(
            opened.candidates,
            asked.requirement,
            constraints=constraints,
            prereleases=opened.prereleases,
        )
        for asked in wanted.requirements
        if asked.requirement.url is None
    ]


def _together(arguments: Namespace, opened: Opened, output: Output) -> list[Explanation]:
    from wheelfit.resolve.cautions import about_mixture
    from wheelfit.resolve.explain import explain_choice
    from wheelfit.resolve.request import Request
    from wheelfit.resolve.resolver import resolve

    wanted = opened.wanted
    request = Request(
        requirements=wanted.requirements,
        wheels=wanted.wheels,
        constraints=wanted.constraints,
        prereleases=opened.prereleases,
        dependencies=not arguments.no_deps,
    )
    resolution = resolve(request, opened.candidates)
    for caution in about_mixture({pin.name: pin.properties for pin in resolution.pins}):
        output.warn(caution)  # of all together; what concerns one stands in its explanation
    return [
        explain_choice(opened.candidates, pin.choice)
        for pin in sorted(resolution.pins, key=lambda pin: (not pin.requested, pin.name))
        if pin.requested or any(verdict.filename.label for verdict in pin.choice.selection.verdicts)
    ]
