"""Builds of wheels of a project, as variants and plain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from wheelfit.building.front_end.build_orders import BuildOrder, check_together, orders_for
from wheelfit.building.front_end.building import ProjectBuilder
from wheelfit.building.front_end.comparison import compare_with_plain
from wheelfit.building.front_end.recipes import Recipe, read_recipes
from wheelfit.building.front_end.source import open_source
from wheelfit.building.front_end.variants import PLAIN, choose_wheels, requested_variants
from wheelfit.building.jobs import JobResult, notes_on_repeated_builds
from wheelfit.building.staging import deliver
from wheelfit.core.labels import NULL, parse_label
from wheelfit.core.properties import parse_property
from wheelfit.core.variant_request import VariantRequest, read_settings
from wheelfit.errors import UsageError
from wheelfit.operations.build_jobs import run_jobs, select_jobs
from wheelfit.operations.build_request import BuildRequest, open_build_environments
from wheelfit.operations.files import source_date_epoch
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requested_variants import parse_provider
from wheelfit.operations.source_builds import read_config_settings
from wheelfit.operations.temporary_folders import scratch_folder
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.building.front_end.build_orders import BuiltWheel
    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.operations.context import Context
    from wheelfit.projects.backend import ConfigSettings


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The wheels that were built."""

    name: str
    """The name of the project."""
    wheels: tuple[BuiltWheel, ...]
    files: tuple[Path, ...]
    """The wheels and the source distribution, where they are now."""
    warnings: tuple[str, ...]
    results: tuple[JobResult, ...] = ()
    """The results of a matrix or of several workers; empty for a build without jobs."""

    @property
    def by_filename(self) -> Mapping[str, BuiltWheel]:
        """The wheels by the names of their files."""
        return {wheel.path.name: wheel for wheel in self.wheels}

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        wheels = self.by_filename
        return plain_report(
            self,
            "warnings",
            project=self.name,
            backend=self.wheels[0].backend if self.wheels else None,
            sdist=next((path for path in self.files if path.name not in wheels), None),
            wheels=[
                _to_mapping(wheels[path.name], path) for path in self.files if path.name in wheels
            ],
            **({"jobs": self.results} if self.results else {}),
        )


def build(request: BuildRequest, context: Context) -> BuildReport:
    """Build wheels of a project, check them, and put them into a folder.

    Failures of a matrix or of several workers are in the report.

    :param request: the project and its wheels.
    :param context: the environment variables and the reporter.
    :raises UsageError: options contradict each other.
    :raises WheelfitError: a wheel cannot be built.
    """
    environ, reporter = context.environ, context.reporter
    variants, settings, pass_properties = _requested_variants(request)
    option_recipe = Recipe(settings, flags=request.flags, pass_properties=pass_properties)
    with scratch_folder() as scratch:
        providers = dict(map(parse_provider, request.namespace_providers))
        source = open_source(request.project, scratch, providers)
        if providers and "variant" in source.pyproject:
            raise UsageError(
                "--provider is for projects without a [variant] table",
                where=source.where,
                hint="`wheelfit init --provider …` adds a provider to the table",
            )
        recipes = read_recipes(source.pyproject, where=source.where)
        labels = None if source.table is None else source.table.variants
        choices = choose_wheels(variants, labels, has_all=request.all, plain=request.plain)
        order = _order(request, environ)
        order = replace(
            order, dependencies=recipes.dependencies, repair=request.repair or recipes.repair
        )
        _check(order, choices, is_sdist_wanted=request.sdist)
        for path in (Path(request.folder), *Path(request.folder).parents):
            if path.is_file():  # refused before a long build
                raise FileProblem(
                    "the built files cannot be written: not a folder", where=str(path)
                )
        for note in () if source.table is None else source.table.notes:
            reporter.detail(f"{source.where}: {note}")
        known = {NULL, *(labels or ()), *(choice.label for choice in choices)}
        for label in sorted(recipes.variants.keys() - known):
            reporter.warn(
                f"{source.where}: tool.wheelfit.build.variants.{label} names no variant of the "
                "project"
            )

        def new_folder(prefix: str) -> Path:
            return Path(mkdtemp(prefix=prefix, dir=scratch))

        jobs = select_jobs(request, environ, source, choices)
        echo = reporter.remark if request.debug or reporter.wants_details else None
        sdist = None
        with open_build_environments(request, context) as environments:
            builder = ProjectBuilder(environments.make, environ, reporter.note, echo)
            if request.sdist or (jobs is not None and order.project.is_dir()):
                sdist = builder.sdist(
                    order.project, recipes.of(None, option_recipe), new_folder("sdist-")
                )
                order = replace(order, project=sdist)
            wheels, notes = _build_here(
                orders_for(order, choices, recipes, option_recipe) if jobs is None else (),
                orders_for(order, [PLAIN], recipes, option_recipe)[0],
                lambda build_order: builder.wheels(build_order, new_folder("order-")),
                reporter.note,
            )
        results, job_notes = ((), ()) if jobs is None else run_jobs(
            jobs, lambda job_choices: orders_for(order, job_choices, recipes, option_recipe),
            source, request, context,
        )  # fmt: skip
        job_wheels = {
            result.wheel.path: result.wheel for result in results if result.wheel is not None
        }
        warnings = (
            *check_together([*wheels, *job_wheels.values()]),
            *notes,
            *job_notes,
            *(_sdist_warnings(sdist, results) if sdist is not None else ()),
            *notes_on_repeated_builds(results),
        )
        built = [sdist] if sdist is not None and request.sdist else []
        files = deliver([*built, *(wheel.path for wheel in wheels)], Path(request.folder))
    wheels += job_wheels.values()
    files += tuple(Path(request.folder, path.name) for path in job_wheels)
    return BuildReport(
        source.name, tuple(wheels), files, _warnings(wheels, warnings), tuple(results)
    )


