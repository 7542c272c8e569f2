"""The request of a build, which may be sent to other processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wheelfit.operations.requests import (
    BuildingOptions,
    EnvironmentOptions,
    MachineOptions,
    RequirementOptions,
    VariantOptions,
    WorkerOptions,
)


@dataclass(frozen=True, kw_only=True)
class BuildRequest(
    WorkerOptions,
    RequirementOptions,
    EnvironmentOptions,
    BuildingOptions,
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
    hand_over: bool | None = None
    dialect: str | None = None
    namespace_providers: tuple[str, ...] = ()
    ask_plugins: bool = False
    only_python: tuple[str, ...] = ()
    rebuild: bool = False
    debug: bool = False
    """Whether the output of build backends is reported, even if details are not wanted."""

    @property
    def project(self) -> Path:
        """The folder of the project, or its source distribution."""
        path = Path(self.source)
        return path.parent if path.name == "pyproject.toml" else path
