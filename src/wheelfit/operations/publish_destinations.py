"""The destination of a release, and the login there."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlsplit, urlunsplit

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
from wheelfit.operations.whole_index import open_target
from wheelfit.server.generate.manifest import MANIFEST, read_manifest
from wheelfit.server.generate.publishing import path_of_entry
from wheelfit.server.generate.targets import SIMPLE
from wheelfit.server.hosting.client import is_index_server
from wheelfit.server.store.opening import DATABASE
from wheelfit.sources.certificates import checking_context
from wheelfit.sources.credentials import Credentials, Login, read_netrc
from wheelfit.sources.keyring_access import open_keyring
from wheelfit.sources.open import open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.urls import is_loopback, origin, redact, split_userinfo
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from ssl import SSLContext

    from packaging.utils import NormalizedName

    from wheelfit.building.publishing.forecast import UploadLimits
    from wheelfit.operations.context import Context
    from wheelfit.server.generate.targets import Target
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.page import File
    from wheelfit.sources.settings import SourceSettings


_ANY = "__token__"
"""The user whose password is a token."""
_VARIABLES = (
    ("TWINE_USERNAME", "TWINE_PASSWORD"),
    ("UV_PUBLISH_USERNAME", "UV_PUBLISH_TOKEN"),
    ("UV_PUBLISH_USERNAME", "UV_PUBLISH_PASSWORD"),
)


def find_login(
    url: str,
    configured: Mapping[str, str],
    settings: SourceSettings,
    environ: Mapping[str, str],
    home: Path,
    *,
    is_ours: bool,
    note: Callable[[str], None],
) -> tuple[Login | None, str]:
    """Return a login for uploads, and its source; the first source with one decides.

    :param url: the address for uploads, maybe with a login in it.
    :param configured: the section of ``.pypirc`` for the index.
    :param settings: set the use of keyring.
    :param home: the folder of netrc.
    :param is_ours: whether the token for indexes of wheelfit is meant for it.
    :param note: gets remarks about files that cannot be used.
    :raises InvalidConfiguration: the login would be sent over plain HTTP.
    """
    clean, userinfo = split_userinfo(url)
    login, place = _find(clean, userinfo, configured, settings, environ, home, is_ours, note)
    parts = urlsplit(clean)
    if login is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidConfiguration(
            "a login is not sent over plain HTTP", where=redact(clean), hint="use https"
        )
    return login, place


def _find(
    url: str,
    userinfo: tuple[str, str | None] | None,
    configured: Mapping[str, str],
    settings: SourceSettings,
    environ: Mapping[str, str],
    home: Path,
    is_ours: bool,  # noqa: FBT001 - handed on
    note: Callable[[str], None],
) -> tuple[Login | None, str]:
    user, password = userinfo or (None, None)
    if password:
        return Login(user or _ANY, password), "the URL"
    if is_ours and environ.get(TOKEN):
        return Login(_ANY, environ[TOKEN]), TOKEN
    for name, secret in _VARIABLES:
        if environ.get(secret):
            return Login(user or environ.get(name) or _ANY, environ[secret]), secret
    user = user or configured.get("username")
    if configured.get("password"):
        return Login(user or _ANY, configured["password"]), ".pypirc"
    named = f"{quote(user, safe='')}@" if user else ""
    known = Credentials(
        [urlunsplit(urlsplit(url)._replace(netloc=f"{named}{urlsplit(url).netloc}"))],
        logins=read_netrc(environ, home, note=note),
        keyring=open_keyring(settings.keyring, environ=environ, note=note),
    )
    login = known.first(url)
    if login is not None and login.password:
        return login, "netrc"
    login = known.after_refusal(url, None)
    return (None, "") if login is None else (login, "keyring")


def with_login(url: str, login: Login | None) -> str:
    """Return a URL with a login in it, to read pages there.

    :param url: without one.
    :param login: None: there is none.
    """
    if login is None:
        return url
    parts = urlsplit(url)
    userinfo = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{userinfo}@{parts.netloc}"))


_PUBLIC = {"upload.pypi.org": "https://pypi.org/simple/",
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
    """Without credentials, as all of these."""
    check_url: str
    """The index URL."""
    base: str | None
    """Of a wheelfit server: the part before ``/-/``; it can stage a release."""
    login: Login | None
    settings: SourceSettings
    tls: SSLContext | None = field(compare=False)
    """The certificates to trust; None over plain HTTP."""
    session_url: str | None = None
    """The root endpoint of its publishing sessions (PEP 694); None: there are none."""
    is_trusting: bool = False
    """Whether the login is that of this CI job's identity, which expires after minutes."""

    @property
    def name(self) -> str:
        """The URL of the index as users know it."""
        return self.check_url if self.base else self.upload_url

    @property
    def is_public(self) -> bool:
        """Whether it is the public registry."""
        return urlsplit(self.upload_url).hostname in _PUBLIC

    def sources(self, context: Context) -> MemoizedRepository:
        """Open its pages; none is kept in the cache, since they change."""
        is_same = origin(self.check_url) == origin(self.upload_url)
        settings = structs.replace(
            self.settings,
            index_url=with_login(self.check_url, self.login if is_same else None),
            extra_index_urls=(),
            find_links=(),
            no_index=False,
            cache=False,
            is_confined=True,
        )
        return open_sources(
            settings,
            cache_folder=None,
            environ=context.environ,
            home=home(),
            note=context.reporter.warn,
        )

    def there(
        self, projects: Sequence[NormalizedName], context: Context
    ) -> dict[NormalizedName, tuple[File, ...]]:
        """Return the files of projects on its pages."""
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
    """Whether it is one from which GitHub Pages publishes."""

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{self.target.name}/simple/"

    @property
    def is_public(self) -> bool:
        """Whether it is the public registry."""
        return False

    def there(
        self, projects: Sequence[NormalizedName], context: Context
    ) -> dict[NormalizedName, tuple[File, ...]]:
        """Return the files of projects on its pages."""
        del context
        files = read_manifest(self.target.read(MANIFEST), where=self.target.name).files
        return {name: files.get(name, ()) for name in projects}

    @contextmanager
    def documents(self, context: Context) -> Iterator[Callable[[File], bytes | None]]:
        """Open a reader of ``variant.json`` in published wheels."""
        del context
        yield self._document

    def _document(self, file: File) -> bytes | None:
        path = path_of_entry(parse_wheel_filename(file.filename).name, file.url)
        with TemporaryDirectory(prefix="wheelfit-publish-") as folder:
            here = Path(folder, file.filename)
            if not self.target.fetch(path, here):
                return None
            with WheelArchive(here) as wheel:
                return wheel.variant_document()


