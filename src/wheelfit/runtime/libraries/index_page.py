"""Read a project's page of an index, JSON (PEP 691) or HTML (PEP 503)."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from wheelfit.errors import InvalidPage
from wheelfit.runtime.libraries.wheels import Listed, split_filename

__all__ = ["ACCEPT", "read_page"]


def __dir__() -> list[str]:
    return __all__


ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.01"
)
"""What is asked for."""


def read_page(body: bytes, content_type: str, url: str) -> list[Listed]:
    """Return the wheels of a page.

    :param content_type: as the server says it.
    :param url: where the page came from in the end; its links start there.
    :raises InvalidPage: it is none.
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        text = body.decode("utf-8")
        if kind.endswith("json"):
            return _from_json(text, url)
        if kind in ("text/html", "application/vnd.pypi.simple.v1+html"):
            return _from_html(text, url)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidPage(f"the page of the index cannot be read: {error}", where=url) from None
    raise InvalidPage(f"the index answered with {kind or 'nothing known'}", where=url)


def _from_json(text: str, url: str) -> list[Listed]:
    page: dict[str, Any] = json.loads(text)
    version = str(page.get("meta", {}).get("api-version", "1.0"))
    if version.partition(".")[0] != "1":
        raise ValueError(f"its version is {version}")
    wheels = []
    for file in page["files"]:
        name = split_filename(str(file["filename"]))
        if name is None:
            continue
        beside = file.get("core-metadata", file.get("data-dist-info-metadata"))
        metadata = None
        if isinstance(beside, dict):
            metadata = str(beside.get("sha256", ""))
        elif beside is True:
            metadata = ""
        size = file.get("size")
        wheels.append(
            Listed(
                *name,
                filename=str(file["filename"]),
                url=urldefrag(urljoin(url, str(file["url"])))[0],
                sha256=_digest(file.get("hashes", {}).get("sha256")),
                size=size if isinstance(size, int) else None,
                metadata_sha256=metadata,
                is_yanked=bool(file.get("yanked", False)),
            )
        )
    return wheels


def _digest(told: object) -> str:
    text = str(told or "").lower()
    return text if len(text) == 64 and not set(text) - set("0123456789abcdef") else ""


def _from_html(text: str, url: str) -> list[Listed]:
    reader = _Links()
    reader.feed(text)
    reader.close()
    base = urljoin(url, reader.base)
    wheels = []
    for attributes in reader.links:
        link, fragment = urldefrag(urljoin(base, attributes.get("href") or ""))
        filename = unquote(urlsplit(link).path.rpartition("/")[2])
        name = split_filename(filename)
        if name is None:
            continue
        algorithm, _, digest = fragment.partition("=")
        beside = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
        metadata = None
        if beside is not None and beside != "false":
            metadata = beside.removeprefix("sha256=") if beside.startswith("sha256=") else ""
        wheels.append(
            Listed(
                *name,
                filename=filename,
                url=link,
                sha256=_digest(digest) if algorithm == "sha256" else "",
                metadata_sha256=metadata,
                is_yanked="data-yanked" in attributes,
            )
        )
    return wheels


class _Links(HTMLParser):
    """Collect the links of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[dict[str, str]] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link, or where links start."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(attributes)
        elif tag == "base" and not self.base:
            self.base = attributes.get("href", "")
