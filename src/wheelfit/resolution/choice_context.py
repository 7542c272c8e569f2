"""The circumstances in which wheels are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.shared_requirements import Agreed
    from wheelfit.sources.page import ProjectPage


class ChoiceContext(Struct, frozen=True):
    """All that decides among wheels besides the sources, the target and the policy."""

    given: Mapping[NormalizedName, ProjectPage] = field(default_factory=dict)
    """Files named by the user; they replace everything listed of their projects (F-125)."""
    known: KnownVersions | None = None
    """Versions by which builds for other packages are judged (P-51); None: those that the user
    declares, and all others are still to be chosen."""
    agreed: tuple[Agreed, ...] = ()
    """Values that every build must go with, at most one of each agreement."""
    preferred_builds: Mapping[NormalizedName, tuple[Label, PropertySet]] = field(
        default_factory=dict
    )
    """The build to take of any release in which it fits: its label and properties."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Wheels that are not to be chosen: file name to reason, a clause without full stop."""

    def with_given(self, *pages: ProjectPage) -> ChoiceContext:
        """Return the context with more files that replace what is listed of their projects.

        :param pages: the files of each project; the repository must be able to read them.
        """
        return replace(self, given={**self.given, **{page.name: page for page in pages}})

    def without(self, excluded: Mapping[str, str]) -> ChoiceContext:
        """Return the context with more wheels excluded.

        :param excluded: file name to reason, a clause without full stop.
        """
        return replace(self, excluded={**self.excluded, **excluded})
