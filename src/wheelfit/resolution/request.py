"""The request to the resolver."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import force_setattr
from packaging.specifiers import SpecifierSet

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.requirements import Requirement
from wheelfit.errors import InvalidFilename
from wheelfit.sources.page import File
from wheelfit.sources.urls import origin, redact, split_userinfo
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker


class RequestedRequirement(Struct, frozen=True):
    """A requirement and where it was written."""

    requirement: Requirement
    """Its marker, if any, is evaluated for the target, without any wheel (F-109)."""
    where: str = ""
    """File and line, such as ``requirements.txt:3``; empty: on the command line."""
    is_configured: bool = False
    """Whether the configuration names the file in `where`, so that the user may not expect it."""

    def __str__(self) -> str:
        text = redact(str(self.requirement))
        return f"{text} ({self.where})" if self.where else text


class DirectWheel(Struct, frozen=True):
    """A wheel that the user named by its path or URL (F-125)."""

    file: File
    """Its location, with the hashes that were passed with it."""
    extras: frozenset[NormalizedName] = frozenset()
    where: str = ""
    """File and line that names it; empty: the command line."""

    def requirement(self) -> Requirement:
        """Return the requirement it meets: its project in its version, without its location."""
        filename = parse_wheel_filename(self.file.filename)
        return Requirement(filename.name, self.extras, SpecifierSet(f"=={filename.version}"))


class DirectSource(Struct, frozen=True):
    """A project that the user named as a folder, an archive or a repository.

    Naming it is the consent to run its build backend.
    """

    url: str
    """``file:`` of a folder or archive, ``https:`` of an archive, ``git+…:`` of a repository; may
    contain credentials, and a ``subdirectory`` in its fragment.
    """
    name: NormalizedName | None = None
    """The project that it must be; None: any."""
    extras: frozenset[NormalizedName] = frozenset()
    hashes: frozenset[tuple[str, str]] = frozenset()
    """Digests of which the archive must have one; empty: any."""
    editable: bool = False
    """Whether the environment uses the folder itself (PEP 660)."""
    marker: Marker | None = None
    """The condition under which it applies; None: always."""
    where: str = ""
    """File and line that names it; empty: the command line."""

    def __str__(self) -> str:
        text = redact(self.url)
        return f"{text} ({self.where})" if self.where else text


class InstalledBuild(Struct, frozen=True):
    """An installed distribution, as far as a resolution needs it."""

    name: NormalizedName
    version: Version
    read: Callable[[], CoreMetadata]
    """Reads its core metadata; called at most once."""
    label: Label | None = None
    """The label that was chosen; None for a plain wheel."""
    properties: PropertySet = EMPTY
    document: VariantDocument | None = None
    """Its ``variant.json``, which shows whether it is still compatible (F-96); None: unknown."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f" ({self.label})" if self.label else "")


class ResolutionRequest(Struct, frozen=True):
    """The requirements, constraints and preferences of one resolution."""

    requirements: tuple[RequestedRequirement, ...] = ()
    wheels: tuple[DirectWheel, ...] = ()
    constraints: tuple[RequestedRequirement, ...] = ()
    """Limits on the versions of projects if anything requires them; without extras and URLs."""
    overrides: tuple[RequestedRequirement, ...] = ()
    """Requirements that replace all other requirements on their projects."""
    excluded: frozenset[NormalizedName] = frozenset()
    """Projects that are not installed even if a package requires them."""
    preferred: Mapping[NormalizedName, Version] = field(default_factory=dict)
    """Versions to try before newer ones, such as those of an older lock."""
    favoured: Mapping[NormalizedName, Version] = field(default_factory=dict)
    """Releases to try before newer ones for the sake of their builds. Unlike for `preferred`, newer
    releases are reported.
    """
    preferred_builds: Mapping[NormalizedName, tuple[Label, PropertySet]] = field(
        default_factory=dict
    )
    """The preferred build of a project, such as the installed one, for all releases that have it:
    its label and properties.
    """
    installed: Mapping[NormalizedName, InstalledBuild] = field(default_factory=dict)
    """The installed builds, which stay if they meet the request (F-96)."""
    builds_in_environment: Mapping[NormalizedName, InstalledBuild] = field(default_factory=dict)
    """The builds in the environment, also those that the request replaces; any of them that stays
    must agree with new ones. Default: ``installed``.
    """
    versions_in_environment: Mapping[NormalizedName, Version] = field(default_factory=dict)
    """The versions of all packages in the environment, also of those that the request replaces;
    default: those of ``installed``.
    """
    companions: frozenset[NormalizedName] = frozenset()
    """Installed variants that need requested packages or are needed by them. Like requested
    packages, they may be replaced, if necessary by another version.
    """
    upgrade: bool = False
    """Whether newer versions of requested projects replace installed ones."""
    upgrade_only: frozenset[NormalizedName] = frozenset()
    """Projects to upgrade, requested or not."""
    prereleases: bool = False
    """Whether pre-releases are treated like final releases."""
    dependencies: bool = True
    """Whether dependencies are resolved too."""
    require_hashes: bool = False
    """Whether every project must have allowed hashes."""
    hashes_required_by: str = ""
    """The setting that requires it, for errors; empty: the request itself."""

    def __post_init__(self) -> None:
        force_setattr(self, "installed", MappingProxyType(dict(self.installed)))
        force_setattr(self, "preferred", MappingProxyType(dict(self.preferred)))
        force_setattr(self, "favoured", MappingProxyType(dict(self.favoured)))
        builds = dict(self.builds_in_environment or self.installed)
        force_setattr(self, "builds_in_environment", MappingProxyType(builds))
        versions = self.versions_in_environment or {
            name: build.version for name, build in self.installed.items()
        }
        force_setattr(self, "versions_in_environment", MappingProxyType(dict(versions)))


def direct_wheel(
    url: str,
    *,
    extras: frozenset[NormalizedName] = frozenset(),
    hashes: Mapping[str, str] | None = None,
    where: str = "",
) -> DirectWheel:
    """Return the wheel that a URL names.

    :param url: ``https:``, ``http:`` or ``file:``; a fragment ``#sha256=…`` is an expected hash.
    :raises UserError: the URL cannot be read, or does not end in the name of a wheel.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme != "file":
            origin(url)
    except ValueError as error:
        raise UserError(
            f"this URL cannot be read: {error}", where=where or None, note=redact(url)
        ) from None
    filename = unquote(parts.path.rsplit("/", 1)[-1])  # F-16: decoded once
    try:
        parse_wheel_filename(filename)
    except InvalidFilename as error:
        raise UserError(
            f"{filename or url!r} is not a wheel file name, and only wheels are accepted",
            where=where or None,
            note=error.message,
            hint="keep the name that the wheel was published with"
            if filename.endswith(".whl")
            else "`wheelfit install` builds from a folder, an archive or a repository",
        ) from None
    expected = dict(hashes or {})
    for part in parts.fragment.split("&"):
        algorithm, _, digest = part.partition("=")
        if algorithm in _ALGORITHMS and digest:
            expected.setdefault(algorithm, digest.lower())
    # Credentials are found by host later, so the URL, which messages show, has none.
    url_without_credentials, _ = split_userinfo(parts._replace(fragment="").geturl())
    file = File(filename, url_without_credentials, MappingProxyType(expected), source="the request")
    return DirectWheel(file, extras, where)


_ALGORITHMS = ("sha256", "sha384", "sha512", "sha224", "sha1", "md5")
