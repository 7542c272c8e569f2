"""Make variant wheels out of finished wheels, and plain ones out of variant wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.core_metadata import without_variant_markers
from wheelfit.core.filename import parse_wheel_filename, with_label
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.labels import NULL, OLD_NULL, derive_label, writer_warnings
from wheelfit.core.markers import VariantContext
from wheelfit.core.metadata import write_document
from wheelfit.core.properties import EMPTY
from wheelfit.core.strict_json import path_of
from wheelfit.errors import InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import Writing, rewrite
from wheelfit_runtime.errors import Fault, InvalidDocument, UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.metadata import WrittenLayout


NOT_NEEDED = "it does not need {}, whose marker is false for it"
"""The note on a dependency that is dropped."""


def make_variant(
    source: Path,
    folder: Path,
    *,
    label: Label,
    document: VariantDocument,
    layout: WrittenLayout = "850",
    resolve_markers: bool = False,
    writing: Writing = Writing(),
    note: Callable[[str], None] = lambda _text: None,
) -> Path:
    """Give a wheel a label and its properties, and return the path of the result.

    A plain wheel becomes a variant wheel; of a variant wheel label and document
    are replaced (B-32). Everything else stays as it is, byte by byte.

    :param folder: where the result goes; may be the folder of the source.
    :param label: of the result; the old name of the null variant becomes ``null`` (F-53).
    :param document: says what the label stands for, and maybe other labels too,
        which are left out (F-24).
    :param resolve_markers: whether variant markers in METADATA are resolved as far as
        that is possible before the target is known (B-41), for tools that do not know
        them (F-154).
    :param note: told what else was changed (B-37), which dependencies are dropped, and what is
        unwise about the label (F-3).
    :raises InvalidDocument: the document does not know the label, or may not be
        written; says everything at once (B-6).
    :raises InvalidFilename: the source is not named like a wheel, or the new name
        would be too long (F-3).
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidWheel: the source is not sound; nothing was written.
    """
    label = NULL if label == OLD_NULL else label
    filename = with_label(parse_wheel_filename(source.name), label)
    single = single_label(document, label)
    content = write_document(single, layout)
    destination = folder / filename.text
    with WheelArchive(source) as archive:
        replaced = {f"{archive.dist_info}/variant.json": content}
        if resolve_markers:
            context = VariantContext(label, single.properties(label) or EMPTY)
            replaced |= _resolved_metadata(archive, context, note)
        notes = rewrite(
            source,
            destination,
            replace_members=replaced,
            writing=writing,
            opened=archive,
        )
    for text in (*writer_warnings(label), *notes):
        note(text)
    return destination


def relabel(
    source: Path,
    folder: Path,
    *,
    label: Label | None,
    writing: Writing = Writing(),
    note: Callable[[str], None] = lambda _text: None,
) -> Path:
    """Call a variant wheel by another label; its properties stay. Return the path of the result.

    :param folder: where the result goes; may be the folder of the source.
    :param label: the new label; None: derived from the properties (F-141).
    :raises UserError: ``invalid-label``; only what has no properties is called null, and always
        (F-6).
    :raises InvalidFilename: the source is not named like a variant wheel.
    :raises InvalidDocument: as for `make_variant`.
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidWheel: the source is not sound; nothing was written.
    """
    filename = parse_wheel_filename(source.name)
    if filename.label is None:
        raise InvalidFilename(
            "it is a plain wheel and has no label",
            where=str(source),
            hint="`wheelfit wheel make` makes a variant wheel of it",
        )
    with WheelArchive(source, filename) as archive:
        data = archive.variant_document()
    document = read_wheel_document(data, filename.label, where=str(source))
    properties = document.properties(filename.label) or EMPTY
    label = derive_label(properties) if label is None else label
    if (label in (NULL, OLD_NULL)) != (not properties):
        raise UserError(
            f"the label {label} cannot stand for {properties or 'no properties'}",
            code="invalid-label",
            where=str(source),
            hint="null is the label of what has no properties, and of nothing else (F-6)",
        )
    return make_variant(
        source,
        folder,
        label=label,
        document=replace(
            document, variants={NULL if label == OLD_NULL else label: properties}, unusable={}
        ),
        writing=writing,
        note=note,
    )


def make_plain(
    source: Path,
    folder: Path,
    *,
    writing: Writing = Writing(),
    note: Callable[[str], None] = lambda _text: None,
) -> Path:
    """Take label and document from a wheel, and return the path of the result.

    Variant markers in METADATA are resolved as for any plain wheel: nothing is declared
    (B-40). Everything else stays as it is, byte by byte.

    :param folder: where the result goes; may be the folder of the source.
    :param note: told what else was changed (B-37), and which dependencies are dropped.
    :raises InvalidFilename: the source is not named like a variant wheel.
    :raises InvalidRequirement: a variant marker cannot be read.
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidWheel: the source is not sound; nothing was written.
    """
    filename = parse_wheel_filename(source.name)
    if filename.label is None:
        raise InvalidFilename("it is a plain wheel already", where=str(source))
    destination = folder / with_label(filename, None).text
    with WheelArchive(source) as archive:
        notes = rewrite(
            source,
            destination,
            replace_members=_resolved_metadata(archive, VariantContext.PLAIN, note),
            remove=[f"{archive.dist_info}/variant.json"],
            writing=writing,
            opened=archive,
        )
    for text in notes:
        note(text)
    return destination


def _resolved_metadata(
    archive: WheelArchive, context: VariantContext, note: Callable[[str], None]
) -> dict[str, bytes]:
    """Return METADATA as it is before the target is known; nothing if it stays."""
    given = archive.metadata()
    resolved = without_variant_markers(
        given,
        context,
        where=archive.where,
        filtered=False,
        dropped=lambda text: note(NOT_NEEDED.format(text)),
    )
    return {} if resolved == given else {f"{archive.dist_info}/METADATA": resolved}


def single_label(document: VariantDocument, label: Label) -> VariantDocument:
    """Reduce the document of a release to one label, as ``variant.json`` has it (F-24).

    Priorities and providers stay, used or not (B-2).

    :raises InvalidDocument: it is not there, or unusable.
    """
    properties = document.properties(label)
    if properties is None:
        reason = document.unusable.get(label, "the label is not in the document")
        raise InvalidDocument([Fault(path_of("variants", label), reason, "F-24")])
    return replace(document, variants={label: properties}, unusable={})
