"""Applications below paths: a secret, and a place for each tool."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.server.page_answers import missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.server.messages import Answer, Application, Request


class Guarded:
    """Answer only those who know a secret: an `Application` around another.

    Every user of a machine can reach its loopback interface.

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
