"""The problem a solver solves: packages, needs between them, and what exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolve.version_set import VersionSet

__all__ = ["Need", "Package", "Releases"]


def __dir__() -> list[str]:
    return __all__


class Package(NamedTuple):
    """Name a project, or one extra of it.

    An extra is a package of its own that needs its project at the same version:
    what it brings along then follows from that version like any dependency. A
    named tuple, because the solver hashes it more often than anything else.
    """

    name: NormalizedName
    """The project, normalised."""
    extra: NormalizedName | None = None
    """The extra, normalised; None: the project itself."""

    def __str__(self) -> str:
        return f"{self.name}[{self.extra}]" if self.extra else self.name


@dataclass(frozen=True, slots=True)
class Need:
    """Ask for some versions of a package."""

    package: Package
    versions: VersionSet
    """Which versions will do."""
    text: str = ""
    """How its author wrote it, for proofs: ``torch>=2.8``."""
    is_pin: bool = False
    """Whether it names one version with ``==`` or ``===``; only then yanked ones count."""


class Releases(Protocol):
    """Answer what exists. Equal questions get equal answers during one solving."""

    def versions(self, name: NormalizedName) -> Sequence[Version]:
        """Return every version that may turn out usable, newest first.

        Empty when the project is not known, or has nothing at all for the target.
        """

    def yanked(self, name: NormalizedName) -> frozenset[Version]:
        """Return those of the versions that only a pin may ask for (PEP 592)."""

    def kept(self, name: NormalizedName) -> Version | None:
        """Return the version to try before newer ones: the installed one.

        It is among ``versions``, and asked for before them, so that a project
        which is kept needs no listing.
        """

    def is_usable(self, name: NormalizedName, version: Version) -> bool:
        """Tell whether a release has a wheel for the target that can be read."""

    def needs(self, package: Package, version: Version) -> Sequence[Need]:
        """Return what a usable release needs; of an extra, what it adds."""

    def announce(self, needs: Sequence[Need]) -> None:
        """Take note that these will be asked about soon."""