def open_destination(request: DestinationRequest, context: Context) -> UploadIndex | StaticIndex:
    """Open the destination of a release.

    :raises Unreachable: a server cannot be reached.
    :raises InvalidConfiguration: it is not an address.
    :raises UsageError: a name is unknown.
    """
    text = request.to
    if text.startswith(("http://", "https://")):
        return _index(text, _configured_for(text), request, context)
    is_path = "://" in text or text.startswith("file:") or set(text) & set("/\\.")
    if not is_path and not Path(text).exists():
        known = read_pypirc(home() / ".pypirc")
        if text in known:
            url = known[text].get("repository", "")
            return _index(url, known[text], request, context)
        raise UsageError(
            f"--to {text}: there is no such folder, and no index of that name",
            hint=f"name the URL of an index, ./{text} for a new folder, or one of "
            f"{', '.join(sorted(known))} (.pypirc names more)",
        )
    if request.check_url or request.one_by_one or request.session_url:
        raise UsageError(
            "--check-url, --session-url and --one-by-one are for indexes that take uploads"
        )
    return _static(text)


def with_identity(request: DestinationRequest, index: UploadIndex, context: Context) -> UploadIndex:
    """Return an index with the login that the identity of this CI job gives, if it is needed.

    :raises UserError: the job has no identity.
    :raises PolicyRefusal: the index does not trust it.
    :raises NetworkError: the index cannot be reached.
    """
    way = request.trusted_publishing
    if way == "never":
        return index
    if way == "automatic" and (index.login is not None or not has_identity(context.environ)):
        return index
    login = trusted_login(index.upload_url, context.environ, index.tls)
    if login is None and way == "always":
        raise InvalidConfiguration(
            "the index offers no trusted publishing",
            where=redact(index.upload_url),
            hint="upload with a token: docs/reference/publish.md",
        )
    if login is None:
        context.reporter.detail("the index offers no trusted publishing")
        return index
    context.reporter.detail("the login is that of this CI job's identity")
    return replace(index, login=login, is_trusting=True)


