"""Show which wheel would be chosen, and why not the others.

Each project named is looked at by itself: the newest release that fits the requirement and has a
wheel that fits the machine. With --with-deps everything is resolved together, as install would
where nothing is installed, and every package that comes in variants is explained.

With --all no machine decides: every label of the newest release that fits the requirement is shown,
with what it asks of a machine, what there is of it, and which presets and host files of your own
would take it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import BOUNDS_WITHOUT_DOWNLOADS, ENVIRONMENT
from wheelfit.cli.options.table.installing import EXPLAIN
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.requirements import Requirement
    from wheelfit.operations.opened import Opened
    from wheelfit.resolve.explain import Explanation
    from wheelfit.resolve.joint_choice import Held
    from wheelfit.resolve.listing import Release
    from wheelfit.resolve.request import Asked, GivenWheel


OPTIONS = (
    REQUIREMENTS,
    DEPENDENCY_GROUPS,
    EXPLAIN,
    BOUNDS_WITHOUT_DOWNLOADS,
    SOURCE_BUILDS,
    ENVIRONMENT,
    SOURCES,
    MACHINE,
    VARIANTS,
)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Explain what was named; the exit code is 3 when something has no wheel that fits."""
    from wheelfit.cli.explanations import print_explanation
    from wheelfit.errors import NoCompatibleWheel
    from wheelfit.operations.environments import tell_interruption
    from wheelfit.operations.opened import open_for_choice

    _check(arguments)
    opened = open_for_choice(arguments, environ, output, changes=False)
    tell_interruption(opened.environment, output)
    if arguments.all:
        return _for_everybody(arguments, opened, environ, output)
    with opened:
        explanations, held = (
            _together(arguments, opened, output) if arguments.with_deps else (_apart(opened), ())
        )
        if not arguments.with_deps:
            _warn_of_mixture(explanations, opened, output)
        slow = arguments.require_accelerator and _is_slow(explanations, opened, output)
    output.result_json(
        {
            "version": 1,
            "target": opened.machine.name,
            **opened.machine.to_mapping(),
            "projects": [one.to_mapping() for one in explanations],
            "agreements": [one.to_mapping() for one in held],
        }
    )
    for one in held:
        if one.forced.because or (one.values and output.verbosity > 0):
            output.result(str(one), "strong")
            output.result()
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
    refused = not fits or slow or (arguments.with_deps and bool(vain))
    return NoCompatibleWheel.exit_code if refused else 0


def _is_slow(explanations: Sequence[Explanation], opened: Opened, output: Output) -> bool:
    """Tell whether something would go without an accelerator that others have, and warn of it."""
    from wheelfit.operations.bounds import tell_unconcerned
    from wheelfit.resolve.acceleration import acceleration_of, refusal

    found = [
        acceleration_of(
            one.name,
            one.version,
            one.chosen.label,
            one.properties,
            one.candidates,
            opened.candidates,
        )
        for one in explanations
        if one.version is not None and one.chosen is not None
    ]
    concerned = [one for one in found if one is not None]
    refused = refusal(concerned)
    if refused is not None:
        output.warn(f"{refused.message} ({refused.note})")
    elif not concerned:
        tell_unconcerned(output)
    return refused is not None


def _apart(opened: Opened) -> list[Explanation]:
    from wheelfit.resolve.explain import explain_project, explain_release

    constraints = _constraints(opened)
    wheels, requirements = _wheels_and_others(opened)
    given = [
        explain_release(opened.candidates, wheel.name, wheel.version)
        for wheel in _given(opened, wheels)
    ]
    return given + [
        explain_project(
            opened.candidates, one, constraints=constraints, prereleases=opened.prereleases
        )
        for one in requirements
    ]


def _warn_of_mixture(explanations: Iterable[Explanation], opened: Opened, output: Output) -> None:
    """Say where what is best for each by itself is nothing to be installed together."""
    from wheelfit.resolve.joint_choice import Chosen, held_by

    chosen = [
        Chosen(one.name, one.version, one.chosen.label, one.properties)
        for one in explanations
        if one.version is not None and one.chosen is not None
    ]
    for held in held_by(chosen, opened.candidates.policy.binding):
        if not held.values:
            output.warn(
                f"install would not take these builds together ({held.sides}); "
                "--with-deps shows what it takes"
            )


def _constraints(opened: Opened) -> list[Requirement]:
    """Return the limits that hold for the Python in use."""
    environment = opened.candidates.target.environment
    limits = [asked.requirement for asked in opened.wanted.constraints]
    return [limit for limit in limits if limit.applies(environment)]


