"""Export the names and submodules of a package's implementation.

A package imports this first. It imports few modules, since other threads cannot find submodules of
the package before `load` has begun.
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
    Loader = object  # a loader needs no base class, whose import takes 20 ms
    ModuleSpec = type(sys.__spec__)

_MISSING: object = object()


def load(group: str, *, into: str | None = None, submodules: bool = False) -> ModuleType:
    """Return the best implementation of a group, imported.

    Later calls in a process return the same module.

    :param group: the name of the group, such as ``spam``.
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

    :param into: name of the other, such as ``spam``; it is being imported, or was.
    :raises NoImplementation: both are the same module.
    """
    other = sys.modules[into]
    if module is other:
        from wheelfit_runtime.errors import NoImplementation

        raise NoImplementation(f"{into} is declared to be its own implementation")
    target_names, source_names = vars(other), vars(module)
    public = getattr(module, "__all__", None)
    names = [name for name in source_names if name[:1] != "_"] if public is None else list(public)

    def is_hidden(name: str) -> bool:
        # A submodule of the implementation is hidden by one of the package itself.
        submodule = sys.modules.get(f"{module.__name__}.{name}")
        is_submodule = submodule is not None and submodule is source_names.get(name)
        if not is_submodule or "__path__" not in target_names:
            return False
        return find_module(f"{into}.{name}", target_names["__path__"], skip=_FINDER) is not None

    def get_lazily(name: str) -> object:
        # Names that the implementation adds later; dunder names are not exported.
        value = _MISSING if name[:2] == "__" else getattr(module, name, _MISSING)
        if value is not _MISSING and not is_hidden(name):
            return value
        raise AttributeError(f"module {into!r} has no attribute {name!r}")

    def all_names() -> list[str]:
        # Also names that exist on demand only.
        return sorted({*target_names, *names})

    getter = target_names.get("__getattr__")
    # If the package is imported again, it may have the `get_lazily` of the first time.
    has_own_getter = getter is not None and getattr(getter, "__module__", "") != __name__
    for name in names:
        # A name that exists on demand only is left to `get_lazily`, if that can be used.
        copies_now = name in source_names or has_own_getter
        if copies_now and name not in target_names and not is_hidden(name):
            setattr(other, name, getattr(module, name))
    if not has_own_getter:
        other.__getattr__ = get_lazily  # type: ignore[method-assign]
    target_names.setdefault("__all__", names)
    target_names.setdefault("__dir__", all_names)
    if not target_names.get("__doc__"):
        other.__doc__ = module.__doc__
    if into in _FINDER.implementations:
        _FINDER.module_names[into] = module.__name__


def offer_submodules(into: str, implementation: Callable[[], str]) -> None:
    """Make modules below an implementation importable below a package too.

    Call it before importing the implementation: another thread, or the implementation's own
    imports, may need a submodule earlier.

    :param implementation: returns the name of the implementation, such as ``spam_cu12``; may block.
    """
    vars(sys.modules[into]).setdefault("__path__", [])  # a package that is a single file has none
    _FINDER.implementations[into] = implementation
    _FINDER.module_names.pop(into, None)  # it may be of an earlier import
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class SubmoduleFinder:
    """A finder that makes submodules of an implementation submodules of its package.

    A package's own modules come first. Finding neither imports nor blocks, since the import system
    has a lock meanwhile that all threads need.
    """

    def __init__(self) -> None:
        self.implementations: dict[str, Callable[[], str]] = {}
        """By package, a function that returns the name of its implementation, and may block."""
        self.module_names: dict[str, str] = {}
        """By package, the name of its implementation, if it is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module; None for other packages' modules."""
        parent, _, last = fullname.rpartition(".")
        implementation = self.implementations.get(parent)
        if implementation is not None:
            if find_module(fullname, path, target, skip=self) is not None:
                return None
            parent_name = self.module_names.get(parent)
            if parent_name is None:
                return ModuleSpec(fullname, _AliasLoader(lambda: f"{implementation()}.{last}"))
            return _alias_spec(fullname, f"{parent_name}.{last}")
        if not self._is_below(parent):
            return None
        # `parent` may be a second name of a module; its `__name__` is the first one.
        real_parent = getattr(sys.modules.get(parent), "__name__", parent)
        if real_parent == parent:
            return None
        return _alias_spec(fullname, f"{real_parent}.{last}")

    def _is_below(self, name: str) -> bool:
        # A copy, as other threads may add to it.
        return any(name.startswith(f"{package}.") for package in list(self.implementations))


_FINDER = SubmoduleFinder()


def _alias_spec(fullname: str, name: str) -> ModuleSpec | None:
    """Return a spec for a second name of a module; None: there is no such module."""
    module = sys.modules.get(name)
    if module is None:
        path = getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None)
        # An implementation that is a single file has no submodules.
        real = None if path is None else find_module(name, path, skip=_FINDER)
        if real is None:
            return None
    else:
        real = getattr(module, "__spec__", None)
    spec = ModuleSpec(fullname, _AliasLoader(lambda: name, real))
    if real is not None:
        spec.origin = real.origin
        spec.submodule_search_locations = real.submodule_search_locations
    return spec


class _AliasLoader(Loader):
    """An importer of one module under a second name.

    :param spec: its spec under the first name; None: unknown.
    """

    def __init__(self, name: Callable[[], str], spec: ModuleSpec | None = None) -> None:
        self._name = name
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that all threads get the same object."""
        name = self._name()
        try:
            # Like the import statement, this accepts a partly imported module of another thread.
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
