"""Variant metadata: read, check and write the document beside and inside wheels."""

from __future__ import annotations

from wheelfit.core.document import VariantDocument

__all__ = ["VariantDocument"]


def __dir__() -> list[str]:
    return __all__