def _wheels_and_others(opened: Opened) -> tuple[list[GivenWheel], list[Requirement]]:
    """Return what is asked for: wheels by their URL, and requirements without one."""
    from wheelfit.resolve.request import given_wheel

    wheels = list(opened.wheels())
    others = []
    for asked in _asked(opened):
        if asked.requirement.url is None:
            others.append(asked.requirement)
        else:
            wheels.append(given_wheel(str(asked.requirement.url), where=asked.where))
    return wheels, others


def _given(opened: Opened, wheels: Iterable[GivenWheel]) -> Iterator[WheelFilename]:
    """Let wheels that the user named stand for their projects, one after the other."""
    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.sources.page import ProjectPage

    for wheel in wheels:
        filename = parse_wheel_filename(wheel.file.filename)
        opened.candidates.give(ProjectPage(filename.name, (wheel.file,), "the request"))
        yield filename


def _asked(opened: Opened) -> list[Asked]:
    """Return what is asked for, or what overrides and exclusions leave of it."""
    from wheelfit.resolve.replacements import Replacements

    wanted = opened.wanted
    replacements = Replacements(
        wanted.overrides, wanted.excluded, opened.candidates.target.environment
    )
    return [one for asked in wanted.requirements for one in replacements.instead(asked)]


def _together(
    arguments: Namespace, opened: Opened, output: Output
) -> tuple[list[Explanation], tuple[Held, ...]]:
    from wheelfit.resolve.acceleration import unwished_libraries
    from wheelfit.resolve.cautions import about_mixture
    from wheelfit.resolve.explain import explain_choice
    from wheelfit.resolve.request import Request
    from wheelfit.resolve.resolver import resolve

    wanted = opened.wanted
    request = Request(
        requirements=wanted.requirements,
        wheels=opened.wheels(),
        constraints=wanted.constraints,
        overrides=wanted.overrides,
        excluded=wanted.excluded,
        prereleases=opened.prereleases,
        dependencies=not arguments.no_deps,
    )
    resolution = resolve(request, opened.candidates)
    preferences = opened.candidates.policy.preferences
    cautions = (*about_mixture(resolution.held), *unwished_libraries(resolution, preferences))
    for caution in cautions:
        output.warn(caution)  # of all together; what concerns one stands in its explanation
    explanations = [
        explain_choice(opened.candidates, pin.choice)
        for pin in sorted(resolution.pins, key=lambda pin: (not pin.requested, pin.name))
        if pin.requested or any(verdict.filename.label for verdict in pin.choice.selection.verdicts)
    ]
    return explanations, resolution.held


def _check(arguments: Namespace) -> None:
    from wheelfit.errors import UsageError

    other = "--with-deps" if arguments.with_deps else "--for"
    if arguments.all and (arguments.with_deps or arguments.host is not None):
        raise UsageError(
            f"--all and {other} exclude each other",
            hint="--all shows releases by themselves, for no machine in particular",
        )


def _for_everybody(
    arguments: Namespace, opened: Opened, environ: Mapping[str, str], output: Output
) -> int:
    """Show every label of each release that was named."""
    from wheelfit.cli.overviews import onlookers, print_overview
    from wheelfit.resolve.overview import metadata_of, overview

    overviews = []
    with opened:
        for release in _releases(opened):
            metadata = metadata_of(opened.candidates, release)
            asked = onlookers(
                metadata.document,
                opened.environment.target(),
                environ,
                output,
                rocm_same_major=arguments.rocm_compat == "same-major",
            )
            overviews.append(overview(opened.candidates, release, metadata, asked))
    machines = {name: words for one in overviews for name, words in one.machines.items()}
    output.result_json(
        {
            "version": 1,
            "machines": machines,
            "releases": [one.to_mapping() for one in overviews],
        }
    )
    for number, one in enumerate(overviews):
        if number:
            output.result()
        print_overview(one, output)
    return 0


def _releases(opened: Opened) -> Iterator[Release]:
    from wheelfit.errors import NoSolution
    from wheelfit.resolve.overview import newest_release

    constraints = _constraints(opened)
    wheels, requirements = _wheels_and_others(opened)
    for wheel in _given(opened, wheels):
        listing = opened.candidates.listing(wheel.name)
        if listing is None or wheel.version not in listing.releases:  # pragma: no cover
            raise NoSolution(f"there is no {wheel.name} {wheel.version}")
        yield listing.releases[wheel.version]
    for one in requirements:
        yield newest_release(
            opened.candidates, one, constraints=constraints, prereleases=opened.prereleases
        )
