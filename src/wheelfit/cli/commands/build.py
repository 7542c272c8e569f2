"""Build wheels of a project, as variants and plain, with whatever build backend it has.

What the variants are stands in the [variant] table of its pyproject.toml. A backend that knows
variants is asked for them; of any other one a plain wheel is built and converted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.building import BUILD, BUILD_WAYS, BUILT_MATRIX, BUILT_WHEELS
from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wheelfit.build.front_end.orders import BuildOrder, BuiltWheel
    from wheelfit.build.front_end.recipes import Recipe
    from wheelfit.build.front_end.variants import Choice, Wanted
    from wheelfit.build.jobs import JobResult
    from wheelfit.cli.output import Output
    from wheelfit.projects.backend import ConfigSettings


OPTIONS = (
    BUILD,
    BUILT_WHEELS,
    BUILD_WAYS,
    BUILT_MATRIX,
    WORKERS,
    INTERPRETER,
    SOURCES,
    *(
        group.off_command_line()
        for group in (REQUIREMENTS, SOURCE_BUILDS, DEPENDENCY_GROUPS, MACHINE, VARIANTS)
    ),
)
"""What chooses wheels for build environments reads more arguments than there are options: a build
needs few wheels, and those as they are."""


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Read what is wanted, build it, check it, and put it where it shall be."""
    from dataclasses import replace
    from pathlib import Path
    from tempfile import mkdtemp

    from wheelfit.build.front_end.building import build_sdist, build_wheels
    from wheelfit.build.front_end.delivery import deliver
    from wheelfit.build.front_end.orders import check_together, orders_for
    from wheelfit.build.front_end.recipes import read_recipes
    from wheelfit.build.front_end.source import open_source
    from wheelfit.build.front_end.variants import PLAIN, choose
    from wheelfit.build.jobs import same_files
    from wheelfit.cli.build_jobs import do_jobs, jobs_for, tell_jobs
    from wheelfit.cli.build_places import open_build_places
    from wheelfit.core.labels import NULL
    from wheelfit.operations.scratch import scratch_folder

    wanted, settings, hand_over = _wanted(arguments)
    more = _recipe(arguments, settings, hand_over=hand_over)
    with scratch_folder() as scratch:
        source = open_source(_project(arguments), scratch, _providers(arguments))
        recipes = read_recipes(source.pyproject, where=source.where)
        labels = None if source.table is None else source.table.variants
        choices = choose(wanted, labels)
        order = _order(arguments, environ, arguments.dialect or recipes.dialect)
        order = replace(order, dependencies=recipes.dependencies)
        _check(order, choices, is_sdist_wanted=arguments.sdist)
        for note in () if source.table is None else source.table.notes:
            output.detail(f"{source.where}: {note}")
        known = {NULL, *(labels or ()), *(choice.label for choice in choices)}
        for label in sorted(recipes.variants.keys() - known):
            output.warn(f"{source.where}: tool.wheelfit.build.variants.{label} is of no variant")

        def new_folder(what: str) -> Path:
            return Path(mkdtemp(prefix=f"{what}-", dir=scratch))

        def tell(text: str) -> None:
            output.say(text, "dim")

        jobs = jobs_for(arguments, environ, source, choices)
        echo = output.say if arguments.debug or output.verbosity > 0 else None
        sdist = None
        with open_build_places(arguments, environ, output) as places:
            if arguments.sdist or (jobs is not None and order.project.is_dir()):
                sdist = build_sdist(
                    order.project, recipes.of(None, more), places, new_folder("sdist"),
                    environ=environ, tell=tell, echo=echo,
                )  # fmt: skip
                order = replace(order, project=sdist)
            wheels, notes = _build_here(
                orders_for(order, choices, recipes, more) if jobs is None else (),
                orders_for(order, [PLAIN], recipes, more)[0],
                lambda one: build_wheels(
                    one, places, new_folder("order"), environ=environ, tell=tell, echo=echo
                ),
                tell,
            )
        results, job_notes = ((), ()) if jobs is None else do_jobs(
            jobs, lambda those: orders_for(order, those, recipes, more),
            source, arguments, environ, output,
        )  # fmt: skip
        there = {one.wheel.path: one.wheel for one in results if one.wheel is not None}
        odd = (
            *check_together([*wheels, *there.values()]),
            *notes,
            *job_notes,
            *same_files(results),
        )
        built = [sdist] if sdist is not None and arguments.sdist else []
        files = deliver([*built, *(wheel.path for wheel in wheels)], Path(arguments.folder))
    wheels += there.values()
    files += tuple(Path(arguments.folder, path.name) for path in there)
    _report(source.name, wheels, files, odd, output, results)
    return tell_jobs(results, output) if results else 0


