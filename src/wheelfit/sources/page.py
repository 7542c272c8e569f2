"""The page of a project in an index: its files, and the facts stated about each."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.urls import last_segment, origin, redact, split_userinfo, without_fragment
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily

ACCEPT = (
    "application/vnd.pypi.simple.v1+json, "
    "application/vnd.pypi.simple.v1+html; q=0.2, text/html; q=0.1"
)
"""The ``Accept`` header for pages: JSON preferred, HTML understood (PEP 691)."""
BRIDGE = "bridge:"
"""The prefix of ``bridge:FAMILY/FILE``, the address of a file that only a bridged family has."""
LABELS_SUFFIX = ".labels.json"
"""The suffix of the file that lists the labels of the wheel beside it."""
VARIANTS_SUFFIX = "-variants.json"
"""End of the name of an index-level variants file (F-70)."""
NO_HASHES: Mapping[str, str] = MappingProxyType({})
"""The hashes of a file for which no hash was published."""


def time_of_upload(file: File) -> datetime | None:
    """Return a file's time of upload in UTC; None if unknown, unreadable or without time zone."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(file.upload_time or "")
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):  # the time in UTC may be out of range
        return None


class WheelOrigin(Struct, frozen=True):
    """The source of a wheel that was not published."""

    name: str
    """The archive, folder or repository, for messages, without credentials."""
    direct_url: Mapping[str, object] | None = None
    """The content of ``direct_url.json`` (PEP 610); None: an index lists it."""
    is_built: bool = False
    """Whether the wheel was built; before, only the release in its file name is known."""
    has_version: bool = True
    """Whether the version is known; if not, the one in the file name is a placeholder."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of the user, not a published file."""
        return self.direct_url is not None and "dir_info" in self.direct_url


class File(Struct, frozen=True):
    """A file as its listing entry describes it.

    Nothing here is interpreted: ``filename`` may not be a wheel, and ``requires_python`` may not be
    a specifier. The code that uses a value parses it.
    """

    filename: str
    """Name of the file, percent-decoded once (F-16), never with a path separator."""
    url: str
    """Absolute ``https:``, ``http:`` or ``file:`` URL, without credentials and fragment."""
    hashes: Mapping[str, str] = NO_HASHES
    """Promised digests: algorithm in lower case to lower-case hexadecimal digits."""
    requires_python: str | None = None
    """The specifier of the entry, as text; None if there is none."""
    yanked: str | None = None
    """None if not yanked; otherwise the reason, empty if none is stated (PEP 592)."""
    size: int | None = None
    """Bytes, if the index lists it."""
    upload_time: str | None = None
    """RFC 3339 text, if the index lists it (PEP 700)."""
    metadata_hashes: Mapping[str, str] | None = None
    """None: METADATA is not served apart (PEP 658). Otherwise its digests, maybe none."""
    source: str = ""
    """Name of the repository that listed the file, without credentials."""
    provenance: str | None = None
    """URL of the file's attestations, if there are any (PEP 740)."""
    forbidden: tuple[str, ...] = ()
    """Forbidden attributes in the entry of an index file, which are ignored (F-72)."""
    origin: WheelOrigin | None = None
    """The source from which wheelfit builds the file; None: the file is published."""
    declared_document: bytes | None = None
    """The ``variant.json`` that a bridge declares for the file, whose name here has the label."""
    added_requirements: tuple[str, ...] | None = None
    """The requirements that a bridge adds to METADATA (PEP 508); None: not determined yet, so the
    bridge finds them in its family when it reads METADATA."""

    def __hash__(self) -> int:
        return hash((self.filename, self.url))

    @property
    def display_name(self) -> str:
        """The name in messages: its own, or that of the source it will be built from."""
        return self.filename if self.origin is None or self.origin.is_built else self.origin.name

    @property
    def as_published(self) -> File:
        """The file under its published name."""
        if self.declared_document is None:
            return self
        plain = parse_wheel_filename(self.filename).plain
        return replace(self, filename=plain, declared_document=None, added_requirements=None)

    def with_added_requirements(self, metadata: bytes) -> bytes:
        """Return METADATA with the added requirements of the file."""
        texts = self.added_requirements or ()
        return b"".join(f"Requires-Dist: {text}\n".encode() for text in texts) + metadata

    @property
    def is_selector(self) -> bool:
        """Whether it is the selector wheel of a bridge, which is generated and not downloaded."""
        return self.url.startswith(BRIDGE)

    @property
    def is_local(self) -> bool:
        """Whether the file is on this machine."""
        return self.url.startswith("file:")


def file_of_url(url: str) -> File:
    """Return the file that a URL names, without a login in it.

    :raises UserError: the URL cannot be read.
    """
    try:
        origin(url)
        public_url = without_fragment(split_userinfo(url)[0])
    except ValueError as error:
        raise UserError(f"this URL cannot be read: {error}", where=redact(url)) from None
    return File(last_segment(public_url), public_url)


class Status(Struct, frozen=True):
    """The status of a project as a whole (PEP 792)."""

    marker: str = "active"
    """``active``, ``archived``, ``deprecated``, ``quarantined``, or a later one."""
    reason: str = ""
    """As the index states it; empty: none."""

    def __bool__(self) -> bool:
        return self.marker != "active"

    def __str__(self) -> str:
        return f"{self.marker}: {self.reason}" if self.reason else self.marker

    @property
    def is_quarantined(self) -> bool:
        """Whether the project may be harmful, so that no file of it is offered."""
        return self.marker == "quarantined"


STATUSES = ("active", "archived", "deprecated", "quarantined")
"""The markers that PEP 792 defines."""
ACTIVE = Status()
"""The status of a project without a stated one."""


class ProjectPage(Struct, frozen=True):
    """The files of one project at one source."""

    name: NormalizedName
    """The project, normalised."""
    files: Sequence[File]
    """In the order of the listing; wheels, source distributions, ``-variants.json``, others. A
    tuple, or `wheelfit.sources.release_files.PageFiles`."""
    source: str
    """Name of the repository that answered, without credentials."""
    notes: tuple[str, ...] = ()
    """The ignored parts of the page, each with the reason (F-136), one sentence each."""
    bridge: BridgeFamily | None = None
    """The family whose members are listed as its variants; None: it is not bridged."""
    status: Status = ACTIVE
    """The status of the project; a quarantined project has no files here."""
    order: tuple[str, ...] = ()
    """The sources by preference: any version of an earlier source is preferred to every version of
    a later one. Empty: newer versions are preferred."""
    markers: tuple[tuple[str, str | None], ...] = ()
    """Pairs of a source and a marker: files of the source are used only where one of its markers is
    true. Files of a source without a pair are used everywhere. An empty marker is always true; None
    is true where no other marker in the pairs is."""
    has_joined_builds: bool = False
    """Whether versions that differ in the local part alone (``+cu126``) are one release."""
    withheld: tuple[tuple[str, str], ...] = ()
    """Names of files that a wheelfit server does not offer, each with the reason; they are not
    among the files."""
    stamp: str = ""
    """A text that is equal as long as the page is unchanged, from
    `wheelfit.sources.repository.stamp_of`; empty: unknown."""
    fresh_seconds: float = 0.0
    """Seconds for which the page may be reused without a request; 0 for a page of several
    sources."""
