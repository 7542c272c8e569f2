"""The problem a solver solves: packages, needs between them, and the available releases."""

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

    An extra is a package of its own that needs its project at the same version: its requirements
    then follow from that version like any dependency. Likewise the build of a release that has
    several: its "versions" are the numbers of builds, and the requirements of a build follow from
    its number. A named tuple, because the solver hashes it more often than anything else.
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
    """Which versions will do."""
    text: object = ""
    """Its original text, for proofs: ``torch>=2.8``. ``str()`` is called only when a proof is
    written.
    """
    is_pin: bool = False
    """Whether it names one version with ``==`` or ``===``; only then yanked ones count."""

    def only(self, name: NormalizedName, version: Version) -> Need:
        """Return the need; if it is of a project, for one version.

        :param name: the name of the project.
        :param version: the version.
        """
        if self.package.name != name:
            return self
        return replace(self, versions=VersionSet.singleton(version))


class Build(Struct, frozen=True):
    """One way to have a release: a label, and the versions it was made for."""

    name: str
    """The label, or ``plain wheel``."""
    limits: tuple[Need, ...] = ()
    """The versions the build was made for: it requires nothing, but a package that is there must be
    among these versions (P-52), and one of them must be there (P-54).
    """


_FIRST = 1_000_000


def number_of(place: int) -> Version:
    """Return the number of a build; the better build has the higher one.

    :param place: from 0 for the best.
    """
    return Version(str(_FIRST - place))


def place_of(number: Version) -> int:
    """Return the place of a build.

    :param number: as `number_of` gave it.
    """
    return _FIRST - number.major


class Releases(Protocol):
    """The releases that exist. Equal questions get equal answers during one solving."""

    def versions(self, name: NormalizedName) -> Sequence[Version]:
        """Return every version that may turn out usable, newest first.

        Empty when the project is not known, or has nothing at all for the target.
        """

    def yanked(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions that only a pin may request (PEP 592)."""

    def postponed(self, name: NormalizedName) -> frozenset[Version]:
        """Return those of the versions to try after all others (``--prefer-binary``)."""

    def ranks(self, name: NormalizedName) -> Mapping[Version, int]:
        """Return the places of versions that are not tried newest first; empty: all are."""

    def kept(self, name: NormalizedName) -> Version | None:
        """Return the version to try before newer ones: the installed or a preferred one.

        It is among ``versions``. For installed projects it is called before them, so that a kept
        project needs no listing.
        """

    def is_usable(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release has a wheel for the target that can be read."""

    def is_divided(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a usable release has several builds that exclude each other."""

    def build(self, name: NormalizedName, version: Version, place: int) -> Build | None:
        """Return one build of a divided release, or None when there are no more.

        :param place: from 0 for the best.
        """

    def is_sound(self, name: NormalizedName, version: Version, place: int) -> bool:
        """Return whether a build has a wheel that can be read."""

    def there(self, name: NormalizedName) -> Version | None:
        """Return the version of a project that is there even if nothing needs it."""

    def needs(self, package: Package, version: Version) -> Sequence[Need]:
        """Return the requirements of a usable release; of an extra, those it adds.

        A divided release needs nothing itself, its builds do.

        :param version: the version; of a build, its number.
        """

    def announce(self, needs: Sequence[Need]) -> None:
        """Announce needs that will be examined soon."""