def _build_here(
    orders: Sequence[BuildOrder],
    plain_order: BuildOrder,
    build: Callable[[BuildOrder], Sequence[BuiltWheel]],
    tell: Callable[[str], None],
) -> tuple[list[BuiltWheel], Sequence[str]]:
    """Build wheels one after the other, and return them, and warnings about their code."""
    from wheelfit.build.front_end.comparison import compare_with_plain

    def build_plain() -> BuiltWheel:
        tell("a plain wheel is built to compare the variants with")
        return build(plain_order)[0]

    built = [(order, build(order)) for order in orders]
    compared = compare_with_plain(built, plain_order, build_plain)
    for _, error in compared.losses:
        raise error
    return [wheel for _, wheels in built for wheel in wheels], compared.notes


def _project(arguments: Namespace) -> Path:
    from pathlib import Path

    path = Path(arguments.source)
    return path.parent if path.name == "pyproject.toml" else path


def _check(order: BuildOrder, choices: Sequence[Choice], *, is_sdist_wanted: bool) -> None:
    """Refuse what excludes each other."""
    from wheelfit.errors import UsageError

    if order.kind == "editable" and (len(choices) > 1 or is_sdist_wanted):
        raise UsageError(
            "an editable wheel is built alone", hint="name one --variant, and no --sdist"
        )
    if is_sdist_wanted and not order.project.is_dir():
        raise UsageError(f"{order.project} is no folder that --sdist could be made of")


def _wanted(arguments: Namespace) -> tuple[Wanted, ConfigSettings, bool]:
    """Return the wheels that options or config settings ask for, and the settings that are left."""
    from wheelfit.build.front_end.variants import Wanted, wanted_by
    from wheelfit.core.labels import parse_label
    from wheelfit.core.properties import parse_property
    from wheelfit.core.variant_request import read_settings
    from wheelfit.errors import UsageError
    from wheelfit.operations.source_builds import read_config_settings

    texts = [text if "=" in text else f"{text}=" for text in arguments.config_settings]  # B-14
    given = read_config_settings(texts)
    about = {key: value for key, value in given.items() if "variant" in key}
    wanted = wanted_by(
        map(parse_label, arguments.labels),
        map(parse_property, arguments.properties),
        null=arguments.null,
        everything=arguments.all,
        plain=arguments.plain,
    )
    request = read_settings(about)
    if request is not None:
        if wanted.requests or wanted.everything:
            raise UsageError(
                f"variants are asked for by options, and by the config setting {min(about)}",
                hint="leave out one or the other",
            )
        wanted = Wanted((request,), plain=wanted.plain)
    left = {key: value for key, value in given.items() if key not in about}
    return wanted, left, "variant" in about


def _recipe(arguments: Namespace, settings: ConfigSettings, *, hand_over: bool) -> Recipe:
    """Return what the command line says of every wheel."""
    from wheelfit.build.front_end.recipes import Recipe

    return Recipe(
        settings, flags=arguments.flags, hand_over=arguments.hand_over or hand_over or None
    )


