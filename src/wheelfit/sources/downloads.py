"""One download: checked while it runs, taken up again where it broke off."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from wheelfit.errors import HashMismatch
from wheelfit.sources.budget import Budget
from wheelfit.sources.client import unexpected
from wheelfit.sources.hashes import Check
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from wheelfit.sources.client import Client
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.transport import Response


__all__ = ["Download"]


def __dir__() -> list[str]:
    return __all__


_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d+/(\d+|\*)", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)


class Download:
    """Fetch one file.

    :param client: asks the server.
    :param file: what is wanted, with its hashes and its size if known.
    :param progress: told of the bytes.
    :param budget: says whether there may be as many.
    """

    def __init__(
        self, client: Client, file: File, progress: Progress, budget: Budget | None = None
    ) -> None:
        self._client = client
        self._file = file
        self._budget = budget or Budget()
        self._where = redact(file.url)
        self._unsure = False  # whether bytes of two requests were joined unchecked
        self._tried_again = False
        self._progress = progress
        self._validator = ""
        self._check = self._new_check()

    def into(self, target: IO[bytes]) -> None:
        """Write the file, completely and checked.

        :param target: an empty file open for writing; after an error its content is worthless.
        :raises HashMismatch: a promised hash is not met.
        :raises IntegrityError: it is longer or shorter than promised.
        :raises Unreachable: it broke off, repeatedly.
        :raises UnexpectedStatus: the server answered with something else.
        :raises TooLarge: there would be more than may be fetched.
        """
        self._budget.ask(self._file.size, self._where)
        failures = 0
        while True:
            before = self._check.count
            try:
                self._attempt(target)
                self._check.finish()
                break
            except HashMismatch:
                if not self._unsure or self._tried_again:
                    raise
                # The file may have changed between two requests: once more, from the start.
                self._tried_again = True
                self._check = self._new_check()
            except Interrupted as interrupted:
                failures = 1 if self._check.count > before else failures + 1
                self._client.wait_after(failures, interrupted, self._file.url)
        self._progress.done()

    def _attempt(self, target: IO[bytes]) -> None:
        headers = {}
        if self._check.count and (self._validator or self._file.hashes):
            headers["Range"] = f"bytes={self._check.count}-"
            if self._validator:
                headers["If-Range"] = self._validator
            else:
                self._unsure = True
        with self._client.stream(self._file.url, headers=headers) as (response, where):
            if not self._continues(response):
                if response.status == 416:
                    self._start_over(target, response)
                    raise Interrupted("the server has no more bytes than it already gave")
                if response.status != 200:
                    raise unexpected(response.status, where)
                self._start_over(target, response)
            for chunk in response.chunks():
                self._check.update(chunk)
                self._budget.spend(len(chunk), self._where)
                target.write(chunk)
                self._progress.advance(len(chunk))

    def _continues(self, response: Response) -> bool:
        """Tell whether this is the rest of what is there already."""
        if response.status != 206:
            return False
        match = _CONTENT_RANGE.match(response.headers.get("content-range", ""))
        # Another offset than asked for would put bytes in the wrong place.
        return match is not None and int(match[1]) == self._check.count > 0

    def _start_over(self, target: IO[bytes], response: Response) -> None:
        target.seek(0)
        target.truncate()
        self._unsure = False
        self._check = self._new_check()
        etag = response.headers.get("etag", "")
        strong = "" if etag.startswith("W/") else etag
        self._validator = strong or response.headers.get("last-modified", "")
        length = response.headers.get("content-length", "")
        announced = int(length) if _LENGTH.fullmatch(length) else None
        self._progress.start(announced if announced is not None else self._file.size)

    def _new_check(self) -> Check:
        return Check(self._file.hashes, self._file.size, where=self._where)
