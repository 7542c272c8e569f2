"""Environments in which build backends run, each for one build.

They are isolated from the environment being changed: they share only its interpreter, and have the
build requirements of the project, resolved and installed by wheelfit itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import InvalidRequirement
from wheelfit.installation.apply import apply
from wheelfit.installation.environment import open_environment
from wheelfit.installation.installed import by_name
from wheelfit.installation.plan import plan
from wheelfit.installation.virtual_environments import HIDDEN_VARIABLES, create_virtual_environment
from wheelfit.projects.backend import BuildEnvironment
from wheelfit.resolution.request import DirectWheel, RequestedRequirement, ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import UserError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from wheelfit.installation.interpreter import Interpreter
    from wheelfit.resolution.candidates import Candidates


class ManagedBuildEnvironment(BuildEnvironment, Protocol):
    """An environment for one build, whose packages are known."""

    @property
    def contents(self) -> tuple[str, ...] | None:
        """Its packages, as far as they decide the result of a build; None: unknown."""


class BuildEnvironmentFactory(Protocol):
    """A factory of environments for builds."""

    def make(self, folder: Path) -> ManagedBuildEnvironment:
        """Return an environment for one project.

        :raises EnvironmentUnavailable: it cannot be created.
        """


@dataclass(frozen=True)
class IsolatedBuildEnvironments:
    """A factory of environments with the build requirements and nothing else (PEP 517)."""

    interpreter: Interpreter
    candidates: Callable[[], Candidates]
    """Opens the candidates for build requirements."""
    environ: Mapping[str, str]
    request: ResolutionRequest = ResolutionRequest()
    """The rules for every request: constraints, hashes, pre-releases."""
    resolve_url: Callable[[RequestedRequirement], DirectWheel | None] | None = None
    """A function that returns the project of a requirement with a URL; for the URL of a wheel, it
    returns None. If the field itself is None, requirements with a URL are refused, since only users
    may request URLs.
    """

    def make(self, folder: Path) -> ManagedBuildEnvironment:
        """Return an empty environment."""
        create_virtual_environment(self.interpreter.executable, folder, self.environ)
        return _IsolatedEnvironment(folder, self)


class _IsolatedEnvironment:
    """An environment made for one build."""

    def __init__(self, folder: Path, factory: IsolatedBuildEnvironments) -> None:
        self._folder = folder
        self._factory = factory
        self._candidates = factory.candidates()
        environ = factory.environ
        self._environment = open_environment(str(folder), environ=environ)
        self._requested: tuple[RequestedRequirement, ...] = ()
        self._requirements: tuple[RequestedRequirement, ...] = ()
        self._wheels: tuple[DirectWheel, ...] = ()
        """The unbuilt wheels of projects that requirements name by URL."""
        self._contents: dict[str, str] = {}
        self.python = self._environment.interpreter.executable
        self.marker_environment = self._environment.interpreter.environment
        scripts = self._environment.schemes.scripts
        self.environ = {
            **{name: value for name, value in environ.items() if name not in HIDDEN_VARIABLES},
            "PATH": os.pathsep.join([str(scripts), environ.get("PATH", os.defpath)]),
            "PYTHONNOUSERSITE": "1",
            "VIRTUAL_ENV": str(folder),
        }

    @property
    def contents(self) -> tuple[str, ...]:
        return tuple(f"{name} {digest}" for name, digest in sorted(self._contents.items()))

    def add(self, requirements: Iterable[str], required_by: str) -> None:
        try:
            requested = [
                RequestedRequirement(
                    parse_requirement(text, allow_variant_markers=False), f"to build {required_by}"
                )
                for text in requirements
            ]
            for requirement in requested:
                if requirement.requirement.url is not None and self._factory.resolve_url is None:
                    raise UserError(
                        f"{required_by} requires {redact(str(requirement.requirement))}, but only "
                        "you may request a URL",
                        hint="--no-build-isolation builds with the packages you have installed",
                    )
            self._add(
                [requirement for requirement in requested if requirement not in self._requested]
            )
        except WheelfitError as error:
            if isinstance(error, InvalidRequirement):
                error.where = error.where or required_by
            note = f"it is needed to build {required_by}"
            error.note = "\n".join(filter(None, (error.note, note)))
            raise

    def _add(self, new_requirements: list[RequestedRequirement]) -> None:
        if not new_requirements:
            return
        self._requested += tuple(new_requirements)
        for requirement in new_requirements:
            wheel = None
            if self._factory.resolve_url is not None and requirement.requirement.url is not None:
                wheel = self._factory.resolve_url(requirement)
            if wheel is None:
                self._requirements += (requirement,)
            else:
                self._wheels += (wheel,)
        installed = self._environment.installed()
        request = replace(
            self._factory.request,
            requirements=self._requirements,
            wheels=self._wheels,
            installed={name: entry.for_resolver() for name, entry in by_name(installed).items()},
        )
        changes = plan(resolve(request, self._candidates), installed)
        # Without a cache, wheels are unpacked in the folder of the environment, which is temporary.
        wheel_folder = self._folder / "wheels"
        wheel_folder.mkdir(exist_ok=True)
        wheels = {
            pin.name: self._candidates.repository.unpacked(pin.file, wheel_folder)
            for pin in changes.install
        }
        apply(changes, self._environment, wheels)
        self._contents |= {wheel.filename.text: wheel.sha256 for wheel in wheels.values()}


class SharedBuildEnvironment:
    """The environment being changed, in which all builds run (``--no-build-isolation``).

    The user has installed the build requirements.
    """

    contents = None  # other packages may be added between two builds

    def __init__(self, interpreter: Interpreter, scripts: Path, environ: Mapping[str, str]) -> None:
        path = os.pathsep.join([str(scripts), environ.get("PATH", os.defpath)])
        self.python = interpreter.executable
        self.marker_environment = interpreter.environment
        self.environ = {**environ, "PATH": path}

    def make(self, folder: Path) -> ManagedBuildEnvironment:
        """Return the environment itself."""
        del folder
        return self

    def add(self, requirements: Iterable[str], required_by: str) -> None:
        """Install nothing."""
        del requirements, required_by
