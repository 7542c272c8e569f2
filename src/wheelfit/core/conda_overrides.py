"""Overrides of a target by conda's variables about the system (CEP 30).

They change wheel tags and marker values; providers read the variables about hardware. As in conda,
a variable about another system is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wheelfit.core.compatible_tags import linux_platforms, macos_platforms
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
    """Return a target with conda's variables applied, with those in effect and those ignored.

    An empty variable about glibc means a system without glibc; the other three are ignored if
    empty.

    :returns: the target; ``NAME=value`` for variables in effect; a sentence on each ignored one.
    """
    in_effect, problems = [], []
    platforms: tuple[str, ...] = ()
    values = {}
    for variable in overrides.CONDA_SYSTEM:
        text = overrides.conda_override(environ, variable)
        if text is None or target.environment.get("platform_system") != _SYSTEMS[variable]:
            continue
        pattern, example = _PATTERNS[variable]
        match = pattern.fullmatch(text)
        if text and match is None:
            problems.append(
                f"{variable}={text!r} is ignored: it must be a version such as {example}"
            )
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
    # Every value is stated, so that none is derived from the platform tags: they do not have the
    # release and version of the system.
    environment = dict(target.environment) | values
    described = HostFile(platforms=platforms, environment=environment)
    return described.target(target, target.name), tuple(in_effect), tuple(problems)


def _with_glibc(target: Target, minor: int | None) -> tuple[str, ...]:
    """Return the platform tags of a target with another minor version of glibc; None: with none."""
    short = target.short_tags
    platforms = short.platforms if short else ()
    musl = tuple(tag for tag in platforms if tag.startswith("musllinux"))
    return (*linux_platforms(target.architecture, glibc=minor), *musl)
