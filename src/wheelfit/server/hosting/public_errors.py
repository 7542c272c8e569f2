"""Errors for clients, without addresses, paths and ports, which are for the operator only.

The message of a storage, a database or another index goes to the log; a client gets a general
message with the same reference.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from wheelfit.errors import StorageUnavailable
from wheelfit_runtime.errors import NetworkError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.server.hosting.logs import Log


_Error = TypeVar("_Error", bound="WheelfitError")
UNAVAILABLE = "the database or the storage of the index does not answer, or is full"
_NO_ANSWER = "an index behind this one does not answer correctly"
_PUBLIC = frozenset({UNAVAILABLE, _NO_ANSWER})


def public_error(error: _Error, log: Log) -> _Error:
    """Log an error, and return it without addresses and paths.

    :param error: of a storage or of the network; an error returned by this function is returned
        unchanged.
    """
    if error.message in _PUBLIC:
        return error
    log(
        "unavailable",
        reference=error.reference,
        message=error.message,
        where=error.where,
        hint=error.hint,
    )
    public = copy(error)
    public.message = UNAVAILABLE if isinstance(error, StorageUnavailable) else _NO_ANSWER
    public.where = public.note = None
    public.hint = "the log of the server has the reason"
    public.details = ()
    return public


@contextmanager
def public_errors(log: Log) -> Iterator[None]:
    """Raise errors of a storage or of the network as `public_error` returns them."""
    try:
        yield
    except (StorageUnavailable, NetworkError) as error:
        raise public_error(error, log) from error
