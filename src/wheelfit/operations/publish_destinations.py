"""The destination of a release, and its login."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from msgspec import structs

from wheelfit.building.publishing.forecast import GIT_HOSTS, NO_LIMITS, PUBLIC_REGISTRY
from wheelfit.building.publishing.trusted_publishing import has_identity, trusted_login
from wheelfit.building.publishing.twine_sender import read_pypirc
from wheelfit.checking.tool_profiles import Profile
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import UsageError
from wheelfit.operations.check import FindingOptions
from wheelfit.operations.live_index import TOKEN
from wheelfit.operations.pip_rules import pip_config_locations
from wheelfit.operations.user_folders import home
from wheelfit.operations.whole_index import is_remote, open_target
from wheelfit.server.generate.manifest import MANIFEST, read_manifest
from wheelfit.server.generate.publishing import path_of_entry
from wheelfit.server.generate.targets import SIMPLE, Target
from wheelfit.server.hosting.client import is_index_server
from wheelfit.server.store.opening import DATABASE
from wheelfit.sources.certificates import verifying_context
from wheelfit.sources.credentials import Credentials, Login, read_netrc
from wheelfit.sources.keyring_access import open_keyring
from wheelfit.sources.open import open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.urls import is_loopback, origin, redact, split_userinfo, with_userinfo
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from ssl import SSLContext

    from packaging.utils import NormalizedName

    from wheelfit.building.publishing.forecast import UploadLimits
    from wheelfit.operations.context import Context
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.page import File
    from wheelfit.sources.settings import SourceSettings

_DEFAULT_USER = "__token__"
"""The user whose password is a token."""
_LOGIN_VARIABLES = (
    ("TWINE_USERNAME", "TWINE_PASSWORD"),
    ("UV_PUBLISH_USERNAME", "UV_PUBLISH_TOKEN"),
    ("UV_PUBLISH_USERNAME", "UV_PUBLISH_PASSWORD"),
)


def find_login(
    url: str,
    pypirc: Mapping[str, str],
    settings: SourceSettings,
    environ: Mapping[str, str],
    home: Path,
    *,
    is_live_index: bool,
    note: Callable[[str], None],
) -> tuple[Login | None, str]:
    """Return the login for uploads from the first source that has one, and that source.

    :param url: the address for uploads, maybe with a login in it.
    :param pypirc: the section of ``.pypirc`` for the index.
    :param settings: whether and how keyring is used.
    :param home: the folder of netrc.
    :param is_live_index: whether the index is a live index of wheelfit, which has its own token.
    :param note: called with the fault of a file that cannot be used.
    :raises InvalidConfiguration: the login would be sent over plain HTTP.
    """
    clean, userinfo = split_userinfo(url)
    user, password = userinfo or (None, None)
    login, source = _named_login(user, password, pypirc, environ, is_live_index=is_live_index)
    if login is None:
        user = user or pypirc.get("username")
        credentials = Credentials(
            [with_userinfo(clean, user, None) if user else clean],
            logins=read_netrc(environ, home, note=note),
            keyring=open_keyring(settings.keyring, environ=environ, note=note),
        )
        login, source = credentials.first(clean), "netrc"
        if login is None or not login.password:
            login, source = credentials.after_refusal(clean, None), "keyring"
    if login is None:
        return None, ""
    parts = urlsplit(clean)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidConfiguration(
            "a login is not sent over plain HTTP", where=redact(clean), hint="use https"
        )
    return login, source


def _named_login(
    user: str | None,
    password: str | None,
    pypirc: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    is_live_index: bool,
) -> tuple[Login | None, str]:
    """Return the login of the URL, of a variable or of ``.pypirc``, and which of them it is."""
    if password:
        return Login(user or _DEFAULT_USER, password), "the URL"
    if is_live_index and environ.get(TOKEN):
        return Login(_DEFAULT_USER, environ[TOKEN]), TOKEN
    for name, secret in _LOGIN_VARIABLES:
        if environ.get(secret):
            return Login(user or environ.get(name) or _DEFAULT_USER, environ[secret]), secret
    if pypirc.get("password"):
        user = user or pypirc.get("username") or _DEFAULT_USER
        return Login(user, pypirc["password"]), ".pypirc"
    return None, ""


_INDEX_URLS = {"upload.pypi.org": "https://pypi.org/simple/",
               "test.pypi.org": "https://test.pypi.org/simple/"}  # fmt: skip
"""Hosts of the public registry, and the index URL of each."""
_ENDINGS = ("/simple", "/legacy")
TrustedPublishing = Literal["automatic", "always", "never"]


class DestinationRequest(FindingOptions):
    """The destination of a release, and its limits."""

    to: str
    check_url: str | None = None
    session_url: str | None = None
    one_by_one: bool = False
    file_limit: int | None = None
    project_limit: int | None = None
    trusted_publishing: TrustedPublishing = "automatic"
    cert: str | None = None
    client_cert: str | None = None


@dataclass(frozen=True, slots=True)
class UploadIndex:
    """An index that takes uploads."""

    upload_url: str
    """The URL for uploads; no URL here has credentials."""
    check_url: str
    """The index URL, at which published files are looked up."""
    base: str | None
    """The URL of a wheelfit server, which can stage a release; None: another server."""
    login: Login | None
    settings: SourceSettings
    tls: SSLContext | None = field(compare=False)
    """The certificates to trust; None over plain HTTP."""
    session_url: str | None = None
    """The root endpoint of its publishing sessions (PEP 694); None: there are none."""
    uses_trusted_publishing: bool = False
    """Whether the login is that of this CI job's identity, which expires after minutes."""

    @property
    def name(self) -> str:
        """The URL of the index, for messages."""
        return self.check_url if self.base else self.upload_url

    @property
    def is_public(self) -> bool:
        """Whether it is the public registry."""
        return urlsplit(self.upload_url).hostname in _INDEX_URLS

    def sources(self, context: Context) -> MemoizedRepository:
        """Open the pages of the index, without a cache, since they change."""
        url, login = self.check_url, self.login
        if login is not None and origin(url) == origin(self.upload_url):
            url = with_userinfo(url, login.user, login.password)
        settings = structs.replace(
            self.settings,
            index_url=url,
            extra_index_urls=(),
            find_links=(),
            no_index=False,
            cache=False,
            requires_pages_below_url=True,
        )
        return open_sources(
            settings,
            cache_folder=None,
            environ=context.environ,
            home=home(),
            note=context.reporter.warn,
        )

    def published_files(
        self, projects: Sequence[NormalizedName], context: Context
    ) -> dict[NormalizedName, tuple[File, ...]]:
        """Return the published files of projects."""
        with closing(self.sources(context)) as sources:
            pages = {name: sources.project(name) for name in projects}
        return {name: () if page is None else tuple(page.files) for name, page in pages.items()}

    @contextmanager
    def documents(self, context: Context) -> Iterator[Callable[[File], bytes | None]]:
        """Open a reader of ``variant.json`` in published wheels."""
        with closing(self.sources(context)) as sources:
            yield sources.variant_document


