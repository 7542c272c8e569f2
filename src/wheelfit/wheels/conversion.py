"""Convert wheels whose ``variant.json`` has an old layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.filename import parse_wheel_filename, with_label
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.labels import NULL, OLD_NULL
from wheelfit.core.metadata import losses, write_document
from wheelfit.core.properties import EMPTY
from wheelfit.errors import InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import RewriteDetails, RewriteOptions, rewrite
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wheelfit.core.document import VariantDocument


CURRENT_LAYOUT = "L7"
"""The layout that is written."""


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """The result of converting a wheel."""

    path: Path
    """The wheel to use now; the source itself if there was nothing to do."""
    document: VariantDocument
    """The metadata of its variant."""
    layout: str
    """The layout that the source has, ``L1`` to ``L7``."""
    lost: tuple[str, ...] = ()
    """The losses in the current layout, one sentence each."""

    @property
    def is_new(self) -> bool:
        """Whether a wheel was written."""
        return self.layout != CURRENT_LAYOUT


def convert_wheel(
    source: Path,
    folder: Path,
    *,
    accept_losses: bool = False,
    options: RewriteOptions = RewriteOptions(),
    add_details: Callable[[RewriteDetails], None] = lambda _details: None,
) -> ConversionResult:
    """Write a variant wheel with a document of the current layout (F-56).

    The null variant gets its present name (F-53); all other members keep their bytes. A wheel with
    the current layout is not written.

    :param folder: the folder of the result; may be that of the source.
    :param accept_losses: whether data that the current layout cannot express may be lost.
    :raises InvalidFilename: the source is not named like a variant wheel.
    :raises InvalidDocument: data would be lost without consent, or may not be written.
    :raises InvalidWheel: the source is not valid; nothing was written.
    :raises FileProblem: a file cannot be read or written, or exists already.
    """
    filename = parse_wheel_filename(source.name)
    label = filename.label
    if label is None:
        raise InvalidFilename("the wheel is plain and has no layout", where=str(source))
    with WheelArchive(source, filename) as archive:
        document = read_wheel_document(archive.variant_document(), label, where=str(source))
        if document.layout == CURRENT_LAYOUT:
            return ConversionResult(source, document, CURRENT_LAYOUT)
        layout, document = document.layout, rename_null_variant(document)
        if label == OLD_NULL and NULL in document.variants:
            filename = with_label(filename, NULL)
        lost = losses(document)
        if lost and not accept_losses:
            raise InvalidDocument([Fault("", text, "F-56") for text in lost], where=str(source))
        try:
            content = write_document(document, accept_losses=True)
        except InvalidDocument as error:
            raise InvalidDocument(error.faults, where=str(source)) from None
        path = folder / filename.text
        details = rewrite(
            source,
            path,
            replace_members={f"{archive.dist_info}/variant.json": content},
            options=options,
            open_source=archive,
        )
    add_details(details)
    return ConversionResult(path, document, layout, lost)


def rename_null_variant(document: VariantDocument) -> VariantDocument:
    """Return a document whose null variant has its present name (F-53)."""
    variants = dict(document.variants)
    if OLD_NULL not in variants or any(variants[OLD_NULL].features()):
        return document
    del variants[OLD_NULL]
    return replace(document, variants={**variants, NULL: EMPTY})
