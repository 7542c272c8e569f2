"""Which wheels have the libraries of a family, and which of them are loaded; plain data."""

# A later start of a program comes here: nothing is imported that it could do without.
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULES = {"cuda": "cuda", "oneapi": "oneapi", "onetbb": "onetbb"}


class Component:
    """A part of a family that can be requested by its name.

    :param projects: the distribution by major version of the family; ``*`` is any. Never made up
        by a rule.
    :param libraries: the prefixes of the files to load; all others of the wheel only lie beside
        them.
    :param extra: of the family's table, the one that names its version, or one by major version;
        empty: it is in no table.
    :param specifier: the versions that fit any version of the family; None: it has the family's.
    :param has_version_of_family: whether the first two numbers of its versions are the family's.
    :param needs: other components without which it cannot be used; ``13:`` before one: in that
        major version of the family only.
    """

    __slots__ = (
        *("extra", "has_version_of_family", "libraries", "needs", "projects"),
        "specifier",
    )

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
        """Return the distribution for a major version of the family; None: there is none."""
        return self.projects.get(major) or self.projects.get("*")

    def extra_of(self, major: str) -> str:
        """Return the extra of the table for a major version of the family, or an empty text."""
        return self.extra if isinstance(self.extra, str) else self.extra.get(major, "")


class LibraryFamily:
    """All that is known of the libraries of one vendor.

    :param usual: the components one gets who names none.
    :param machines: system and architecture of the machines that there are wheels for.
    :param table: the distribution whose extras pin the versions of one version of the family.
    :param has_driver: whether NVIDIA's driver decides what can run.
    :param is_for_tegra: whether the wheels are for Jetson boards too.
    """

    __slots__ = (
        *("components", "has_driver", "is_for_tegra", "machines", "name", "table"),
        *("title", "usual"),
    )

    def __init__(
        self,
        name: str,
        *,
        title: str,
        components: Mapping[str, Component],
        usual: tuple[str, ...],
        machines: tuple[tuple[str, str], ...],
        table: str = "",
        has_driver: bool = False,
        is_for_tegra: bool = True,
    ) -> None:
        self.name = name
        self.title = title
        self.components = components
        self.usual = usual
        self.machines = machines
        self.table = table
        self.has_driver = has_driver
        self.is_for_tegra = is_for_tegra

    @property
    def stems(self) -> tuple[str, ...]:
        """The prefixes of the names of all libraries of the family, as ``libcudart.so``."""
        return tuple(name for component in self.components.values() for name in component.libraries)


def names() -> tuple[str, ...]:
    """Return the names of all families."""
    return tuple(_MODULES)


def family_named(name: str) -> LibraryFamily:
    """Return a family."""
    module = _MODULES.get(name)
    if module is None:
        from wheelfit_runtime.errors import UserError

        raise UserError(f"unknown library family {name!r}", note="known: " + ", ".join(_MODULES))
    # No `importlib`, whose import takes a millisecond.
    family: LibraryFamily = __import__(f"{__name__}.{module}", fromlist=("FAMILY",)).FAMILY
    return family
