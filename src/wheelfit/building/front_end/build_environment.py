"""The build backend of an environment, and whether it can build variants."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.building.front_end.backend_settings import MARK
from wheelfit.building.front_end.isolated import __path__ as _scripts
from wheelfit.building.front_end.toolchains.inputs import Compiler
from wheelfit.errors import BuildFailed
from wheelfit_runtime.platforms.child_processes import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.building.front_end.backend_settings import BackendSettings
    from wheelfit.building.front_end.source import Source
    from wheelfit.projects.backend import BuildEnvironment

_DEADLINE = 60.0
"""Seconds to examine an environment."""
_LINES = 5


@dataclass(frozen=True, slots=True)
class BuildEnvironmentContents:
    """The contents of a build environment."""

    backend: str
    """Name and version of the backend's distribution; its module where that is unknown."""
    knows_variants: bool
    """Whether the source of the backend mentions the library that writes variant wheels."""
    has_what_it_calls: bool
    """Whether the module that the backend calls exists, as far as the backend is known."""
    packages: Mapping[str, str | None] = field(hash=False)
    """Versions of the requested packages."""
    compiler: Compiler = Compiler()


def look_at(
    place: BuildEnvironment,
    source: Source,
    dialect: BackendSettings | None,
    packages: Iterable[str],
) -> BuildEnvironmentContents:
    """Examine an environment; nothing of the project or its backend is imported."""
    calls = None if dialect is None else dialect.calls
    question = {
        "backend": source.backend,
        "path": source.backend_path,
        "mentions": [] if dialect is None else [MARK],
        "has": [calls] if calls else [],
        "packages": list(packages),
    }
    script = Path(next(iter(_scripts))) / "environment_child.py"
    answer = run(
        [str(place.python), "-B", str(script), json.dumps(question)],
        environ=place.environ,
        deadline=_DEADLINE,
    )
    try:
        said = json.loads(answer.output)
    except ValueError:
        last = answer.errors.decode("utf-8", "replace").strip().splitlines()[-_LINES:]
        raise BuildFailed(
            f"the environment to build {source.name} cannot be looked at",
            where=str(place.python),
            note="\n".join(last) or None,
        ) from None
    if said["backend"] is None:
        raise BuildFailed(
            f"{source.name} is built by {source.backend}, which is not installed",
            where=str(place.python),
            hint="[build-system] must ask for it; without isolation it must be there",
        )
    name, version = said["backend"]
    return BuildEnvironmentContents(
        f"{canonicalize_name(name)} {version}" if version else name,
        knows_variants=said["mentions"].get(MARK, False),
        has_what_it_calls=not calls or bool(said["has"]),
        packages=said["packages"],
        compiler=Compiler(said["compiler"]["CC"], said["compiler"]["CFLAGS"]),
    )
