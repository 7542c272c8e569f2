"""A session of a command that chooses wheels, opened from its request."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.installation.builds.repository import BuildingRepository
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.indexes import open_indexes, read_settings, with_family_hints
from wheelfit.operations.machine import ChosenMachine, choose_machine
from wheelfit.operations.pip_rules import read_rules
from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.projects import check_folder_pins
from wheelfit.operations.requests import (
    BoundOptions,
    EnvironmentOptions,
    MachineOptions,
    RequirementOptions,
    ResolutionBuildOptions,
    VariantOptions,
)
from wheelfit.operations.requirements import read_requirements, with_pip_constraints
from wheelfit.operations.source_builds import open_builder, source_policy, with_consent
from wheelfit.resolution.candidates import Candidates
from wheelfit.resolution.request import DirectWheel, ResolutionRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.requirements import RequestedRequirements
    from wheelfit.resolution.resolution import Resolution
    from wheelfit.sources.open import OpenedSources
    from wheelfit.sources.pip_configuration import InstallRules


class FromRequirements(
    RequirementOptions,
    BoundOptions,
    EnvironmentOptions,
    ResolutionBuildOptions,
    MachineOptions,
    VariantOptions,
):
    """A request that resolves requirements."""

    require_hashes: bool = False
    refit: bool = False


class SelectionSession(Struct, frozen=True):
    """The machine, sources and candidates of a choice."""

    environment: Environment
    machine: ChosenMachine
    repository: OpenedSources
    candidates: Candidates
    requirement_set: RequestedRequirements
    rules: InstallRules
    """pip's rules for installing."""
    prereleases: bool
    """Whether pre-releases are allowed, by options, files or pip's configuration."""
    requires_hashes: bool
    """Whether every file must have a given hash, by options, files or pip's configuration."""
    building: BuildingRepository
    """The builder of permitted builds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.building.close()
        self.repository.close()

    def restrict_bridges(self) -> None:
        """Restrict the indexes of bridged families to those with builds for this machine."""

        @cache  # the machine is detected only if a family is needed
        def members_of_machine() -> Callable[[BridgeFamily, FamilyMember], bool]:
            from wheelfit.resolution.bridges import members_for

            return members_for(self.candidates)

        def is_obtainable(family: BridgeFamily, member: FamilyMember) -> bool:
            return members_of_machine()(family, member)

        if self.repository.bridged is not None:
            self.repository.bridged.restrict_members(is_obtainable)

    def wheels(self) -> tuple[DirectWheel, ...]:
        """Return the wheels that the user named by path or URL; projects as wheels to build."""
        environment = self.candidates.target.environment
        return self.requirement_set.wheels + tuple(
            self.building.direct_wheel(source)
            for source in self.requirement_set.sources
            if source.marker is None or source.marker.evaluate(environment)
        )

    def resolution_request(self, *, dependencies: bool) -> ResolutionRequest:
        """Return the resolution request of the session, with nothing installed.

        :param dependencies: whether dependencies are resolved, too.
        """
        return ResolutionRequest(
            requirements=self.requirement_set.requirements,
            wheels=self.wheels(),
            constraints=self.requirement_set.constraints,
            overrides=self.requirement_set.overrides,
            excluded=self.requirement_set.excluded,
            prereleases=self.prereleases,
            dependencies=dependencies,
            require_hashes=self.requires_hashes,
        )

    def resolve(self, request: ResolutionRequest, reporter: Reporter) -> Resolution:
        """Return wheels that meet a request, built from source if the options permit it.

        :raises SourceBuildNotAllowed: a package must be built, and may not be.
        """
        from wheelfit.resolution.resolver import resolve

        return with_consent(
            lambda: resolve(request, self.candidates),
            self.building,
            self.candidates,
            reporter,
            may_ask=False,
        )


def _import_next_modules(*, changes: bool) -> None:
    """Import the modules needed next, which takes as long as an interpreter needs to start."""
    import_module("wheelfit.resolution.resolver")
    if changes:
        import_module("wheelfit.installation.apply")


def open_session(
    request: FromRequirements,
    context: Context,
    *,
    changes: bool,
    may_be_own: bool = True,
    python: Version | None = None,
) -> SelectionSession:
    """Open the session that the options describe; nothing is requested or detected yet.

    :param changes: whether packages will be installed. Otherwise code of a project runs only with
        ``--allow-source`` for its name.
    :param may_be_own: whether the environment of this process is used where there is no other.
    :param python: version of the CPython to choose for; None: the Python of the environment.
    """
    requirement_set = read_requirements(request, context.environ, may_be_empty=request.refit)
    named_projects = (item.requirement.name for item in requirement_set.requirements)
    check_folder_pins(named_projects, request)
    environment = open_environment_of(
        request,
        context.environ,
        may_be_new=True,
        may_be_own=may_be_own,
        note=context.reporter.detail,
        meanwhile=partial(_import_next_modules, changes=changes),
    )
    rules = read_rules(context.environ, environment.interpreter.prefix)
    requirement_set = with_pip_constraints(requirement_set, rules, context.environ)
    if rules.no_binary:
        context.reporter.warn(
            f"{rules.origin_of('no-binary')} is ignored: packages are built from source only if "
            "no wheel fits"
        )
    current = environment.target
    if python is not None:
        from wheelfit.core.host_file import HostFile, HostInterpreter

        current = HostFile(interpreter=HostInterpreter(python)).target(current, current.name)
    machine = choose_machine(request, current, context)
    environment = environment.for_target(machine.target)
    policy = replace(
        with_family_hints(
            choice_policy(request, machine.policy, requirement_set.hashes, requirement_set.labels),
            request,
            context.environ,
        ),
        sources=source_policy(request, requirement_set, rules),
    )
    settings = read_settings(
        request, context.environ, requirement_set.files, prefix=environment.interpreter.prefix
    )
    requires_hashes = (
        request.require_hashes or rules.require_hashes or requirement_set.requires_hashes
    )
    repository = open_indexes(
        request,
        settings,
        context,
        requirement_set.urls_with_logins,
        by_content=requires_hashes or requirement_set.has_any_hash,
        max_download=request.max_download,
        direct_urls=requirement_set.wheel_urls(),
        fetches_direct_urls_whole=changes and request.max_download is None,
    )
    if repository.bridged is not None:
        repository.bridged.machine_tags = machine.target.tags
    building = BuildingRepository(
        repository,
        lambda build_requirements: open_builder(
            request, context, repository, build_requirements, settings, environment, machine,
            policy, requirement_set, requires_hashes=requires_hashes,
            hashes_required_by=rules.hashes_required_by, builds_named=changes,
        ),
    )  # fmt: skip
    candidates = Candidates(
        building,
        machine.target,
        machine.detector,
        policy,
        host_detector=machine.host_detector,
        plugins=machine.plugins(environment, repository, settings, request),
        has_requirements=building.has_requirements,
    )
    prereleases = request.pre or rules.pre or any(file.pre for file in requirement_set.files)
    return SelectionSession(
        environment,
        machine,
        repository,
        candidates,
        requirement_set,
        rules,
        prereleases,
        requires_hashes,
        building,
    )
