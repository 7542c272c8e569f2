"""Pages of the Simple API: bytes to values, nothing fetched (PEP 503, 691, 700, 714)."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from wheelfit.sources.page import ACTIVE, NO_HASHES, VARIANTS_SUFFIX, File, ProjectPage, Status
from wheelfit.sources.urls import join, last_segment, origin, redact, split_userinfo
from wheelfit_runtime.errors import InvalidPage
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.sources.html_links import Link


_JSON_TYPES = frozenset(
    {
        "application/vnd.pypi.simple.v1+json",
        "application/vnd.pypi.simple.latest+json",
        "application/json",
    }
)
_HTML_TYPES = frozenset(
    {
        "application/vnd.pypi.simple.v1+html",
        "application/vnd.pypi.simple.latest+html",
        "application/xhtml+xml",
        "text/html",
    }
)
# Between a name and a version there is a dash in every kind of file.
_DISTRIBUTION = pattern(r"[^-]+-.+\.(?:whl|tar\.gz|zip|tgz|tar\.bz2|tar\.xz|egg)")
_FILE_NAME = pattern(r"(?!\.{1,2}$)(?!\s)[^/\\\x00-\x1f\x7f]{1,255}+(?<!\s)")
_HASH = pattern(r"(?:^|&)(?!egg=|subdirectory=)([a-z0-9_]+)=([0-9A-Fa-f]+)(?=&|$)")
_MAX_TEXT_SIZE = 500
_CHARSET = pattern(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_PLAIN_HOST = pattern(r"https?://[A-Za-z0-9.-]++(?::[1-5]?\d{1,4})?+/")  # most ports too
_FOREIGN_SCHEME = pattern(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def parse_page(
    body: bytes, content_type: str, url: str, project: NormalizedName, *, source: str = ""
) -> ProjectPage:
    """Read the page of one project.

    Entries that cannot be used (a name with a path separator, a link to a local file from a remote
    page) are left out, with a note on the page. All entries of a quarantined project are left out,
    even if the index lists some.

    :param body: the page, decompressed.
    :param content_type: the ``Content-Type`` of the answer; empty if there was none.
    :param url: the URL of the page, after redirects, without credentials.
    :param source: name of the repository; by default the URL.
    :raises InvalidPage: it is neither JSON nor HTML of API version 1.
    """
    source = source or redact(url)
    files, notes, status = _read(body, content_type, url, source)
    if status:
        notes = (*notes, f"the project is {status}")
    if status.is_quarantined:
        files = ()
    return ProjectPage(project, files, source, notes, status=status)


def parse_links(
    body: bytes, content_type: str, url: str, *, source: str
) -> tuple[tuple[File, ...], tuple[str, ...]]:
    """Read every file that a page lists, of any project.

    For pages given as ``--find-links``; otherwise as ``parse_page``.

    :return: the files, and notes on ignored entries.
    :raises InvalidPage: it is neither JSON nor HTML of API version 1.
    """
    return _read(body, content_type, url, source)[:2]


_Read: TypeAlias = tuple[tuple[File, ...], tuple[str, ...], Status]
"""Files, notes, and the status of the project."""


def _read(body: bytes, content_type: str, url: str, source: str) -> _Read:
    kind, charset = _kind(content_type, body)
    if kind == "json":
        return _from_json(body, url, source)
    if kind == "html":
        return _from_html(body, charset, url, source)
    raise InvalidPage(
        f"the answer is not an index page but {content_type or 'of no stated type'}",
        where=redact(url),
        hint="check the index URL; it usually ends with /simple/",
    )


def _kind(content_type: str, body: bytes) -> tuple[str, str]:
    media = content_type.partition(";")[0].strip().lower()
    if media in _JSON_TYPES:
        return "json", "utf-8"
    if media in _HTML_TYPES:
        charset = _CHARSET.search(content_type)
        return "html", charset[1] if charset else "utf-8"
    if not content_type:  # a file on disk, or a server that does not state it
        return ("json" if body.lstrip()[:1] == b"{" else "html"), "utf-8"
    return "", ""


# --- entries, however they were written -----------------------------------------


class _Entries:
    """The files of one page, and notes on ignored entries."""

    def __init__(self, page: str, source: str, base: str | None = None) -> None:
        self._source = source
        # The location of the page, not the base of its links.
        self._is_local = page.startswith("file:")
        self._join = _joiner(base or page)
        self.files: list[File] = []
        self.notes: list[str] = []

    def add(
        self,
        href: str,
        *,
        choose: Callable[[str], str | None],
        hashes: Mapping[str, str] = NO_HASHES,
        requires_python: str | None = None,
        yanked: str | None = None,
        size: int | None = None,
        upload_time: str | None = None,
        metadata_hashes: Mapping[str, str] | None = None,
        provenance: str | None = None,
    ) -> None:
        """Add the file of an entry, or a note why it is ignored.

        :param choose: returns the name of the file for the last segment of the URL; None for a link
            that is not a file.
        """
        try:
            url, fragment = self._resolved(href)
        except ValueError:
            self.notes.append("ignored a link that is not a URL")
            return
        filename = choose(last_segment(url))
        if filename is None:
            return
        if not (_FILE_NAME.fullmatch(filename) and filename.isprintable()):
            self.notes.append(f"ignored {filename[:60]!r}: not the name of a file")
            return
        if not self._may_refer_to(url):
            self.notes.append(f"ignored {filename}: its link is neither http nor https")
            return
        forbidden: tuple[str, ...] = ()
        if filename.endswith(VARIANTS_SUFFIX):
            # F-72: attributes beyond the identity of the file do not count.
            attributes = {
                "requires-python": requires_python,
                "yanked": yanked,
                "core-metadata": metadata_hashes,
            }
            forbidden = tuple(name for name, value in attributes.items() if value is not None)
            requires_python = yanked = metadata_hashes = None
        if fragment and not hashes:
            digests = {name: digest.lower() for name, digest in _HASH.findall(fragment)}
            hashes = MappingProxyType(digests) if digests else NO_HASHES
        self.files.append(
            File(
                filename=filename,
                url=url,
                hashes=hashes,
                requires_python=requires_python or None,
                yanked=None if yanked is None else _one_line(yanked),
                size=size,
                upload_time=upload_time,
                metadata_hashes=metadata_hashes,
                provenance=None if provenance is None else self._beside(provenance),
                source=self._source,
                forbidden=forbidden,
            )
        )

    def _beside(self, href: str) -> str | None:
        """Return the URL of a document about a file; None if it may not be read."""
        try:
            url, _ = self._resolved(href)
        except ValueError:
            return None
        return url if self._may_refer_to(url) else None

    def _resolved(self, href: str) -> tuple[str, str]:
        """Return the URL of a link, and its fragment.

        :raises ValueError: it is not a URL.
        """
        url, _, fragment = self._join(href).partition("#")
        url = split_userinfo(url)[0]  # a login from the index is not one of the user's
        if not (_PLAIN_HOST.match(url) or _FOREIGN_SCHEME.match(url)):
            origin(url)
        return url, fragment

    def _may_refer_to(self, url: str) -> bool:
        # A remote page must not reach local files.
        return not _FOREIGN_SCHEME.match(url) or (self._is_local and url.startswith("file:"))

    def result(self) -> tuple[tuple[File, ...], tuple[str, ...]]:
        return tuple(self.files), tuple(dict.fromkeys(self.notes))


def _joiner(base: str) -> Callable[[str], str]:
    """Return a function that resolves links, quickly if many share a folder."""
    folders: dict[str, str] = {}
    plain = re.compile(r"[!-~]*+").fullmatch
    complete = re.compile(r"https?://[!-~]++").fullmatch

    def resolve(href: str) -> str:
        if complete(href):
            return href
        path, mark, fragment = href.partition("#")
        folder, slash, last = path.rpartition("/")
        if not slash or last in {"", ".", ".."} or "?" in path or not plain(href):
            return join(base, href)
        if folder[-1:] == "/":  # the last part may be a host
            return join(base, href)
        known = folders.get(folder)
        if known is None:
            known = folders[folder] = join(base, folder + "/")
        return f"{known}{last}{mark}{fragment}"

    return resolve


# --- HTML -----------------------------------------------------------------------


def _from_html(body: bytes, charset: str, url: str, source: str) -> _Read:
    try:
        text = body.decode(charset, errors="replace")
    except (LookupError, UnicodeError):  # an unknown encoding, or one without replacements
        text = body.decode(errors="replace")
    from wheelfit.sources.html_links import read_links

    page = read_links(text)
    _check_version(page.version or "1.0", url)
    try:
        base = join(url, page.base) if page.base else None
    except ValueError:
        base = None  # as in a browser
    entries = _Entries(url, source, base)
    for link in page.links:
        attributes = link.attributes
        advertised = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
        entries.add(
            link.href,
            choose=_html_name(link),
            requires_python=attributes.get("data-requires-python"),
            yanked=attributes.get("data-yanked"),
            metadata_hashes=_html_metadata(advertised),
            provenance=attributes.get("data-provenance"),
        )
    return *entries.result(), _status(page.status, page.reason)


def _html_name(link: Link) -> Callable[[str], str | None]:
    def choose(segment: str) -> str | None:
        # The URL of a variants file is free (F-71), so its name may be in the text only.
        for name in (segment, link.text):
            if _DISTRIBUTION.fullmatch(name) or name.endswith(VARIANTS_SUFFIX):
                return name
        return None  # a link for people: to a parent folder, a style sheet, a home page

    return choose


def _html_metadata(value: str | None) -> Mapping[str, str] | None:
    if value is None or value.lower() == "false":
        return None
    return MappingProxyType({name: digest.lower() for name, digest in _HASH.findall(value)})


# --- JSON -----------------------------------------------------------------------


class _Meta(Struct, rename="kebab"):
    api_version: str = "1.0"


class _Status(Struct):
    status: str = "active"
    reason: str | None = None


class _JsonFile(Struct, rename="kebab", gc=False):
    filename: str
    url: str
    hashes: dict[str, str | None] | None = None
    requires_python: str | None = None
    yanked: bool | str | None = None
    size: int | None = None
    upload_time: str | None = None
    core_metadata: bool | dict[str, str | None] | None = None
    dist_info_metadata: bool | dict[str, str | None] | None = None
    provenance: str | None = None


class _JsonPage(Struct, rename="kebab"):
    files: list[_JsonFile]
    meta: _Meta = msgspec.field(default_factory=_Meta)
    project_status: _Status | None = None


def _from_json(body: bytes, url: str, source: str) -> _Read:
    try:
        page = msgspec.json.decode(body.removeprefix(BOM_UTF8), type=_JsonPage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The message ends with the JSON path, as "- at `$.files[3].url`".
        raise InvalidPage(
            f"not a page of the JSON Simple API: {error}",
            where=redact(url),
            hint="check the index URL; it usually ends with /simple/",
        ) from None
    _check_version(page.meta.api_version, url)
    entries = _Entries(url, source)
    for file in page.files:
        entries.add(
            file.url,
            choose=_stated_name(file.filename),
            hashes=_frozen(file.hashes or {}) or NO_HASHES,
            requires_python=file.requires_python,
            yanked=_json_yanked(file.yanked),
            size=file.size if file.size is not None and file.size >= 0 else None,
            upload_time=file.upload_time,
            metadata_hashes=_json_metadata(file.core_metadata, file.dist_info_metadata),
            provenance=file.provenance,
        )
    stated = page.project_status or _Status()
    return *entries.result(), _status(stated.status, stated.reason or "")


def _stated_name(name: str) -> Callable[[str], str]:
    """Return a function that chooses the name that an entry states, whatever its URL is."""
    return lambda _segment: name


def _json_yanked(value: bool | str | None) -> str | None:  # noqa: FBT001 - the type of the wire
    if value is None or value is False:
        return None
    return "" if value is True else value


def _json_metadata(*values: bool | Mapping[str, str | None] | None) -> Mapping[str, str] | None:
    # PEP 714: the old key counts only if the new one is absent.
    value: Any = next((stated for stated in values if stated is not None), None)
    if value is None or value is False:
        return None
    return NO_HASHES if value is True else _frozen(value)


def _frozen(hashes: Mapping[str, str | None]) -> Mapping[str, str]:
    return MappingProxyType(
        {name.lower(): digest.lower() for name, digest in hashes.items() if digest}
    )


def _one_line(text: str) -> str:
    """Return a text of an index so that it can be part of a message."""
    line = " ".join(text.split())[:_MAX_TEXT_SIZE]
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


# --- both -----------------------------------------------------------------------


def _status(marker: str, reason: str) -> Status:
    """Read the status of a project (PEP 792); an unknown marker is kept as it is."""
    return Status(_one_line(marker) or ACTIVE.marker, _one_line(reason))


def _check_version(version: str, url: str) -> None:
    major = version.partition(".")[0]
    if major != "1":  # PEP 629: clients must not read pages of a newer major version
        raise InvalidPage(
            f"the index uses version {version[:20]!r} of the Simple API, and this version of "
            "wheelfit reads 1.x",
            where=redact(url),
            hint="a newer wheelfit may read it",
        )
