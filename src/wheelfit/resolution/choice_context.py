"""The context of a choice among wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.agreements import AgreedValue
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.sources.page import ProjectPage


class ChoiceContext(Struct, frozen=True):
    """The inputs of a choice among wheels besides sources, target and policy."""

    direct_files: Mapping[NormalizedName, ProjectPage] = field(default_factory=dict)
    """Files that the user named, by project; they replace all listed files of it (F-125)."""
    known_versions: KnownVersions | None = None
    """Versions of packages that builds may be made for (P-51). None: no package is chosen yet, so
    builds may be made only for versions that the user declares.
    """
    agreed: tuple[AgreedValue, ...] = ()
    """Values that every build must be compatible with, such as CUDA 12; one of each agreement."""
    preferred_builds: Mapping[NormalizedName, tuple[Label, PropertySet]] = field(
        default_factory=dict
    )
    """The preferred build of a project, for all releases that have it: its label and properties."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Wheels that must not be chosen: file name to reason, as a clause."""

    def with_direct_files(self, *pages: ProjectPage) -> ChoiceContext:
        """Return the context with further files that replace the listed ones of their projects.

        :param pages: the files of each project; the repository must be able to read them.
        """
        return replace(
            self, direct_files={**self.direct_files, **{page.name: page for page in pages}}
        )

    def with_excluded(self, excluded: Mapping[str, str]) -> ChoiceContext:
        """Return the context with further excluded wheels.

        :param excluded: file name to reason, as a clause without full stop.
        """
        return replace(self, excluded={**self.excluded, **excluded})
