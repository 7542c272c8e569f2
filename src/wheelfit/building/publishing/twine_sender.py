"""File uploads with `twine` (extra `publish`), which only this module imports.

`twine` supplies the fields of the form, the session and the streaming of files; this module decides
about retries and error messages.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from typing import TYPE_CHECKING, Any, Protocol, cast

from packaging.metadata import parse_email

from wheelfit.building.publishing.answers import Answer, failure_of
from wheelfit.building.publishing.release_files import FileKind, OutgoingFile
from wheelfit.core.filename import index_file_name
from wheelfit.errors import AttestationProblem, InvalidSource, NeedsExtra
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import InvalidConfiguration, Unreachable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.core.filename import Release
    from wheelfit.sources.credentials import Login

    Fields = list[tuple[str, Any]]

_ATTEMPTS = 4
"""The number of attempts with a server that fails or cannot be reached."""
_TIMEOUTS = (30.0, 300.0)
_LOGIN_AGE = 300.0
"""Seconds after which a short-lived login is renewed; the registry's lasts 900."""
_MAX_METADATA = 16 << 20
_MAX_ANSWER = 1 << 20


class Sender(Protocol):
    """A sender of files to one address of an index.

    Errors that each method may raise: ``Unreachable`` and ``UnexpectedStatus``, after which a retry
    may succeed; ``PolicyRefusal``: the user may not upload it; ``UploadRefused``: the file is
    refused; ``IntegrityError``: it is damaged.
    """

    def send(self, file: OutgoingFile, progress: Callable[[int], None]) -> None:
        """Send a wheel or a source distribution.

        :param progress: called with the number of further bytes sent; negative for a retry.
        """

    def send_index_file(self, release: Release, data: bytes) -> None:
        """Send the ``-variants.json`` of a release."""

    def close(self) -> None:
        """Close the connections."""


class IndexConnection:
    """A connection to the server of an index.

    :param url: an address of the server, without credentials.
    :param login: the login to send; None: there is none.
    :param context: the trusted certificates for TLS; None: those of `requests`.
    :raises NeedsExtra: the library is not installed.
    """

    def __init__(self, url: str, login: Login | None, context: ssl.SSLContext | None) -> None:
        try:
            from twine.repository import Repository
        except ImportError:
            raise NeedsExtra("publish", "twine") from None
        user, password = ("", "") if login is None else (login.user, login.password)
        self._where = redact(url)
        self._session = Repository(url, user, password, disable_progress_bar=True).session
        if context is not None:
            self._session.mount("https://", _adapter(context))

    def log_in(self, login: Login) -> None:
        """Use another login from now on."""
        self._session.auth = (login.user, login.password)

    def request(
        self,
        method: str,
        url: str,
        purpose: str,
        *,
        max_size: int = _MAX_ANSWER,
        timeout: tuple[float, float] = _TIMEOUTS,
        **options: Any,
    ) -> Answer:
        """Send a request, follow no redirect, and return the answer.

        :param purpose: the purpose for errors, such as ``send fast-1.0.tar.gz``.
        :param max_size: bytes of the answer that are read at most.
        :param timeout: seconds for a connection, and for an answer after sending.
        :param options: further arguments for `requests`.
        :raises Unreachable: the server cannot be reached; its cause is the error of `requests`.
        """
        try:
            answer = self._session.request(
                method, url, allow_redirects=False, stream=True, timeout=timeout, **options
            )
            with answer:
                content = next(answer.iter_content(max_size), b"")
        except OSError as error:
            raise Unreachable(
                f"the index cannot be reached to {purpose}: {_reason_of(error)}", where=self._where
            ) from error
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status_code, answer.reason or "", headers, content)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


