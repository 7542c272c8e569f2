"""Families of hardware: a folder for each, with all data and code about it.

To add a family, add a folder (``docs/how-to/add-hardware.md``). Other modules look hardware up
here, and name none.
"""

# Imported at every start of a program with libraries, so it imports as little as possible.
from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily

_folders: frozenset[str] | None = None
_records: dict[str, HardwareFamily] = {}


def by_namespace(namespace: str) -> HardwareFamily | None:
    """Return the family of a namespace, or None; no other family is imported."""
    family = _records.get(namespace)
    if family is None and namespace in _names():
        from importlib import import_module

        try:
            family = import_module(f"{__name__}.{namespace}.record").FAMILY
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{namespace}.record":
                raise
            return None  # the folder of another version, without its files
        _records[namespace] = family
    return family


def families() -> tuple[HardwareFamily, ...]:
    """Return all families, by their ranks."""
    families = (by_namespace(name) for name in _names())
    return tuple(
        sorted(
            (family for family in families if family),
            key=lambda family: (family.rank, family.namespace),
        )
    )


def namespaces() -> tuple[str, ...]:
    """Return the namespaces of all families, by their ranks."""
    return tuple(family.namespace for family in families())


def accelerators() -> tuple[HardwareFamily, ...]:
    """Return the families of accelerators, by their ranks."""
    return tuple(family for family in families() if not family.is_processor)


def processors() -> tuple[HardwareFamily, ...]:
    """Return the families of processors, by their ranks."""
    return tuple(family for family in families() if family.is_processor)


def _names() -> frozenset[str]:
    global _folders  # noqa: PLW0603 - read once, since they do not change
    if _folders is None:
        try:
            names = [name for folder in __path__ for name in os.listdir(folder)]  # noqa: PTH208
        except OSError:  # an archive, or a frozen application
            from pkgutil import iter_modules

            names = [module.name for module in iter_modules(__path__)]
        _folders = frozenset(name for name in names if name.isidentifier() and name[0] != "_")
    return _folders
