"""Object storages like S3, by the library `obstore`; the one importer of that library."""

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

_PATIENCE = timedelta(seconds=60)
_RETRIES = 4
_UNLIMITED = timedelta(days=1)


def without_options(url: str) -> str:
    """Return the URL of a storage without its options, which may be secrets.

    >>> without_options("s3://bucket/prefix?region=eu")
    's3://bucket/prefix'
    """
    return urlunsplit(urlsplit(url)._replace(query=""))


def open_storage(url: str, *, timeout: float | None = None, stall: float | None = None) -> Storage:
    """Open the storage of a URL.

    Credentials come from the usual variables of that storage, as ``AWS_ACCESS_KEY_ID``.

    :param url: ``s3://bucket/prefix``, ``gs://…``, ``az://…``, or ``memory://`` for tests, with
        options as ``?endpoint=http://127.0.0.1:9000&region=…``.
    :param timeout: seconds for a request with all its retries; None: retries end after a minute.
    :param stall: seconds without a byte after which a request fails; its whole duration is then
        not limited, and retries end after as long.
    :raises InvalidConfiguration: it is not the URL of a storage.
    :raises NeedsExtra: the library is not installed.
    """
    if urlsplit(url).scheme in ("http", "https"):
        # The library would try to speak WebDAV there.
        raise InvalidConfiguration(
            "a web server is not a storage that can be written to",
            where=redact(without_options(url)),
            hint="name a folder, or s3://bucket/prefix; endpoint=https://storage.example.org may "
            "follow a ? there",
        )
    try:
        from obstore.exceptions import BaseError
        from obstore.store import MemoryStore, from_url
    except ImportError:
        raise NeedsExtra("server", "obstore") from None
    if urlsplit(url).scheme == "memory":
        return MemoryStore()
    options: dict[str, Any] = dict(parse_qsl(urlsplit(url).query))
    client: Any = {"allow_http": True} if options.get("endpoint", "").startswith("http:") else {}
    patience = _PATIENCE
    if timeout is not None:
        patience = timedelta(seconds=timeout / 2)
        client |= {"timeout": timedelta(seconds=timeout), "connect_timeout": patience}
    if stall is not None:
        patience = timedelta(seconds=stall)
        client |= {"read_timeout": patience, "timeout": _UNLIMITED, "connect_timeout": patience}
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": patience}
    where = without_options(url)
    try:
        return from_url(where, client_options=client or None, retry_config=retries, **options)
    except (BaseError, ValueError, TypeError) as error:
        raise InvalidConfiguration(
            f"this is not the URL of a storage: {first_line(error)}",
            where=where,
            hint=hint_for(error, where)
            or "as s3://bucket/prefix; endpoint=https://storage.example.org may follow a ? there",
        ) from None


@contextmanager
def failures(where: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise errors of a storage as ``StorageUnavailable``.

    :param where: the URL of the storage or of the object.
    :param passing: errors that are raised unchanged, as ``FileNotFoundError``.
    """
    from obstore.exceptions import BaseError, GenericError

    try:
        yield
    except passing:
        raise
    except (BaseError, OSError) as error:
        raise StorageUnavailable(
            f"the storage failed: {first_line(error)}",
            where=where,
            hint=hint_for(error, where),
            trouble="silent" if isinstance(error, GenericError) else "",
        ) from error


def condition_errors() -> tuple[type[Exception], ...]:
    """Return the errors for objects that do not exist, or do not meet a condition."""
    from obstore.exceptions import (
        AlreadyExistsError,
        PreconditionError,
    )

    return (FileNotFoundError, AlreadyExistsError, PreconditionError)


def hint_for(error: BaseException, where: str) -> str | None:
    """Return a hint if an error is about credentials.

    Without any, the library requests the metadata service of the cloud.

    >>> hint_for(ValueError("Account must be specified"), "az://container")
    'set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY'
    """
    text = str(error).lower()
    if not any(phrase in text for phrase in _UNKNOWN_USER):
        return None
    return _CREDENTIALS.get(urlsplit(where).scheme, _S3_CREDENTIALS)


_UNKNOWN_USER = ("169.254.169.254", "credential", "account must be specified")
_S3_CREDENTIALS = "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
_AZURE_CREDENTIALS = "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
_CREDENTIALS = {
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the path of a file with a key",
    "az": _AZURE_CREDENTIALS,
    "abfs": _AZURE_CREDENTIALS,
    "abfss": _AZURE_CREDENTIALS,
}


def first_line(error: BaseException) -> str:
    """Return the first line of an error; further lines have requests."""
    return (str(error) or type(error).__name__).strip().partition("\n")[0][:300]