def _order(arguments: Namespace, environ: Mapping[str, str], dialect: str) -> BuildOrder:
    """Return what all orders have in common."""
    from wheelfit.build.front_end.dialects import DIALECTS
    from wheelfit.build.front_end.orders import BuildOrder
    from wheelfit.build.front_end.recipes import Recipe
    from wheelfit.errors import UsageError
    from wheelfit.operations.source_date import source_date_epoch

    if dialect not in ("auto", "none", *DIALECTS):
        raise UsageError(
            f"there is no dialect {dialect!r}",
            where="--dialect",
            hint=f"there are none, {', '.join(DIALECTS)}",
        )
    return BuildOrder(
        _project(arguments),
        (),
        Recipe(),
        kind="editable" if arguments.is_editable else "wheel",
        dialect=dialect,
        providers=_providers(arguments),
        ask_plugins=arguments.ask_plugins,
        deadline=arguments.plugin_deadline,
        epoch=source_date_epoch(environ),
    )


def _providers(arguments: Namespace) -> Mapping[str, str]:
    from wheelfit.core.properties import parse_namespace
    from wheelfit.errors import UsageError

    found = {}
    for text in arguments.namespace_providers:
        namespace, equals, requirement = text.partition("=")
        if not equals or not requirement.strip():
            raise UsageError(f"--provider {text!r} names none", hint="write NAMESPACE=REQUIREMENT")
        found[parse_namespace(namespace)] = requirement.strip()
    return found


# --- the result --------------------------------------------------------------------------------


def _report(
    name: str,
    wheels: Sequence[BuiltWheel],
    files: Sequence[Path],
    odd: Sequence[str],
    output: Output,
    results: Sequence[JobResult] = (),
) -> None:
    """Say what there is now, and what nobody could vouch for."""
    notes = [*(f"{wheel.path.name}: {note}" for wheel in wheels for note in wheel.notes), *odd]
    unknown = {
        namespace: None
        for wheel in wheels
        for namespace, who in wheel.validated.items()
        if who is None
    }
    notes += [
        f"what the wheels say of {namespace} is not validated: its provider is neither built in "
        "nor installed (--ask-plugins installs it)"
        for namespace in unknown
    ]
    for note in notes:
        output.warn(note)
    by_name = {wheel.path.name: wheel for wheel in wheels}
    for path in files:
        wheel = by_name.get(path.name)
        output.result(str(path), "good")
        if wheel is not None and wheel.label is not None:
            output.result(f"  {wheel.properties or 'no properties'}")
            output.result(f"  {_words(wheel)}", "dim")
    output.result_json(
        {
            "version": 1,
            "project": name,
            "backend": wheels[0].backend if wheels else None,
            "sdist": next((str(path) for path in files if path.name not in by_name), None),
            "wheels": [
                _to_mapping(by_name[path.name], path) for path in files if path.name in by_name
            ],
            "warnings": notes,
            **({"jobs": [one.to_mapping() for one in results]} if results else {}),
        }
    )


def _words(wheel: BuiltWheel) -> str:
    how = {
        "converted": f"converted from a plain wheel of {wheel.backend}",
        "native": f"built by {wheel.backend} as a variant",
    }
    parts = [how[wheel.how]]
    if wheel.flags:
        parts.append(" ".join(wheel.flags))
    parts += [f"{namespace}: {who}" for namespace, who in wheel.validated.items() if who]
    return "; ".join(parts)


def _to_mapping(wheel: BuiltWheel, path: Path) -> dict[str, object]:
    return {
        "filename": path.name,
        "path": str(path),
        "sha256": wheel.sha256,
        "size": wheel.size,
        "label": wheel.label,
        "properties": wheel.properties.to_mapping(),
        "how": wheel.how,
        "flags": list(wheel.flags),
        "validated": dict(wheel.validated),
        "plugins": dict(wheel.plugins),
        "notes": list(wheel.notes),
    }