class TwineSender:
    """A sender over the network: a `Sender`.

    :param url: the address for uploads, without credentials.
    :param renew: returns a new login, as logins expire after some minutes; None: they do not.
    """

    def __init__(
        self,
        url: str,
        login: Login | None,
        context: ssl.SSLContext | None = None,
        *,
        renew: Callable[[], Login | None] | None = None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = IndexConnection(url, login, context)
        self._url = url
        self._renew = renew
        self._pause = pause
        self._clock = clock
        self._logged_in_at = clock()

    def _renew_login(self) -> None:
        """Renew a login that may expire before another file is sent."""
        if self._renew is None or self._clock() - self._logged_in_at < _LOGIN_AGE:
            return
        login = self._renew()
        if login is not None:
            self._connection.log_in(login)
            self._logged_in_at = self._clock()

    def send(self, file: OutgoingFile, progress: Callable[[int], None]) -> None:
        """Send a wheel or a source distribution."""
        self._renew_login()
        fields = _fields(file)
        with file.path.open("rb") as content:
            self._post(
                [*fields, ("content", (file.filename, content, "application/octet-stream"))],
                file.filename,
                progress,
                rewind=lambda: content.seek(0),
            )

    def send_index_file(self, release: Release, data: bytes) -> None:
        """Send the ``-variants.json`` of a release."""
        name, version = release
        filename = index_file_name(name, version)
        fields: Fields = [
            (":action", "file_upload"),
            ("protocol_version", "1"),
            ("metadata_version", "2.1"),
            ("name", name),
            ("version", str(version)),
            # No type is specified for index files; indexes accept this one.
            ("filetype", "bdist_wheel"),
            ("pyversion", "py3"),
            ("sha256_digest", hashlib.sha256(data).hexdigest()),
            ("content", (filename, data, "application/json")),
        ]
        self._post(fields, filename, lambda _: None, rewind=lambda: None)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _post(
        self,
        fields: Fields,
        filename: str,
        progress: Callable[[int], None],
        *,
        rewind: Callable[[], object],
    ) -> None:
        """Send a form, with retries; sending the same file again changes nothing."""
        from requests.exceptions import SSLError  # comes with twine
        from requests_toolbelt import MultipartEncoder, MultipartEncoderMonitor

        where = redact(self._url)
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._pause(2.0 ** (attempt - 1))
            rewind()
            upload_progress = _UploadProgress(progress)
            monitor = MultipartEncoderMonitor(MultipartEncoder(fields), upload_progress)
            headers = {"Content-Type": monitor.content_type, "Accept": "application/json"}
            try:
                answer = self._connection.request(
                    "POST", self._url, f"send {filename}", data=monitor, headers=headers
                )
                if answer.status < 300:
                    return
                failure, may_retry = failure_of(answer, filename, where), answer.status >= 500
            except Unreachable as error:
                # A retry does not help against certificate errors.
                failure, may_retry = error, not isinstance(error.__cause__, SSLError)
            upload_progress.undo()
            if not may_retry or attempt + 1 == _ATTEMPTS:
                raise failure


class _UploadProgress:
    """A progress count that can be reduced when bytes are sent again."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._reported = 0

    def __call__(self, monitor: Any) -> None:
        self._report(monitor.bytes_read - self._reported)
        self._reported = monitor.bytes_read

    def undo(self) -> None:
        self._report(-self._reported)


def read_attestations(file: OutgoingFile) -> list[object]:
    """Return the attestations of a file."""
    attestations: list[object] = []
    for path in file.attestations:
        try:
            attestation = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            attestation = None
        if not isinstance(attestation, dict):
            raise AttestationProblem("the file is not an attestation", where=str(path))
        attestations.append(attestation)
    return attestations


def _fields(file: OutgoingFile) -> Fields:
    """Return the form fields of a file.

    `PackageFile.from_filename` cannot be used: it refuses dependencies with variant markers.
    """
    from twine.package import PackageFile

    raw, _ = parse_email(_metadata(file.path))
    # The label of a variant follows the three tags.
    tag_position = -4 if file.kind is FileKind.VARIANT else -3
    is_source = file.kind is FileKind.SOURCE
    python_tag = "source" if is_source else file.filename.split("-")[tag_position]
    package = PackageFile(
        str(file.path), None, raw, python_tag, "sdist" if is_source else "bdist_wheel"
    )
    if file.attestations:
        package.attestations = cast("Any", read_attestations(file))
    fields: Fields = []
    for key, value in cast("dict[str, object]", package.metadata_dictionary()).items():
        fields += _form_fields(key, value)
    return [*fields, (":action", "file_upload"), ("protocol_version", "1")]


def _form_fields(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the form fields of one entry of the metadata; a list has a field for each element."""
    match key, value:
        case "project_urls", dict():
            yield from ((key, f"{name}, {url}") for name, url in value.items())
        case "keywords", list():
            yield key, ", ".join(value)
        case _, list() | tuple():
            yield from ((key, str(element)) for element in value)
        case _:
            yield key, str(value)


def _metadata(path: Path) -> bytes:
    """Return METADATA of a wheel or PKG-INFO of a source distribution."""
    if path.suffix == ".whl":
        with WheelArchive(path) as wheel:
            return wheel.metadata()
    import tarfile
    import zipfile

    member = f"{path.name.removesuffix('.zip').removesuffix('.tar.gz')}/PKG-INFO"
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                return file.read(_MAX_METADATA)
        with tarfile.open(path) as source:
            content = source.extractfile(member)
            return b"" if content is None else content.read(_MAX_METADATA)
    except (OSError, KeyError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidSource(f"its {member} cannot be read: {error}", where=str(path)) from None


def _adapter(context: ssl.SSLContext) -> Any:
    from requests.adapters import HTTPAdapter  # comes with twine

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            super().init_poolmanager(*arguments, **{**options, "ssl_context": context})

        def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
            return super().proxy_manager_for(*arguments, **{**options, "ssl_context": context})

        def build_connection_pool_key_attributes(self, *arguments: Any, **options: Any) -> Any:
            host, _ = super().build_connection_pool_key_attributes(*arguments, **options)
            return host, {"ssl_context": context, "cert_reqs": "CERT_REQUIRED"}

        def cert_verify(self, conn: Any, *_: Any, **__: Any) -> None:
            conn.cert_reqs = "CERT_REQUIRED"  # by `context`, without the bundle of requests

    return Adapter()


def _reason_of(error: BaseException) -> str:
    """Return the message of the innermost cause of a failed connection."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {str(error)[:200]}"


def read_pypirc(path: Path) -> dict[str, Mapping[str, str]]:
    """Read the user's indexes for publishing tools, with their logins.

    :return: ``repository`` and optionally ``username`` and ``password`` of each index, by name.
    :raises NeedsExtra: the library is not installed.
    :raises InvalidConfiguration: it cannot be read.
    """
    from configparser import Error

    try:
        from twine.exceptions import TwineException
        from twine.utils import get_config
    except ImportError:
        raise NeedsExtra("publish", "twine") from None
    try:
        sections = get_config(str(path)) if path.is_file() else {}
    except TwineException:
        raise InvalidConfiguration(
            "the file cannot be read: its text is not UTF-8", where=str(path)
        ) from None
    except (OSError, ValueError, Error, LookupError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, Error):  # its message quotes lines, which may have passwords
            reason = type(error).__name__
        raise InvalidConfiguration(f"the file cannot be read: {reason}", where=str(path)) from None
    indexes = {
        name: {key: str(value) for key, value in section.items() if value}
        for name, section in sections.items()
    }
    return {**_DEFAULT_INDEXES, **indexes}


_DEFAULT_INDEXES: Mapping[str, Mapping[str, str]] = {
    "pypi": {"repository": "https://upload.pypi.org/legacy/"},
    "testpypi": {"repository": "https://test.pypi.org/legacy/"},
}
