"""Variant metadata of releases, read from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.metadata import read_document
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    import os

    from wheelfit.core.document import VariantDocument


def read_variants_json(source: str | os.PathLike[str] | bytes) -> VariantDocument:
    """Read the variant metadata of a release, in any layout (F-130).

    What cannot be used is left out, with a note in `VariantDocument.notes`.

    :param source: the path of a ``NAME-VERSION-variants.json``, or its bytes.
    :raises FileProblem: the file cannot be read.
    :raises InvalidDocument: nothing of it can be used.
    """
    if isinstance(source, bytes):
        return read_document(source, where="variants.json")
    try:
        with Path(source).open("rb") as file:
            data = file.read(DEFAULT_LIMITS.size + 1)
    except OSError as error:
        raise FileProblem(
            f"the variant metadata cannot be read: {error.strerror}", where=str(source)
        ) from None
    return read_document(data, where=str(source))
