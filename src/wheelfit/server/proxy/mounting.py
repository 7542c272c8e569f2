"""Applications below paths and names: who is asked for, a secret, and a place for each tool."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from wheelfit.server.messages import Answer
from wheelfit.server.page_answers import missing
from wheelfit.sources.urls import is_loopback
from wheelfit.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.server.messages import Application, Request


__all__ = ["Addressed", "Guarded", "Mounted"]


def __dir__() -> list[str]:
    return __all__


class Addressed:
    """Answer only who asks this machine, or for a name it has: an `Application` around another.

    A page of the web may let its own name lead to the loopback interface (DNS rebinding), and the
    browser would let it read whatever is answered there. Such a request still has that name.

    :param application: answers them.
    :param names: what this is called besides.
    """

    def __init__(self, application: Application, names: Iterable[str] = ()) -> None:
        self._application = application
        self._names = frozenset(name.lower() for name in names)

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        host = _without_port(request.headers.get("host", "localhost")).lower()
        if not (is_loopback(host) or host in self._names):
            text = "the proxy does not go by this name; --answer-to HOST lets it"
            return Answer.text(421, text, {"connection": "close"})
        return self._application(request)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


class Guarded:
    """Answer only those who know a secret: an `Application` around another.

    Every user of a machine can reach its loopback interface.

    :param application: answers them; it sees paths without the secret.
    :param secret: the first segment of every path.
    """

    def __init__(self, application: Application, secret: str) -> None:
        self._application = application
        self._secret = secret.encode()

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        _, _, path = request.path.partition("/")
        secret, slash, rest = path.partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret) or not slash:
            return missing()
        return self._application(replace(request, path=f"/{rest}"))


class Mounted:
    """Let the first segment of a path say who answers: an `Application` around others.

    :param usual: answers where the first segment is nobody's name.
    :param others: answer below their names; they see paths without them.
    """

    def __init__(self, usual: Application, others: Mapping[str, Application]) -> None:
        self._usual = usual
        self._others = dict(others)

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        name, slash, rest = request.path.removeprefix("/").partition("/")
        application = self._others.get(name) if slash else None
        if application is None:
            return self._usual(request)
        return application(replace(request, path=f"/{rest}"))
