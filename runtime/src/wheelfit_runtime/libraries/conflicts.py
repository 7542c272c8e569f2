"""Decide what to do where libraries are mapped already under the names of those to load."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import EnvironmentUnavailable
from wheelfit_runtime.loader import loaded_libraries
from wheelfit_runtime.loader.caller_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.loader.loaded_libraries import Library


def conflicts_with_loaded(
    request: LibraryRequest, places: Mapping[str, str], *, several_majors: bool
) -> dict[str, str]:
    """Return the libraries that are mapped already under the names of ours.

    :raises EnvironmentUnavailable: ``another-library-loaded``; ours cannot be loaded beside what is
        mapped.
    """
    ours = [loaded_libraries.read_library(path) for path in places.values()]
    here = loaded_libraries.read_mapped()
    conflicts = loaded_libraries.find_conflicts(ours, here)
    others = [one for one in conflicts if one.level == "warn"]
    if others and not several_majors:
        raise EnvironmentUnavailable(
            f"{request} was asked for, and another major version is loaded already",
            code="another-library-loaded",
            note="\n".join(one.reason for one in others),
            hint="use one major version in a process; several_majors=True loads both, and refuses "
            "only what has the same name in both",
        )
    same = [one for one in conflicts if one.level == "error"]
    if same and (others or "." in request.version):
        raise EnvironmentUnavailable(
            f"{request} was asked for, and other builds of its libraries are loaded",
            code="another-library-loaded",
            note="\n".join(one.reason for one in same),
            # What two major versions have under one name, no order of loading makes go together.
            hint="use one major version in a process: both have libraries of this name"
            if others
            else "load these first, or ask for the major version only, to use what is loaded",
        )
    for one in same:
        warn(f"{one.reason}; it is used as it is")
    return _same_builds(ours, here) | {one.wanted.soname: one.mapped.path for one in same}


def _same_builds(ours: list[Library], here: tuple[Library, ...]) -> dict[str, str]:
    """Return what is mapped from elsewhere and not ours by path only: loaded twice, it is two."""
    names = {one.soname: os.path.realpath(one.path) for one in ours if one.soname}
    return {
        one.soname: one.path
        for one in here
        if one.soname in names and not one.replaced and one.path != names[one.soname]
    }
