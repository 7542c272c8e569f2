"""How many may wait for an upstream at once: each of them holds a thread of the server.

As long as upstreams answer, nobody notices. One that has fallen silent could hold every thread,
and then the server had none left for what it has itself.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wheelfit.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["MOST", "Crowd"]


def __dir__() -> list[str]:
    return __all__


MOST = 12
"""Who may wait for all upstreams of a server together; half of its threads."""


class Crowd:
    """Let in only so many, and send the others away if those in there wait for long.

    :param most: who may be in there at once.
    :param prompt: seconds in which an upstream that is well has answered.
    """

    def __init__(self, most: int = MOST, *, prompt: float = 2.0) -> None:
        self._most = most
        self._prompt = prompt
        self._since: dict[int, float] = {}
        self._changed = threading.Condition()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Be in there, as soon as there is room; whoever is in there already is so once.

        :raises Unreachable: there is none, and it does not look as if there soon would be.
        """
        key = threading.get_ident()
        if key in self._since:
            yield
            return
        with self._changed:
            while len(self._since) >= self._most:
                left = min(self._since.values()) + self._prompt - time.monotonic()
                if left <= 0:
                    raise Unreachable("too many wait for it already", hint="try again in a minute")
                self._changed.wait(left)
            self._since[key] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._since[key]
                self._changed.notify()
