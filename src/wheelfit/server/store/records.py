"""What is known of projects, files, stages, tokens and owners: the interface and its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from wheelfit.errors import UploadRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label


PUBLISHED = ""
"""The stage of files that everybody sees."""

Scope = Literal["read", "upload", "admin"]
"""What a token allows: to see a private index; to add, yank and publish besides; or also to
delete."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Say one thing that keeps a file from an index."""

    reference: str
    """Its stable name, as ``name-taken``."""
    message: str
    """What is wrong, one sentence without a final full stop."""
    where: str
    """The file, with the member or field after a colon if it is about one."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message} [{self.reference}]"


def refusal(violations: Sequence[Violation]) -> UploadRefused:
    """Return all that is wrong as one error."""
    first, *others = violations
    return UploadRefused(
        first.message,
        where=first.where,
        note="\n".join(str(other) for other in others) or None,
        details=(
            {"reference": one.reference, "message": one.message, "where": one.where}
            for one in violations
        ),
    )


@dataclass(frozen=True, slots=True)
class NewFile:
    """Hold what will be known of a file; it was checked by itself."""

    filename: str
    project: NormalizedName
    version: Version
    sha256: str
    size: int
    uploaded: str
    """Time in RFC 3339, UTC."""
    folded: str = ""
    """What no other file name may be equal to; empty: the name in lower case."""
    label: Label | None = None
    """Of a variant wheel."""
    requires_python: str | None = None
    metadata: bytes | None = field(default=None, repr=False)
    """METADATA of a wheel, served beside it."""
    document: bytes | None = field(default=None, repr=False)
    """``variant.json`` of a variant wheel."""
    provenance: bytes | None = field(default=None, repr=False)
    """What was attested, as it is served (PEP 740)."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Hold what is known of a file, all but the larger parts."""

    filename: str
    project: NormalizedName
    version: str
    """As its name spells it."""
    label: str | None
    sha256: str
    size: int
    uploaded: str
    """When it became visible, in RFC 3339; of a staged file, when it came."""
    requires_python: str | None
    metadata_sha256: str | None
    """None: no METADATA is served beside it."""
    has_provenance: bool
    yanked: str | None
    """None: it is not; else the reason, maybe empty (PEP 592)."""
    stage: str
    """`PUBLISHED`, or the stage that it waits in."""


@dataclass(frozen=True, slots=True)
class ReleaseDocument:
    """Hold what the index says of the variants of a release (F-70)."""

    filename: str
    """As ``torch-2.8.0-variants.json``."""
    sha256: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """Hold what a page says of such a document."""

    filename: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Hold what a page lists, all of one moment."""

    files: tuple[StoredFile, ...]
    """Sorted by name; at least one."""
    documents: tuple[ListedDocument, ...]
    """One for each release that has variant wheels (F-70)."""


@dataclass(frozen=True, slots=True)
class Change:
    """Hold one entry of the log of changes."""

    serial: int
    """Ever growing; what was done as one act has one number."""
    project: NormalizedName
    action: str
    """``upload`` (of a staged file: its publication), ``yank``, ``unyank`` or ``delete``."""
    filename: str
    time: str
    """RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Describe a place for files that nobody sees until they are published together."""

    id: str
    owner: str
    """Who opened it."""
    created: str
    """RFC 3339, UTC."""
    expires: str
    """When it and its files may go away if they were not published; RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class Token:
    """Say what somebody who has a secret may do; the secret itself is nowhere kept."""

    id: str
    """Names it in lists; no secret."""
    owner: str
    """Who it was given to: what `Records.owners` of a project has."""
    scopes: frozenset[Scope]
    created: str
    """RFC 3339, UTC."""
    projects: frozenset[NormalizedName] | None = None
    """What it is for; None: every project that its owner owns, and new ones."""
    expires: str | None = None
    """RFC 3339, UTC; None: never."""
    note: str = ""
    """What people wrote beside it."""


