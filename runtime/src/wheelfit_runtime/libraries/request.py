"""The request for libraries, completed by settings and the driver of this machine."""

# Imported at every start of a program with libraries, so it imports as little as possible.
# ruff: noqa: PTH100, PTH123
from __future__ import annotations

import os

from wheelfit_runtime.libraries import settings
from wheelfit_runtime.libraries.selections import selection_name
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.toolkits import family_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.loader.driver import Driver


class LibraryRequest:
    """A request for libraries, with the allowed sources; immutable.

    `initialize` describes the other parameters.

    :param driver: the driver of the target machine; None: of this one.
    :param is_prefetch: whether the libraries are for later use; older stored versions do not
        suffice then.
    :param upgrade: whether a newer version is fetched although the store has one.
    :raises UserError: there is no such family.
    :raises FileProblem: the lock cannot be read.
    """

    def __init__(
        self,
        family: str,
        version: str,
        components: tuple[str, ...] | None,
        environ: Mapping[str, str],
        *,
        offline: bool | None = None,
        lock: str | os.PathLike[str] | None = None,
        store: str | os.PathLike[str] | None = None,
        index_url: str | None = None,
        transport: str | None = None,
        cap_to_driver: bool = True,
        progress: bool = True,
        driver: Driver | None = None,
        is_prefetch: bool = False,
        upgrade: bool = False,
    ) -> None:
        self.family = family_named(family)
        self.version = version
        self.components = self.family.default_components if components is None else components
        self.environ = environ
        root = settings.store_folder(environ) if store is None else os.path.abspath(store)
        self.store = Store(root, settings.site_stores(environ))
        self.is_offline = settings.is_offline(environ) if offline is None else offline
        self.lock = None if lock is None else os.fspath(lock)
        self.index_url = index_url or environ.get("WHEELFIT_LIBRARY_INDEX") or None
        self.transport = transport or environ.get("WHEELFIT_LIBRARY_TRANSPORT") or None
        self.cap_to_driver = cap_to_driver
        self.progress = progress
        self.is_prefetch = is_prefetch
        self.upgrade = upgrade
        self.driver = driver
        if driver is None and self.family.has_driver:
            from wheelfit_runtime.loader.driver import read_driver

            self.driver = read_driver()
        self.fingerprint = self.driver.fingerprint if self.driver else "any"
        selection_input = b"" if cap_to_driver else b"uncapped"
        if self.lock is not None:
            selection_input += _content(self.lock)
        self.selection_name = selection_name(
            self.family.name, version, self.components, self.fingerprint, selection_input
        )

    def __str__(self) -> str:
        return f"{self.family.title} {self.version}"

    def warnings(self, version: str = "") -> tuple[str, ...]:
        """Return the warnings about the GPUs of this machine.

        :param version: the version in a lock; empty: the requested one.
        :raises NoCompatibleWheel: the version has no code for any GPU of this machine.
        """
        if self.driver is None or self.driver.cuda is None:
            return ()
        from wheelfit_runtime.libraries.gpu_support import gpu_support_warnings

        return gpu_support_warnings(
            version or self.version,
            self.components,
            self.driver,
            self.environ,
            cap_to_driver=self.cap_to_driver,
            is_locked=self.lock is not None,
        )


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        from wheelfit_runtime.errors import FileProblem, os_reason

        message = f"the lock file cannot be read: {os_reason(error)}"
        raise FileProblem(message, where=path) from None
