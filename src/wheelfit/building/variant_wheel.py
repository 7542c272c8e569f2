"""Edits of finished wheels: their metadata, and their variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.building.repack.edits import NO_EDITS, Edits, apply_edits
from wheelfit.core.abi_exports import FILE as EXPORTS_FILE
from wheelfit.core.abi_exports import write_abi_exports
from wheelfit.core.filename import WheelFilename, parse_wheel_filename, with_label
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.labels import NULL, OLD_NULL, Label, derive_label, writer_warnings
from wheelfit.core.markers import VariantContext
from wheelfit.core.metadata import WrittenLayout, write_document
from wheelfit.core.properties import EMPTY
from wheelfit.core.strict_json import path_of
from wheelfit.core.versions import version_of
from wheelfit.errors import InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import RewriteDetails, RewriteOptions, rewrite
from wheelfit_runtime.errors import Fault, InvalidDocument, UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.version import Version

    from wheelfit.core.document import VariantDocument

_MAX_FILENAME_BYTES = 255
"""The limit of common file systems."""


def repack_wheel(
    source: Path,
    folder: Path,
    edits: Edits = NO_EDITS,
    *,
    label: Label | None = None,
    document: VariantDocument | None = None,
    is_plain: bool = False,
    layout: WrittenLayout = "850",
    resolve_markers: bool = False,
    options: RewriteOptions = RewriteOptions(),
    add_details: Callable[[RewriteDetails], None] = lambda _details: None,
) -> Path:
    """Edit a wheel, set or remove its label, and return the path of the result.

    Without a label a plain wheel stays plain and a variant wheel keeps its label and document
    (B-32, B-42, B-43). All other files stay unchanged, byte by byte; the folders of top-level
    packages always keep their names. Variant markers are resolved in a plain result, because
    installers without variant support could not read them (B-40).

    :param folder: the folder of the result; may be that of the source.
    :param label: the label of the result; the old name of the null variant becomes ``null`` (F-53).
    :param document: the properties of the label; other labels in it are left out (F-24). Label
        and document must be passed together.
    :param is_plain: whether label and document of a variant wheel are removed.
    :param resolve_markers: whether markers are resolved in a variant wheel too, as far as that is
        possible before the target is known (B-41), for tools without support for them (F-154).
    :param add_details: called with the details, whose notes name further changes (B-37) and dropped
        dependencies, and warn about the label (F-3).
    :raises InvalidDocument: the document lacks the label, or is invalid; lists all faults at once
        (B-6).
    :raises InvalidFilename: the source is not named like a wheel, or the new name is invalid.
    :raises InvalidRequirement: a dependency cannot be read.
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidWheel: the source is damaged; nothing was written.
    """
    if (label is None) != (document is None):
        raise ValueError("label and document must be passed together")
    filename = parse_wheel_filename(source.name)
    label = NULL if label == OLD_NULL else label
    result_label = None if is_plain else label or filename.label
    relabelled = with_label(filename, result_label)
    new_document = None
    if label is not None and document is not None:
        new_document = reduce_to_label(document, label)
    with WheelArchive(source, filename) as archive:
        context = None
        if result_label is None or resolve_markers:
            context = _marker_context(archive, result_label, new_document)
        edited = apply_edits(
            archive.metadata(), edits, filename, where=str(source), context=context
        )
        new_filename = with_release(relabelled, edited.name, edited.version)
        folders = _renamed_folders(archive, filename, new_filename)
        dist_info = folders.get(archive.dist_info, archive.dist_info)
        replaced: dict[str, bytes] = {}
        if new_document is not None:
            replaced[f"{dist_info}/variant.json"] = write_document(new_document, layout)
        if edited.data != archive.metadata():
            replaced[f"{dist_info}/METADATA"] = edited.data
        if edits.abi_exports is not None:
            replaced[f"{dist_info}/{EXPORTS_FILE}"] = write_abi_exports(edits.abi_exports)
        destination = folder / new_filename.text
        details = rewrite(
            source,
            destination,
            replace_members=replaced,
            remove=[f"{archive.dist_info}/variant.json"] if is_plain else [],
            rename_folders=folders,
            options=options,
            open_source=archive,
        )
    warnings = () if result_label is None else writer_warnings(result_label)
    notes = (*edited.notes, *warnings, *details.notes)
    add_details(RewriteDetails(notes, details.content_verified, edited.removed_dependencies))
    return destination


def relabel(
    source: Path,
    folder: Path,
    *,
    label: Label | None,
    options: RewriteOptions = RewriteOptions(),
    add_details: Callable[[RewriteDetails], None] = lambda _details: None,
) -> Path:
    """Change the label of a variant wheel, and return the path of the result.

    :param label: the new label; None: derived from the properties, which stay (F-141).
    :raises UserError: ``invalid-label``; only a wheel without properties has the label null (F-6).
    :raises InvalidFilename: the source is not named like a variant wheel.
    :raises WheelfitError: as for `repack_wheel`.
    """
    filename = parse_wheel_filename(source.name)
    if filename.label is None:
        raise InvalidFilename(
            "the wheel is plain and has no label",
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
            hint="wheels without properties have the label null, all others another label (F-6)",
        )
    label = NULL if label == OLD_NULL else label
    document = replace(document, variants={label: properties}, unusable={})
    return repack_wheel(
        source, folder, label=label, document=document, options=options, add_details=add_details
    )


def make_plain(
    source: Path,
    folder: Path,
    *,
    options: RewriteOptions = RewriteOptions(),
    add_details: Callable[[RewriteDetails], None] = lambda _details: None,
) -> Path:
    """Remove label and document from a variant wheel, and return the path of the result.

    :raises InvalidFilename: the source is not named like a variant wheel.
    :raises WheelfitError: as for `repack_wheel`.
    """
    if parse_wheel_filename(source.name).label is None:
        raise InvalidFilename("the wheel is plain already", where=str(source))
    return repack_wheel(source, folder, is_plain=True, options=options, add_details=add_details)


def reduce_to_label(document: VariantDocument, label: Label) -> VariantDocument:
    """Reduce the document of a release to one label, as in ``variant.json`` (F-24).

    Priorities and providers stay, used or not (B-2).

    :raises InvalidDocument: the label is missing or unusable.
    """
    properties = document.properties(label)
    if properties is None:
        reason = document.unusable.get(label, "the label is not in the document")
        raise InvalidDocument([Fault(path_of("variants", label), reason, "F-24")])
    return replace(document, variants={label: properties}, unusable={})


def with_release(filename: WheelFilename, name: NormalizedName, version: Version) -> WheelFilename:
    """Return the file name of a wheel for another name and version; the rest stays (F-17).

    :raises InvalidFilename: the name is not valid for a project, or the result is too long.
    """
    if (name, version) == (filename.name, filename.version):
        return filename
    _, _, rest = filename.text.split("-", 2)
    text = f"{name.replace('-', '_')}-{version}-{rest}"
    if len(text) > _MAX_FILENAME_BYTES:
        raise InvalidFilename(f"the file name would have {len(text)} bytes", where=text)
    return parse_wheel_filename(text)


def _renamed_folders(
    archive: WheelArchive, old: WheelFilename, new: WheelFilename
) -> dict[str, str]:
    """Return the new names of the folders that are named after the release (B-43)."""
    if (old.name, old.version) == (new.name, new.version):
        return {}
    stem = f"{new.name.replace('-', '_')}-{new.version}"
    folders = {archive.dist_info: f"{stem}.dist-info"}
    for top in {path.partition("/")[0] for path in archive.names() if ".data/" in path}:
        name, _, version = top.removesuffix(".data").rpartition("-")
        is_of_release = canonicalize_name(name) == old.name and version_of(version) == old.version
        if top.endswith(".data") and is_of_release:
            folders[top] = f"{stem}.data"
    return folders


def _marker_context(
    archive: WheelArchive, label: Label | None, document: VariantDocument | None
) -> VariantContext:
    """Return the context of variant markers in the result."""
    if label is None:
        return VariantContext.PLAIN
    if document is None:
        document = read_wheel_document(archive.variant_document(), label, where=archive.where)
    return VariantContext(label, document.properties(label) or EMPTY)
