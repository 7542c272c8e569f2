"""Rendering of project descriptions; the only importer of `readme_renderer` and `nh3`.

`readme_renderer` is the renderer of the public registry. `nh3`, an HTML sanitizer, then cleans the
result for these pages: no images and forms, links to web servers only, anchor names with a prefix,
and headings below those of the page.
"""

from __future__ import annotations

import html
from email.message import Message
from typing import TYPE_CHECKING

from wheelfit.errors import NeedsExtra
from wheelfit.server.site.rendering import visible
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_DROPPED_TAGS = {"img", "input", "picture"}
_ATTRIBUTES = {
    "*": {"id", "title"},
    "a": {"href"},
    "code": {"class"},
    "ol": {"start"},
    "pre": {"class"},
    "span": {"class"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan"},
}
_ID_PREFIX = "readme-"
_IMAGE = pattern(r'<img(?: [\w-]+(?:="[^"]*")?)*? alt="([^"]*)"(?: [\w-]+(?:="[^"]*")?)*>')
_HEADING = pattern(r"(</?)h([1-6])(?=[ >])")
_EMPTY_LINK = pattern(r'<a(?: [\w-]+="[^"]*")*></a>')  # of headings, to themselves
_LEVELS_ABOVE = 2
_MAX_LENGTH = 50_000  # characters; the time for hostile texts grows with the square of it
_MAX_TAGS = 5_000
_DEEP_QUOTES = pattern(r"(?:>[ \t]*){50}")


def render_readme(text: str, content_type: str, may_link: Callable[[str], bool]) -> str:
    """Return a description as HTML that is safe in a page.

    :param text: untrusted; invisible characters are written as their numbers.
    :param content_type: ``Description-Content-Type``; empty means reStructuredText, as on the
        public registry.
    :return: empty if it is plain text, cannot be rendered, or would take seconds.
    :raises NeedsExtra: the libraries are not installed.
    """
    render = _renderer(content_type)
    is_costly = len(text) > _MAX_LENGTH or text.count("<") > _MAX_TAGS or _DEEP_QUOTES.search(text)
    if render is None or is_costly:
        return ""
    try:
        rendered = render("\n".join(map(_visible, text.splitlines())))
    except Exception:  # noqa: BLE001 - the page shows the plain text if the library fails
        return ""
    return _cleaned(rendered, may_link) if rendered else ""


def _visible(line: str) -> str:
    return "\t".join(map(visible, line.split("\t")))


def _renderer(content_type: str) -> Callable[[str], str | None] | None:
    try:
        from readme_renderer import markdown, rst
    except ImportError:
        raise NeedsExtra("server", "readme_renderer") from None

    message = Message()
    message["content-type"] = content_type or "text/x-rst"
    if message.get_content_type() == "text/x-rst":
        return rst.render
    if message.get_content_type() != "text/markdown":
        return None
    variant = str(message.get_param("variant", "GFM"))
    return lambda text: markdown.render(text, variant=variant)


def _cleaned(rendered: str, may_link: Callable[[str], bool]) -> str:
    import nh3
    from readme_renderer.clean import ALLOWED_TAGS

    def attribute(tag: str, name: str, value: str) -> str | None:
        if (tag, name) != ("a", "href"):
            return value
        if value.startswith("#"):
            return f"#{_ID_PREFIX}{value[1:]}"
        return value if may_link(value) else None

    cleaned = nh3.clean(
        _IMAGE.sub(lambda image: html.escape(html.unescape(image[1]), quote=False), rendered),
        tags=ALLOWED_TAGS - _DROPPED_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=attribute,
        id_prefix=_ID_PREFIX,
        link_rel="nofollow noopener noreferrer",
        url_schemes={"http", "https"},
    )
    return _EMPTY_LINK.sub("", _HEADING.sub(_lower_heading, cleaned))


def _lower_heading(tag: re.Match[str]) -> str:
    return f"{tag[1]}h{min(6, int(tag[2]) + _LEVELS_ABOVE)}"
