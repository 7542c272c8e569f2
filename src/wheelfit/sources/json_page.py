"""Decode and type the page of a project as the JSON Simple API writes it (PEP 691).

This is the only module with the format of such a page. Importing its dependencies takes as long as
a hundred small pages; `wheelfit.sources.simple_api` reads those without it.
"""

from __future__ import annotations

import msgspec


class _Meta(msgspec.Struct, rename="kebab"):
    api_version: str = "1.0"
    tracks: object = None


class _Status(msgspec.Struct):
    status: str = "active"
    reason: str | None = None


class JsonFile(msgspec.Struct, rename="kebab", gc=False):
    """A file entry of a JSON page."""

    filename: str
    url: str
    hashes: dict[str, str | None] = {}
    requires_python: str | None = None
    yanked: bool | str | None = None
    size: int | None = None
    upload_time: str | None = None
    core_metadata: bool | dict[str, str | None] | None = None
    dist_info_metadata: bool | dict[str, str | None] | None = None
    provenance: str | None = None


class JsonPage(msgspec.Struct, rename="kebab"):
    """The content of a JSON index page."""

    files: list[JsonFile]
    meta: _Meta = msgspec.field(default_factory=_Meta)
    project_status: _Status | None = None
    alternate_locations: object = None


_decoder = msgspec.json.Decoder(JsonPage)


def decoded(body: bytes) -> JsonPage:
    """Read a page.

    :param body: the page, decompressed.
    :raises ValueError: it is no such page; the message ends with the JSON path of what is wrong.
    """
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
