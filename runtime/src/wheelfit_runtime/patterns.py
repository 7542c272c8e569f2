"""Regular expressions that are compiled when they are first used.

A hundred modules have a pattern or two, and a short command uses a tenth of them: compiling all of
them during the imports would take a sixth of its time.

For a type checker `pattern` *is* `re.compile`; its result has the methods and attributes of a
compiled pattern. The functions of `re` do not accept it in place of one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

__all__ = ["pattern"]


if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - it stands for a function
        """A regular expression, as `re.compile` returns it.

        >>> digits = pattern(r"[0-9]+")
        >>> digits.fullmatch("12") is None
        False
        """

        def __init__(self, text, flags=0) -> None:
            self._arguments = (text, flags)

        def __getattr__(self, name):
            """Return an attribute of the compiled pattern, and cache it."""
            value = getattr(re.compile(*self._arguments), name)
            self.__dict__[name] = value
            return value

        def __repr__(self) -> str:
            return f"pattern({self._arguments[0]!r})"
