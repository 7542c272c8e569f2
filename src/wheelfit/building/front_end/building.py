"""Builds of a project's wheels.

A build order and its result are plain data, so that another process can build. Files are written
only below the folder of an order, and by the backend in its project.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from wheelfit.building.front_end.build_environment import examine_environment
from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel, TunedParts
from wheelfit.building.front_end.finishing import (
    finish_wheel,
    read_built_wheel,
    reproducible_copy,
    with_dependencies,
    with_exports,
)
from wheelfit.building.front_end.flags import (
    changes_processor_code,
    flags_of,
    notes_on_packager_flags,
    with_flags,
)
from wheelfit.building.front_end.separate_objects import with_separate_objects
from wheelfit.building.front_end.source import Source, open_source
from wheelfit.building.front_end.toolchains.c_family import with_mapped_folder
from wheelfit.building.front_end.toolchains.go import GO
from wheelfit.building.front_end.toolchains.inputs import BUILD_SYSTEMS, BuildInputs
from wheelfit.building.front_end.toolchains.rust import RUST, CompiledCrates, compiled_crates
from wheelfit.building.provider_answers import ask_providers, plugin_names, plugin_requirements
from wheelfit.building.repairing import is_for_any_platform, repair_wheel
from wheelfit.core.durations import duration_in_words
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.errors import BuildFailed
from wheelfit.projects.backend import Backend, BackendProcesses, BuildEnvironment, ConfigSettings
from wheelfit.wheels.binaries.optimisation import require_readers
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, InvalidDocument, os_reason
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wheelfit.building.front_end.build_environment import BuildEnvironmentContents
    from wheelfit.building.front_end.finishing import BackendWheel
    from wheelfit.building.front_end.recipes import Recipe
    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.building.provider_answers import ProviderAnswers
    from wheelfit.core.document import VariantDocument


@dataclass(frozen=True, slots=True)
class ProjectBuilder:
    """A builder of wheels and source distributions.

    The folder that a method takes must exist; all files are written below it.
    """

    make_environment: Callable[[Path], BuildEnvironment]
    """Returns a new environment in a folder."""
    environ: Mapping[str, str] = field(hash=False)
    """The environment of the process; plugins see little of it (P-35)."""
    report: Callable[[str], None] = lambda _: None
    """Called with each step of a build, in one line."""
    echo: Callable[[str], None] | None = None
    """Called with every line that a backend prints; None: lines go to the log only."""

    def wheels(self, order: BuildOrder, folder: Path) -> tuple[BuiltWheel, ...]:
        """Build the wheels of an order, and return them in the order of its choices.

        :raises BuildFailed: the backend failed, or built another wheel than requested.
        :raises FileProblem: there is no project, or not enough space.
        :raises InvalidConfiguration: the build system cannot get the properties, or the project has
            no table to make a variant from.
        :raises InvalidDocument: a variant is invalid, or unknown to a provider; nothing was built.
        :raises NeedsExtra: compilers get flags, and the packages that compare their code are not
            installed.
        :raises WheelfitError: a build requirement is not available.
        """
        with self._open(order, folder) as work:
            return work.wheels()

    def sdist(self, project: Path, recipe: Recipe, folder: Path) -> Path:
        """Build a source distribution and return its path.

        :raises WheelfitError: as for `wheels`.
        """
        with self._open(BuildOrder(project, (), recipe, kind="sdist"), folder) as work:
            return work.sdist()

    @contextmanager
    def _open(self, order: BuildOrder, folder: Path) -> Iterator[_OpenOrder]:
        """Open an order; every process of its backend is ended after the block."""
        children = BackendProcesses()
        try:
            source = open_source(order.project, folder.resolve(), order.providers)
            yield _OpenOrder(self, order, folder.resolve(), children, source)
        except OSError as error:
            raise FileProblem(
                f"the build cannot continue: {os_reason(error)}",
                where=str(error.filename) if error.filename else None,
                hint="make room, or set TMPDIR to another folder",
            ) from None
        finally:
            children.close()


_REPRODUCIBLE_VARIABLES = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"}
"""Environment variables of backends if ``SOURCE_DATE_EPOCH`` requests reproducible builds."""


@dataclass(slots=True)
class _OpenOrder:
    """A build order in progress."""

    builder: ProjectBuilder
    order: BuildOrder
    folder: Path
    children: BackendProcesses
    source: Source
    plugins: tuple[str, ...] = ()
    """Requirements besides those of the backend."""

    def wheels(self) -> tuple[BuiltWheel, ...]:
        """Build a plain wheel, and make each wheel of the order from it."""
        order = self.order
        variants = [choice for choice in order.choices if choice.label is not None]
        namespaces = sorted(
            {name for variant in variants for name in variant.properties.namespaces}
        )
        table = self.source.table
        if variants and table is not None:
            self.plugins = plugin_requirements(table, namespaces, validate=order.ask_plugins)
        elif variants:
            raise InvalidConfiguration(
                "the project has no [variant] table, from which variants are made",
                where=self.source.where,
                hint="write one with `wheelfit init`, or give --provider NAMESPACE[=REQUIREMENT]",
            )
        environment = self._new_environment()
        contents = self._examine(environment)
        answers: ProviderAnswers | None = None
        documents: dict[WheelToBuild, VariantDocument] = {}
        if variants and table is not None:
            answers = ask_providers(
                table,
                namespaces,
                validate=order.ask_plugins,
                python=environment.python,
                machine=environment.marker_environment,
                packages=contents.packages,
                environ=self.builder.environ,
                deadline=order.deadline,
                note=self.builder.report,
            )
            documents = self._documents(answers)  # all, before anything is built
        raw = self._build_plain(environment, contents)
        return tuple(
            self._finish(
                choice,
                raw,
                documents.get(choice),
                answers,
                contents,
                environment.marker_environment,
            )
            for choice in order.choices
        )

    def sdist(self) -> Path:
        """Build the source distribution."""
        environment = self._new_environment()
        recipe = self.order.recipe
        inputs = BuildInputs({**environment.environ, **recipe.environment}, recipe.config_settings)
        self._prepare(environment, inputs)
        return self._run(environment, inputs)[0]

    def _new_folder(self, what: str) -> Path:
        return Path(mkdtemp(prefix=f"{what}-", dir=self.folder))

    def _new_environment(self) -> BuildEnvironment:
        """Return a new environment with the backend and the plugins."""
        self.builder.report(f"preparing to build {self.source.name}")
        environment = self.builder.make_environment(self._new_folder("environment"))
        settings = self.order.recipe.config_settings
        environment.add(
            self._backend(environment, settings, environment.environ).requires, self.source.name
        )
        if self.plugins:
            environment.add(self.plugins, f"variants of {self.source.name}")
        return environment

    def _examine(self, environment: BuildEnvironment) -> BuildEnvironmentContents:
        table = self.source.table
        names = () if table is None else plugin_names(table)
        return examine_environment(environment, self.source, {*BUILD_SYSTEMS, *names})

    def _documents(self, answers: ProviderAnswers) -> dict[WheelToBuild, VariantDocument]:
        """Return the document of each variant."""
        documents: dict[WheelToBuild, VariantDocument] = {}
        for choice in self.order.choices:
            if choice.label is None:
                continue
            try:
                documents[choice] = answers.document(
                    choice.label, choice.properties, self.builder.report
                )
            except InvalidDocument as error:
                error.where = self.source.where
                error.hint = error.hint or "nothing was built"
                raise
        return documents

    def _build_plain(
        self, environment: BuildEnvironment, contents: BuildEnvironmentContents
    ) -> BackendWheel:
        """Build a plain wheel, from which the wheels of the order are made (B-17)."""
        choices, recipe = self.order.choices, self.order.recipe
        settings = dict(recipe.config_settings)
        properties = choices[0].properties  # those of an order with flags are all equal
        if recipe.pass_properties and any(choice.label is not None for choice in choices):
            if self.source.backend != "mesonpy":
                raise InvalidConfiguration(
                    f"{contents.backend} cannot pass properties to a build system",
                    hint="configure the build system in [tool.wheelfit.build.variants.LABEL]",
                )
            setup_args = settings.get("setup-args", [])
            setup_args = [setup_args] if isinstance(setup_args, str) else list(setup_args)
            listed_properties = ", ".join(f"'{property_}'" for property_ in properties)
            settings["setup-args"] = [*setup_args, f"-Dvariant=[{listed_properties}]"]
        purpose = "" if len(choices) == 1 else f" for {len(choices)} wheels"
        self.builder.report(f"building a plain wheel{purpose} with {contents.backend}")
        inputs = self._inputs(settings, properties, environment, contents)
        self._prepare(environment, inputs)
        return self._complete(*self._run(environment, inputs), properties)

    def _complete(self, path: Path, log: Path, properties: PropertySet) -> BackendWheel:
        """Repair a built wheel, and add the configured dependencies and ABI exports."""
        raw = read_built_wheel(path, self.source.name)
        if self.order.recipe.flags:
            flags = RUST.words(properties, {})
            raw = replace(raw, crates=compiled_crates(log.read_text("utf-8", "replace"), flags))
        self._check_release(raw)
        order = self.order
        if order.repair and order.kind == "wheel" and not is_for_any_platform(path):
            self.builder.report(f"repairing {path.name}")
            path = repair_wheel(
                path, order.repair, self._new_folder("repaired"), self.builder.environ
            )
            raw = replace(read_built_wheel(path, self.source.name), crates=raw.crates)
        if order.dependencies:
            folder = self._new_folder("dependencies")
            path = with_dependencies(path, folder, order.dependencies, order.epoch)
        if self.source.exports is not None:
            folder = self._new_folder("exports")
            path = with_exports(path, folder, self.source.exports, order.epoch)
        if order.epoch is not None:
            path = reproducible_copy(path, self._new_folder("reproducible"), order.epoch)
        return replace(raw, path=path)

    def _check_release(self, raw: BackendWheel) -> None:
        """Check that a wheel is of the built project, as far as that declares name and version."""
        name, version = self.source.release
        filename = parse_wheel_filename(raw.path.name)
        if name not in (None, filename.name) or version not in (None, filename.version):
            raise BuildFailed(
                f"the backend of {self.source.name} built a wheel of {filename.name} "
                f"{filename.version}",
                where=raw.path.name,
                note=f"it should be {name or filename.name} {version or filename.version}",
            )

    def _inputs(
        self,
        settings: ConfigSettings,
        properties: PropertySet,
        environment: BuildEnvironment,
        contents: BuildEnvironmentContents,
    ) -> BuildInputs:
        """Return the inputs of the backend, with the requested flags."""
        recipe = self.order.recipe
        properties_with_flags = properties if recipe.flags else EMPTY
        if (properties_with_flags or recipe.further_flags) and sys.platform.startswith("linux"):
            require_readers()  # the result is compared with the plain wheel, and with its label
        fixed = {} if self.order.epoch is None else _REPRODUCIBLE_VARIABLES
        inputs = BuildInputs(
            {**environment.environ, **fixed, **recipe.environment},
            settings,
            environment.marker_environment,
            self.source.backend,
            self.source.folder,
            contents.compiler,
            frozenset(name for name in BUILD_SYSTEMS if contents.packages.get(name)),
            frozenset(recipe.environment),
        )
        if self.order.epoch is not None:
            inputs = with_mapped_folder(inputs)
        return with_flags(inputs, properties_with_flags, recipe.further_flags or ())

    def _backend(
        self,
        environment: BuildEnvironment,
        settings: ConfigSettings,
        environ: Mapping[str, str],
        log: Path | None = None,
    ) -> Backend:
        return Backend(
            self.source.folder,
            self.source.name,
            environment.python,
            environ,
            settings=settings,
            log=log or self._log(),
            children=self.children,
            echo=self.builder.echo,
        )

    def _log(self) -> Path:
        """Return the path of a log for the backend's output."""
        return self._new_folder("log") / "build.log"

    def _prepare(self, environment: BuildEnvironment, inputs: BuildInputs) -> None:
        """Install the further build requirements for some inputs (B-12)."""
        backend = self._backend(environment, inputs.settings, inputs.environ)
        environment.add(backend.requires_for_build(self.order.kind), self.source.name)

    def _run(self, environment: BuildEnvironment, inputs: BuildInputs) -> tuple[Path, Path]:
        """Run the build backend, and return the paths of the artifact and of the log."""
        log = self._log()
        kind, started = self.order.kind, time.monotonic()
        if kind == "wheel":
            inputs = with_separate_objects(self.source, self._new_folder("objects"), inputs)
        backend = self._backend(environment, inputs.settings, inputs.environ, log)
        path = backend.build(kind, self._new_folder("built"))
        self.builder.report(f"built {path.name} in {duration_in_words(time.monotonic() - started)}")
        return path, log

    def _finish(
        self,
        choice: WheelToBuild,
        raw: BackendWheel,
        document: VariantDocument | None,
        answers: ProviderAnswers | None,
        contents: BuildEnvironmentContents,
        machine: Mapping[str, str],
    ) -> BuiltWheel:
        order = self.order
        folder = self._new_folder("wheel")
        path, notes = finish_wheel(
            raw, choice, document, folder, name=self.source.name, epoch=order.epoch
        )
        digest = sha256_of_file(path)
        used_toolchains = [RUST] if raw.crates is not None else []
        used_toolchains += [GO] if (self.source.folder / "go.mod").exists() else []
        derived = (
            flags_of(choice.properties, machine, used_toolchains) if order.recipe.flags else ()
        )
        return BuiltWheel(
            path,
            choice.label,
            choice.properties,
            contents.backend,
            (*derived, *(order.recipe.further_flags or ())),
            {} if answers is None else answers.validators(choice.properties),
            {} if answers is None else dict(answers.plugins),
            (
                *notes,
                *_crates_without_flags(raw.crates, choice),
                *self._notes_on_flags(path, choice),
            ),
            raw.content,
            digest,
            path.stat().st_size,
            TunedParts(crates=raw.crates),
        )

    def _notes_on_flags(self, path: Path, choice: WheelToBuild) -> Iterator[str]:
        """Yield notes on flags of the environment or the project that contradict the variant."""
        recipe = self.order.recipe
        if is_for_any_platform(path):
            return  # nothing was compiled
        yield from notes_on_packager_flags(
            {**self.builder.environ, **recipe.environment},
            choice.properties,
            adds_level=bool(recipe.flags) and changes_processor_code(choice.properties),
        )


def _crates_without_flags(crates: CompiledCrates | None, choice: WheelToBuild) -> Iterator[str]:
    """Yield a note on crates compiled without the flags of the variant."""
    if crates is not None and crates.others:
        (flag,) = RUST.words(choice.properties, {})
        yield (
            f"cargo compiled {len(crates.others)} of {crates.total} crates without {flag} "
            f"({listed(crates.others)}), as for a plain wheel: look for rustflags and target-cpu "
            "in the project"
        )
