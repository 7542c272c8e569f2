"""Warn users of wheelfit, at the line of their code that called it."""

from __future__ import annotations

import sys


def warn(words: str) -> None:
    """Issue a `VariantWarning` in the name of the first caller that is none of ours."""
    import warnings

    from wheelfit_runtime import VariantWarning

    # No `stacklevel`: `warnings` counts the frames of an import sometimes only.
    frame = sys._getframe(1)  # noqa: SLF001 - as `warnings` itself
    while frame.f_back and _is_of_import(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    there = frame.f_globals
    warnings.warn_explicit(
        words,
        VariantWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=there.get("__name__"),
        registry=there.setdefault("__warningregistry__", {}),
    )


def _is_of_import(name: str) -> bool:
    return name.startswith(("wheelfit_runtime", "importlib", "_frozen_importlib"))
