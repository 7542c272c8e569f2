"""The machines that the proxy chooses for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.core.provider_lookup import Detector, NoPlugins, Plugins
from wheelfit.resolution.candidates import Candidates, ChoicePolicy

if TYPE_CHECKING:
    from wheelfit.core.target import Target
    from wheelfit.sources.repository import Repository


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine, and the preferences of its user."""

    name: str
    """``this machine``, or the name of a preset."""
    target: Target
    """Its Python and platform; a client may have another Python."""
    detector: Detector | None = None
    """The properties of the target; None: only ``host_detector`` is used."""
    host_detector: Detector | None = None
    """The properties of a host file or a preset, which take precedence."""
    policy: ChoicePolicy = field(default_factory=ChoicePolicy)
    plugins: Plugins = field(default_factory=NoPlugins)
    detection_lock: Lock = field(default_factory=Lock, repr=False, compare=False)
    """A lock for detection, which need not support two threads at once."""

    def candidates(self, repository: Repository, target: Target) -> Candidates:
        """Return the candidates of a repository for this machine."""
        return Candidates(
            repository,
            target,
            self.detector,
            self.policy,
            host_detector=self.host_detector,
            plugins=self.plugins,
        )


Profiles: TypeAlias = Callable[[str], Profile]
"""Returns the profile of a name in a URL, the same object as long as it means the same machine.

The name is a preset or a shorthand, never a file, since clients choose it. Empty: the default
profile. Raises ``WheelfitError`` for unknown names; called from several threads.
"""
