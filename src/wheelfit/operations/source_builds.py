"""Building from source for one command: opened from its request, when something may be built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.install.builds.building import Building
    from wheelfit.install.builds.environments import IsolatedPlaces, OwnPlaces
    from wheelfit.install.environment import Environment
    from wheelfit.install.plan import Plan
    from wheelfit.operations.asked import Wanted
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.requests import BuildingOptions
    from wheelfit.resolve.candidates import Candidates, ChoicePolicy
    from wheelfit.resolve.request import Asked, GivenWheel
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
    """Return the sources, with what may be built of them.

    :param request: the options of `options.table.requirements.SOURCE_BUILDS` and others.
    :param context: told what is being done.
    :param repository: the sources.
    :param settings: what they were opened by.
    :param environment: whose interpreter builds.
    :param machine: what wheels are chosen for.
    :param policy: how they are chosen.
    :param wanted: what was asked for.
    :param requires_hashes: everything must have a promised hash.
    :param hashes_required_by: who says so besides the user, for errors.
    :param builds_named: whether naming a project is consent to build it.
    :raises UsageError: something cannot be built for another machine; or a setting is none.
    """
    from wheelfit.install.builds.building import Building, BuildPolicy
    from wheelfit.install.builds.cache import BuiltWheels
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
        BuiltWheels(Store(folder)),  # the sources, which have the same one, tell of its faults
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
    """Return what makes the places in which build backends run.

    :param request: the options of `options.table.requirements.SOURCE_BUILDS`.
    :param environ: the environment of the process.
    :param repository: returns where what building needs comes from.
    :param environment: whose interpreter builds.
    :param machine: what wheels are chosen for.
    :param policy: how they are chosen.
    :param wanted: what was asked for.
    :param requires_hashes: everything must have a promised hash.
    :param hashes_required_by: who says so besides the user, for errors.
    :param given: as `wheelfit.install.builds.environments.IsolatedPlaces` has it.
    """
    from wheelfit.install.builds.environments import IsolatedPlaces, OwnPlaces
    from wheelfit.resolve.candidates import Candidates, ChoicePolicy
    from wheelfit.resolve.request import Request

    if request.no_build_isolation:
        return OwnPlaces(environment.interpreter, environment.schemes.scripts, environ)
    # A wish is about what gets installed; how builds are told apart holds here too.
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
    """Return what is wanted as wheels only, with pip's words for all and for none."""
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
    """Read ``KEY=VALUE``; a key that is there again has a list of values.

    :param texts: as they were given.
    :raises UsageError: one is something else.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--config-settings {text!r} sets nothing", hint="write KEY=VALUE")
        found.setdefault(key.strip(), []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def build_planned(planned: Plan, building: Building | None, candidates: Candidates) -> bool:
    """Build what a plan has and is not there yet; tell whether anything was.

    Afterwards the choice must be made anew: a wheel that is there is judged by itself.

    :param planned: what shall be installed.
    :param building: builds it; None where nothing can be built.
    :param candidates: forget what was made up about it.
    :raises BuildFailed: a backend failed.
    """
    unbuilt = [pin for pin in planned.install if building and building.is_unbuilt(pin.file)]
    for pin in unbuilt:
        if building is not None:
            building.build(pin.file)
            candidates.look_again(pin.name)
    return bool(unbuilt)
