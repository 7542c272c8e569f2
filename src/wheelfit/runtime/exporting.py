"""Let a package show what its implementation has: its names, and the modules below it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["Submodules", "export"]


def __dir__() -> list[str]:
    return __all__


def export(module: ModuleType, into: str, *, submodules: bool = False) -> None:
    """Put the public names of a module into another; what that has already stays.

    :param module: which has them, as ``spam_cu12``.
    :param into: name of the other, as ``spam``; it is being imported, or was.
    :param submodules: whether modules below the one can be imported below the other too.
    """
    other = sys.modules[into]
    have = vars(other)
    public = getattr(module, "__all__", None)
    names = [name for name in vars(module) if name[:1] != "_"] if public is None else list(public)
    for name in names:
        if name not in have:
            setattr(other, name, getattr(module, name))
    have.setdefault("__all__", [name for name in names if isinstance(name, str)])
    if not have.get("__doc__"):
        other.__doc__ = module.__doc__
    if "__getattr__" not in have:

        def other_name(name: str) -> object:
            # What comes later, or on demand; never what belongs to one module only.
            if name[:2] != "__" and hasattr(module, name):
                return getattr(module, name)
            raise AttributeError(f"module {into!r} has no attribute {name!r}")

        other.__getattr__ = other_name  # type: ignore[method-assign]
    if submodules:
        _SUBMODULES.known[into] = module.__name__
        if _SUBMODULES not in sys.meta_path:
            sys.meta_path.insert(0, _SUBMODULES)


class Submodules:
    """Find modules below a package where its implementation has them; they are the same modules.

    What a package has itself comes first.
    """

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """The implementation, by the name of the package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is imported; None for modules that are none of ours.

        :param fullname: as ``spam.core``.
        :param path: where the package is looked for.
        :param target: the module that is imported again.
        """
        if fullname.partition(".")[0] not in {name.partition(".")[0] for name in self.known}:
            return None
        parent, _, last = fullname.rpartition(".")
        above = self.known.get(parent)
        if above is None:
            known = sys.modules.get(parent)
            if known is None or known.__name__ == parent or not self._is_below(parent):
                return None
            above = known.__name__
        elif self._has_own(fullname, path, target):
            return None
        name = f"{above}.{last}"
        found = sys.modules.get(name) or find_spec(name)
        return None if found is None else ModuleSpec(fullname, _Same(name))

    def _is_below(self, name: str) -> bool:
        return any(name.startswith(f"{package}.") for package in self.known)

    def _has_own(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> bool:
        others = (one for one in sys.meta_path if one is not self)
        return any(
            one.find_spec(fullname, path, target) is not None
            for one in others
            if hasattr(one, "find_spec")
        )


class _Same(Loader):
    """Import one module under a second name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave making a module to the import system; it is thrown away."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the real module in the place of the new one, as loaders may."""
        sys.modules[module.__name__] = import_module(self._name)


_SUBMODULES = Submodules()
