"""The records of projects, files, stages and tokens, as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from wheelfit.errors import UploadRefused
from wheelfit.sources.page import ACTIVE, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label


PUBLISHED = ""
"""The stage of published files."""
ONE_TIME_PREFIX = "once-"
"""The prefix of identifiers of tokens issued for a one-time credential."""

Scope = Literal["read", "upload", "admin"]
"""A permission: to read a private index; to add, yank and publish; also to delete."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A reason why an index does not accept a file."""

    reference: str
    """Its stable name, such as ``name-taken``."""
    message: str
    """The fault, one sentence without a final full stop."""
    where: str
    """The file, with the member or field after a colon if it is about one."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message} [{self.reference}]"


def single_refusal(reference: str, message: str, where: str) -> UploadRefused:
    """Return one violation as an error."""
    return refusal([Violation(reference, message, where)])


def refusal(violations: Sequence[Violation]) -> UploadRefused:
    """Return violations as one error."""
    first, *others = violations
    return UploadRefused(
        first.message,
        where=first.where,
        note="\n".join(str(violation) for violation in others) or None,
        details=map(asdict, violations),
    )


def violations_of(error: UploadRefused) -> tuple[Violation, ...]:
    """Return the violations of an error that `refusal` made."""
    names = ("reference", "message", "where")
    return tuple(Violation(*(str(detail[name]) for name in names)) for detail in error.details)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A checked file to add."""

    filename: str
    project: NormalizedName
    version: Version
    sha256: str
    size: int
    uploaded: str
    """Time in RFC 3339, UTC."""
    folded: str = ""
    """The key by which file names collide; empty: the name in lower case."""
    label: Label | None = None
    requires_python: str | None = None
    metadata: bytes | None = field(default=None, repr=False)
    """METADATA of a wheel, served beside it."""
    document: bytes | None = field(default=None, repr=False)
    provenance: bytes | None = field(default=None, repr=False)
    """The attestations, as they are served (PEP 740)."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The record of a file, without its larger parts."""

    filename: str
    project: NormalizedName
    version: str
    """As its name spells it."""
    label: str | None
    sha256: str
    size: int
    uploaded: str
    """The time it became visible, in RFC 3339; of a staged file, the time of its upload."""
    requires_python: str | None
    metadata_sha256: str | None
    """None: no METADATA is served beside it."""
    yanked: str | None
    """The reason why it is yanked, may be empty; None: it is not yanked (PEP 592)."""
    stage: str
    """`PUBLISHED`, or the stage that it waits in."""
    has_provenance: bool


@dataclass(frozen=True, slots=True)
class ReleaseDocument:
    """The variants document of a release (F-70)."""

    filename: str
    """As ``torch-2.8.0-variants.json``."""
    sha256: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """The entry of a variants document on a page."""

    filename: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredListing:
    """The files and documents on a page, all of one moment."""

    files: tuple[StoredFile, ...]
    """Sorted by name; at least one."""
    documents: tuple[ListedDocument, ...]
    """One for each release that has variant wheels (F-70)."""
    status: Status = ACTIVE
    """The status of the project (PEP 792)."""


@dataclass(frozen=True, slots=True)
class RecentUpload:
    """A release with a recent upload."""

    project: NormalizedName
    version: str
    time: str
    """Of the last upload, in RFC 3339."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A place for files that are hidden until they are published together."""

    id: str
    owner: str
    """The owner who opened it."""
    created: str
    """RFC 3339, UTC."""
    expires: str
    """The time it and its unpublished files may be removed; RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class Token:
    """The permissions of a secret, which itself is never stored."""

    id: str
    """Its public identifier."""
    owner: str
    """Its holder, as among `Records.owners` of a project."""
    scopes: frozenset[Scope]
    created: str
    """RFC 3339, UTC."""
    projects: frozenset[str] | None = None
    """Names and patterns, as ``acme-*``; None: to upload, every project that its owner owns, and
    new ones; to read, all."""
    expires: str | None = None
    """RFC 3339, UTC; None: never."""
    note: str = ""
