"""The request of a build, and the environments in which its backends run."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.operations.requests import (
    EnvironmentOptions,
    MachineOptions,
    RequirementOptions,
    ResolutionBuildOptions,
    VariantOptions,
    WorkerOptions,
)
from wheelfit.operations.source_builds import build_environments, open_builder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.installation.builds.environments import (
        IsolatedBuildEnvironments,
        SharedBuildEnvironment,
    )
    from wheelfit.operations.context import Context
    from wheelfit.resolution.request import DirectWheel, RequestedRequirement


class BuildRequest(
    WorkerOptions,
    RequirementOptions,
    EnvironmentOptions,
    ResolutionBuildOptions,
    MachineOptions,
    VariantOptions,
):
    """The project to build, its wheels, and how they are built."""

    source: str = "."
    labels: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    null: bool = False
    all: bool = False
    plain: bool | None = None
    """Whether a plain wheel is built; None: unless variants are requested."""
    sdist: bool = False
    is_editable: bool = False
    folder: str = "dist"
    flags: bool | None = None
    repair: str | None = None
    namespace_providers: tuple[str, ...] = ()
    ask_plugins: bool = False
    only_python: tuple[str, ...] = ()
    rebuild: bool = False
    debug: bool = False
    """Whether the output of build backends is reported, even if details are not."""

    @property
    def project(self) -> Path:
        """The folder of the project, or its source distribution."""
        path = Path(self.source)
        return path.parent if path.name == "pyproject.toml" else path


@contextmanager
def open_build_environments(
    request: BuildRequest, context: Context
) -> Iterator[IsolatedBuildEnvironments | SharedBuildEnvironment]:
    """Open the environments in which the backends of a build run."""
    from wheelfit.installation.builds.repository import BuildingRepository
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.operations.indexes import open_indexes, read_settings
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.pip_rules import read_rules
    from wheelfit.operations.preferences import choice_policy
    from wheelfit.operations.requirements import read_requirements, source_of, with_pip_constraints

    environ = context.environ
    requirements = read_requirements(request, environ, may_be_empty=True)
    environment = open_environment_of(request, environ, may_be_own=True)
    prefix = environment.interpreter.prefix
    rules = read_rules(environ, prefix)
    requirements = with_pip_constraints(requirements, rules, environ)
    machine = choose_machine(request, environment.target, context)
    policy = choice_policy(request, machine.policy, requirements.hashes, requirements.labels)
    settings = read_settings(request, environ, requirements.files, prefix=prefix)
    needs_hashes = rules.require_hashes or requirements.requires_hashes
    with ExitStack() as stack:
        repository = stack.enter_context(
            open_indexes(request, settings, context, by_content=needs_hashes)
        )
        # Settings are for the backend of the project, not for those of its build requirements.
        without_settings = request.with_options(config_settings=())
        building = BuildingRepository(
            repository,
            lambda build_requirements: open_builder(
                without_settings, context, repository, build_requirements, settings, environment,
                machine, policy, requirements, requires_hashes=needs_hashes,
                hashes_required_by=rules.hashes_required_by,
            ),
        )  # fmt: skip
        stack.callback(building.close)

        def build_from_url(requirement: RequestedRequirement) -> DirectWheel | None:
            """Build a requirement that the project names by a URL, such as a fork of a backend."""
            source = source_of(requirement)
            if source is None:
                return None
            context.reporter.note(f"building needs {source}")
            return building.direct_wheel(source)

        yield build_environments(
            request, environ, building, environment, machine, policy, requirements,
            requires_hashes=needs_hashes, hashes_required_by=rules.hashes_required_by,
            build_from_url=build_from_url,
        )  # fmt: skip
