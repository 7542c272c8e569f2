"""The page of a project in the JSON Simple API (PEP 691), decoded and checked for types.

Importing this module takes as long as reading a hundred small pages, so small pages of the usual
form are read by `wheelfit.sources.simple_api` without it.
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
    """The content of a project's page."""

    files: list[JsonFile]
    meta: _Meta = msgspec.field(default_factory=_Meta)
    project_status: _Status | None = None
    alternate_locations: object = None


_decoder = msgspec.json.Decoder(JsonPage)


def decode_page(body: bytes) -> JsonPage:
    """Decode a page.

    :param body: the page, decompressed.
    :raises ValueError: it is not valid; the message ends with the JSON path of the fault.
    """
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
