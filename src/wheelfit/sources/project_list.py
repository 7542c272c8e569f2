"""The list of all projects of an index (PEP 503, PEP 691)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.sources.client import unexpected
from wheelfit.sources.html_links import read_links
from wheelfit.sources.page import ACCEPT
from wheelfit.sources.urls import redact, split_userinfo
from wheelfit_runtime.errors import InvalidPage

if TYPE_CHECKING:
    from wheelfit.sources.cached_pages import CachedPages


def fetch_project_list(pages: CachedPages, url: str) -> tuple[NormalizedName, ...]:
    """Fetch the list of projects of an index.

    :raises InvalidPage: the response is not a list of projects.
    :raises NetworkError: the list cannot be fetched.
    """
    response = pages.get(f"{split_userinfo(url)[0].rstrip('/')}/", accept=ACCEPT)
    if response.status != 200:
        raise unexpected(response.status, response.url)
    return parse_project_list(
        response.body, response.headers.get("content-type", ""), where=redact(url)
    )


def parse_project_list(body: bytes, content_type: str, *, where: str) -> tuple[NormalizedName, ...]:
    """Parse a list of projects; other links are ignored.

    >>> parse_project_list(b'<a href="Fast.FFT/">Fast.FFT</a>', "text/html", where="index")
    ('fast-fft',)

    :return: the normalised names, sorted and unique; invalid names are left out.
    :raises InvalidPage: it is not a list of projects.
    """
    names: list[str] = []
    if "json" in content_type:
        try:
            names = [str(project["name"]) for project in json.loads(body)["projects"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise InvalidPage("the answer is not a list of projects", where=where) from None
    else:
        for link in read_links(body.decode("utf-8", "replace")).links:
            path = link.href.partition("#")[0].partition("?")[0]
            name = unquote(path.rstrip("/").rpartition("/")[2])
            if path.endswith("/") and name not in ("", ".", ".."):
                names.append(name)
    projects: set[NormalizedName] = set()
    for name in names:
        with suppress(InvalidName):
            projects.add(canonicalize_name(name, validate=True))
    return tuple(sorted(projects))
