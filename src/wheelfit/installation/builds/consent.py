"""The user's decisions about builds from source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.projects.backend import ConfigSettings

MODES = ("ask", "never", "always")
"""The modes for all source distributions, in place of the name of a project."""


class Consent(Struct, frozen=True):
    """The user's consent to builds of source distributions from indexes."""

    names: frozenset[str] = frozenset()
    """Projects that may be built, independent of the mode for others."""
    mode: str = "ask"
    """One of `MODES`; ``always`` excludes projects with variants, which must be named."""

    @classmethod
    def of(cls, words: Iterable[str]) -> Consent:
        """Return the consent given by names and modes.

        :param words: names and modes, the more important first.
        """
        words = list(words)
        mode = next((word for word in words if word in MODES), "ask")
        return cls(frozenset(word for word in words if word not in MODES), mode)


class BuildPolicy(Struct, frozen=True):
    """The user's decisions about building."""

    consent: Consent = Consent()
    why_impossible: str = ""
    """The reason nothing can be built for the target; empty: it can."""
    settings: ConfigSettings = field(default_factory=dict)
    """The settings for backends."""
    target: tuple[str, ...] = ()
    """The identity of the interpreter; a wheel must be rebuilt if it changes."""
    requires_hashes: bool = False
    """Whether projects that the user names must have a promised hash to be opened."""
    offline: bool = False
    """Whether no server may be contacted."""
    builds_named: bool = True
    """Whether naming a project is consent to build it; otherwise it must be allowed too."""

    def allows_named(self, name: str | None) -> bool:
        """Return whether the backend of a project that the user named may be run."""
        consent = self.consent
        return self.builds_named or name in consent.names or consent.mode == "always"