@dataclass(frozen=True, slots=True)
class StaticIndex:
    """A static index: files that any web server offers."""

    target: Target
    folder: Path | None
    """None: it is an object store."""
    is_checkout: bool = False
    """Whether it is the checkout of a repository, from which GitHub Pages publishes."""

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{self.target.name}/simple/"

    @property
    def is_public(self) -> bool:
        """Whether it is the public registry."""
        return False

    def published_files(
        self, projects: Sequence[NormalizedName], context: Context
    ) -> dict[NormalizedName, tuple[File, ...]]:
        """Return the published files of projects."""
        del context
        entries = read_manifest(self.target.read(MANIFEST), where=self.target.name).entries
        return {name: entries.get(name, ()) for name in projects}

    @contextmanager
    def documents(self, context: Context) -> Iterator[Callable[[File], bytes | None]]:
        """Open a reader of ``variant.json`` in published wheels."""
        del context
        yield self._document

    def _document(self, file: File) -> bytes | None:
        path = path_of_entry(parse_wheel_filename(file.filename).name, file.url)
        with TemporaryDirectory(prefix="wheelfit-publish-") as folder:
            copy = Path(folder, file.filename)
            if not self.target.fetch(path, copy):
                return None
            with WheelArchive(copy) as wheel:
                return wheel.variant_document()


def open_destination(request: DestinationRequest, context: Context) -> UploadIndex | StaticIndex:
    """Open the destination of a release.

    :raises Unreachable: a server cannot be reached.
    :raises InvalidConfiguration: it is not an address.
    :raises UsageError: a name is unknown.
    """
    destination = request.to
    if is_remote(destination):
        return _upload_index(destination, _pypirc_section(destination), request, context)
    is_path = (
        "://" in destination or destination.startswith("file:") or set(destination) & set("/\\.")
    )
    if not is_path and not Path(destination).exists():
        sections = read_pypirc(home() / ".pypirc")
        if destination in sections:
            url = sections[destination].get("repository", "")
            return _upload_index(url, sections[destination], request, context)
        raise UsageError(
            f"--to {destination}: there is no such folder, and no index of that name",
            hint=f"name the URL of an index, ./{destination} for a new folder, or one of "
            f"{', '.join(sorted(sections))} (.pypirc defines more)",
        )
    if request.check_url or request.one_by_one or request.session_url:
        raise UsageError(
            "--check-url, --session-url and --one-by-one are for indexes that take uploads"
        )
    return _static_index(destination)


