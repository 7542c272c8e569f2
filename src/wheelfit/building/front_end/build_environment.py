"""The build backend, the compiler and some packages of a build environment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.building.front_end.isolated import __path__ as _scripts
from wheelfit.building.front_end.toolchains.inputs import Compiler
from wheelfit.errors import BuildFailed
from wheelfit_runtime.platforms.child_processes import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.building.front_end.source import Source
    from wheelfit.projects.backend import BuildEnvironment

_TIMEOUT = 60.0
"""Seconds to examine an environment."""
_SHOWN_ERROR_LINES = 5


@dataclass(frozen=True, slots=True)
class BuildEnvironmentContents:
    """The backend, the compiler and some packages of a build environment."""

    backend: str
    """Name and version of the backend's distribution; the name of its module if unknown."""
    packages: Mapping[str, str | None] = field(hash=False)
    """Versions of the requested packages."""
    compiler: Compiler = Compiler()


def examine_environment(
    environment: BuildEnvironment, source: Source, packages: Iterable[str]
) -> BuildEnvironmentContents:
    """Examine an environment without importing anything of the project or its backend."""
    question = {
        "backend": source.backend,
        "path": source.backend_path,
        "packages": list(packages),
    }
    # The scripts are files of a package; its `__path__` has one entry.
    script = Path(next(iter(_scripts))) / "environment_child.py"
    answer = run(
        [str(environment.python), "-B", str(script), json.dumps(question)],
        environ=environment.environ,
        deadline=_TIMEOUT,
    )
    try:
        contents = json.loads(answer.output)
    except ValueError:
        last_lines = (
            answer.errors.decode("utf-8", "replace").strip().splitlines()[-_SHOWN_ERROR_LINES:]
        )
        raise BuildFailed(
            f"the build environment of {source.name} cannot be examined",
            where=str(environment.python),
            note="\n".join(last_lines) or None,
        ) from None
    if contents["backend"] is None:
        raise BuildFailed(
            f"{source.name} is built by {source.backend}, which is not installed",
            where=str(environment.python),
            hint="add it to requires in [build-system], or install it to build without isolation",
        )
    name, version = contents["backend"]
    return BuildEnvironmentContents(
        f"{canonicalize_name(name)} {version}" if version else name,
        packages=contents["packages"],
        compiler=Compiler(contents["compiler"]["CC"], contents["compiler"]["CFLAGS"]),
    )
