"""The input of the solver: packages, their requirements, and the available releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName


class Package(NamedTuple):
    """A project, one extra of it, or the build of one of its releases.

    An extra is a package of its own that needs its project at the same version, so its requirements
    follow from that version like any dependency. If a release has several builds, they are a
    package too: its "versions" are the numbers of the builds, from which their requirements follow.
    It is a named tuple, because the solver hashes it more often than anything else.
    """

    name: NormalizedName
    """The project, normalised."""
    extra: NormalizedName | None = None
    """The extra, normalised; None: the project itself."""
    release: Version | None = None
    """The release whose build is meant; None: no build, but the project or extra."""

    @property
    def base(self) -> Package:
        """The project of an extra, or the build of its project."""
        return Package(self.name, None, self.release)

    def __str__(self) -> str:
        name = f"{self.name}[{self.extra}]" if self.extra else self.name
        return name if self.release is None else f"{name} {self.release}"


class Need(Struct, frozen=True):
    """A requirement: some versions of a package."""

    package: Package
    versions: VersionSet
    """The allowed versions."""
    text: object = ""
    """Its original text, for proofs: ``torch>=2.8``. ``str()`` is called only when a proof is
    written.
    """
    is_pin: bool = False
    """Whether it requires one version by ``==`` or ``===``; only this allows yanked versions."""

    def only(self, name: NormalizedName, version: Version) -> Need:
        """Return the need, restricted to one version if it is a need of a project."""
        if self.package.name != name:
            return self
        return replace(self, versions=VersionSet.singleton(version))


class Build(Struct, frozen=True):
    """A build of a release: its label, and the versions of other packages it was made for."""

    name: str
    """The label, or ``plain wheel``."""
    limits: tuple[Need, ...] = ()
    """The versions of other packages that the build was made for.

    They are no requirements: but if such a package is installed, it must have one of these versions
    (P-52), and at least one of the packages must be installed (P-54).
    """


_BEST_NUMBER = 1_000_000


def build_number(index: int) -> Version:
    """Return the number of a build; better builds have higher numbers.

    :param index: from 0 for the best.
    """
    return Version(str(_BEST_NUMBER - index))


def build_index(number: Version) -> int:
    """Return the index of a build, from 0 for the best.

    :param number: a result of `build_number`.
    """
    return _BEST_NUMBER - number.major


class Releases(Protocol):
    """The available releases; results do not change while the solver runs."""

    def versions(self, name: NormalizedName) -> Sequence[Version]:
        """Return every version that may be usable, newest first.

        Empty if no source has the project, or if it has no file for the target.
        """

    def yanked(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions that only a pin may request (PEP 592)."""

    def postponed(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions to try after all others (``--prefer-binary``)."""

    def ranks(self, name: NormalizedName) -> Mapping[Version, int]:
        """Return the ranks of versions if they are not tried newest first; else empty."""

    def kept(self, name: NormalizedName) -> Version | None:
        """Return the version to try before newer ones: the installed or a preferred one.

        It is among ``versions``. For an installed project it is called before ``versions``, so
        that a kept project needs no listing.
        """

    def is_usable(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release has a wheel for the target that can be read."""

    def is_divided(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a usable release has several builds that exclude each other."""

    def build(self, name: NormalizedName, version: Version, index: int) -> Build | None:
        """Return one build of a divided release; None if it has fewer.

        :param index: from 0 for the best.
        """

    def is_sound(self, name: NormalizedName, version: Version, index: int) -> bool:
        """Return whether a build has a wheel that can be read."""

    def present_version(self, name: NormalizedName) -> Version | None:
        """Return the version of a project that is present even if nothing requires it."""

    def needs(self, package: Package, version: Version) -> Sequence[Need]:
        """Return the requirements of a usable release; of an extra, those it adds.

        A divided release has no requirements itself: its builds have.

        :param version: the version; of a build, its number.
        """

    def announce(self, needs: Sequence[Need]) -> None:
        """Announce needs that will be examined soon, so that their listings can be read ahead."""