def with_identity(request: DestinationRequest, index: UploadIndex, context: Context) -> UploadIndex:
    """Return an index with the login for the identity of this CI job, if it is needed.

    :raises UserError: the job has no identity.
    :raises PolicyRefusal: the index does not trust it.
    :raises NetworkError: the index cannot be reached.
    """
    mode = request.trusted_publishing
    if mode == "never":
        return index
    if mode == "automatic" and (index.login is not None or not has_identity(context.environ)):
        return index
    login = trusted_login(index.upload_url, context.environ, index.tls)
    if login is None and mode == "always":
        raise InvalidConfiguration(
            "the index offers no trusted publishing",
            where=redact(index.upload_url),
            hint="upload with a token: docs/reference/publish.md",
        )
    if login is None:
        context.reporter.detail("the index offers no trusted publishing")
        return index
    context.reporter.detail("the login is that of this CI job's identity")
    return replace(index, login=login, uses_trusted_publishing=True)


def _pypirc_section(url: str) -> Mapping[str, str]:
    """Return the section of ``.pypirc`` for a URL; empty if there is none."""
    path = home() / ".pypirc"
    if not path.is_file():
        return {}
    clean = split_userinfo(url)[0].rstrip("/")
    for section in read_pypirc(path).values():
        if section.get("repository", "").rstrip("/") == clean:
            return section
    return {}


def _upload_index(
    url: str, pypirc: Mapping[str, str], request: DestinationRequest, context: Context
) -> UploadIndex:
    environ, reporter = context.environ, context.reporter
    clean, host = _parse_address(url)
    if request.check_url:
        _parse_address(request.check_url)  # raises if it is not an address
    settings = read_pip_configuration(pip_config_locations(environ, None)).with_options(
        cert=request.cert, client_cert=request.client_cert
    )
    base = tls = None
    if clean.startswith("https:"):
        tls = verifying_context(settings.cert, settings.client_cert, environ=environ)
    if host not in _INDEX_URLS:
        base = _without_ending(clean)
        base = base if is_index_server(base, context=tls) else None
    login, login_source = find_login(
        url, pypirc, settings, environ, home(), is_live_index=base is not None, note=reporter.warn
    )
    if login_source:
        reporter.detail(f"the login is that of {login_source}")
    session_url = _session_endpoint(request.session_url, clean)
    if base is not None:
        check_url = split_userinfo(request.check_url or f"{base}/simple/")[0]
        return UploadIndex(f"{base}/legacy/", check_url, base, login, settings, tls, session_url)
    check_url = request.check_url or _INDEX_URLS.get(host) or f"{_without_ending(clean)}/simple/"
    if not request.check_url and host not in _INDEX_URLS:
        reporter.detail(f"published files are looked up at {redact(check_url)}")
    return UploadIndex(clean, split_userinfo(check_url)[0], None, login, settings, tls, session_url)


def _session_endpoint(url: str | None, upload_url: str) -> str | None:
    """Return the root endpoint of publishing sessions.

    :raises InvalidConfiguration: it is not an address, or on a server that the login is not for.
    """
    if url is None:
        return None
    clean, _ = _parse_address(url)
    if origin(clean) != origin(upload_url):
        raise InvalidConfiguration(
            "--session-url is on another server than --to", where=redact(clean)
        )
    return clean


def _parse_address(url: str) -> tuple[str, str]:
    """Return an address without its login, and its host.

    :raises InvalidConfiguration: it is not an address.
    """
    try:
        clean = split_userinfo(url)[0]
        address = origin(clean)
        address.host.encode("idna")  # raises if no host can have this name
    except ValueError:
        address = None
    if address is None or address.scheme not in ("http", "https") or not address.port:
        raise InvalidConfiguration("this is not an address of an index", where=redact(url))
    return clean, address.host


def _without_ending(url: str) -> str:
    url = url.partition("?")[0].rstrip("/")
    for ending in _ENDINGS:
        url = url.removesuffix(ending)
    return url


def _static_index(destination: str) -> StaticIndex:
    target, folder = open_target(destination)
    if folder is not None and folder.name == SIMPLE:
        raise UsageError(
            f"the pages would be written to {folder / SIMPLE}",
            hint=f"name the folder above: --to {folder.parent}",
        )
    if folder is not None and (folder / DATABASE).exists():
        raise FileProblem(
            "this is the store of a live index",
            where=destination,
            hint="name the URL of its server, as http://127.0.0.1:8942/",
        )
    return StaticIndex(target, folder, is_checkout=folder is not None and _is_checkout(folder))


def _is_checkout(folder: Path) -> bool:
    """Return whether GitHub Pages may publish a folder: the root of a checkout, or its docs."""
    root = folder.absolute()
    return ((root.parent if root.name == "docs" else root) / ".git").exists()


def limits_of(request: DestinationRequest, destination: UploadIndex | StaticIndex) -> UploadLimits:
    """Return the limits of a request, with the defaults of the destination."""
    is_public = destination.is_public or Profile.PYPI in request.profile
    defaults = PUBLIC_REGISTRY if is_public else NO_LIMITS
    if isinstance(destination, StaticIndex) and destination.is_checkout:
        defaults = GIT_HOSTS
    return replace(
        defaults,
        file=defaults.file if request.file_limit is None else request.file_limit,
        project=defaults.project if request.project_limit is None else request.project_limit,
    )
