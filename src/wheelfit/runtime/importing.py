"""Import a module whole, or leave nothing of it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["import_whole"]


def __dir__() -> list[str]:
    return __all__


def import_whole(name: str) -> ModuleType:
    """Import a module; where that fails, leave nothing of it behind, and nothing below it.

    Else whoever imports it again would have parts of two.

    :param name: as ``spam_cu12``.
    """
    try:
        return import_module(name)
    except BaseException:
        if name not in sys.modules:  # no other thread is at it
            _forget_below(name)
        raise


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
