"""The pages of an index for people."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.versions import version_of
from wheelfit.errors import StorageUnavailable
from wheelfit.server.messages import SECURITY_HEADERS, Request, Response, content_response, etag_of
from wheelfit.server.offering import withheld_reason
from wheelfit.server.site.facts import ProjectFacts, ReleaseFacts, SiteFacts, is_web_address
from wheelfit.server.site.links import ListPart, PageAddress, page_query, part_of, segment
from wheelfit.server.site.machines import (
    PYTHON_NAMES,
    MachineQuery,
    group_of,
    preset_groups,
    read_query,
    read_upload,
)
from wheelfit.server.site.picker import button_groups, picked_preset
from wheelfit.server.site.project_json import project_json
from wheelfit.server.site.rendering import Templates
from wheelfit.server.store.records import RecentUpload
from wheelfit_runtime.errors import (
    FileProblem,
    IntegrityError,
    NetworkError,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.core.osv import Vulnerability
    from wheelfit.resolution.explain import Explanation
    from wheelfit.resolution.overview import Overview
    from wheelfit.server.site.machines import SiteMachine
    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Index


_PAGE_HEADERS: Mapping[str, str] = {
    **SECURITY_HEADERS,
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""The headers of every response: nothing is loaded but the style and the icon."""
_TITLE = "Package index"
_PROJECTS_ON_A_PAGE = 30
_RELEASES_ON_A_PAGE = 100
_LABELS_ON_A_PAGE = 100
_RELEASES_IN_A_FEED = 50
_RECENT_UPLOADS = 8
_NEVER = "1970-01-01T00:00:00Z"
_WHEELS_ON_A_PAGE = 200
_ITEMS_OF_A_FILE = 5_000
"""Items of a long list on a static page."""
_LONGEST_SEARCH = 100
_MAX_SIMILAR = 2_000
"""Projects whose names are compared with a missing one."""
_NO_URL = "INDEX_URL"
"""The placeholder in commands where the address of the index is unknown."""


class Group(NamedTuple):
    """Machines of one kind, with the labels that are chosen for them."""

    name: str
    machines: tuple[tuple[str, str, str], ...]
    """Name, description and label of each."""
    label_counts: tuple[tuple[str, int], ...]
    """The number of machines by label."""


