"""The addresses of an index: the Simple API in JSON and HTML (PEP 503, 691), and its files."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name

from wheelfit.server.messages import (
    Response,
    content_response,
    not_acceptable,
    not_found,
    page_response,
    redirect_to,
)
from wheelfit.server.pages import choose_type, write_project, write_projects
from wheelfit_runtime.errors import PolicyRefusal

if TYPE_CHECKING:
    from wheelfit.server.messages import Request
    from wheelfit.sources.repository import Index


_TYPES = {
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".provenance": "application/vnd.pypi.integrity.v1+json",
}
_PAGE_HEADERS = {"cache-control": "no-cache", "vary": "Accept"}


class SimpleIndex:
    """The Simple API of an index: an `Application`.

    It serves ``/simple/``, ``/simple/{project}/`` and ``/files/{file}``. Clients revalidate pages
    by their entity tags.
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.method not in ("GET", "HEAD"):
            return Response.text(405, "pages and files can only be read", {"allow": "GET, HEAD"})
        segments = [unquote(part, errors="replace") for part in request.path.split("/")[1:]]
        match segments:
            case [""] | ["simple"]:
                return redirect_to("simple/")
            case ["simple", ""]:
                return self._projects(request)
            case ["simple", project]:
                return redirect_to(f"{quote(canonicalize_name(project), safe='')}/")
            case ["simple", project, ""]:
                return self._project(request, project)
            case ["files", name]:
                return self._file(request, name)
        return not_found()

    def _projects(self, request: Request) -> Response:
        media_type = choose_type(request.headers.get("accept"))
        if media_type is None:
            return not_acceptable()
        content = write_projects(self._index.projects(), media_type)
        return page_response(request, media_type, content, _PAGE_HEADERS)

    def _project(self, request: Request, name: str) -> Response:
        normalised = canonicalize_name(name)
        if name != normalised:
            return redirect_to(f"../{quote(normalised, safe='')}/")
        media_type = choose_type(request.headers.get("accept"))
        if media_type is None:
            return not_acceptable()
        page = self._index.project(normalised)
        if page is None:
            return not_found()
        return page_response(request, media_type, write_project(page, media_type), _PAGE_HEADERS)

    def _file(self, request: Request, name: str) -> Response:
        try:
            content = self._index.content(name)
        except PolicyRefusal as refusal:
            return Response.text(403, refusal.message)
        if content is None:
            return not_found()
        suffix = f".{name.rpartition('.')[2]}"
        media_type = _TYPES.get(suffix, "application/octet-stream")
        headers = {"content-type": media_type, "cache-control": "no-cache"}
        if content.sha256 is None:  # without an entity tag parts cannot be combined
            return Response(200, headers, content.parts(0, content.size), content.size)
        etag = f'"{content.sha256}"'
        return content_response(request, content.parts, content.size, etag=etag, headers=headers)
