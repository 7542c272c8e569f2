"""The options and the result of a run of ``index generate``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.checking.findings import Finding
    from wheelfit.core.filename import Release


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """The options of a run."""

    releases: frozenset[Release] = frozenset()
    """Publish these alone, and leave others unchanged; empty: all releases."""
    keep_going: bool = False
    """Publish the rest even if files are refused."""
    replace: bool = False
    """Accept files that were published with other content."""
    prune: bool = False
    """Remove files that are on no page, neither now nor after the last change of the index."""
    allow_empty: bool = False
    """Remove all projects of an index if the folder has none; by default that is refused, since the
    folder may not be mounted."""
    check_content: bool = False
    """Compare all content of new wheels with RECORD."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """The content of a target after a run; if it is unchanged, the next run has nothing to do."""

    manifest: str
    """The digest of the manifest."""
    pages: Mapping[str, str]
    """The digest of each page, by path."""
    files: tuple[tuple[str, str, int], ...]
    """Path, digest and size of the listed files."""


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """The result of a run."""

    projects: int = 0
    releases: int = 0
    files: int = 0
    """On all pages, index files included."""
    hashed: int = 0
    """Files that were hashed, because they are new or have changed."""
    refused: tuple[Finding, ...] = ()
    excluded: tuple[str, ...] = ()
    """Files that are left out of the pages, because files were refused."""
    is_published: bool = False
    """Whether the pages were replaced; False if a file was refused, without `keep_going`."""
    written: tuple[str, ...] = ()
    """Paths of the files written to the target, in that order."""
    removed: tuple[str, ...] = ()
    unreferenced: int = 0
    """The number of files in the target that are on no page."""
    notes: tuple[str, ...] = ()
    state: TargetState | None = field(default=None, repr=False, compare=False)
    """The state of the target after this run, if it is published."""
