"""For which machine a choice is made, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.core.provider_lookup import NoPlugins
from wheelfit.resolution.candidates import Candidates, ChoicePolicy

if TYPE_CHECKING:
    from wheelfit.core.provider_lookup import Detector, Plugins
    from wheelfit.core.target import Target
    from wheelfit.sources.repository import Repository


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine, and the preferences of its user."""

    name: str
    """In words: ``this machine``, or the name of a preset."""
    target: Target
    """Its Python and platform; who asks may have another Python."""
    detector: Detector | None = None
    """Who knows what is supported."""
    user_lists: Detector | None = None
    """What a host file or a preset says; asked first."""
    policy: ChoicePolicy = field(default_factory=ChoicePolicy)
    plugins: Plugins = field(default_factory=NoPlugins)
    asking: Lock = field(default_factory=Lock, repr=False, compare=False)
    """Held while the machine is asked, which need not expect two threads at once."""

    def candidates(self, repository: Repository, target: Target) -> Candidates:
        """Return who chooses."""
        return Candidates(
            repository,
            target,
            self.detector,
            self.policy,
            user_lists=self.user_lists,
            plugins=self.plugins,
        )


Profiles: TypeAlias = Callable[[str], Profile]
"""Returns the profile of a name in a URL, the same object as long as it means the same machine.

The name is a preset or a shorthand, from a stranger: it names no file. Empty: the profile of those
who ask for none. Raises ``WheelfitError`` if there is none; called from several threads.
"""
