"""Read the form of an upload while it arrives; the only importer of `python_multipart`.

The upload API of all publishing tools: one ``multipart/form-data`` request with ``:action`` =
``file_upload``, the metadata, digests, and the file as ``content``, which is written to a draft.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.errors import NeedsExtra, UploadRefused
from wheelfit.server.store.records import single_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.server.messages import Body
    from wheelfit.server.store.blobs import Draft


_PIECE = 1 << 18


class FormLimits(NamedTuple):
    """The limits of a form."""

    file: int = 10 << 30
    """Bytes of the file."""
    fields: int = 16 << 20
    """Bytes of all other fields together. Headers and data after the end of the form have the same
    limit, counted together.
    """
    parts: int = 10_000
    """Fields, the file included."""


@dataclass(frozen=True, slots=True)
class Upload:
    """The content of an upload form."""

    filename: str
    """The name that the client sent; untrusted."""
    draft: Draft
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The values of all other fields by name, in lower case with ``_``."""

    def first(self, name: str) -> str:
        """Return the first value of a field, without blanks around it; empty: there is none."""
        return self.fields.get(name, ("",))[0].strip()


@contextmanager
def read_form(
    body: Body,
    content_type: str,
    drafts: AbstractContextManager[Draft],
    *,
    limits: FormLimits = FormLimits(),
) -> Iterator[Upload]:
    """Read a form; on leaving, a file that was not stored is removed.

    :param limits: the form is refused at the first byte too many.
    :raises UploadRefused: ``bad-form`` or ``too-large``.
    """
    with drafts as draft:
        yield _Reader(content_type, draft, limits).read(body)


class _Reader:
    """A reader of one form."""

    def __init__(self, content_type: str, draft: Draft, limits: FormLimits) -> None:
        try:
            from python_multipart import MultipartParser
            from python_multipart.exceptions import FormParserError
            from python_multipart.multipart import parse_options_header
        except ImportError:
            raise NeedsExtra("server", "python-multipart") from None
        self._options = parse_options_header
        self._error: type[Exception] = FormParserError
        kind, options = parse_options_header(content_type.encode("latin-1", "replace"))
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise _bad_form("it is not multipart/form-data")
        self._draft = draft
        self._limits = limits
        self._fields: dict[str, list[str]] = {}
        self._filename: str | None = None
        self._fields_left = self._overhead_left = limits.fields
        self._parts = 0
        self._name = ""
        self._is_file = False
        self._value = bytearray()
        self._header = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._is_complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_begin": self._header_begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._data,
                    "on_part_end": self._end,
                    "on_end": self._message_end,
                },
            )
        except FormParserError as error:
            raise _bad_form(str(error)) from None

    def read(self, body: Body) -> Upload:
        """Read all of it."""
        is_past_end = False
        while piece := body.read(_PIECE):
            try:
                self._parser.write(piece)
            except self._error as error:
                raise _bad_form(str(error)[:300]) from None
            if self._is_complete:
                # The rest is ignored, and limited too.
                self._count_overhead(len(piece) if is_past_end else 0)
                is_past_end = True
        if not self._is_complete:
            raise _bad_form("it ended too early")
        if self._filename is None:
            raise _bad_form("it has no file called content")
        fields = {name: tuple(values) for name, values in self._fields.items()}
        return Upload(self._filename, self._draft, fields)

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > self._limits.parts:
            raise _bad_form(f"it has more than {self._limits.parts} fields")
        self._headers = {}
        self._value = bytearray()

    def _header_begin(self) -> None:
        self._header = (bytearray(), bytearray())

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._count_overhead(end - start)
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._count_overhead(end - start)
        self._header[1].extend(data[start:end])

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)

    def _headers_finished(self) -> None:
        kind, options = self._options(self._headers.get(b"content-disposition", b""))
        if kind != b"form-data" or b"name" not in options:
            raise _bad_form("a part of it has no name")
        # Some old clients write hyphens, and fields of metadata in upper or lower case.
        self._name = _text(options[b"name"]).lower().replace("-", "_")
        self._is_file = self._name == "content"
        if self._is_file:
            if self._filename is not None:
                raise _bad_form("it has two files")
            if b"filename" not in options:
                raise _bad_form("its file has no name")
            self._filename = _text(options[b"filename"])

    def _data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._is_file:
            if self._draft.size + len(piece) > self._limits.file:
                where = (self._filename or "")[:255]
                message = f"it has more than {self._limits.file} bytes"
                raise single_refusal("too-large", message, where)
            self._draft.write(piece)
            return
        self._fields_left -= len(piece)
        if self._fields_left < 0:
            raise _bad_form(f"its fields have more than {self._limits.fields} bytes")
        self._value += piece

    def _count_overhead(self, size: int) -> None:
        """Count bytes outside of fields and file."""
        self._overhead_left -= size
        if self._overhead_left < 0:
            raise _bad_form(f"beside its fields it has more than {self._limits.fields} bytes")

    def _end(self) -> None:
        if not self._is_file:
            self._fields.setdefault(self._name, []).append(_text(bytes(self._value)))

    def _message_end(self) -> None:
        self._is_complete = True


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _bad_form("it has text that is not UTF-8") from None


def _bad_form(message: str) -> UploadRefused:
    return single_refusal("bad-form", f"the form cannot be read: {message}", "the form")
