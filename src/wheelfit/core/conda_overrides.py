"""The overrides of an interpreter's facts by conda's variables about the system (CEP 30).

They choose wheel tags and marker values; those about hardware belong to providers. A variable that
concerns another system is ignored, as conda does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wheelfit.core.compatible_tags import linux_platforms, macos_platforms, shorten
from wheelfit.core.host_file import HostFile
from wheelfit_runtime.platforms import overrides

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.target import Target

_SYSTEMS: Final = {
    overrides.CONDA_GLIBC: "Linux",
    overrides.CONDA_LINUX: "Linux",
    overrides.CONDA_OSX: "Darwin",
    overrides.CONDA_WIN: "Windows",
}
_PATTERNS: Final = {
    overrides.CONDA_GLIBC: (re.compile(r"2\.(\d{1,3})(?:\.\d+)*"), "2.28"),
    overrides.CONDA_LINUX: (re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?(\.[0-9]+)?"), "5.10"),
    overrides.CONDA_OSX: (re.compile(r"(10|1[1-9]|[2-9]\d)(?:\.(\d{1,2}))?(?:\.\d+)*"), "14.0"),
    overrides.CONDA_WIN: (re.compile(r"[0-9]+(?:\.[0-9]+)*"), "10.0.22631"),
}


def overridden_target(
    target: Target, environ: Mapping[str, str]
) -> tuple[Target, tuple[str, ...], tuple[str, ...]]:
    """Return a target as conda's variables describe it, those in effect, and their faults.

    An empty variable about glibc means that there is none, so no wheel for one fits; the other
    three are ignored when empty.

    :returns: of the variables in effect ``NAME=value``, and a sentence on each that is ignored.
    """
    in_effect, problems = [], []
    platforms: tuple[str, ...] = ()
    values = {}
    for variable in overrides.CONDA_SYSTEM:
        text = overrides.stated_for_conda(environ, variable)
        if text is None or target.environment.get("platform_system") != _SYSTEMS[variable]:
            continue
        pattern, example = _PATTERNS[variable]
        match = pattern.fullmatch(text)
        if text and match is None:
            problems.append(f"{variable}={text!r} is ignored: a version as {example} is wanted")
            continue
        if not text and variable != overrides.CONDA_GLIBC:
            continue
        if variable == overrides.CONDA_GLIBC:
            platforms = _with_glibc(target, int(match[1]) if match else None)
        elif variable == overrides.CONDA_OSX and match:
            machine = target.environment.get("platform_machine", "")
            platforms = macos_platforms(machine, int(match[1]), int(match[2] or 0))
        else:
            key = "platform_release" if variable == overrides.CONDA_LINUX else "platform_version"
            values[key] = text
        in_effect.append(f"{variable}={text}")
    if not in_effect:
        return target, (), tuple(problems)
    # Values implied by a platform lack those of the system itself.
    environment = dict(target.environment) | values
    described = HostFile(platforms=platforms, environment=environment)
    return described.target(target, target.name), tuple(in_effect), tuple(problems)


def _with_glibc(target: Target, minor: int | None) -> tuple[str, ...]:
    """Return the platform tags of a target with another glibc 2, best first; None: with none."""
    machine = target.architecture
    known = shorten(
        target.tags.tags, target.environment["implementation_name"], target.python_full_version
    )
    others = known.platforms if known else ()
    musl = tuple(tag for tag in others if tag.startswith("musllinux"))
    return (*linux_platforms(machine, glibc=minor), *musl)
