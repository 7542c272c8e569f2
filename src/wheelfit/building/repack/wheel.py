"""Repack one wheel: edit what it says of itself, and give it a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.building.repack.edits import apply_edits
from wheelfit.building.variant_wheel import single_label
from wheelfit.core.abi_exports import FILE as EXPORTS_FILE
from wheelfit.core.abi_exports import write_abi_exports
from wheelfit.core.filename import parse_wheel_filename, with_label
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.labels import NULL, OLD_NULL, writer_warnings
from wheelfit.core.markers import VariantContext
from wheelfit.core.metadata import write_document
from wheelfit.core.properties import EMPTY
from wheelfit.core.versions import parse_version
from wheelfit.errors import InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import Writing, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.building.repack.edits import Edits
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.metadata import WrittenLayout


def repack_wheel(
    source: Path,
    folder: Path,
    edits: Edits,
    *,
    label: Label | None = None,
    document: VariantDocument | None = None,
    layout: WrittenLayout = "850",
    resolve_markers: bool = False,
    writing: Writing = Writing(),
    note: Callable[[str], None] = lambda _text: None,
) -> Path:
    """Edit a wheel, and return the path of the result (B-42, B-43).

    Without a label a plain wheel stays plain and a variant wheel keeps its label and its
    document. Everything that is not edited stays as it is, byte by byte; the folders of
    top-level packages always keep their names. Variant markers are resolved in a plain
    result, because no other installer can read it otherwise (B-40).

    :param folder: where the result goes; may be the folder of the source.
    :param document: says what the label stands for; given together with it.
    :param resolve_markers: whether they are resolved in a variant wheel too, as far as its
        label decides them (B-41); markers of the dependencies that are added as well.
    :raises InvalidDocument: as for `make_variant`.
    :raises InvalidFilename: the source is not named like a wheel, or the new name is none.
    :raises InvalidRequirement: a dependency cannot be read.
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidWheel: the source is not sound; nothing was written.
    """
    if (label is None) != (document is None):
        raise ValueError("a label and a document come together")
    filename = parse_wheel_filename(source.name)
    with WheelArchive(source, filename) as archive:
        single = None
        if label is not None and document is not None:
            label = NULL if label == OLD_NULL else label
            single = single_label(document, label)
        result_label = filename.label if label is None else label
        context = None
        if result_label is None or resolve_markers:
            context = _context(archive, result_label, single)
        edited = apply_edits(
            archive.metadata(), edits, filename, where=str(source), context=context
        )
        named = renamed(filename, edited.name, edited.version)
        folders = _folders(archive, filename, named)
        dist_info = folders.get(archive.dist_info, archive.dist_info)
        replaced: dict[str, bytes] = {}
        if label is not None and single is not None:
            named = with_label(named, label)
            replaced[f"{dist_info}/variant.json"] = write_document(single, layout)
        if edited.data != archive.metadata():
            replaced[f"{dist_info}/METADATA"] = edited.data
        if edits.abi_exports is not None:
            replaced[f"{dist_info}/{EXPORTS_FILE}"] = write_abi_exports(edits.abi_exports)
        destination = folder / named.text
        notes = rewrite(
            source,
            destination,
            replace_members=replaced,
            rename_folders=folders,
            writing=writing,
            opened=archive,
        )
    warnings = () if named.label is None else writer_warnings(named.label)
    for text in (*edited.notes, *warnings, *notes):
        note(text)
    return destination


def renamed(filename: WheelFilename, name: NormalizedName, version: Version) -> WheelFilename:
    """Return the file name of a wheel for another name and version; the rest stays (F-17).

    :raises InvalidFilename: the name is none of a project, or the result is too long.
    """
    if (name, version) == (filename.name, filename.version):
        return filename
    _, _, rest = filename.text.split("-", 2)
    text = f"{name.replace('-', '_')}-{version}-{rest}"
    if len(text) > _LONGEST:
        raise InvalidFilename(f"the file name would have {len(text)} bytes", where=text)
    return parse_wheel_filename(text)


_LONGEST = 255


def _folders(archive: WheelArchive, old: WheelFilename, new: WheelFilename) -> dict[str, str]:
    """Return the new names of the folders that are named after the release (B-43)."""
    if (old.name, old.version) == (new.name, new.version):
        return {}
    stem = f"{new.name.replace('-', '_')}-{new.version}"
    folders = {archive.dist_info: f"{stem}.dist-info"}
    for top in {name.partition("/")[0] for name in archive.names() if ".data/" in name}:
        name, _, version = top.removesuffix(".data").rpartition("-")
        if not top.endswith(".data") or canonicalize_name(name) != old.name:
            continue
        try:
            if parse_version(version) == old.version:
                folders[top] = f"{stem}.data"
        except InvalidVersion:
            continue
    return folders


def _context(
    archive: WheelArchive, label: Label | None, single: VariantDocument | None
) -> VariantContext:
    """Return what variant markers of the result are about."""
    if label is None:
        return VariantContext.PLAIN
    if single is None:
        single = read_wheel_document(archive.variant_document(), label, where=archive.where)
    return VariantContext(label, single.properties(label) or EMPTY)
