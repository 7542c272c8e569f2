"""Read the links of an HTML page, in time proportional to its length.

The standard library's parser takes a tenth of a second per thousand links, and minutes for a
malicious page. Only the parts of HTML that affect links are parsed: comments, elements whose
content is text, and tags with attributes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape


@dataclass(frozen=True, slots=True)
class Link:
    """An anchor that has a target."""

    href: str
    """The target as written, character references resolved."""
    text: str
    """The text between the tags, without surrounding whitespace."""
    attributes: dict[str, str]
    """All attributes by lower-case name; one without value has the empty text."""


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """The content of an HTML index page."""

    base: str | None
    """The first ``<base href>``; None if there is none."""
    version: str | None
    """Content of ``<meta name="pypi:repository-version">`` (PEP 629)."""
    links: tuple[Link, ...]
    """In the order of the page."""
    status: str = ""
    """Content of the first ``<meta name="pypi:project-status">`` (PEP 792); empty: none."""
    reason: str = ""
    """Content of the first ``<meta name="pypi:project-status-reason">``."""


# Possessive quantifiers prevent backtracking, so text that does not match fails at once.
_VALUE = r"""\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+))"""
_ATTRIBUTE = re.compile(rf"(=?[^\s/>=]++)(?:{_VALUE})?+")
_TAG = re.compile(
    r"""<(/?+)([A-Za-z][^\s/>]*+)"""
    r"""((?:[\s/]++|=?[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+))?+|=)*+)>"""
)
_TAG_START = re.compile(r"</?[A-Za-z]")
# Markup that begins like this is skipped up to the next ">", as in browsers.
_COMMENT_START = re.compile(r"<(?:[!?]|/(?![A-Za-z]))")
# The content of these is always text.
_TEXT_UNTIL = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noframes", "noembed")
}


def read_links(text: str) -> HtmlPage:
    """Return the anchors of a page, and its own metadata."""
    builder = _PageBuilder()
    position = 0
    while (start := text.find("<", position)) >= 0:
        if builder.attributes is not None:
            builder.anchor_text.append(text[position:start])
        if _COMMENT_START.match(text, start):
            # "<!-->" is a whole comment: its dashes are those of both ends.
            has_dashes = text.startswith("<!--", start)
            end = text.find("-->", start + 2) if has_dashes else text.find(">", start)
            position = end + (3 if has_dashes else 1)
            if end < 0:
                break
            continue
        tag = _TAG.match(text, start)
        if tag is None:
            if _TAG_START.match(text, start):
                break  # a tag without an end: the rest of the page belongs to it
            position = start + 1
            continue
        position = tag.end()
        name = tag[2].lower()
        if tag[1]:
            if name == "a":
                builder.end_anchor()
        elif name in _TEXT_UNTIL:
            end_tag = _TEXT_UNTIL[name].search(text, position)
            if end_tag is None:
                break
            position = end_tag.start()
        else:
            builder.start(name, tag[3])
    else:  # no further "<": the rest is text
        if builder.attributes is not None:
            builder.anchor_text.append(text[position:])
    builder.end_anchor()
    return HtmlPage(
        builder.base,
        builder.version,
        tuple(builder.links),
        builder.metas.get("pypi:project-status", ""),
        builder.metas.get("pypi:project-status-reason", ""),
    )


class _PageBuilder:
    """The links and metadata read so far."""

    def __init__(self) -> None:
        self.base: str | None = None
        self.version: str | None = None
        self.links: list[Link] = []
        self.metas: dict[str, str] = {}
        self.attributes: dict[str, str] | None = None
        self.anchor_text: list[str] = []

    def start(self, name: str, text: str) -> None:
        """Process a start tag with the text of its attributes."""
        if name == "a":
            self.end_anchor()
            self.attributes = _attributes(text)
        elif name == "base" and self.base is None:
            self.base = _attributes(text).get("href")
        elif name == "meta":
            attributes = _attributes(text)
            if attributes.get("name") == "pypi:repository-version":
                self.version = attributes.get("content")
            else:
                self.metas.setdefault(attributes.get("name", ""), attributes.get("content", ""))

    def end_anchor(self) -> None:
        """Process the end of an anchor: its end tag, another anchor or the end of the page."""
        if self.attributes is not None:
            href = self.attributes.get("href")
            if href is not None:
                anchor_text = unescape("".join(self.anchor_text)).strip()
                self.links.append(Link(href, anchor_text, self.attributes))
            self.attributes = None
            self.anchor_text.clear()


def _attributes(text: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for name, double_quoted, single_quoted, unquoted in _ATTRIBUTE.findall(text):
        value = double_quoted or single_quoted or unquoted
        # The first of two equal attributes counts.
        attributes.setdefault(name.lower(), unescape(value) if "&" in value else value)
    return attributes
