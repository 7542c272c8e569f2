"""The cooldown of indexes: only files that were uploaded before a point in time count."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.sources.file_readers import RepositoryWrapper
from wheelfit.sources.page import File, ProjectPage, time_of_upload
from wheelfit.sources.repository import Repository, stamp_of
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName


_ISO = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?)?", re.IGNORECASE
)
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_WORDS = re.compile(r"(\d{1,6}) ?(week|day|hour|minute)s?(?: ago)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cutoff:
    """The point in time before which files must have been uploaded."""

    moment: datetime | None = None
    """With its zone; None: ``age`` before now."""
    age: timedelta = timedelta()

    def at(self, now: datetime) -> datetime:
        """Return the point in time.

        :param now: the present time, with its zone.
        """
        return now - self.age if self.moment is None else self.moment

    def __str__(self) -> str:
        if self.moment is not None:
            return f"before {self.moment.isoformat()}"
        seconds = int(self.age.total_seconds())
        unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
        return f"at least {count_of(seconds // size, unit)} ago"


def parse_cutoff(text: str) -> Cutoff:
    """Return the point in time before which files must have been uploaded.

    :param text: a date or time (RFC 3339), in local time unless it names a zone; or an age, as
        ``P7D``, ``PT12H`` or ``7 days``.
    :raises ValueError: it is neither.
    """
    text = text.strip()
    parts: list[int] | None = None
    if (iso_match := _ISO.fullmatch(text)) and any(iso_match.groups()):
        parts = [int(part or 0) for part in iso_match.groups()]
    elif words_match := _WORDS.fullmatch(text):
        units = ("week", "day", "hour", "minute")
        parts = [int(words_match[1]) if unit == words_match[2].lower() else 0 for unit in units]
    try:
        if parts is None:
            return Cutoff(datetime.fromisoformat(text).astimezone())
        weeks, days, hours, minutes = parts
        age = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
        datetime.now(UTC) - age  # raises before the year 1
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text[:40]!r} is neither a date, as 2026-01-31 or 2026-01-31T12:00:00Z, nor a "
            "duration, as P7D or '7 days'"
        ) from None
    return Cutoff(age=age)


@dataclass(frozen=True, slots=True)
class Cooldown:
    """The cutoffs of all projects."""

    default: Cutoff | None = None
    """None: every file is old enough."""
    exceptions: Mapping[NormalizedName, Cutoff | None] = field(default_factory=dict, hash=False)
    """Projects with a cutoff of their own, or with none."""

    def cutoff(self, name: NormalizedName) -> datetime | None:
        """Return the time before which files of a project must be uploaded; None: any time."""
        cutoff = self.exceptions.get(name, self.default)
        return None if cutoff is None else cutoff.at(datetime.now(UTC))

    def admitted(self, page: ProjectPage, note: Callable[[str], None]) -> ProjectPage:
        """Return the page of an index with the files that were uploaded in time.

        Files without a time of upload in the index are left out too, as in uv.

        :param note: called if there are such files.
        """
        cutoff = self.cutoff(page.name)
        if cutoff is None:
            return page
        times = {file: time_of_upload(file) for file in page.files if _is_distribution(file)}
        if None in times.values():
            note(
                f"{page.source} lists no upload times, so the files of {page.name} are left out; "
                f"--uploaded-prior-to-package {page.name}=false includes them"
            )
        files = tuple(
            file
            for file in page.files
            if file not in times
            or ((upload_time := times[file]) is not None and upload_time < cutoff)
        )
        # Not fresh, as more files count with time.
        return structs.replace(page, files=files, fresh_seconds=0.0)

    def refuses(self, name: NormalizedName, file: File) -> bool:
        """Return whether a file of an index is too new, or may be."""
        cutoff, upload_time = self.cutoff(name), time_of_upload(file)
        return cutoff is not None and (upload_time is None or upload_time >= cutoff)


class UploadedBefore(RepositoryWrapper):
    """An index without the files that were uploaded after their cutoff: ``Repository``.

    :param note: called for an index without times.
    """

    def __init__(self, index: Repository, cooldown: Cooldown, note: Callable[[str], None]) -> None:
        super().__init__(index)
        self._cooldown = cooldown
        self._note = note

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project with the files that were uploaded in time."""
        page = self._repository.project(name)
        return None if page is None else self._cooldown.admitted(page, self._note)

    def stamp(self, name: NormalizedName) -> str | None:
        """Return the stamp of a project's page; None: the page must be read."""
        cutoff = self._cooldown.cutoff(name)
        return stamp_of(self._repository, name) if cutoff is None else None


def _is_distribution(file: File) -> bool:
    return file.filename.endswith((".whl", ".tar.gz", ".zip"))
