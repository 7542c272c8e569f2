"""Warnings that name the line of code which called wheelfit."""

from __future__ import annotations

import sys


def warn(message: str) -> None:
    """Issue a `VariantWarning` for the first caller outside of wheelfit and the import system."""
    import warnings

    from wheelfit_runtime import VariantWarning

    # No `stacklevel`, as `warnings` counts the frames of an import only sometimes.
    frame = sys._getframe(1)  # noqa: SLF001 - as `warnings` itself
    while frame.f_back and _is_internal(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    module_globals = frame.f_globals
    warnings.warn_explicit(
        message,
        VariantWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=module_globals.get("__name__"),
        registry=module_globals.setdefault("__warningregistry__", {}),
    )


def _is_internal(name: str) -> bool:
    return name.startswith(("wheelfit_runtime", "importlib", "_frozen_importlib"))
