"""Object storages like S3, through `obstore`; the only importer of that library."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from wheelfit.errors import NeedsExtra, StorageUnavailable
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import ObjectStore


Storage: TypeAlias = "ObjectStore"
"""A store of objects by path, below a prefix."""

_RETRY_TIMEOUT = timedelta(seconds=60)
_RETRIES = 4
_UNLIMITED = timedelta(days=1)
_NO_CREDENTIALS = ("169.254.169.254", "credential", "account must be specified")
_S3_CREDENTIALS = "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
_AZURE_CREDENTIALS = "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
_CREDENTIALS = {
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the path of a file with a key",
    "az": _AZURE_CREDENTIALS,
    "abfs": _AZURE_CREDENTIALS,
    "abfss": _AZURE_CREDENTIALS,
}


def without_options(url: str) -> str:
    """Return the URL of a storage without its options, which may be secrets.

    >>> without_options("s3://bucket/prefix?region=eu")
    's3://bucket/prefix'
    """
    return urlunsplit(urlsplit(url)._replace(query=""))


def open_storage(
    url: str, *, timeout: float | None = None, read_timeout: float | None = None
) -> Storage:
    """Open the storage of a URL.

    Credentials come from the usual variables of that storage, such as ``AWS_ACCESS_KEY_ID``.

    :param url: ``s3://bucket/prefix``, ``gs://…``, ``az://…``, or ``memory://`` for tests, with
        options as ``?endpoint=http://127.0.0.1:9000&region=…``.
    :param timeout: seconds for a request with all its retries; None: retries end after a minute.
    :param read_timeout: seconds without a byte after which a request fails; its whole duration is
        then unlimited, and retries end after the same time.
    :raises InvalidConfiguration: it is not the URL of a storage.
    :raises NeedsExtra: the library is not installed.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidConfiguration(
            f"this is not the URL of a storage: {error}", where=redact(url)
        ) from None
    if parts.scheme in ("http", "https"):
        # The library would try to speak WebDAV there.
        raise InvalidConfiguration(
            "a web server is not a storage that can be written to",
            where=redact(without_options(url)),
            hint="name a folder, or s3://bucket/prefix with options in a query, as "
            "endpoint=https://storage.example.org",
        )
    try:
        from obstore.exceptions import BaseError
        from obstore.store import MemoryStore, from_url
    except ImportError:
        raise NeedsExtra("server", "obstore") from None
    if parts.scheme == "memory":
        return MemoryStore()
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    client: Any = {"allow_http": True} if options.get("endpoint", "").startswith("http:") else {}
    retry_timeout = _RETRY_TIMEOUT
    if timeout is not None:
        retry_timeout = timedelta(seconds=timeout / 2)
        client |= {"timeout": timedelta(seconds=timeout), "connect_timeout": retry_timeout}
    if read_timeout is not None:
        retry_timeout = timedelta(seconds=read_timeout)
        client |= {
            "read_timeout": retry_timeout,
            "timeout": _UNLIMITED,
            "connect_timeout": retry_timeout,
        }
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": retry_timeout}
    where = without_options(url)
    try:
        return from_url(where, client_options=client or None, retry_config=retries, **options)
    except (BaseError, ValueError, TypeError) as error:
        raise InvalidConfiguration(
            f"this is not the URL of a storage: {first_line(error)}",
            where=where,
            hint=credentials_hint(error, where)
            or "name s3://bucket/prefix with options in a query, as "
            "endpoint=https://storage.example.org",
        ) from None


@contextmanager
def reporting_storage_failures(
    where: str, *, except_for: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise errors of a storage in the block as ``StorageUnavailable``.

    :param where: the URL of the storage or of the object.
    :param except_for: errors that are raised unchanged, such as ``FileNotFoundError``.
    """
    from obstore.exceptions import BaseError, GenericError

    try:
        yield
    except except_for:
        raise
    except (BaseError, OSError) as error:
        raise StorageUnavailable(
            f"the storage failed: {first_line(error)}",
            where=where,
            hint=credentials_hint(error, where),
            cause="unresponsive" if isinstance(error, GenericError) else "",
        ) from error


def condition_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors for missing objects and unmet conditions of a request."""
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    return (FileNotFoundError, AlreadyExistsError, PreconditionError)


def credentials_hint(error: BaseException, where: str) -> str | None:
    """Return a hint if an error is about credentials, else None.

    Without credentials, the library requests the metadata service of the cloud.

    >>> credentials_hint(ValueError("Account must be specified"), "az://container")
    'set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY'
    """
    text = str(error).lower()
    if not any(phrase in text for phrase in _NO_CREDENTIALS):
        return None
    return _CREDENTIALS.get(urlsplit(where).scheme, _S3_CREDENTIALS)


def first_line(error: BaseException) -> str:
    """Return the first line of an error; further lines describe the request."""
    return (str(error) or type(error).__name__).strip().partition("\n")[0][:300]
