"""Cache parsed large pages, so that they are not parsed again in every run."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from wheelfit.core.digests import sha256_of
from wheelfit.sources.cache import parsed_page_key
from wheelfit.sources.cached_pages import reliable_for
from wheelfit.sources.page import NO_HASHES, File, OtherPages, ProjectPage, Status
from wheelfit.sources.simple_api import parse_page
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec.msgpack import Decoder
    from packaging.utils import NormalizedName

    from wheelfit.sources.cache import Store
    from wheelfit.sources.client import Answer


_WORTH = 16 << 10  # bytes; a smaller page is parsed in no time
_KIND = "parsed"
# A change of the row raises the version in `parsed_page_key`.
_Row: TypeAlias = tuple[
    str,
    str,
    dict[str, str] | None,
    str | None,
    str | None,
    int | None,
    str | None,
    dict[str, str] | None,
    str | None,
    tuple[str, ...] | None,
]

_Kept: TypeAlias = tuple[list[_Row], list[str], tuple[str, ...], tuple[str, ...], str, str]


class ParsedPages:
    """A parser of answers into pages, with a store of parsed pages.

    An entry belongs to the exact bytes of a page, where it came from and the
    version of wheelfit, so it is never out of date. Reading it back takes a
    sixth of the time that HTML takes.

    :param store: the cache.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, answer: Answer, project: NormalizedName, *, source: str) -> ProjectPage:
        """Return the page in an answer.

        :param project: the project of the requested page.
        :param source: name of the repository.
        :raises InvalidPage: as `parse_page`.
        """
        stamp = stamp_of_answer(answer)
        worth = len(answer.body) >= _WORTH and self._store.keeps
        key = parsed_page_key(__version__, source, stamp)
        entry = self._store.read(_KIND, key) if worth else None
        if entry is not None:
            page = _decoded(entry.body, project, source)
            return replace(page, stamp=stamp, fresh=reliable_for(answer.headers))
        content_type = answer.headers.get("content-type", "")
        page = parse_page(answer.body, content_type, answer.url, project, source=source)
        if worth:
            self._store.write(_KIND, key, {}, _encoded(page))
        return replace(page, stamp=stamp, fresh=reliable_for(answer.headers))


def stamp_of_answer(answer: Answer) -> str:
    """Return a text that stays equal as long as a page does, wherever it is kept.

    :param answer: the page as its index sent it.
    """
    content_type = answer.headers.get("content-type", "")
    return f"{answer.url} {content_type} {sha256_of(answer.body).hex()}"


def _encoded(page: ProjectPage) -> bytes:
    rows: list[_Row] = [
        (
            file.filename,
            file.url,
            dict(file.hashes) or None,
            file.requires_python,
            file.yanked,
            file.size,
            file.upload_time,
            None if file.metadata_hashes is None else dict(file.metadata_hashes),
            file.provenance,
            file.forbidden or None,
        )
        for file in page.files
    ]
    from msgspec.msgpack import encode  # 15 ms, for large pages

    places = (page.elsewhere.tracks, page.elsewhere.alternates)
    return encode((rows, page.notes, *places, page.status.marker, page.status.reason))


@cache
def _decoder() -> Decoder[_Kept]:
    from msgspec.msgpack import Decoder

    return Decoder(_Kept)


def _decoded(data: bytes, project: NormalizedName, source: str) -> ProjectPage:
    rows, notes, tracks, alternates, marker, reason = _decoder().decode(data)
    files = tuple(
        File(
            filename=filename,
            url=url,
            hashes=_frozen(hashes),
            requires_python=requires_python,
            yanked=yanked,
            size=size,
            upload_time=upload_time,
            metadata_hashes=None if metadata_hashes is None else _frozen(metadata_hashes),
            provenance=provenance,
            source=source,
            forbidden=forbidden or (),
        )
        for (
            filename,
            url,
            hashes,
            requires_python,
            yanked,
            size,
            upload_time,
            metadata_hashes,
            provenance,
            forbidden,
        ) in rows
    )
    elsewhere, status = OtherPages(tracks, alternates), Status(marker, reason)
    return ProjectPage(project, files, source, tuple(notes), elsewhere=elsewhere, status=status)


def _frozen(hashes: dict[str, str] | None) -> Mapping[str, str]:
    return MappingProxyType(hashes) if hashes else NO_HASHES
