"""Let a package show what its implementation has: its names, and the modules below it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING

from wheelfit.errors import NoImplementation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

__all__ = ["Submodules", "export"]


def __dir__() -> list[str]:
    return __all__


def export(module: ModuleType, into: str, *, submodules: bool = False) -> None:
    """Put the public names of a module into another; what that has already stays.

    :param module: which has them, as ``spam_cu12``.
    :param into: name of the other, as ``spam``; it is being imported, or was.
    :param submodules: whether modules below the one can be imported below the other too.
    :raises NoImplementation: the two are one and the same.
    """
    other = sys.modules[into]
    if module is other:
        raise NoImplementation(f"{into} is declared to be its own implementation")
    have, there = vars(other), vars(module)
    public = getattr(module, "__all__", None)
    names = [name for name in there if name[:1] != "_"] if public is None else list(public)

    def is_hidden(name: str) -> bool:
        # A module below the package hides one of that name, imported or not.
        below = sys.modules.get(f"{module.__name__}.{name}")
        return (
            below is not None
            and below is there.get(name)
            and "__path__" in have
            and _others_find(f"{into}.{name}", have["__path__"])
        )

    def other_name(name: str) -> object:
        # What comes later, or on demand; never what belongs to one module only.
        if name[:2] != "__" and hasattr(module, name) and not is_hidden(name):
            return getattr(module, name)
        raise AttributeError(f"module {into!r} has no attribute {name!r}")

    def all_names() -> list[str]:
        return sorted({*have, *names})

    is_open = "__getattr__" not in have
    for name in names:
        # What the module has on demand, the other has on demand too, if that is possible.
        if name not in have and not (is_open and name not in there) and not is_hidden(name):
            setattr(other, name, getattr(module, name))
    # An interpreter's own `__dir__` would miss what is there on demand.
    have.setdefault("__all__", names)
    have.setdefault("__dir__", all_names)
    if is_open:
        other.__getattr__ = other_name  # type: ignore[method-assign]
    if not have.get("__doc__"):
        other.__doc__ = module.__doc__
    if submodules:
        have.setdefault("__path__", [])  # one that is a single file
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
        elif _others_find(fullname, path, target):
            return None
        return _as(fullname, f"{above}.{last}")

    def _is_below(self, name: str) -> bool:
        return any(name.startswith(f"{package}.") for package in self.known)


_SUBMODULES = Submodules()


def _others_find(
    fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> bool:
    others = (one for one in sys.meta_path if one is not _SUBMODULES)
    return any(
        one.find_spec(fullname, path, target) is not None
        for one in others
        if hasattr(one, "find_spec")
    )


def _as(fullname: str, name: str) -> ModuleSpec | None:
    """Return how a module is imported under a second name; None where there is none."""
    found = sys.modules.get(name)
    try:
        real = find_spec(name) if found is None else getattr(found, "__spec__", None)
    except ModuleNotFoundError:  # an implementation that is a single file has none below
        return None
    if found is None and real is None:
        return None
    spec = ModuleSpec(fullname, _Same(name, real))
    if real is not None:
        spec.origin = real.origin
        spec.submodule_search_locations = real.submodule_search_locations
    return spec


class _Same(Loader):
    """Import one module under a second name.

    :param name: its own name.
    :param spec: how it is imported under that; None: nobody knows.
    """

    def __init__(self, name: str, spec: ModuleSpec | None) -> None:
        self._name = name
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 - as loaders have it
        """Return the module itself, so that no thread ever sees another."""
        module = import_module(self._name)
        self._spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Take back what the import system has written on it: it is what it was."""
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002 - as loaders have it
        """Return what ``python -m`` runs.

        :param fullname: the second name.
        """
        loader: Any = self._spec.loader if self._spec is not None else None
        code: CodeType | None = loader.get_code(self._name) if hasattr(loader, "get_code") else None
        return code