def _configured_for(url: str) -> Mapping[str, str]:
    """Return the section of ``.pypirc`` for a URL; empty if there is none."""
    path = home() / ".pypirc"
    if not path.is_file():
        return {}
    clean = split_userinfo(url)[0].rstrip("/")
    for one in read_pypirc(path).values():
        if one.get("repository", "").rstrip("/") == clean:
            return one
    return {}


def _index(
    url: str, configured: Mapping[str, str], request: DestinationRequest, context: Context
) -> UploadIndex:
    environ, reporter = context.environ, context.reporter
    clean, host = _checked(url)
    if request.check_url:
        _checked(request.check_url)
    settings = read_pip_configuration(pip_config_locations(environ, None)).with_options(
        cert=request.cert, client_cert=request.client_cert
    )
    base = tls = None
    if clean.startswith("https:"):
        tls = checking_context(settings.cert, settings.client_cert, environ=environ)
    if host not in _PUBLIC:
        base = _without_ending(clean)
        base = base if is_index_server(base, context=tls) else None
    login, place = find_login(
        url, configured, settings, environ, home(), is_ours=base is not None, note=reporter.warn
    )
    if place:
        reporter.detail(f"the login is that of {place}")
    sessions = _sessions_of(request.session_url, clean)
    if base is not None:
        return UploadIndex(
            f"{base}/legacy/", f"{base}/simple/", base, login, settings, tls, sessions
        )
    check_url = request.check_url or _PUBLIC.get(host) or f"{_without_ending(clean)}/simple/"
    if not request.check_url and host not in _PUBLIC:
        reporter.detail(f"what is there already is looked for at {redact(check_url)}")
    return UploadIndex(clean, split_userinfo(check_url)[0], None, login, settings, tls, sessions)


def _sessions_of(url: str | None, upload_url: str) -> str | None:
    """Return the root endpoint of publishing sessions; the login is for its server.

    :raises InvalidConfiguration: it is not an address, or one of another server.
    """
    if url is None:
        return None
    clean, _ = _checked(url)
    if origin(clean) != origin(upload_url):
        raise InvalidConfiguration(
            "the sessions are those of another server than --to names", where=redact(clean)
        )
    return clean


def _checked(url: str) -> tuple[str, str]:
    """Return an address without its login, and its host.

    :raises InvalidConfiguration: it is not an address.
    """
    try:
        clean = split_userinfo(url)[0]
        where = origin(clean)
    except ValueError:
        where = None
    if where is None or where.scheme not in ("http", "https") or not where.port:
        raise InvalidConfiguration("this is not an address of an index", where=redact(url))
    return clean, where.host


def _without_ending(url: str) -> str:
    url = url.partition("?")[0].rstrip("/")
    for ending in _ENDINGS:
        url = url.removesuffix(ending)
    return url


def _static(text: str) -> StaticIndex:
    target, folder = open_target(text)
    if folder is not None and folder.name == SIMPLE:
        raise UsageError(
            f"the pages would go into {folder / SIMPLE}",
            hint=f"name the folder above: --to {folder.parent}",
        )
    if folder is not None and (folder / DATABASE).exists():
        raise FileProblem(
            "this is the store of a live index",
            where=text,
            hint="name the URL of its server, as http://127.0.0.1:8942/",
        )
    return StaticIndex(target, folder, is_checkout=folder is not None and _is_checkout(folder))


def _is_checkout(folder: Path) -> bool:
    """Return whether GitHub Pages may publish a folder: the root of a checkout, or its docs."""
    root = folder.absolute()
    return ((root.parent if root.name == "docs" else root) / ".git").exists()


def limits_of(request: DestinationRequest, destination: UploadIndex | StaticIndex) -> UploadLimits:
    """Return the limits of an index: those of the request, or its usual ones."""
    is_public = destination.is_public or Profile.PYPI in request.profile
    usual = PUBLIC_REGISTRY if is_public else NO_LIMITS
    if isinstance(destination, StaticIndex) and destination.is_checkout:
        usual = GIT_HOSTS
    return replace(
        usual,
        file=usual.file if request.file_limit is None else request.file_limit,
        project=usual.project if request.project_limit is None else request.project_limit,
    )
