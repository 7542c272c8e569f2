"""Builds from source for one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.installation.builds.building import Building
    from wheelfit.installation.builds.environments import IsolatedPlaces, OwnPlaces
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.plan import Plan
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.requests import BuildingOptions
    from wheelfit.operations.requirements import Wanted
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy
    from wheelfit.resolution.request import Asked, GivenWheel
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import SourceSettings


def open_building(
    request: BuildingOptions,
    context: Context,
    repository: Repository,
    settings: SourceSettings,
    environment: Environment,
    machine: ChosenMachine,
    policy: ChoicePolicy,
    wanted: Wanted,
    *,
    requires_hashes: bool,
    hashes_required_by: str,
    builds_named: bool = True,
) -> Building:
    """Return the sources, with the wheels that may be built of them.

    :param request: the projects that may be built, and the settings of their backends.
    :param context: the surroundings.
    :param repository: the sources.
    :param settings: the settings of the sources.
    :param environment: its interpreter builds.
    :param machine: the machine for which wheels are chosen.
    :param policy: the rules by which they are chosen.
    :param wanted: the requirements.
    :param requires_hashes: whether every file must have a promised hash.
    :param hashes_required_by: the configuration that requires hashes, for errors; empty: none.
    :param builds_named: whether naming a project is consent to build it.
    :raises UsageError: the machine is not this one, or a setting is not valid.
    """
    from wheelfit.installation.builds.building import Building, BuildPolicy
    from wheelfit.installation.builds.cache import BuiltWheels
    from wheelfit.operations.cache_folder import cache_folder
    from wheelfit.operations.scratch import scratch_folder
    from wheelfit.sources.cache import Store

    interpreter, target = environment.interpreter, environment.target()
    if tuple(machine.target.tags) != tuple(target.tags):
        raise UsageError(
            f"nothing can be built for {machine.name}: building is done where it will run",
            hint="leave out --for, or build a wheel there and name that",
        )
    places = open_places(
        request,
        context.environ,
        lambda: building,
        environment,
        machine,
        policy,
        wanted,
        requires_hashes=requires_hashes,
        hashes_required_by=hashes_required_by,
    )
    folder = cache_folder(request.cache_dir, context.environ) if settings.cache else None
    building = Building(
        repository,
        places,
        BuiltWheels(Store(folder)),  # the sources have the same folder, and warn of its faults
        BuildPolicy(
            frozenset(_project(name, "--allow-source") for name in request.allow_source),
            settings=read_config_settings(request.config_settings),
            target=(
                interpreter.implementation,
                *map(str, (*interpreter.version, interpreter.tags[0])),
            ),
            never=frozenset(_project(name, "--only-binary") for name in _never(request, wanted)),
            requires_hashes=requires_hashes,
            offline=request.offline,
            builds_named=builds_named,
        ),
        environ=context.environ,
        scratch=scratch_folder,
        tell=context.reporter.note,
        echo=context.reporter.say if context.reporter.wants_details else None,
    )
    return building


def open_places(
    request: BuildingOptions,
    environ: Mapping[str, str],
    repository: Callable[[], Repository],
    environment: Environment,
    machine: ChosenMachine,
    policy: ChoicePolicy,
    wanted: Wanted,
    *,
    requires_hashes: bool,
    hashes_required_by: str,
    given: Callable[[Asked], GivenWheel | None] | None = None,
) -> IsolatedPlaces | OwnPlaces:
    """Return the environments in which build backends run.

    :param request: whether builds are isolated.
    :param environ: environment variables.
    :param repository: returns the sources of build requirements.
    :param environment: its interpreter builds.
    :param machine: the machine for which wheels are chosen.
    :param policy: the rules by which they are chosen.
    :param wanted: the requirements, for their constraints.
    :param requires_hashes: whether every file must have a promised hash.
    :param hashes_required_by: the configuration that requires hashes, for errors; empty: none.
    :param given: returns the wheel of a build requirement with a URL, as
        `wheelfit.installation.builds.environments.IsolatedPlaces` needs it; None: there are none.
    """
    from wheelfit.installation.builds.environments import IsolatedPlaces, OwnPlaces
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy
    from wheelfit.resolution.request import Request

    if request.no_build_isolation:
        return OwnPlaces(environment.interpreter, environment.schemes.scripts, environ)
    # Preferences are about what gets installed; rules about providers and metadata count here too.
    rule = ChoicePolicy(providers=policy.providers, metadata=policy.metadata, hashes=policy.hashes)
    return IsolatedPlaces(
        environment.interpreter,
        lambda: Candidates(
            repository(),
            environment.target(),
            machine.detector,
            rule,
            user_lists=machine.user_lists,
        ),
        environ,
        Request(
            constraints=wanted.constraints,
            require_hashes=requires_hashes,
            hashes_required_by=hashes_required_by,
        ),
        given,
    )


def _never(request: BuildingOptions, wanted: Wanted) -> list[str]:
    """Return the projects wanted as wheels only; ``:all:`` and ``:none:`` mean what pip means."""
    names: list[str] = []
    for text in (*wanted.only_binary, *request.only_binary):
        for name in map(str.strip, text.split(",")):
            names = [] if name == ":none:" else [*names, name]
    return [name for name in names if name]


def _project(text: str, where: str) -> str:
    from packaging.utils import InvalidName, canonicalize_name

    try:
        return text if text == ":all:" else canonicalize_name(text, validate=True)
    except InvalidName:
        raise UsageError(
            f"{text[:80]!r} is no name of a project", where=where, hint="name it alone"
        ) from None


def read_config_settings(texts: Sequence[str]) -> Mapping[str, str | Sequence[str]]:
    """Parse settings of a build backend; a key that occurs again has a list of values.

    :param texts: each ``KEY=VALUE``.
    :raises UsageError: one is not of that form.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--config-settings {text!r} sets nothing", hint="write KEY=VALUE")
        found.setdefault(key.strip(), []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def build_planned(planned: Plan, building: Building | None, candidates: Candidates) -> bool:
    """Build the wheels of a plan that do not exist yet, and return whether there were any.

    Afterwards the choice must be made anew, for a wheel is judged by its own metadata.

    :param planned: the plan.
    :param building: builds wheels; None where none can be built.
    :param candidates: forget what was assumed about those wheels.
    :raises BuildFailed: a backend failed.
    """
    unbuilt = [pin for pin in planned.install if building and building.is_unbuilt(pin.file)]
    for pin in unbuilt:
        if building is not None:
            building.build(pin.file)
            candidates.look_again(pin.name)
    return bool(unbuilt)
