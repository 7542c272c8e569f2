"""Who finds wheels of libraries and fetches them: the user's installer, or the standard library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from wheelfit_runtime.errors import UserError
from wheelfit_runtime.libraries import settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.libraries.machine import Machine
    from wheelfit_runtime.libraries.progress import Progress
    from wheelfit_runtime.libraries.versions import Requirement
    from wheelfit_runtime.libraries.wheels import ListedWheel

TRANSPORTS = ("pip", "uv", "http")


class Transport(Protocol):
    """A finder and fetcher of wheels; the caller checks what is fetched."""

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[ListedWheel]:
        """Return the wheels of some requirements and of the extras they name.

        :raises NetworkError: nobody can be asked.
        :raises NoFit: there are none.
        """
        ...

    def fetch(self, wheel: ListedWheel, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path.

        :raises NetworkError: it cannot be had.
        :raises IntegrityError: it is another one.
        """
        ...


def transport_for(name: str | None, index_url: str | None, environ: Mapping[str, str]) -> Transport:
    """Return what finds and fetches: the user's installer, else the standard library.

    :param name: ``pip``, ``uv`` or ``http``; None: the first of them that there is.
    :param index_url: where; None: as the installer is configured.
    :raises UserError: what was named is not there.
    """
    from wheelfit_runtime.libraries import transport_child as child  # noqa: PLC0415
    from wheelfit_runtime.libraries.transport_http import HttpTransport  # noqa: PLC0415

    if name not in (None, *TRANSPORTS):
        raise UserError(f"there is no transport {name!r}", note="known: " + ", ".join(TRANSPORTS))
    pip = child.pip_of(sys.executable, is_frozen=settings.is_frozen()) if name != "http" else None
    if pip and name in (None, "pip"):
        return child.PipTransport(pip, environ, index_url)
    may_uv = name in (None, "uv") and not settings.is_frozen()
    uv = child.uv_of(sys.executable, environ) if may_uv else None
    http = HttpTransport(index_url or settings.usual_index(environ), environ)
    if uv:
        return child.UvTransport(uv, environ, http, index_url, python=sys.executable)
    if name in ("pip", "uv"):
        raise UserError(f"{name} is not there", hint="use the transport http, which needs nothing")
    return http
