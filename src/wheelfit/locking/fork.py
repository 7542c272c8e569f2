"""A fork of a lock: one choice among conflicting extras and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.locking.request import LockNeeds, Root


@dataclass(frozen=True, slots=True)
class Fork:
    """A choice of one member of each conflict."""

    left_out: frozenset[str] = frozenset()
    """The members that are not chosen."""
    condition: tuple[str, ...] = ()
    """Markers that must all hold for it to apply; empty: it is the only fork."""

    def roots(self, request: LockNeeds) -> tuple[Root, ...]:
        """Return the roots of a request, without those of members that are not chosen."""
        return tuple(root for root in request.roots if root.request_marker not in self.left_out)


NO_FORK = Fork()
"""The only fork of a request without conflicts."""
