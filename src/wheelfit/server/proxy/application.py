"""The proxy as an application: the pages and files of its addresses.

``/simple/{project}/`` for the default machine and ``/for/{profile}/simple/{project}/`` for another
one; before both, ``/additive`` or ``/full`` selects the projects, and ``/all-variants`` lists every
variant. Files are at ``…/files/{project}/{key}/{name}``, where the key identifies the bytes, so
that the URLs of an old page still lead to the files that it listed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from urllib.parse import quote, unquote

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.filename import release_of
from wheelfit.server.messages import (
    SECURITY_HEADERS,
    Response,
    accepts_gzip,
    content_response,
    etag_of,
    not_acceptable,
    not_found,
    page_response,
    redirect_to,
)
from wheelfit.server.offering import withheld_reason
from wheelfit.server.pages import JSON, choose_type, write_project, write_projects
from wheelfit.server.proxy.choosing import find_original, fingerprint
from wheelfit.server.proxy.listing import WrittenPage, list_project
from wheelfit.server.proxy.user_agents import UNKNOWN, ClientDescription, read_user_agent
from wheelfit.server.proxy.wheels import RewrittenWheels
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit_runtime.errors import NetworkError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.server.messages import Application, Request
    from wheelfit.server.proxy.profiles import Profile, Profiles
    from wheelfit.server.proxy.upstream import RawPage, Upstream
    from wheelfit.sources.page import File


Mode: TypeAlias = Literal["additive", "full"]
_MODES = ("additive", "full")
_KEY = re.compile(r"([0-9a-f]{16})(?:-([0-9a-f]{64}))?")
# Pages are for installers, and may be forwarded as received, which is untrusted.
_PAGE_HEADERS = {
    **SECURITY_HEADERS,
    "cache-control": "no-cache",
    "vary": "Accept, Accept-Encoding, User-Agent",
}
_IMMUTABLE_HEADERS = {**SECURITY_HEADERS, "cache-control": "max-age=31536000, immutable"}
_MAX_PAGES_SIZE = 32 << 20
_MAX_NOTED = 1000


@dataclass(frozen=True, slots=True)
class _ClientPage:
    """A page that was written for one client."""

    listed: WrittenPage
    body: bytes
    profile: Profile
    """Referenced, so that no other profile gets the same ``id``."""

    @property
    def size(self) -> int:
        return 2 * len(self.body) + sum(map(len, self.listed.metadata.values())) + 4096


@dataclass(frozen=True, slots=True)
class _PathOptions:
    """The options at the start of a path."""

    mode: Mode
    all_variants: bool
    profile: str
    rest: tuple[str, ...] = field(default=())


class Proxy:
    """An index with variants for installers without support for them: an `Application`.

    :param upstreams: the indexes behind it; the first with a project supplies it (F-126).
    :param mode: the projects if the path does not select them: those with variants (``additive``),
        or all (``full``).
    :param all_variants: whether every variant is listed, for any machine and path.
    :param allows_uv_locks: whether commands of uv that write a ``uv.lock`` get variants, too.
    :param note: called with each message for people once.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        profiles: Profiles,
        *,
        mode: Mode = "additive",
        all_variants: bool = False,
        allows_uv_locks: bool = False,
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._upstreams = tuple(upstreams)
        self._profiles = profiles
        self._mode: Mode = mode
        self._all_variants = all_variants
        self._allows_uv_locks = allows_uv_locks
        self._note = note
        self._noted: set[str] = set()
        self._rewriting = RewrittenWheels()
        self._pages: MemoryCache[_ClientPage] = MemoryCache(_MAX_PAGES_SIZE, lambda page: page.size)

    def close(self) -> None:
        """Remove temporary files."""
        self._rewriting.close()

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.method not in ("GET", "HEAD"):
            return Response.text(405, "pages and files can only be read", {"allow": "GET, HEAD"})
        segments = [unquote(part, errors="replace") for part in request.path.split("/")[1:]]
        options = self._parse_path(segments)
        try:
            match options.rest:
                case ("",) | ("simple",):
                    return redirect_to("simple/")
                case ("simple", ""):
                    return self._root(request, options)
                case ("simple", name):
                    return redirect_to(f"{quote(_normalise(name), safe='')}/")
                case ("simple", name, ""):
                    return self._project(request, options, name)
                case ("files", name, key, filename):
                    return self._file(request, options, name, key, filename)
                case (name, "") if name:
                    # After a 404, a client whose URL lacks /simple/ would use its other indexes.
                    return redirect_to(f"../simple/{quote(_normalise(name), safe='')}/")
        except InvalidName:
            return not_found("no project can have this name")
        except NetworkError as error:
            where = f" ({error.where})" if error.where else ""
            # Installers show only the status of an error.
            self._note_once(f"{error.message}{where}")
            return Response.text(502, error.message)  # without the address, which may be private
        except WheelfitError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            is_unmet_request = error.exit_code == 1
            return Response.text(404 if is_unmet_request else 502, f"{error.message}{hint}")
        return not_found("there is no such page or file; the index ends with /simple/")

    def _parse_path(self, segments: Sequence[str]) -> _PathOptions:
        mode, all_variants, profile, rest = self._mode, self._all_variants, "", tuple(segments)
        if rest and rest[0] in _MODES:
            mode, rest = cast("Mode", rest[0]), rest[1:]
        if rest and rest[0] == "all-variants":
            all_variants, rest = True, rest[1:]
        # An empty variable in a user's URL must not mean the machine of the proxy.
        if len(rest) > 2 and rest[0] == "for" and rest[1]:
            profile, rest = rest[1], rest[2:]
        return _PathOptions(mode, all_variants, profile, rest)

    # --- pages ------------------------------------------------------------------------

    def _root(self, request: Request, options: _PathOptions) -> Response:
        self._profiles(options.profile)  # report a typo in the name here
        names: set[str] = set()
        for upstream in self._upstreams if options.mode == "full" else ():
            names.update(upstream.projects())
        media_type = choose_type(request.headers.get("accept"))
        if media_type is None:
            return not_acceptable()
        content = write_projects(sorted(names), media_type)
        return page_response(request, media_type, content, _PAGE_HEADERS)

    def _project(self, request: Request, options: _PathOptions, name: str) -> Response:
        normalised = _normalise(name)
        if name != normalised:
            return redirect_to(f"../{quote(normalised, safe='')}/")
        client = read_user_agent(request.headers.get("user-agent", ""))
        if options.mode == "additive" and client.writes_uv_lock and not self._allows_uv_locks:
            return not_found("variants are not written into uv.lock; uv pip install takes them")
        profile = self._profiles(options.profile)
        accept = request.headers.get("accept") or "*/*"
        media_type = choose_type(accept)
        if media_type is None:
            return not_acceptable()
        upstream_and_page = self._find(normalised, html=media_type != JSON)
        if upstream_and_page is None:
            return not_found("no index behind the proxy has this project")
        upstream, page = upstream_and_page
        if not page.has_variants and options.mode == "additive":
            return not_found("the project has no variants; other indexes have it")
        must_be_written = (
            page.has_variants
            or page.needs_rewriting
            or upstream.needs_proxy(page.url)
            or not _is_accepted(page.content_type, media_type, accept)
        )
        if not must_be_written:
            return _forward_page(request, page)
        written = self._client_page(
            upstream, page, normalised, options, profile, client, media_type
        )
        preferred = written.listed.preferred
        if preferred is not None and options.mode == "additive" and client.tool == "pip":
            self._note_once(
                f"{normalised}: pip takes a newer release from the index beside the proxy, "
                f"without a build for this machine; with --full it takes {preferred}"
            )
        return page_response(request, media_type, written.body, _PAGE_HEADERS)

    def _find(self, name: NormalizedName, *, html: bool) -> tuple[Upstream, RawPage] | None:
        for upstream in self._upstreams:
            page = upstream.raw_page(name, html=html)
            if page is not None:
                return upstream, page
        return None

    def _client_page(
        self,
        upstream: Upstream,
        page: RawPage,
        name: NormalizedName,
        options: _PathOptions,
        profile: Profile,
        client: ClientDescription,
        media_type: str,
    ) -> _ClientPage:
        client_target = client.target(profile.target)
        # The inputs of a page; the profile is one object as long as it means one machine.
        key = (
            *(name, upstream.url, page.digest, id(profile), options.all_variants, media_type),
            *(client.implementation, client.python, client.platforms, self._rewriting.hash_count),
        )

        def write() -> _ClientPage:
            parsed = upstream.parsed_page(name, page)
            listed = list_project(
                parsed,
                upstream,
                profile,
                all_variants=options.all_variants,
                client=client_target,
                known_hash=lambda file, digest: self._rewriting.hash_of(upstream, file, digest),
                needs_proxy=lambda file: upstream.needs_proxy(file.url),
            )
            for note in (*listed.notes, *dict.fromkeys(reason for _, reason in parsed.withheld)):
                self._note_once(note)
            if parsed.bridge is not None and parsed.bridge.no_fit and not listed.page.files:
                self._note_once(f"{name}: {parsed.bridge.no_fit}")  # an installer finds no version
            for digest, body in listed.metadata.items():
                upstream.web.store.write("files", digest, {}, body)
            return _ClientPage(listed, write_project(listed.page, media_type), profile)

        def cached_or_written() -> _ClientPage:
            written = self._pages.peek(key) or write()
            if written.listed.is_complete:
                self._pages.put(key, written)
            return written

        return self._pages.peek(key) or self._pages.call_locked(key, cached_or_written)

    def _note_once(self, note: str) -> None:
        if note not in self._noted:
            if len(self._noted) >= _MAX_NOTED:
                self._noted.clear()
            self._noted.add(note)
            self._note(note)

    # --- files ------------------------------------------------------------------------

    def _file(
        self, request: Request, options: _PathOptions, name: str, key: str, filename: str
    ) -> Response:
        normalised = _normalise(name)
        match = _KEY.fullmatch(key)
        upstream_and_page = self._find(normalised, html=False)
        if match is None or upstream_and_page is None:
            return not_found()
        upstream, page = upstream_and_page
        wheel = filename.removesuffix(".metadata")
        parsed = upstream.parsed_page(normalised, page)
        file = find_original(parsed.files, wheel)
        if file is None and (reason := withheld_reason(parsed, release_of(wheel))):
            return Response.text(403, reason)
        if file is None or not hmac.compare_digest(fingerprint(file), match[1]):
            return not_found("the index does not list this file any more; request the page again")
        digest = match[2]
        metadata = None
        if digest is not None:
            metadata = self._replacement_metadata(
                request, options, upstream, page, normalised, digest
            )
            if metadata is None:
                return not_found("the proxy has lost this metadata; request the page again")
        if wheel != filename:
            body = metadata if metadata is not None else upstream.metadata(file)
            headers = {**_IMMUTABLE_HEADERS, "content-type": "text/plain; charset=utf-8"}
            return content_response(request, body, len(body), etag=etag_of(body), headers=headers)
        return self._wheel(request, upstream, file, metadata, f'"{key}"')

    def _replacement_metadata(
        self,
        request: Request,
        options: _PathOptions,
        upstream: Upstream,
        page: RawPage,
        name: NormalizedName,
        digest: str,
    ) -> bytes | None:
        """Return a METADATA that replaces another, by its digest; None if it is unknown."""
        entry = upstream.web.store.read("files", digest)
        if entry is not None and hashlib.sha256(entry.body).hexdigest() == digest:
            return entry.body
        # Without a cache on disk it is in a cached page, or has to be generated again.
        client = read_user_agent(request.headers.get("user-agent", ""))
        profile = self._profiles(options.profile)
        for description in (client, UNKNOWN):
            written = self._client_page(upstream, page, name, options, profile, description, JSON)
            if digest in written.listed.metadata:
                return written.listed.metadata[digest]
        return None

    def _wheel(
        self, request: Request, upstream: Upstream, file: File, metadata: bytes | None, etag: str
    ) -> Response:
        headers = {**_IMMUTABLE_HEADERS, "content-type": "application/octet-stream"}
        rewriting = self._rewriting
        if metadata is not None:
            served = rewriting.with_metadata(upstream, file, metadata)
            parts = lambda start, stop: rewriting.send(  # noqa: E731
                upstream, file, metadata, start, stop
            )
            return content_response(request, parts, served.size, etag=etag, headers=headers)
        sha256 = file.hashes.get("sha256")
        is_stored = sha256 is not None and upstream.web.store.wheel(sha256) is not None
        if is_stored or upstream.needs_proxy(file.url) or not file.url.startswith("http"):
            served = rewriting.unchanged_wheel(upstream, file)
            return content_response(request, served.parts, served.size, etag=etag, headers=headers)
        # A URL with a query may be signed and expire; redirects to others may be cached.
        caching = {"cache-control": "no-store"} if "?" in file.url else _IMMUTABLE_HEADERS
        return Response.text(302, "moved", {"location": file.url, **caching})


