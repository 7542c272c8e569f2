"""The requirements for an index: versions that a driver supports, and their distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.errors import DriverTooOld, UserError
from wheelfit_runtime.libraries.versions import Requirement, Span, Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.libraries.toolkits import LibraryFamily
    from wheelfit_runtime.loader.driver import Driver

_MAX_NUMBERS = 3
"""The maximum number of parts of a requested version."""


def numbers_of(family: LibraryFamily, version: str) -> Version:
    """Return the numbers of a requested version."""
    parts = version.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > _MAX_NUMBERS:
        raise UserError(
            f"{version!r} is not a version of {family.title}", hint="ask for 12, 12.8 or 12.8.1"
        )
    return tuple(int(part) for part in parts)


def span_of(
    family: LibraryFamily, version: str, driver: Driver | None, *, cap_to_driver: bool
) -> Span:
    """Return the versions that may be chosen.

    A driver runs the machine code of all minor versions of its own major version and of older ones.
    It compiles PTX only of toolkits up to its own version (P-91, P-92). Therefore a request of a
    major version alone can be limited to the driver's version.

    :param cap_to_driver: whether a major version alone is limited to the driver's version.
    :raises UserError: it is not a version.
    :raises DriverTooOld: the driver is of an older major version.
    """
    low = numbers_of(family, version)
    high = (*low[:-1], low[-1] + 1)
    if driver is not None and driver.cuda is not None:
        if driver.cuda[0] < low[0]:
            raise _too_old_error(family, version, driver, driver.cuda, low[0])
        if cap_to_driver and len(low) == 1 and driver.cuda[0] == low[0]:
            high = (low[0], driver.cuda[1] + 1)
    return Span(low, high)


def _too_old_error(
    family: LibraryFamily, version: str, driver: Driver, driver_cuda: tuple[int, int], major: int
) -> DriverTooOld:
    # Importing the tables takes 4 ms, and this error is rare.
    from wheelfit_runtime.platforms.providers.nvidia.tables import DRIVER_FLOOR

    floor = DRIVER_FLOOR.get(major)
    kernel = f" (release {driver.kernel})" if driver.kernel else ""
    needed = f"driver {floor[0]} or newer" if floor else "a newer driver"
    return DriverTooOld(
        f"{family.title} {version} needs {needed}; the driver{kernel} "
        f"supports {family.title} {driver_cuda[0]}.{driver_cuda[1]}",
        hint=f"update the driver, or ask for {family.title} {driver_cuda[0]}",
    )


def distributions_of(
    family: LibraryFamily, components: Sequence[str], major: str
) -> dict[str, str]:
    """Return the distribution of each component, dependencies first.

    :param components: the requested components; their dependencies are added.
    """
    projects: dict[str, str] = {}

    def add(name: str) -> None:
        component = family.components.get(name)
        if component is None:
            known_names = ", ".join(family.components)
            raise UserError(
                f"{family.title} has no component {name!r}", note=f"known: {known_names}"
            )
        project = component.project(major)
        if project is None:
            majors = {
                known_major
                for known in family.components.values()
                for known_major in known.projects
            }
            if major not in majors:
                known_majors = ", ".join(sorted(majors))
                raise UserError(
                    f"there is no {family.title} {major} in this version of wheelfit",
                    note=f"known: {known_majors}",
                    hint="a newer wheelfit may support it",
                )
            raise UserError(
                f"{family.title} {major} has no component {name!r}",
                note=f"{family.title} with this component: {', '.join(component.projects)}",
            )
        for need in component.needs:
            only_major, _, dependency = need.rpartition(":")
            if only_major in ("", major):
                add(dependency)
        projects[name] = project

    for name in components:
        add(name)
    if not projects:
        raise UserError("no component was requested", note="known: " + ", ".join(family.components))
    if not any(family.components[name].libraries for name in projects):
        raise UserError(
            f"{', '.join(projects)} of {family.title} has only headers, and nothing to load",
            hint=f"ask for it with others: {' '.join((*family.default_components, *projects))}",
        )
    return projects


def requirements_of(
    family: LibraryFamily, projects: Mapping[str, str], span: Span
) -> list[Requirement]:
    """Return the requirements: the metapackage with its extras, and projects without an extra."""
    major = str(span.low[0])
    extras = {name: family.components[name].extra_of(major) for name in projects}
    used_extras = tuple(filter(None, extras.values()))
    requirements = (
        [Requirement(family.metapackage, used_extras, str(span))]
        if family.metapackage and used_extras
        else []
    )
    for name, project in projects.items():
        component = family.components[name]
        if not extras[name]:
            specifier = str(span) if component.specifier is None else component.specifier
            requirements.append(Requirement(project, (), specifier))
    return requirements
