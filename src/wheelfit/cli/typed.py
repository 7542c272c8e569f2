"""The words of commands with actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_action(action: str, actions: Sequence[str]) -> None:
    """Check the first word of a command that can do several things.

    :param action: the word.
    :param actions: those that there are.
    :raises UsageError: it is none of them.
    """
    if action not in actions:
        from difflib import get_close_matches

        from wheelfit.errors import UsageError

        close = get_close_matches(action, actions, n=1)
        raise UsageError(
            f"there is no action {action!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"actions: {', '.join(actions)}",
        )