class _Page(NamedTuple):
    """A page to be rendered."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


class Site:
    """The pages of an index for people: an `Application`.

    It serves ``/``, ``/project/{project}/``, ``/project/{project}/{version}/``, below that
    ``which/``, ``feed.xml`` of the index and of each project, and ``/site.css``. All links are
    relative, so it can be mounted anywhere; ``simple/`` and ``files/`` beside it are
    `wheelfit.server.simple.SimpleIndex`.

    :param public_url: the public address of the front page, for the commands; None: unknown.
    :param trusts_host: whether the ``Host`` of every request was checked, so that it is the address
        where none is configured.
    :param recent: returns the releases of recent uploads, newest first; those of projects that the
        index does not list are left out. None: unknown, unless all pages are read anyway.
    :param takes_uploads: whether ``legacy/`` beside the front page takes uploads.
    :param is_static: whether the pages are written into files: without forms, and without further
        pages of long lists; an index that cannot be read is then an error, and no page.
    :param advisories: the known vulnerabilities of releases; None: none are shown.
    :param list_timeout: seconds for which the list of projects reads their pages, which a mirror
        may have to fetch; later projects have their names alone.
    """

    def __init__(
        self,
        index: Index,
        *,
        public_url: str | None = None,
        trusts_host: bool = False,
        recent: Callable[[], Sequence[RecentUpload]] | None = None,
        takes_uploads: bool = False,
        is_static: bool = False,
        advisories: Advisories | None = None,
        list_timeout: float = 1.0,
    ) -> None:
        self._advisories = advisories
        self._index = index
        self._public_url = public_url
        self._trusts_host = trusts_host
        self._list_timeout = list_timeout if not is_static else float("inf")
        self._is_static = is_static
        self._read_uploads = recent or (self._uploads_of_pages if is_static else tuple)
        self._facts = SiteFacts(index)
        self._templates = Templates()
        folder = resources.files("wheelfit.server.site")
        self._style = (folder / "site.css").read_bytes()
        self._icon = (folder / "favicon.svg").read_bytes()
        self._common = {
            "title": _TITLE,
            "takes_uploads": takes_uploads,
            "preset_groups": preset_groups(),
            "pythons": PYTHON_NAMES,
        }

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.method not in ("GET", "HEAD", "POST"):
            return _plain(405, "pages can only be read", {"allow": "GET, HEAD, POST"})
        segments = [unquote(part, errors="replace") for part in request.path.split("/")[1:]]
        try:
            page = self._route(request, segments) or self._missing_page(segments)
        except (NetworkError, StorageUnavailable) as error:
            if self._is_static:
                raise
            page = _problem(503, "The index cannot be read now", error)
        except UserError as error:
            page = _problem(400, "The request is invalid", error)
        if isinstance(page, Response):
            return page
        address = PageAddress(len(segments) - 1, self._is_static)
        url = self._url(request)
        url_values = {"knows_url": url is not None, "url": url or _NO_URL}
        values = {**self._common, **url_values, **page.values}
        content = self._templates.render(page.template, address=address, **values)
        return self._respond(request, content, "text/html", page.status)

    def _route(self, request: Request, segments: list[str]) -> Response | _Page | None:
        match segments:
            case ["project", name, version, "which", ""]:
                return self._which(request, name, version)
            case _ if request.method == "POST":
                return _plain(405, "this page takes no form", {"allow": "GET, HEAD"})
            case [""]:
                return self._projects(read_query(request.query))
            case ["site.css"]:
                return self._respond(request, self._style, "text/css")
            case ["favicon.svg"]:
                return self._respond(request, self._icon, "image/svg+xml")
            case ["pypi", name, "json"]:
                return self._json(request, name, None)
            case ["pypi", name, version, "json"]:
                return self._json(request, name, version)
            case ["project", ""]:
                return _redirect("../")
            case ["feed.xml"]:
                recent = self._recent(self._index.projects())
                return self._feed(request, PageAddress(0), _TITLE, "/", recent)
            case ["project", name, "feed.xml"]:
                return self._project_feed(request, name)
            case ["project", name, ""]:
                return self._project(read_query(request.query), name)
            case ["project", name, version, ""]:
                return self._release(read_query(request.query), name, version)
            case ["project", *_, last] if last:
                return _redirect(f"{segment(last)}/")
        return None

    def _url(self, request: Request) -> str | None:
        """Return the address of the front page, without a slash at the end; None: unknown."""
        if self._public_url is not None:
            return self._public_url.rstrip("/")
        if not self._trusts_host or not request.host:
            return None
        return f"{request.origin.partition(':')[0] or 'http'}://{request.host}"

    def _json(self, request: Request, name: str, version: str | None) -> Response:
        """Answer as the JSON API of the public registry does."""
        project = self._facts.project(canonicalize_name(name))
        requested = None if project is None else project.newest
        if version is not None:
            requested = version_of(version)
        if project is None or requested is None or requested not in project.listing.releases:
            release = None if requested is None else (canonicalize_name(name), requested)
            reason = "" if project is None else withheld_reason(project.page, release)
            message = reason or "there is no such release"
            missing = json.dumps({"message": message}).encode()
            return self._respond(request, missing, "application/json", 404)
        url = self._url(request)
        up = "../" * (2 if version is None else 3)
        address = PageAddress(0)

        def url_of(file: File) -> str:
            link = address.file(file, project.page.name)
            base = up if url is None else f"{url}/"
            return link if is_web_address(link) else base + link.removeprefix("./")

        try:
            metadata = self._facts.metadata(project, requested)
        except (FileProblem, IntegrityError):  # the page of the release has the reason
            metadata = {}
        document = project_json(
            project,
            requested,
            metadata,
            url_of=url_of,
            all_releases=version is None,
            vulnerabilities=self._vulnerabilities(project, requested),
        )
        content = json.dumps(document).encode("utf-8", "replace")
        return self._respond(request, content, "application/json")

    def _vulnerabilities(
        self, project: ProjectFacts, version: Version
    ) -> tuple[Vulnerability, ...] | None:
        """Return the known vulnerabilities of a release; None: there are no records."""
        if self._advisories is None:
            return None
        return self._advisories.affecting(project.page.name, version)

    def _missing_page(self, segments: Sequence[str]) -> _Page:
        """Return the page for a missing address, with the names of similar projects."""
        named = segments[1:] if segments[0] == "project" else segments
        search = named[0][:_LONGEST_SEARCH] if named else ""
        requested = canonicalize_name(search)
        similar_names = [name for name in self._index.projects() if name[:2] == requested[:2]]
        close = get_close_matches(requested, similar_names[:_MAX_SIMILAR], n=5)
        return _problem(404, "Page not found", close=close, search=search)

    def _recent(self, readable: Iterable[NormalizedName]) -> list[RecentUpload]:
        """Return the releases of readable projects that were uploaded to lately, newest first."""
        names = set(readable)
        return [upload for upload in self._read_uploads() if upload.project in names]

    def _uploads_of_pages(self) -> list[RecentUpload]:
        uploads: list[RecentUpload] = []
        for name in self._index.projects():
            project = self._facts.project(name)
            uploads += () if project is None else _uploads_of(project)[:_RELEASES_IN_A_FEED]
        return sorted(uploads, key=_moment, reverse=True)

    # --- pages --------------------------------------------------------------------------------

    def _projects(self, query: Mapping[str, str]) -> _Page:
        search = query.get("q", "")[:_LONGEST_SEARCH]
        names = list(self._index.projects())
        matching = _matching(names, search)
        part = self._part(matching, query, _PROJECTS_ON_A_PAGE)
        deadline = time.monotonic() + self._list_timeout
        rows = [self._row(name, deadline) for name in part.items]
        values = {
            "search": search,
            "count": len(names),
            "part": part._replace(items=rows),
            "recent": self._recent(names)[:_RECENT_UPLOADS],
            "page_size": _PROJECTS_ON_A_PAGE,
            "page_query": page_query({"q": search} if search else {}),
        }
        return _Page("projects.html", values)

    def _row(self, name: NormalizedName, deadline: float) -> dict[str, Any]:
        """Return the row of a project; only its name if it cannot be read in time."""
        row: dict[str, Any] = {"name": name, "path": f"{segment(name)}/", "letter": name[:1]}
        row |= {"newest": None, "problem": "", "summary": ""}
        if time.monotonic() >= deadline:
            return row
        try:
            facts = self._facts.project(name)
        except WheelfitError as error:
            return {**row, "problem": error.message}
        newest = None if facts is None else facts.newest
        if facts is None or newest is None:
            return {**row, "problem": "there are no releases"}
        release = facts.listing.releases[newest]
        try:
            summary = self._facts.summary(facts, newest)
        except WheelfitError:
            summary = ""
        labels = {wheel.filename.label for wheel in release.wheels} - {None}
        return {
            **row,
            "newest": str(newest),
            "summary": summary,
            "yanked": newest in facts.yanked,
            "releases": len(facts.listing.releases),
            "labels": len(labels),
            "day": _day(facts, newest),
            "problem": "",
        }

    def _project(self, query: Mapping[str, str], name: str) -> Response | _Page | None:
        if (redirect := _redirect_to_name(name, "../")) is not None:
            return redirect
        project = self._facts.project(canonicalize_name(name))
        if project is None:
            return None
        newest = project.newest
        part = self._part(tuple(project.listing.releases), query, _RELEASES_ON_A_PAGE)
        rows = []
        for version in part.items:
            release = project.listing.releases[version]
            labels = {wheel.filename.label for wheel in release.wheels} - {None}
            rows.append(
                {
                    "version": str(version),
                    "path": f"{segment(str(version))}/",
                    "labels": len(labels),
                    "wheels": len(release.wheels),
                    "others": len(release.ignored_sources),
                    "day": _day(project, version),
                    "yanked": version in project.yanked,
                    "prerelease": version.is_prerelease,
                    "newest": version == newest,
                }
            )
        facts = None if newest is None else self._facts.release(project, newest)
        values = {
            "project": project,
            "newest": newest,
            "facts": facts,
            "buttons": () if facts is None else button_groups(facts.overview.machines),
            "part": part._replace(items=rows),
            "page_query": page_query({}),
            "install": _requirement(project.page.name, newest),
            "has_variants": facts is not None and bool(facts.labels),
            "withheld": project.page.withheld,
        }
        return _Page("project.html", values)

    def _project_feed(self, request: Request, name: str) -> Response | None:
        project = self._facts.project(canonicalize_name(name))
        if project is None:
            return None
        name = project.page.name
        path = f"/project/{segment(name)}/"
        return self._feed(request, PageAddress(2), name, path, _uploads_of(project))

    def _feed(
        self,
        request: Request,
        address: PageAddress,
        title: str,
        path: str,
        uploads: Sequence[RecentUpload],
    ) -> Response:
        """Return releases as an Atom feed.

        :param path: of the page that has them.
        :param uploads: the latest first.
        """
        content = self._templates.render(
            "feed.xml",
            address=address,
            title=title,
            base=self._url(request) or "urn:wheelfit",
            path=path,
            updated=uploads[0].time if uploads else _NEVER,
            uploads=uploads[:_RELEASES_IN_A_FEED],
        )
        return self._respond(request, content, "application/atom+xml")

    def _release(
        self, query: Mapping[str, str], name: str, version: str
    ) -> Response | _Page | None:
        if (redirect := _redirect_to_name(name, "../../", f"{segment(version)}/")) is not None:
            return redirect
        project_and_facts = self._find(name, version)
        if project_and_facts is None:
            return None
        project, facts = project_and_facts
        release = facts.release
        if version != str(release.version):
            return _redirect(f"../{segment(str(release.version))}/")
        wheels = sorted(release.wheels, key=lambda wheel: wheel.filename.text)
        values = {
            "project": project,
            "facts": facts,
            "version": version,
            "newest": None if project.newest is None else str(project.newest),
            "is_newest": project.newest in (None, release.version),
            "part": self._part(facts.overview.rows, query, _LABELS_ON_A_PAGE),
            "wheels": self._part(wheels, query, _WHEELS_ON_A_PAGE, "files"),
            "page_query": page_query({}, query),
            "groups": _groups(facts.overview),
            "notes": _notes(facts.overview),
            "is_yanked": release.version in project.yanked,
            "why_yanked": project.yanked.get(release.version),
            "attested": sum(wheel.file.provenance is not None for wheel in wheels),
            "machine_query": MachineQuery(),
            "action": "which/",
            "buttons": button_groups(facts.overview.machines),
            "picked": {},
            "install": _requirement(project.page.name, release.version),
            "has_variants": bool(facts.labels),
            "vulnerabilities": [
                vulnerability
                for vulnerability in self._vulnerabilities(project, release.version) or ()
                if vulnerability.withdrawn is None
            ],
        }
        return _Page("release.html", values)

    def _which(self, request: Request, name: str, version: str) -> _Page | None:
        project_and_facts = self._find(name, version)
        if project_and_facts is None:
            return None
        project, facts = project_and_facts
        form, query = MachineQuery(), read_query(request.query)
        machine: SiteMachine | None = None
        explanation: Explanation | None = None
        problem: UserError | None = None
        try:
            if request.method == "POST":
                form = read_upload(request)
            else:
                picked = picked_preset(query, facts.overview.machines)
                form = MachineQuery(query.get("preset", "") or picked, query.get("python", ""))
            if form.preset or form.data is not None:
                machine = form.machine(wheel.filename.tags for wheel in facts.release.wheels)
                explanation = self._facts.explanation(project, facts.release.version, machine)
            elif "preset" in query:
                problem = UserError("no preset was given", hint="try cuda-12.8-sm90")
        except UserError as error:
            problem = error
        candidates = () if explanation is None else explanation.candidates
        fields = {"preset": form.preset, "python": form.python}
        values = {
            "machine": machine,
            "explanation": explanation,
            "problem": problem,
            "project": project,
            "facts": facts,
            "version": str(facts.release.version),
            "part": self._part(candidates, query, _WHEELS_ON_A_PAGE),
            "page_query": page_query({name: value for name, value in fields.items() if value}),
            # There is no next page for an uploaded file, which is not stored.
            "is_of_uploaded_file": form.data is not None,
            "sizes": {wheel.filename.text: wheel.file for wheel in facts.release.wheels},
            "machine_query": replace(form, data=None),
            "action": "./",
            "buttons": button_groups(facts.overview.machines),
            "picked": query,
            "install": _requirement(project.page.name, facts.release.version),
            "has_variants": bool(facts.labels),
        }
        return _Page("which.html", values, 200 if problem is None else 400)

    def _find(self, name: str, version: str) -> tuple[ProjectFacts, ReleaseFacts] | None:
        parsed = version_of(version)
        project = self._facts.project(canonicalize_name(name))
        facts = None if project is None or not parsed else self._facts.release(project, parsed)
        return None if project is None or facts is None else (project, facts)

    def _part(
        self, items: Sequence[Any], query: Mapping[str, str], size: int, field: str = "page"
    ) -> ListPart:
        """Return the part of a list that a page shows."""
        if self._is_static:
            return ListPart(items[:_ITEMS_OF_A_FILE], 1, 1, len(items), 1)
        return part_of(items, query, size, field)

    # --- responses ----------------------------------------------------------------------------

    def _respond(
        self, request: Request, content: bytes, media_type: str, status: int = 200
    ) -> Response:
        if media_type != "application/json":
            media_type += "; charset=utf-8"
        headers = {**_PAGE_HEADERS, "content-type": media_type}
        if status != 200 or request.method == "POST":
            return Response.of(status, content, headers)
        size, etag = len(content), etag_of(content)
        return content_response(request, content, size, etag=etag, headers=headers)


def _problem(
    status: int,
    heading: str,
    error: WheelfitError | None = None,
    *,
    close: Sequence[str] = (),
    search: str = "",
) -> _Page:
    values = {"heading": heading, "error": error, "close": close, "search": search}
    return _Page("problem.html", values, status)


def _requirement(name: NormalizedName, version: Version | None) -> str:
    """Return the requirement in an install command."""
    return name if version is None else f"{name}=={version}"


def _matching(names: Sequence[NormalizedName], search: str) -> Sequence[NormalizedName]:
    """Return the projects that match a search: the same name, the same beginning, the others."""
    part = canonicalize_name(search)
    if not part:
        return names
    matching = [name for name in names if part in name]
    return sorted(matching, key=lambda name: (name != part, not name.startswith(part), name))


def _groups(overview: Overview) -> tuple[Group, ...]:
    """Return the machines by kind, with the labels that are chosen for them."""
    chosen_labels: dict[str, Label | None] = {
        name: row.label for row in overview.rows for name in row.selected_by
    }
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for name, description in overview.machines.items():
        label = (chosen_labels[name] or "plain wheel") if name in chosen_labels else "nothing"
        groups.setdefault(group_of(name), []).append((name, description, label))
    return tuple(
        Group(name, tuple(machines), tuple(_count_labels(label for *_, label in machines)))
        for name, machines in groups.items()
    )


def _notes(overview: Overview) -> list[str]:
    """Return the notes of an overview that are not shown as problems already."""
    degradations = tuple(map(str, overview.degradations))
    return [note for note in overview.notes if not note.endswith(degradations)]


def _count_labels(labels: Iterable[str]) -> Iterable[tuple[str, int]]:
    return sorted(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))


def _uploads_of(project: ProjectFacts) -> list[RecentUpload]:
    """Return the releases of a project with an upload time that are not yanked, newest first."""
    uploads = (
        RecentUpload(project.page.name, str(version), time.isoformat())
        for version, time in project.uploaded.items()
        if version in project.listing.releases and version not in project.yanked
    )
    return sorted(uploads, key=_moment, reverse=True)


def _moment(upload: RecentUpload) -> datetime:
    return datetime.fromisoformat(upload.time)


def _day(project: ProjectFacts, version: Version) -> str:
    time = project.uploaded.get(version)
    return "" if time is None else time.date().isoformat()


def _redirect_to_name(name: str, up: str, rest: str = "") -> Response | None:
    """Redirect another spelling of a project to its name; None: it is that name."""
    normalised = canonicalize_name(name)
    if name == normalised:
        return None
    return _redirect(f"{up}{segment(normalised)}/{rest}")


def _redirect(path: str) -> Response:
    return _plain(301, "moved", {"location": path})


def _plain(status: int, message: str, headers: Mapping[str, str]) -> Response:
    return Response.text(status, message, {**_PAGE_HEADERS, **headers})
