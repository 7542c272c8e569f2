"""Export the names and submodules of a package's implementation.

A package imports this first, so it imports little itself: before `load` has begun, other threads
cannot find submodules of the package.
"""

from __future__ import annotations

import sys

from wheelfit_runtime.loader.declaration_files import find_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

    from wheelfit_runtime.loader.loading import Loader as GroupLoader
else:
    Loader = object  # a loader needs no base, and its module takes 20 ms
    ModuleSpec = type(sys.__spec__)

_NOTHING: object = object()


def load(group: str, *, into: str | None = None, submodules: bool = False) -> ModuleType:
    """Return the best implementation of a group, imported.

    Later calls in a process return the same one.

    :param group: the name of the group, as ``spam``.
    :param into: name of a module that gets the public names, as ``__name__``; existing names stay.
    :param submodules: whether modules below the implementation can be imported below ``into`` too,
        as ``spam.core``.
    :raises NoImplementation: no installed implementation is compatible; also an `ImportError`.
    """
    if into is not None and submodules:
        offer_submodules(into, lambda: _loader().module_of(group))
    module = _loader().load(group)
    if into is not None:
        export(module, into)
    return module


def _loader() -> GroupLoader:
    from wheelfit_runtime.loader.loading import LOADER

    return LOADER


def export(module: ModuleType, into: str) -> None:
    """Copy the public names of a module into another, without replacing names.

    :param into: name of the other, as ``spam``; it is being imported, or was.
    :raises NoImplementation: the two are one and the same.
    """
    other = sys.modules[into]
    if module is other:
        from wheelfit_runtime.errors import NoImplementation

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
            and find_module(f"{into}.{name}", have["__path__"], without=_SUBMODULES) is not None
        )

    def other_name(name: str) -> object:
        # What comes later, or on demand; never what belongs to one module only.
        value = _NOTHING if name[:2] == "__" else getattr(module, name, _NOTHING)
        if value is not _NOTHING and not is_hidden(name):
            return value
        raise AttributeError(f"module {into!r} has no attribute {name!r}")

    def all_names() -> list[str]:
        # Also what is there on demand only.
        return sorted({*have, *names})

    makes = have.get("__getattr__")
    # A package that is imported again has ours.
    makes_none = makes is None or getattr(makes, "__module__", "") == __name__
    for name in names:
        # What is made on demand the other has on demand too, unless it makes names itself.
        is_ready = name in there or not makes_none
        if is_ready and name not in have and not is_hidden(name):
            setattr(other, name, getattr(module, name))
    if makes_none:
        other.__getattr__ = other_name  # type: ignore[method-assign]
    have.setdefault("__all__", names)
    have.setdefault("__dir__", all_names)
    if not have.get("__doc__"):
        other.__doc__ = module.__doc__
    if into in _SUBMODULES.offered:
        _SUBMODULES.known[into] = module.__name__


def offer_submodules(into: str, implementation: Callable[[], str]) -> None:
    """Make modules below an implementation importable below a package too.

    This is done before the implementation is imported: another thread, or the implementation's own
    imports, may need a module of a package that is not complete yet.

    :param implementation: returns the name of the other, as ``spam_cu12``; may wait for it.
    """
    vars(sys.modules[into]).setdefault("__path__", [])  # one that is a single file
    _SUBMODULES.offered[into] = implementation
    _SUBMODULES.known.pop(into, None)  # of an earlier import
    if _SUBMODULES not in sys.meta_path:
        sys.meta_path.insert(0, _SUBMODULES)


class Submodules:
    """A finder of modules below a package in its implementation; they are the same modules.

    A package's own modules come first. Finding neither imports nor waits, since the import system
    holds a lock meanwhile that all threads need.
    """

    def __init__(self) -> None:
        self.offered: dict[str, Callable[[], str]] = {}
        """Who knows, and may wait for, the name of the implementation, by that of the package."""
        self.known: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module; None for other packages' modules."""
        parent, _, last = fullname.rpartition(".")
        implementation = self.offered.get(parent)
        if implementation is not None:
            if find_module(fullname, path, target, without=self) is not None:
                return None
            above = self.known.get(parent)
            if above is None:
                return ModuleSpec(fullname, _Same(lambda: f"{implementation()}.{last}"))
            return _as(fullname, f"{above}.{last}")
        if not self._is_below(parent):
            return None
        name = getattr(sys.modules.get(parent), "__name__", parent)
        return None if name == parent else _as(fullname, f"{name}.{last}")

    def _is_below(self, name: str) -> bool:
        # A list, for other threads may add to it.
        return any(name.startswith(f"{package}.") for package in list(self.offered))


_SUBMODULES = Submodules()


def _as(fullname: str, name: str) -> ModuleSpec | None:
    """Return the spec of a module under a second name; None where there is none."""
    module = sys.modules.get(name)
    if module is None:
        path = getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None)
        # An implementation that is a single file has none below.
        real = None if path is None else find_module(name, path, without=_SUBMODULES)
        if real is None:
            return None
    else:
        real = getattr(module, "__spec__", None)
    spec = ModuleSpec(fullname, _Same(lambda: name, real))
    if real is not None:
        spec.origin = real.origin
        spec.submodule_search_locations = real.submodule_search_locations
    return spec


class _Same(Loader):
    """An importer of one module under a second name.

    :param spec: its spec under the first name; None: unknown.
    """

    def __init__(self, name: Callable[[], str], spec: ModuleSpec | None = None) -> None:
        self._name = name
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that no thread ever sees another."""
        name = self._name()
        try:
            # As the statement: it takes what is half imported by a thread that waits for this one.
            __import__(name)
            module = sys.modules[name]
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name) from None
        self._spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the attributes that the import system has overwritten."""
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002 - as loaders have it
        """Return the code that ``python -m`` runs."""
        loader: Any = self._spec.loader if self._spec is not None else None
        code: CodeType | None = None
        if hasattr(loader, "get_code"):
            code = loader.get_code(self._name())
        return code
