"""The consent to builds from source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

MODES = ("ask", "never", "always")
"""What may be said of source distributions in general, in place of the name of a project."""


class Consent(Struct, frozen=True):
    """The decision which source distributions of an index may be built."""

    names: frozenset[str] = frozenset()
    """Projects that may be built, whatever holds for the others."""
    mode: str = "ask"
    """One of `MODES`; ``always`` does not mean projects with variants, which must be named."""

    @classmethod
    def of(cls, words: Iterable[str]) -> Consent:
        """Return the consent that some words give.

        :param words: names and modes, those that count more first.
        """
        words = list(words)
        mode = next((word for word in words if word in MODES), "ask")
        return cls(frozenset(word for word in words if word not in MODES), mode)
