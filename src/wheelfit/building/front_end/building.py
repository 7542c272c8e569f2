"""Builds of a project's wheels by orders.

An order and its result are plain data, so that it can be carried out in another process. Files are
written only below the given folder, and by the backend in its project.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wheelfit.building.front_end.backend_settings import (
    DIALECTS,
    afresh,
    dialect_of,
    handed_to_meson,
)
from wheelfit.building.front_end.build_environment import look_at
from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel, TunedParts
from wheelfit.building.front_end.finishing import (
    CURRENT,
    finish,
    look_into,
    with_dependencies,
    with_exports,
    without_traces,
)
from wheelfit.building.front_end.flags import (
    changes_processor_code,
    flags_of,
    notes_on_given_flags,
    with_flags,
)
from wheelfit.building.front_end.source import open_source
from wheelfit.building.front_end.toolchains.c_family import with_mapped_folder
from wheelfit.building.front_end.toolchains.go import GO
from wheelfit.building.front_end.toolchains.inputs import BUILD_SYSTEMS, BuildInputs
from wheelfit.building.front_end.toolchains.rust import RUST, compiled_crates
from wheelfit.building.provider_answers import ask_providers, plugin_names, plugin_requirements
from wheelfit.building.repairing import needs_no_repair, repair_wheel
from wheelfit.core.durations import duration_in_words
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import EMPTY
from wheelfit.errors import BuildFailed
from wheelfit.projects.backend import Backend, BuildEnvironment, Children
from wheelfit.wheels.binaries.optimisation import require_readers
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, InvalidDocument
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wheelfit.building.front_end.backend_settings import BackendSettings
    from wheelfit.building.front_end.build_environment import BuildEnvironmentContents
    from wheelfit.building.front_end.finishing import RawWheel
    from wheelfit.building.front_end.recipes import Recipe
    from wheelfit.building.front_end.source import Source
    from wheelfit.building.front_end.toolchains.rust import CompiledCrates
    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.building.provider_answers import ProviderAnswers
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.properties import PropertySet
    from wheelfit.projects.backend import ConfigSettings


class ExtensibleEnvironment(BuildEnvironment, Protocol):
    """An environment in which a backend runs and that takes further packages."""

    @property
    def machine(self) -> Mapping[str, str]:
        """Marker variables of the interpreter."""

    def add(self, requirements: Iterable[str], needing: str) -> None:
        """Install the build requirements."""


class EnvironmentFactory(Protocol):
    """A factory of build environments."""

    def make(self, folder: Path) -> ExtensibleEnvironment:
        """Return a place for one project."""


@dataclass(frozen=True, slots=True)
class ProjectBuilder:
    """A builder of wheels and source distributions.

    Each folder that a method takes exists, and is for all written files.
    """

    places: EnvironmentFactory
    environ: Mapping[str, str] = field(hash=False)
    """The environment of the process; plugins see little of it (P-35)."""
    tell: Callable[[str], None] = lambda _: None
    echo: Callable[[str], None] | None = None
    """Called with every line that a backend prints; None: the log alone gets them."""

    def wheels(self, order: BuildOrder, folder: Path) -> tuple[BuiltWheel, ...]:
        """Build the wheels of an order, and return them in its sequence.

        :raises BuildFailed: the backend failed, or built another wheel than requested.
        :raises FileProblem: there is no project, or not enough space.
        :raises InvalidConfiguration: the backend has no settings for the order, or the project has
            no table to make a variant from.
        :raises InvalidDocument: a variant is invalid, or unknown to a provider; nothing was built.
        :raises NeedsExtra: compilers get flags, and the packages that compare their code are not
            installed.
        :raises WheelfitError: a build requirement is not available.
        """
        with self._opened(order, folder) as work:
            return work.wheels()

    def sdist(self, project: Path, recipe: Recipe, folder: Path) -> Path:
        """Build a source distribution and return its path.

        :raises WheelfitError: as for `wheels`.
        """
        with self._opened(BuildOrder(project, (), recipe, kind="sdist"), folder) as work:
            return work.sdist()

    @contextmanager
    def _opened(self, order: BuildOrder, folder: Path) -> Iterator[_Work]:
        """Open an order; every process of its backend is ended after the block."""
        children = Children()
        try:
            source = open_source(order.project, folder.resolve(), order.providers)
            yield _Work(self, order, folder.resolve(), children, source)
        except OSError as error:
            raise FileProblem(
                f"building cannot go on: {error.strerror or error}",
                where=str(error.filename) if error.filename else None,
                hint="make room, or set TMPDIR to another folder",
            ) from None
        finally:
            children.close()


class _Where(NamedTuple):
    """A build environment with other variables."""

    python: Path
    environ: Mapping[str, str]


_FIXED = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"}
"""Variables of backends for reproducible builds (``SOURCE_DATE_EPOCH``)."""


@dataclass(slots=True)
class _Work:
    """An order in progress."""

    builder: ProjectBuilder
    order: BuildOrder
    folder: Path
    children: Children
    source: Source
    plugins: tuple[str, ...] = ()
    """Requirements besides those of the backend."""

    def wheels(self) -> tuple[BuiltWheel, ...]:
        order = self.order
        variants = [one for one in order.choices if one.label is not None]
        used = sorted({name for variant in variants for name in variant.properties.namespaces})
        table = self.source.table
        if variants and table is not None:
            self.plugins = plugin_requirements(table, used, validate=order.ask_plugins)
        elif variants:
            raise InvalidConfiguration(
                "the project has no [variant] table, from which variants are made",
                where=self.source.where,
                hint="write one, or give --provider NAMESPACE=REQUIREMENT",
            )
        place = self._place()
        look = self._look(place)
        answers: ProviderAnswers | None = None
        documents: dict[WheelToBuild, VariantDocument] = {}
        if variants and table is not None:
            answers = ask_providers(
                table,
                used,
                validate=order.ask_plugins,
                python=place.python,
                machine=place.machine,
                packages=look.packages,
                environ=self.builder.environ,
                deadline=order.deadline,
                tell=self.builder.tell,
            )
            documents = self._documents(answers, variants)  # all, before anything is built
        built = self._built(place, look)
        return tuple(
            self._finished(
                choice, *built[choice], documents.get(choice), answers, look, place.machine
            )
            for choice in order.choices
        )

    def sdist(self) -> Path:
        place = self._place()
        recipe = self.order.recipe
        inputs = BuildInputs({**place.environ, **recipe.environment}, recipe.config_settings)
        self._prepare(place, inputs)
        return self._run(place, inputs)[0]

    def _new_folder(self, what: str) -> Path:
        return Path(mkdtemp(prefix=f"{what}-", dir=self.folder))

    def _place(self) -> ExtensibleEnvironment:
        """Return a new place that has the backend, and the plugins."""
        self.builder.tell(f"preparing to build {self.source.name}")
        place = self.builder.places.make(self._new_folder("place"))
        settings = self.order.recipe.config_settings
        place.add(self._backend(place, settings, place.environ).requires, self.source.name)
        if self.plugins:
            place.add(self.plugins, f"variants of {self.source.name}")
        return place

    def _look(self, place: ExtensibleEnvironment) -> BuildEnvironmentContents:
        table = self.source.table
        names = () if table is None else plugin_names(table)
        return look_at(place, self.source, self._asked_dialect(), {*BUILD_SYSTEMS, *names})

    def _documents(
        self, answers: ProviderAnswers, variants: Iterable[WheelToBuild]
    ) -> dict[WheelToBuild, VariantDocument]:
        found: dict[WheelToBuild, VariantDocument] = {}
        for choice in variants:
            if choice.label is None:
                continue
            try:
                found[choice] = answers.document(choice.label, choice.properties, self.builder.tell)
            except InvalidDocument as error:
                error.where = self.source.where
                error.hint = error.hint or "nothing was built"
                raise
        return found

    def _built(
        self, place: ExtensibleEnvironment, look: BuildEnvironmentContents
    ) -> dict[WheelToBuild, tuple[RawWheel, str]]:
        """Return the backend's build of each wheel, and its kind."""
        choices = self.order.choices
        dialect = self._dialect(look) if any(one.label is not None for one in choices) else None
        found: dict[WheelToBuild, tuple[RawWheel, str]] = {}
        converted: list[WheelToBuild] = []
        for choice in choices:
            settings = None
            if dialect is not None and choice.label is not None:
                hand_over = bool(self.order.recipe.hand_over)
                settings = dialect.settings(choice, hand_over=hand_over)
                if settings is None:
                    self.builder.tell(f"{look.backend} cannot be asked for {choice}")
            raw = None
            if settings is not None and dialect is not None:
                raw = self._native(self._place(), look, dialect, choice, settings)
            if raw is None:
                converted.append(choice)
            else:
                found[choice] = raw, "native"
        if converted:
            raw = self._plain(place, look, converted)
            found |= {
                choice: (raw, "plain" if choice.label is None else "converted")
                for choice in converted
            }
        return found

    def _asked_dialect(self) -> BackendSettings | None:
        if self.order.dialect == "auto":
            return dialect_of(self.source.backend)
        return DIALECTS.get(self.order.dialect)

    def _dialect(self, look: BuildEnvironmentContents) -> BackendSettings | None:
        """Return the backend's settings for variants; None: it has none (B-17)."""
        dialect = self._asked_dialect()
        if dialect is None or self.order.dialect != "auto":
            return dialect
        if not look.knows_variants:
            return None
        if not dialect.is_switched_on(self.source.at, self.order.recipe.config_settings):
            switch = ".".join(dialect.switch)
            self.builder.tell(f"{look.backend} builds variants only where {switch} = true")
            return None
        return dialect

    def _native(
        self,
        place: ExtensibleEnvironment,
        look: BuildEnvironmentContents,
        dialect: BackendSettings,
        choice: WheelToBuild,
        asked: ConfigSettings,
    ) -> RawWheel | None:
        """Build a variant by the backend itself; None: a module that it calls is missing."""
        recipe = self.order.recipe
        settings = {**recipe.config_settings, **asked}
        inputs = self._inputs(settings, choice.properties, place, look)
        self._prepare(place, inputs)
        if dialect.calls is not None and not self._look(place).has_what_it_calls:
            self.builder.tell(
                f"{look.backend} cannot build variants: the {dialect.calls[0]} that it asks for "
                "lacks what it calls"
            )
            return None
        words = " ".join(f"{key}={value}" for key, value in asked.items())
        self.builder.tell(f"building {choice} with {look.backend}: {words}")
        raw = self._raw(*self._run(place, inputs), choice)
        hint = "--dialect none builds a plain wheel and converts it"
        if raw.document is None or raw.label is None:
            message = f"{look.backend} was to build {choice} and built a plain wheel"
            raise BuildFailed(message, where=raw.path.name, hint=hint)
        properties = raw.document.properties(raw.label)
        if properties != choice.properties:
            message = f"{look.backend} was to build {choice} and built another variant"
            note = f"asked for: {choice.properties or 'nothing'}\nbuilt: {properties or 'nothing'}"
            raise BuildFailed(message, where=raw.path.name, note=note, hint=hint)
        if raw.document.layout != CURRENT:
            self.builder.tell(f"its document of layout {raw.document.layout} is written anew")
        return raw

    def _plain(
        self,
        place: ExtensibleEnvironment,
        look: BuildEnvironmentContents,
        choices: list[WheelToBuild],
    ) -> RawWheel:
        """Build a plain wheel, from which several wheels are made."""
        recipe = self.order.recipe
        settings = dict(recipe.config_settings)
        properties = choices[0].properties  # those of an order with flags are all equal
        if recipe.hand_over and any(choice.label is not None for choice in choices):
            if self.source.backend != "mesonpy":
                raise InvalidConfiguration(
                    f"{look.backend} has no way to hand properties to a build system",
                    hint="set what it reads in [tool.wheelfit.build.variants.LABEL]",
                )
            given = settings.get("setup-args", [])
            given = [given] if isinstance(given, str) else list(given)
            settings["setup-args"] = [*given, handed_to_meson(properties)]
        many = "" if len(choices) == 1 else f" for {len(choices)} wheels"
        self.builder.tell(f"building a plain wheel{many} with {look.backend}")
        inputs = self._inputs(settings, properties, place, look)
        self._prepare(place, inputs)
        raw = self._raw(*self._run(place, inputs), choices[0])
        if raw.label is not None:
            raise BuildFailed(  # B-10
                f"{look.backend} was to build a plain wheel and built variant {raw.label}",
                where=raw.path.name,
                hint="see what its settings and the environment say about variants",
            )
        return raw

    def _raw(self, path: Path, log: Path, choice: WheelToBuild) -> RawWheel:
        """Return the built wheel, with the additions of the project."""
        raw = look_into(path, self.source.name)
        if self.order.recipe.flags:
            text = log.read_text("utf-8", "replace")
            flags = RUST.words(choice.properties, {})
            raw = replace(raw, crates=compiled_crates(text, flags))
        self._check_release(raw)
        order = self.order
        if order.repair and order.kind == "wheel" and not needs_no_repair(path):
            self.builder.tell(f"repairing {path.name}")
            path = repair_wheel(
                path, order.repair, self._new_folder("repaired"), self.builder.environ
            )
            raw = replace(look_into(path, self.source.name), crates=raw.crates)
        if order.dependencies:
            folder = self._new_folder("needing")
            path = with_dependencies(path, folder, order.dependencies, order.epoch)
        if self.source.exports is not None:
            folder = self._new_folder("promising")
            path = with_exports(path, folder, self.source.exports, order.epoch)
        if order.epoch is not None:
            path = without_traces(path, self._new_folder("alike"), order.epoch)
        return replace(raw, path=path)

    def _check_release(self, raw: RawWheel) -> None:
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
        place: ExtensibleEnvironment,
        look: BuildEnvironmentContents,
    ) -> BuildInputs:
        """Return the inputs of the backend, with the requested flags."""
        recipe = self.order.recipe
        derived = properties if recipe.flags else EMPTY
        if (derived or recipe.words) and sys.platform.startswith("linux"):
            require_readers()  # the result is compared with the plain wheel, and with its label
        fixed = {} if self.order.epoch is None else _FIXED
        inputs = BuildInputs(
            {**place.environ, **fixed, **recipe.environment},
            settings,
            place.machine,
            self.source.backend,
            self.source.folder,
            look.compiler,
            frozenset(name for name in BUILD_SYSTEMS if look.packages.get(name)),
            frozenset(recipe.environment),
        )
        if self.order.epoch is not None:
            inputs = with_mapped_folder(inputs)
        return with_flags(inputs, derived, recipe.words or ())

    def _backend(
        self,
        place: ExtensibleEnvironment,
        settings: ConfigSettings,
        environ: Mapping[str, str],
        log: Path | None = None,
    ) -> Backend:
        return Backend(
            self.source.folder,
            self.source.name,
            _Where(place.python, environ),
            settings=settings,
            log=log or self._log(),
            children=self.children,
            echo=self.builder.echo,
        )

    def _log(self) -> Path:
        """Return the path of a log for the backend's output."""
        return self._new_folder("log") / "build.log"

    def _prepare(self, place: ExtensibleEnvironment, inputs: BuildInputs) -> None:
        """Install the further build requirements for some inputs (B-12)."""
        backend = self._backend(place, inputs.settings, inputs.environ)
        place.add(backend.further_requires(self.order.kind), self.source.name)

    def _run(self, place: ExtensibleEnvironment, inputs: BuildInputs) -> tuple[Path, Path]:
        """Run the build backend, and return the paths of the artifact and of the log."""
        log = self._log()
        kind, began = self.order.kind, time.monotonic()
        if kind == "wheel":
            inputs = afresh(self.source, self._new_folder("objects"), inputs)
        backend = self._backend(place, inputs.settings, inputs.environ, log)
        path = backend.build(kind, self._new_folder("built"))
        self.builder.tell(f"built {path.name} in {duration_in_words(time.monotonic() - began)}")
        return path, log

    def _finished(
        self,
        choice: WheelToBuild,
        raw: RawWheel,
        how: str,
        document: VariantDocument | None,
        answers: ProviderAnswers | None,
        look: BuildEnvironmentContents,
        machine: Mapping[str, str],
    ) -> BuiltWheel:
        order = self.order
        folder = self._new_folder("wheel")
        path, notes = finish(
            raw, choice, document, folder, name=self.source.name, epoch=order.epoch
        )
        digest = sha256_of_file(path)
        used = [RUST] if raw.crates is not None else []
        used += [GO] if (self.source.folder / "go.mod").exists() else []
        derived = flags_of(choice.properties, machine, used) if order.recipe.flags else ()
        return BuiltWheel(
            path,
            choice.label,
            choice.properties,
            how,
            look.backend,
            (*derived, *(order.recipe.words or ())),
            {} if answers is None else answers.validated(choice.properties),
            {} if answers is None else dict(answers.plugins),
            (*notes, *_untuned(raw.crates, choice), *self._notes_on_flags(path, choice)),
            raw.content,
            digest,
            path.stat().st_size,
            TunedParts(crates=raw.crates),
        )

    def _notes_on_flags(self, path: Path, choice: WheelToBuild) -> Iterator[str]:
        """Yield the flags of the packager, or of the project, that contradict a wheel."""
        recipe = self.order.recipe
        if needs_no_repair(path):
            return  # nothing was compiled
        yield from notes_on_given_flags(
            {**self.builder.environ, **recipe.environment},
            choice.properties,
            adds_level=bool(recipe.flags) and changes_processor_code(choice.properties),
        )


def _untuned(crates: CompiledCrates | None, choice: WheelToBuild) -> Iterator[str]:
    """Yield the crates compiled without the flags of a variant."""
    if crates is not None and crates.others:
        (flag,) = RUST.words(choice.properties, {})
        yield (
            f"cargo compiled {len(crates.others)} of {crates.total} crates without {flag} "
            f"({listed(crates.others)}), which are as in a plain wheel: look for rustflags and "
            "target-cpu in the project"
        )
