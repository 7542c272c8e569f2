"""The results of a resolution, as values."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.resolution.choice_context import ChoiceContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.request import InstalledBuild
    from wheelfit.sources.page import File


class Pin(Struct, frozen=True):
    """A wheel that belongs to the solution and is to be installed."""

    name: NormalizedName
    version: Version
    file: File
    filename: WheelFilename
    choice: ReleaseChoice
    properties: PropertySet = EMPTY
    """The properties of its label; empty for a plain wheel."""
    supported: PropertySet = EMPTY
    """The properties that the target supports, for markers (F-103)."""
    extras: frozenset[NormalizedName] = frozenset()
    reason: str = ""
    requested: bool = False
    """Whether the user requested it; otherwise only other packages require it."""
    is_direct: bool = False
    """Whether the user named the file, so that it gets a ``direct_url.json`` (PEP 610)."""
    core: CoreMetadata | None = None
    """The core metadata by which it was resolved; None if none was read."""

    @classmethod
    def of(cls, choice: ReleaseChoice, *, requested: bool) -> Pin:
        """Return the chosen wheel of a release.

        :param choice: the choice among its wheels; one was chosen.
        """
        wheel = choice.chosen
        if wheel is None:
            raise ValueError(choice.release)
        return cls(
            choice.release.name,
            wheel.filename.version,  # files of one release may spell it differently: 1, 1.0
            wheel.file,
            wheel.filename,
            choice,
            choice.properties,
            choice.context().properties,
            reason=choice.reason,
            requested=requested,
            is_direct=choice.release.is_direct or wheel.is_named_source,
        )

    @property
    def release(self) -> Version:
        """The version of its release.

        If builds of the release have different local versions, it is without local version.
        """
        return self.choice.release.version

    @property
    def label(self) -> Label | None:
        """The label in its file name; None for a plain wheel."""
        return self.filename.label

    @property
    def shown_version(self) -> str:
        """The version for messages; empty if it is unknown before the build."""
        origin = self.file.origin
        return str(self.version) if origin is None or origin.has_version else ""

    @property
    def context(self) -> VariantContext:
        """The context of variant markers in its metadata."""
        return VariantContext(self.label or "", self.supported)

    def __str__(self) -> str:
        return f"{self.name} {self.shown_version}".rstrip() + f" ({self.label})" * bool(self.label)


class Edge(NamedTuple):
    """The requirement of one project on another."""

    needing: NormalizedName
    needed: NormalizedName


class HeldBack(Struct, frozen=True):
    """A release that was chosen although a newer one was allowed."""

    name: NormalizedName
    version: Version
    latest: Version
    """The newest release that the requirements admit."""
    reason: str
    """The reason the newest release was not chosen, as a predicate about it."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} (latest {self.latest} {self.reason})"

    def to_mapping(self) -> dict[str, str]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "name": self.name,
            "version": str(self.version),
            "latest": str(self.latest),
            "reason": self.reason,
        }


class Resolution(Struct, frozen=True):
    """A set of wheels in which every requirement is met."""

    pins: tuple[Pin, ...]
    """The wheels to install, dependencies first."""
    kept: tuple[InstalledBuild, ...] = ()
    """The installed builds that belong to the solution unchanged, by name."""
    edges: tuple[Edge, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the user, one sentence each, the most important first."""
    details: tuple[str, ...] = ()
    """Details shown on request, one sentence each."""
    agreements: tuple[AgreementOutcome, ...] = ()
    """The agreements of the environment: values, and the concessions made for them."""
    replaced: frozenset[NormalizedName] = frozenset()
    """The projects whose requirements the user overrides or excludes."""
    held_back: tuple[HeldBack, ...] = ()
    """The releases older than the newest allowed ones, with the reasons."""
    unmet: tuple[str, ...] = ()
    """Requirements left unmet by the user's overrides, one sentence each."""
    missing_builds: tuple[str, ...] = ()
    """Builds that are missing because their releases do not go together, one sentence each."""
    superseded: Mapping[NormalizedName, str] = field(default_factory=lambda: MappingProxyType({}))
    """The installed packages to remove without a successor, with the reason as a clause."""
    context: ChoiceContext = ChoiceContext()

    def pin(self, name: NormalizedName) -> Pin | None:
        """Return the pin of a project, or None if it has none."""
        return next((pin for pin in self.pins if pin.name == name), None)