class Records(Protocol):
    """Know projects and files; decide who wins when several want the same.

    Every method may be called from several threads, and by several processes and machines on
    the same database, at once. What one writes is there for all as soon as it returns, and is
    durable; a method that raises has changed nothing. Each may raise ``StorageUnavailable``;
    if that happens while something is written it can be either way, and doing it again is
    right for every method.

    A file is *visible* in a stage if it is published or waits in that very stage.
    """

    # --- reading ---------------------------------------------------------------------

    def projects(self, stage: str = PUBLISHED) -> tuple[NormalizedName, ...]:
        """Return the names of all projects with a visible file, sorted."""

    def listing(self, project: NormalizedName, stage: str = PUBLISHED) -> Listing | None:
        """Return what is visible of a project, all of one moment; None if that is nothing."""

    def file(self, filename: str, stage: str = PUBLISHED) -> StoredFile | None:
        """Return what is known of a visible file."""

    def metadata(self, filename: str, stage: str = PUBLISHED) -> bytes | None:
        """Return METADATA of a visible wheel."""

    def provenance(self, filename: str, stage: str = PUBLISHED) -> bytes | None:
        """Return what was attested about a visible file."""

    def release_document(self, filename: str, stage: str = PUBLISHED) -> ReleaseDocument | None:
        """Return what is said of the variants of a release.

        :param filename: exactly as it is listed.
        """

    def serial(self, project: NormalizedName | None = None) -> int:
        """Return the number of the last visible change of a project, or of anything.

        0: there never was one. It stays equal as long as what is visible does.
        """

    def claims(self, project: NormalizedName) -> bool:
        """Return whether a project belongs here: it was published once, or waits in a stage.

        Then nobody else may supply it, whether anything of it is visible or not.
        """

    def changes(self, after: int, most: int = 1000) -> tuple[Change, ...]:
        """Return the log behind a number; acts are never cut in two.

        :param after: the number up to which all is known.
        :param most: about so many; more if one act had more.
        """

    # --- files -----------------------------------------------------------------------

    def check(self, new: NewFile, *, stage: str = PUBLISHED, by: str | None = None) -> bool:
        """Say whether a file could be added now: as `add` does, without doing it."""

    def add(
        self,
        new: NewFile,
        *,
        keep: Callable[[], None],
        stage: str = PUBLISHED,
        by: str | None = None,
    ) -> bool:
        """Add a file; with it the document of its release is made anew (F-70, F-74).

        Of several that want the same name at once exactly one wins; for another one with the
        same bytes that is success too.

        :param new: the file.
        :param keep: sees to it that the bytes are there, which they should be already. Called
            while nobody else can write, so that a file without bytes is never recorded,
            whatever is cleaned up meanwhile.
        :param stage: where it waits; by default it is published at once.
        :param by: the owner of the project from now on if nobody owns it, else one of its
            owners; None: whoever may.
        :return: False if the very same file was there before.
        :raises UploadRefused: ``name-taken``, ``name-collision``, ``name-deleted``,
            ``other-spelling`` of the version, ``second-sdist``, ``not-an-owner``,
            ``inconsistent-variants``, or ``no-such-stage``; all of them that hold.
        """

    def yank(self, filenames: Iterable[str], reason: str | None, *, time: str) -> int:
        """Yank published files, or take that back; return how many there were (PEP 592).

        :param filenames: those that do not exist are passed over.
        :param reason: None takes it back.
        :param time: now, in RFC 3339.
        """

    def delete(self, filenames: Iterable[str], *, time: str) -> int:
        """Delete files; return how many there were.

        The name of one that was published never comes back, in no spelling. Bytes that
        nobody needs go when somebody cleans up.

        :param filenames: those that do not exist are passed over.
        :param time: now, in RFC 3339.
        """

    # --- stages ----------------------------------------------------------------------

    def open_stage(self, stage: Stage, secret: bytes) -> None:
        """Make a stage.

        :param stage: with an identifier that no other has.
        :param secret: the digest of its token.
        """

    def stage(self, secret: bytes) -> Stage | None:
        """Return the stage that a token opens.

        :param secret: the digest of the token.
        """

    def stages(self) -> tuple[Stage, ...]:
        """Return all stages that were neither published nor dropped, oldest first."""

    def staged_projects(self, stage: str) -> frozenset[NormalizedName]:
        """Return the projects of which files wait in a stage."""

    def publish(self, stage: str, *, time: str) -> tuple[StoredFile, ...]:
        """Show all files of a stage, as one act, and end it; return them as they are then.

        A stage that is not there any more has nothing to publish.

        :param time: now, in RFC 3339; what the files get as the time of their upload.
        :raises UploadRefused: ``inconsistent-variants`` with what was published meanwhile, or
            ``other-spelling`` than that has, or ``second-sdist``; the stage stays as it is.
        """

    def drop(self, stage: str) -> int:
        """End a stage and forget its files; return how many. Their names are free again."""

    # --- tokens and owners --------------------------------------------------------------

    def add_token(self, token: Token, secret: bytes) -> None:
        """Let a token be known.

        :param token: with an identifier that no other has.
        :param secret: the digest of what its holder has.
        """

    def add_first_token(self, token: Token, secret: bytes, keep: Callable[[], None]) -> bool:
        """Store a token if there is none at all; of several callers at once, one succeeds.

        :param token: as for `add_token`.
        :param secret: as for `add_token`.
        :param keep: called before the token is valid, if it is the first, to write its secret
            down. If it raises, no token is stored.
        :return: whether it was stored.
        """

    def token(self, secret: bytes) -> Token | None:
        """Return what a token allows, expired or not.

        :param secret: the digest of what somebody showed.
        """

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, oldest first."""

    def revoke(self, token: str) -> bool:
        """Forget a token; False if there is none of this identifier."""

    def owners(self, project: NormalizedName) -> frozenset[str]:
        """Return who owns a project; nobody, if it is new."""

    # --- cleaning up -------------------------------------------------------------------

    def forget_unused(
        self, digests: Sequence[str], forget: Callable[[str], None]
    ) -> tuple[str, ...]:
        """Forget bytes that no file has, published or staged; return which.

        :param digests: what to look at; a few, because nobody else can write meanwhile.
        :param forget: called for each that no file has.
        """

    def close(self) -> None:
        """Let go of the database; may be called more than once."""
