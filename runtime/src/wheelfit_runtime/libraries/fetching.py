"""Have a wheel in the store: found there, or fetched, checked and unpacked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelfit_runtime.errors import FileProblem, IntegrityError
from wheelfit_runtime.libraries.files import make_folder
from wheelfit_runtime.libraries.locks import locked
from wheelfit_runtime.libraries.store_changes import (
    keep,
    not_in_store,
    remove,
    touch,
    unwritable,
    working_folder,
)
from wheelfit_runtime.libraries.verifying import damage_of, unpack
from wheelfit_runtime.libraries.wheels import shown

if TYPE_CHECKING:
    from wheelfit_runtime.libraries.progress import Progress
    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.libraries.store import Store, StoredWheel
    from wheelfit_runtime.libraries.transports import Transport
    from wheelfit_runtime.libraries.wheels import ListedWheel


def brought(
    listed: ListedWheel,
    request: LibraryRequest,
    transport: Transport | None,
    progress: Progress,
    damaged: frozenset[str],
) -> StoredWheel:
    """Return a wheel of the store, fetched if it is not there.

    :param transport: who fetches; None: whoever can, for a lock names it.
    :param damaged: hashes of wheels of which files are not what they were.
    :raises IntegrityError: nobody promised a hash of it, or it is another one.
    :raises NotInStore: it is not there, and nothing may be fetched.
    :raises StoreUnavailable: it cannot be kept.
    """
    if not listed.sha256:
        raise IntegrityError(
            f"no sha256 is promised of {listed.filename}, so it is not taken",
            where=shown(listed.url),
        )
    store, name = request.store, f"{listed.project}-{listed.version}"
    try:
        found = _sound(store, listed.sha256, damaged)
        if found is not None:
            return found
        with locked(store, name, lambda: progress.wait(request.family.title)):
            found = _sound(store, listed.sha256, damaged)
            if found is not None:
                return found
            if request.is_offline and not _is_local(listed):
                raise not_in_store(request, f"{listed.project} {listed.version}")
            with working_folder(store) as folder:
                wheel = _fetched(listed, request, folder, transport, progress)
                filled = Path(folder, "entry")
                make_folder(str(filled))
                unpack(Path(wheel), listed, filled)
                return keep(store, str(filled), listed.sha256)
    except OSError as error:
        raise unwritable(store.root, error) from None


def _sound(store: Store, sha256: str, damaged: frozenset[str]) -> StoredWheel | None:
    found = store.find(sha256)
    if found is None:
        return None
    if found.is_whole() and not (sha256 in damaged and damage_of(found)):
        touch(found)
        return found
    if found.is_own:
        remove(store, found)
    return None


def _is_local(listed: ListedWheel) -> bool:
    return urlsplit(listed.url).scheme == "file"


def _fetched(
    listed: ListedWheel,
    request: LibraryRequest,
    folder: str,
    transport: Transport | None,
    progress: Progress,
) -> str:
    if _is_local(listed):  # as a lock or the settings of an installer say; no index can
        source = Path(url2pathname(urlsplit(listed.url).path))
        if not source.is_file():
            raise FileProblem("a wheel that was named is not there", where=str(source))
        path = Path(folder, "wheel.part")
        shutil.copyfile(source, path)
        return str(path)
    if transport is None:
        from wheelfit_runtime.libraries.transport_http import HttpTransport  # noqa: PLC0415

        transport = HttpTransport(listed.url, request.environ)
    return transport.fetch(listed, folder, progress)
