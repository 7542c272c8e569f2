"""One choice among extras and groups that conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.locking.request import LockNeeds, Root


@dataclass(frozen=True, slots=True)
class Fork:
    """One choice of the members of all conflicts."""

    left_out: frozenset[str] = frozenset()
    """The members that are left out."""
    condition: tuple[str, ...] = ()
    """The markers that all hold where it counts; none: there is no other fork."""

    def roots(self, request: LockNeeds) -> tuple[Root, ...]:
        """Return the roots of the request in it.

        :param request: the request of the lock.
        """
        return tuple(root for root in request.roots if root.kind not in self.left_out)


NO_FORK = Fork()
"""The only choice where nothing conflicts."""
