"""Files of indexes that were uploaded before a point in time, and none that came later."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from wheelfit.sources.page import time_of_upload
from wheelfit.sources.reading import Around

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository

_ISO = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?)?", re.IGNORECASE
)
_WORDS = re.compile(r"(\d{1,6}) ?(week|day|hour|minute)s?(?: ago)?", re.IGNORECASE)


def parse_cutoff(text: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> datetime:
    """Return the point in time before which files must have been uploaded.

    :param text: a date or time as RFC 3339 has it, in local time unless it names a zone; or how
        long ago, as ``P7D``, ``PT12H`` or ``7 days``.
    :param now: returns the present time, with its zone.
    :raises ValueError: it is neither.
    """
    text = text.strip()
    parts: list[int] | None = None
    if (iso := _ISO.fullmatch(text)) and any(iso.groups()):
        parts = [int(part or 0) for part in iso.groups()]
    elif words := _WORDS.fullmatch(text):
        units = ("week", "day", "hour", "minute")
        parts = [int(words[1]) if unit == words[2].lower() else 0 for unit in units]
    try:
        if parts is None:
            return datetime.fromisoformat(text).astimezone()
        weeks, days, hours, minutes = parts
        return now() - timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text[:40]!r} is neither a date, as 2026-01-31 or 2026-01-31T12:00:00Z, nor a "
            "duration, as P7D or '7 days'"
        ) from None


class UploadedBefore(Around):
    """An index without the files that were uploaded later: ``Repository``.

    Files whose time of upload the index does not tell are left out too, and it is said so, as in
    uv.

    :param index: the index.
    :param cutoff: the first moment that is too late.
    :param exceptions: projects with a moment of their own; None admits all files.
    :param note: told of an index that gives no times.
    """

    def __init__(
        self,
        index: Repository,
        cutoff: datetime | None,
        exceptions: Mapping[NormalizedName, datetime | None],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(index)
        self._cutoff = cutoff
        self._exceptions = exceptions
        self._note = note

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project with the files that were uploaded in time."""
        page = self._repository.project(name)
        cutoff = self._exceptions.get(name, self._cutoff)
        if page is None or cutoff is None:
            return page
        times = {file: time_of_upload(file) for file in page.files if _is_distribution(file)}
        if None in times.values():
            self._note(
                f"{self.name} does not tell when files were uploaded, so those of {name} are left "
                f"out; --uploaded-prior-to-package {name}=false takes them all the same"
            )
        files = tuple(
            file
            for file in page.files
            if file not in times or ((when := times[file]) is not None and when < cutoff)
        )
        return replace(page, files=files)


def _is_distribution(file: File) -> bool:
    return file.filename.endswith((".whl", ".tar.gz", ".zip"))
