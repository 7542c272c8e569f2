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
        """The package without its extra."""
        return Package(self.name, None, self.release)

    def __str__(self) -> str:
        name = f"{self.name}[{self.extra}]" if self.extra else self.name
        return name if self.release is None else f"{name} {self.release}"


class Dependency(Struct, frozen=True):
    """A package, and the versions of it that are allowed."""

    package: Package
    versions: VersionSet
    text: object = ""
    """Its original text, for proofs: ``torch>=2.8``. ``str()`` is called only when a proof is
    written.
    """
    is_pin: bool = False
    """Whether it requires one version by ``==`` or ``===``; only this allows yanked versions."""

    def restricted_to(self, name: NormalizedName, version: Version) -> Dependency:
        """Return the dependency; if it is on a project, restricted to one version of it."""
        if self.package.name != name:
            return self
        return replace(self, versions=VersionSet.singleton(version))


class Build(Struct, frozen=True):
    """A build of a release: its label, and the versions of other packages it was made for."""

    name: str
    """The label, or ``plain wheel``."""
    limits: tuple[Dependency, ...] = ()
    """The versions of other packages that the build was made for.

    The build does not require these packages: the solver adds none for it. But those that are
    installed must have such a version (P-52), and at least one must be installed (P-54).
    """


_BEST_NUMBER = 1_000_000


def build_number(index: int) -> Version:
    """Return the number of a build; better builds have higher numbers.

    :param index: from 0 for the best.
    """
    return Version(str(_BEST_NUMBER - index))


def build_index(number: Version) -> int:
    """Return the index of a build, from 0 for the best."""
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

    def preferred_version(self, name: NormalizedName) -> Version | None:
        """Return the version to try before newer ones, as the installed one; None without one.

        It is among ``versions``. For an installed project it is called before ``versions``, so
        that the listing of a project that stays is not read.
        """

    def is_usable(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release has a wheel for the target that can be read."""

    def has_several_builds(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a usable release has several builds that exclude each other."""

    def build(self, name: NormalizedName, version: Version, index: int) -> Build | None:
        """Return one build of a release with several; None if it has fewer.

        :param index: from 0 for the best.
        """

    def is_build_usable(self, name: NormalizedName, version: Version, index: int) -> bool:
        """Return whether a build has a wheel that can be read."""

    def version_in_environment(self, name: NormalizedName) -> Version | None:
        """Return the version that the environment has even if nothing requires the project."""

    def dependencies(self, package: Package, version: Version) -> Sequence[Dependency]:
        """Return the dependencies of a usable release; of an extra, those it adds.

        A release with several builds has none itself: its builds have.

        :param version: the version; of a build, its number.
        """

    def prefetch(self, dependencies: Sequence[Dependency]) -> None:
        """Start to read the listings of packages that will be examined soon."""