def _normalise(name: str) -> NormalizedName:
    return canonicalize_name(name, validate=True)


def _is_accepted(content_type: str, media_type: str, accept: str) -> bool:
    """Return whether a page has an accepted type.

    :param media_type: the preferred type of an ``Accept`` header.
    """
    if "html" not in content_type:
        return media_type == JSON
    return media_type != JSON or choose_type(f"{accept}, {JSON};q=0") is not None


def _forward_page(request: Request, page: RawPage) -> Response:
    """Forward a page as received, compressed if the client accepts that."""
    # An upstream may write a header on several lines.
    headers = {**_PAGE_HEADERS, "content-type": " ".join(page.content_type.split())}
    body, etag = page.body, f'"{page.digest}"'
    if page.encoding:
        if accepts_gzip(request):
            headers["content-encoding"] = page.encoding
            etag = f'"{page.digest}-{page.encoding}"'
        else:
            body = page.plain
    return content_response(request, body, len(body), etag=etag, headers=headers)


class SecretPathGuard:
    """An `Application` around another, for clients that have a secret.

    Without it every user of a machine could use the service on its loopback interface.

    :param secret: the first segment of every path.
    """

    def __init__(self, application: Application, secret: str) -> None:
        self._application = application
        self._secret = secret.encode()

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        _, _, path = request.path.partition("/")
        secret, slash, rest = path.partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret) or not slash:
            return not_found()
        return self._application(replace(request, path=f"/{rest}"))


class PathRouter:
    """An `Application` around others, chosen by the first segment of a path.

    :param default: the application for paths whose first segment is none of the names.
    """

    def __init__(self, default: Application, others: Mapping[str, Application]) -> None:
        self._default = default
        self._others = dict(others)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        name, slash, rest = request.path.removeprefix("/").partition("/")
        application = self._others.get(name) if slash else None
        if application is None:
            return self._default(request)
        return application(replace(request, path=f"/{rest}"))