def _build_here(
    orders: Sequence[BuildOrder],
    plain_order: BuildOrder,
    build: Callable[[BuildOrder], Sequence[BuiltWheel]],
    note: Callable[[str], None],
) -> tuple[list[BuiltWheel], Sequence[str]]:
    """Build wheels one after the other, and return them, and warnings about their code."""

    def build_plain() -> BuiltWheel:
        note("a plain wheel is built to compare the variants with")
        return build(plain_order)[0]

    built = [(order, build(order)) for order in orders]
    compared = compare_with_plain(built, plain_order, build_plain)
    for _, error in compared.rejected:
        raise error
    return [
        compared.with_compared_libraries(wheel) for _, wheels in built for wheel in wheels
    ], compared.notes


def _sdist_warnings(sdist: Path, results: Sequence[JobResult]) -> Iterator[str]:
    """Yield likely faults of a source distribution from which jobs failed to build."""
    errors = [result.error for result in results if result.error is not None]
    if any(error.reference == "build-failed" for error in errors):
        yield (
            f"jobs build from {sdist.name}, which has no files from above the project's folder; if "
            "the build needs some, name the wheels instead of --all, without -j and --executor"
        )


def _check(order: BuildOrder, choices: Sequence[WheelToBuild], *, is_sdist_wanted: bool) -> None:
    """Raise on options that exclude each other."""
    if order.kind == "editable" and (len(choices) > 1 or is_sdist_wanted):
        raise UsageError(
            "an editable wheel is built alone", hint="name one --variant, and no --sdist"
        )
    if is_sdist_wanted and not order.project.is_dir():
        raise UsageError(f"{order.project} is not a folder that --sdist could be made of")


def _requested_variants(request: BuildRequest) -> tuple[list[VariantRequest], ConfigSettings, bool]:
    """Return the variants that options or config settings name, and the remaining settings.

    The third value is whether properties are passed to the build system too, which the setting
    ``variant`` requests.
    """
    texts = [text if "=" in text else f"{text}=" for text in request.config_settings]  # B-14
    settings = read_config_settings(texts)
    variant_settings = {key: value for key, value in settings.items() if "variant" in key}
    variants = requested_variants(
        map(parse_label, request.labels),
        map(parse_property, request.properties),
        null=request.null,
    )
    if request.all and (request.labels or request.properties):
        raise UsageError(
            "--all and single variants exclude each other", hint="leave out one or the other"
        )
    by_settings = read_settings(variant_settings)
    if by_settings is not None:
        if variants or request.all:
            raise UsageError(
                f"variants are given both by options and by the config setting "
                f"{min(variant_settings)}",
                hint="leave out one or the other",
            )
        variants = [by_settings]
    other_settings = {key: value for key, value in settings.items() if key not in variant_settings}
    pass_properties = "variant" in variant_settings
    return variants, other_settings, pass_properties


def _order(request: BuildRequest, environ: Mapping[str, str]) -> BuildOrder:
    """Return the fields that all orders have in common."""
    return BuildOrder(
        request.project,
        (),
        Recipe(),
        kind="editable" if request.is_editable else "wheel",
        providers=dict(map(parse_provider, request.namespace_providers)),
        ask_plugins=request.ask_plugins,
        deadline=request.plugin_timeout,
        epoch=source_date_epoch(environ),
    )


# --- the result --------------------------------------------------------------------------------


def _warnings(wheels: Sequence[BuiltWheel], further: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings about wheels: those of their builds, further ones, unknown providers."""
    unknown = dict.fromkeys(
        namespace
        for wheel in wheels
        for namespace, provider in wheel.validators.items()
        if provider is None
    )
    return (
        *(f"{wheel.path.name}: {note}" for wheel in wheels for note in wheel.notes),
        *further,
        *(
            f"the properties of {namespace} are not validated: its provider is neither built in "
            "nor installed (--ask-plugins installs it)"
            for namespace in unknown
        ),
    )


def _to_mapping(wheel: BuiltWheel, path: Path) -> dict[str, object]:
    return plain_fields(
        wheel,
        "sha256 size label properties flags tuned validators plugins notes",
        method="plain" if wheel.label is None else "converted",
        filename=path.name,
        path=str(path),
    )
