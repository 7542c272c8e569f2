"""Import a module whole, or leave nothing of it."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

_PAUSES = (0.001, 0.01, 0.1)
"""Seconds before an import that waited for a thread which waited for it is tried again."""


def import_whole(name: str) -> ModuleType:
    """Import a module; where that fails, leave nothing of it behind, and nothing below it.

    Else whoever imports it again would have parts of two.
    """
    for pause in (*_PAUSES, None):
        try:
            return import_module(name)
        except BaseException as error:
            if name in sys.modules:  # another thread is at it
                raise
            _forget_below(name)
            if pause is None or not is_deadlock(error):
                raise
        time.sleep(pause)  # that thread has what it waited for
    raise AssertionError  # pragma: no cover - the last turn returns or raises


def is_deadlock(error: BaseException) -> bool:
    """Say whether two threads waited for each other to import something, and one gave up."""
    return type(error).__name__ == "_DeadlockError"  # importlib's own, and private


def forget(name: str) -> None:
    """Forget a module and all below it, as if it had never been imported.

    :param name: as ``spam_cu12``; empty: there is none.
    """
    if name:
        sys.modules.pop(name, None)
        _forget_below(name)


def _forget_below(name: str) -> None:
    """Forget the modules below one, under all the names that they have."""
    start = f"{name}."
    there = dict(sys.modules)
    # A module of somebody else may have a second name here; that is no reason to forget it.
    own = {
        id(module)
        for each, module in there.items()
        if each.startswith(start) and getattr(module, "__name__", each).startswith(start)
    }
    for each, module in there.items():
        if each.startswith(start) or id(module) in own:
            sys.modules.pop(each, None)
            parent, _, last = each.rpartition(".")
            above = getattr(there.get(parent), "__dict__", {})
            if above.get(last) is module:
                del above[last]
