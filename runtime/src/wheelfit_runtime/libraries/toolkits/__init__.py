"""The library families as data: their wheels, and the libraries to load from them."""

# Imported at every start of a program with libraries, so it imports as little as possible.
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FAMILY_NAMES = ("cuda", "oneapi", "onetbb")
"""The names of all families, which are those of their modules."""


class Component:
    """A part of a family that can be requested by its name.

    :param projects: the name of the distribution, by major version of the family; ``*``: any.
    :param libraries: the prefixes of the files to load.
    :param extra: the extra of the family's metapackage that pins it, or extras by major version;
        empty: the metapackage does not pin it.
    :param specifier: its versions, if they do not depend on the family's version; None: they do.
    :param has_version_of_family: whether its major and minor version are those of the family.
    :param needs: other required components; with ``13:`` before one, in that major version only.
    """

    def __init__(
        self,
        projects: Mapping[str, str],
        libraries: tuple[str, ...],
        extra: str | Mapping[str, str] = "",
        *,
        specifier: str | None = None,
        has_version_of_family: bool = False,
        needs: tuple[str, ...] = (),
    ) -> None:
        self.projects = projects
        self.libraries = libraries
        self.extra = extra
        self.specifier = specifier
        self.has_version_of_family = has_version_of_family
        self.needs = needs

    def project(self, major: str) -> str | None:
        """Return the distribution for a major version of the family; None if there is none."""
        return self.projects.get(major) or self.projects.get("*")

    def extra_of(self, major: str) -> str:
        """Return the extra of the metapackage for a major version; empty if it has none."""
        return self.extra if isinstance(self.extra, str) else self.extra.get(major, "")


class LibraryFamily:
    """The libraries of one vendor.

    :param title: its name in messages.
    :param default_components: the components of a request that names none.
    :param machines: system and architecture of the machines for which there are wheels.
    :param metapackage: the distribution whose extras pin the components of one version.
    :param has_driver: whether the NVIDIA driver limits the usable versions.
    :param is_for_tegra: whether the wheels also run on Jetson boards.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str,
        components: Mapping[str, Component],
        default_components: tuple[str, ...],
        machines: tuple[tuple[str, str], ...],
        metapackage: str = "",
        has_driver: bool = False,
        is_for_tegra: bool = True,
    ) -> None:
        self.name = name
        self.title = title
        self.components = components
        self.default_components = default_components
        self.machines = machines
        self.metapackage = metapackage
        self.has_driver = has_driver
        self.is_for_tegra = is_for_tegra

    @property
    def stems(self) -> tuple[str, ...]:
        """The prefixes of the names of all libraries of the family, such as ``libcudart.so``."""
        return tuple(name for component in self.components.values() for name in component.libraries)


def family_named(name: str) -> LibraryFamily:
    """Return the family with a name.

    :raises UserError: there is none.
    """
    if name not in FAMILY_NAMES:
        from wheelfit_runtime.errors import UserError

        known = ", ".join(FAMILY_NAMES)
        raise UserError(f"unknown library family {name!r}", note=f"known: {known}")
    # No `importlib`, whose import takes a millisecond.
    family: LibraryFamily = __import__(f"{__name__}.{name}", fromlist=("FAMILY",)).FAMILY
    return family
