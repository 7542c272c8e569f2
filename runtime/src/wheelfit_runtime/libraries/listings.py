"""Read lists of wheels: a project's page of an index (PEP 691, PEP 503), and locks (PEP 751)."""

from __future__ import annotations

import json
import tomllib
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from wheelfit_runtime.errors import Fault, InvalidLock, InvalidPage
from wheelfit_runtime.libraries.store import is_hash
from wheelfit_runtime.libraries.versions import normalized
from wheelfit_runtime.libraries.wheels import ListedWheel, safe_url, split_filename

if TYPE_CHECKING:
    from collections.abc import Iterator


ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.01"
)
_PARSE_ERRORS = (
    *(ValueError, TypeError, AttributeError, LookupError, RecursionError),
    AssertionError,  # of `HTMLParser`, for unknown declarations
)
_ARCHIVES = (".whl", ".zip", ".gz", ".bz2", ".egg", ".exe", ".metadata")


def read_page(body: bytes, content_type: str, url: str) -> list[ListedWheel]:
    """Return the wheels of a page.

    :param url: the final URL of the page, the base of its links.
    """
    header = Message()
    header["Content-Type"] = content_type
    kind = header.get_content_type()
    try:
        text = body.decode(str(header.get_param("charset", "utf-8")))
        if kind.endswith("json"):
            return _from_json(text, url)
        if kind in ("text/html", "application/vnd.pypi.simple.v1+html"):
            return _from_html(text, url)
    except _PARSE_ERRORS as error:
        raise InvalidPage(
            f"the page of the index cannot be read: {error}", where=safe_url(url)
        ) from None
    raise InvalidPage(f"the index answered with {kind}", where=safe_url(url))


def _from_json(text: str, url: str) -> list[ListedWheel]:
    page: dict[str, Any] = json.loads(text)
    version = str(page.get("meta", {}).get("api-version", "1.0"))
    if version.partition(".")[0] != "1":
        raise ValueError(f"its version is {version}")
    wheels = []
    for file in page["files"]:
        project_version = split_filename(str(file["filename"]))
        if project_version is None:
            continue
        core_metadata = file.get("core-metadata", file.get("data-dist-info-metadata"))
        metadata = None
        if isinstance(core_metadata, dict):
            metadata = _digest(core_metadata.get("sha256"))
        elif core_metadata is True:
            metadata = ""
        size = file.get("size")
        wheels.append(
            ListedWheel(
                *project_version,
                filename=str(file["filename"]),
                url=_resolve_link(url, str(file["url"]))[0],
                sha256=_digest(file.get("hashes", {}).get("sha256")),
                size=size if type(size) is int and size > 0 else None,
                metadata_sha256=metadata,
                is_yanked=bool(file.get("yanked", False)),
            )
        )
    return wheels


def _resolve_link(base: str, link: str) -> tuple[str, str]:
    """Return the target and fragment of a link, which must not be a file of this machine."""
    target, fragment = urldefrag(urljoin(base, link))
    parts = urlsplit(target)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"a link leads to {parts.scheme}:")
    _ = parts.port  # raises ValueError for an invalid one
    return target, fragment


def _digest(value: object) -> str:
    text = str(value or "").lower()
    return text if is_hash(text) else ""


def _from_html(text: str, url: str) -> list[ListedWheel]:
    reader = _Links()
    reader.feed(text)
    reader.close()
    base = urljoin(url, reader.base)
    wheels = []
    is_index = not reader.links  # a page without files has no links
    for attributes in reader.links:
        href = attributes.get("href", "").strip()
        filename = unquote(href.partition("#")[0].partition("?")[0].rpartition("/")[2])
        is_index = is_index or filename.lower().endswith(_ARCHIVES)
        project_version = split_filename(filename)
        if project_version is None:
            continue
        link, fragment = _resolve_link(base, href)
        algorithm, _, digest = fragment.partition("=")
        core_metadata = attributes.get(
            "data-core-metadata", attributes.get("data-dist-info-metadata")
        )
        metadata = None
        if core_metadata is not None and core_metadata != "false":
            metadata = _digest(core_metadata.removeprefix("sha256="))
        wheels.append(
            ListedWheel(
                *project_version,
                filename=filename,
                url=link,
                sha256=_digest(digest) if algorithm == "sha256" else "",
                metadata_sha256=metadata,
                is_yanked="data-yanked" in attributes,
            )
        )
    if not is_index:
        raise ValueError("it has no files; it may be a login page")
    return wheels


class _Links(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[dict[str, str]] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add a link, or set the base of links."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(attributes)
        elif tag == "base" and not self.base:
            self.base = attributes.get("href", "")


def read_lock(path: Path) -> list[ListedWheel]:
    """Return all wheels of a lock; `sha256` is empty where the lock has none."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return list(_wheels(document, path))
    except (OSError, *_PARSE_ERRORS) as error:
        message = f"the lock file cannot be read: {error}"
        raise InvalidLock([Fault("", message)], where=str(path)) from None


def _wheels(document: dict[str, Any], path: Path) -> Iterator[ListedWheel]:
    version = str(document.get("lock-version", "1.0"))
    if version.partition(".")[0] != "1":
        raise ValueError(f"its version is {version}")
    # Entries of variants are in the table of wheelfit, and replace those of the same release.
    own_entries = document.get("tool", {}).get("wheelfit", {}).get("packages", [])
    replaced = {(package["name"], package.get("version")) for package in own_entries}
    others = (
        package
        for package in document["packages"]
        if (package["name"], package.get("version")) not in replaced
    )
    for package in (*others, *own_entries):
        for wheel in package.get("wheels", ()):
            # A path is relative to the folder of the lock.
            url = wheel.get("url") or Path(path.parent, wheel["path"]).absolute().as_uri()
            filename = wheel.get("name") or unquote(urlsplit(url).path.rpartition("/")[2])
            project_version = split_filename(filename)
            size = wheel.get("size")
            if project_version is not None:
                yield ListedWheel(
                    project=normalized(package["name"]),
                    version=str(package.get("version", project_version[1])),
                    filename=filename,
                    url=url,
                    sha256=str(wheel["hashes"].get("sha256", "")).lower(),
                    size=size if type(size) is int and size > 0 else None,
                )
