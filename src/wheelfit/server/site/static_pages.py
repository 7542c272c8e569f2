"""The pages for people as files, which any web server can offer."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from wheelfit.errors import FileProblem
from wheelfit.resolve.listing import sort_page
from wheelfit.server.messages import Request
from wheelfit.server.site.machines import usual_target
from wheelfit.server.site.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.server.generate.targets import Target
    from wheelfit.server.index import Index


__all__ = ["check_pages", "publish_pages", "static_pages"]


def __dir__() -> list[str]:
    return __all__


_PAGE = "index.html"
_STYLE = "site.css"
_LIST = "project/pages.json"
"""What was written, so that what is gone from the index goes from here too."""

_OURS = re.compile(r"index\.html|site\.css|project/(?:(?!\.)[^/\\\0]+/){1,2}index\.html")
"""What pages for people are called: nothing else is ever removed."""

_AT_ONCE = 100
"""Pages that are in memory together, and reach the disk together."""


def static_pages(index: Index, *, public_url: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Write all pages, the list of projects last.

    :param index: what they show.
    :param public_url: where they will be found; None: that is not known.
    :return: by path beside ``simple/``.
    :raises NeedsExtra: the extra `server` is not installed.
    """
    site = Site(index, public_url=public_url, is_static=True)
    yield _STYLE, _body(site, f"/{_STYLE}")
    for name in index.projects():
        page = index.project(name)
        if page is None or name != canonicalize_name(name):
            continue
        for version in sort_page(page, usual_target()).releases:
            path = f"project/{name}/{version}/"
            yield path + _PAGE, _body(site, f"/{quote(path)}")
        path = f"project/{name}/"
        yield path + _PAGE, _body(site, f"/{quote(path)}")
    yield _PAGE, _body(site, "/")


def publish_pages(index: Index, target: Target, *, public_url: str | None = None) -> list[str]:
    """Put the pages into a target; those that are there as they are stay.

    :param index: what they show.
    :param target: where to; opened.
    :param public_url: as for `static_pages`.
    :return: the paths of what was written.
    :raises FileProblem: the front page there is somebody else's.
    :raises NeedsExtra: the extra `server` is not installed.
    """
    before = check_pages(target)
    digests: dict[str, str] = {}
    written: list[str] = []
    if before is None:  # whatever happens from now on, what is written is known to be ours
        target.put_pages([(_LIST, _list({}))])
    waiting: list[tuple[str, bytes]] = []
    for path, content in static_pages(index, public_url=public_url):
        digest = digests[path] = hashlib.sha256(content).hexdigest()
        if (before or {}).get(path) == digest and target.has_page(path, digest):
            continue
        waiting.append((path, content))
        written.append(path)
        if len(waiting) == _AT_ONCE:
            target.put_pages(waiting)
            waiting = []
    target.put_pages(waiting)
    gone = sorted((before or {}).keys() - digests.keys())
    if digests != before:
        target.put_pages([(_LIST, _list(digests))])
    target.remove(gone)
    return written


def check_pages(target: Target) -> dict[str, str] | None:
    """Return what pages were written before, by path the digest of each; None for none.

    :param target: where to; opened.
    :raises FileProblem: the front page there is somebody else's; or the list of pages names
        something that is no page.
    """
    data = target.read(_LIST)
    if data is None:
        if target.read(_PAGE) is not None:
            raise FileProblem(
                f"there is an {_PAGE} already that wheelfit has not generated",
                where=target.name,
                hint="remove it, or name another folder with --to",
            )
        return None
    try:
        found = json.loads(data)["pages"]
        pages = {str(path): str(digest) for path, digest in found.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}  # it was ours, and says nothing: all is written anew
    for path in pages:
        if not _OURS.fullmatch(path):
            raise FileProblem(
                f"{_LIST} names {path[:100]!r}, which is no page",
                where=target.name,
                hint="remove that file to write all pages anew",
            )
    return pages


def _list(digests: dict[str, str]) -> bytes:
    return json.dumps({"pages": dict(sorted(digests.items()))}, indent=0).encode()


def _body(site: Site, path: str) -> bytes:
    return b"".join(site(Request("GET", path)).body)
