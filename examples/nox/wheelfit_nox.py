"""Install into the environment of a nox session, each package in the build that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit import Context, InstallRequest, Reporter, SyncRequest, install, sync

if TYPE_CHECKING:
    import nox


class SessionLog(Reporter):
    """What is remarked, in the log of a session."""

    def __init__(self, session: nox.Session) -> None:
        self._session = session

    def warn(self, text: str) -> None:
        """Log a warning."""
        self._session.warn(text)

    def remark(self, text: str) -> None:
        """Log a remark."""
        self._session.log(text)


def install_fitting(session: nox.Session, *requirements: str, **options: Any) -> None:
    """Install packages as ``session.install`` does.

    :param session: whose environment changes.
    :param requirements: as ``numpy>=2``.
    :param options: further fields of `wheelfit.InstallRequest`.
    """
    request = InstallRequest(requirements=requirements, python=_place(session), **options)
    report = install(request, Context(reporter=SessionLog(session)))
    for pin in report.decision.planned.install:
        session.log(f"installed {pin}: {pin.reason}")


def sync_lock(session: nox.Session, lock: str = "pylock.toml", **options: Any) -> None:
    """Make the environment of a session equal to a lock.

    :param session: whose environment changes.
    :param lock: the path of the lock.
    :param options: further fields of `wheelfit.SyncRequest`.
    """
    request = SyncRequest(lock=lock, python=_place(session), **options)
    report = sync(request, Context(reporter=SessionLog(session)))
    session.log(f"{len(report.decision.planned.install)} packages installed from {lock}")


def _place(session: nox.Session) -> str:
    return session.virtualenv.location
