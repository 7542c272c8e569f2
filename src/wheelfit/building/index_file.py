"""Write the index file of each release from the wheels of a folder."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit.core import index_metadata
from wheelfit.core.filename import index_file_name, wheel_filename_of
from wheelfit.core.index_metadata import combine
from wheelfit.core.metadata import write_document
from wheelfit.errors import InconsistentDocuments, reporting_os_errors
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.atomic_write import new_file, write_all
from wheelfit_runtime.errors import FileProblem, InvalidDocument, InvalidWheel, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import Release


def write_index_files(folder: Path) -> tuple[Path, ...]:
    """Write ``{name}-{version}-variants.json`` for each release with variant wheels (B-50).

    All releases are combined before the first file is written: after an error no file has changed.
    An unchanged file is not written.

    :return: the index files of all releases, written or unchanged.
    :raises InconsistentDocuments: wheels of a release contradict each other; if that concerns
        several releases, the note lists the others (F-65).
    :raises InvalidWheel: a variant wheel is invalid, or its document is of another label.
    :raises FileProblem: a file cannot be read or written.
    """
    contents: dict[str, bytes] = {}
    errors: list[WheelfitError] = []
    for (name, version), wheels in _releases(folder).items():
        try:
            documents = [(path.name, read_wheel_document(path)) for path in wheels]
            contents[index_file_name(name, version)] = combined_index_file(documents)
        except (InconsistentDocuments, InvalidWheel) as error:
            errors.append(error)
    if errors:
        raise _merged_error(errors)
    return tuple(
        _write_if_changed(folder / name, content) for name, content in sorted(contents.items())
    )


def read_wheel_document(path: Path) -> VariantDocument:
    """Read only ``variant.json`` of a variant wheel (B-51).

    :raises InvalidWheel: it is invalid, or its document is of another label (F-24).
    """
    with WheelArchive(path) as wheel:
        data, label = wheel.variant_document(), wheel.filename.label
    if data is None or label is None:
        raise InvalidWheel("the wheel is not a variant wheel", where=str(path))
    return index_metadata.read_wheel_document(data, label, where=str(path))


def check_consistency(wheels: Mapping[Path, Path]) -> None:
    """Check that documents of variant wheels agree, with those of their neighbours (F-60, F-143).

    Neighbours are the other wheels in the folders of the final paths.

    :param wheels: the present path of each wheel, by its final path.
    :raises InconsistentDocuments: they contradict each other.
    """
    wheels_by_release: dict[Release, list[tuple[str, Path]]] = {}
    for final_path, path in wheels.items():
        filename = wheel_filename_of(final_path.name)
        if filename is not None and filename.is_variant:
            wheels_by_release.setdefault((filename.name, filename.version), []).append(
                (final_path.name, path)
            )
    neighbours: dict[Release, list[Path]] = {}
    for folder in {final_path.parent for final_path in wheels} if wheels_by_release else ():
        for path in folder.glob("*.whl"):
            filename = wheel_filename_of(path.name)
            if filename is not None and filename.is_variant and path not in wheels:
                neighbours.setdefault((filename.name, filename.version), []).append(path)
    for release, release_wheels in wheels_by_release.items():
        neighbour_paths = neighbours.get(release, [])
        if len(release_wheels) + len(neighbour_paths) == 1:
            continue  # a single document cannot contradict itself
        documents = [(name, read_wheel_document(path)) for name, path in release_wheels]
        for path in neighbour_paths:
            # Faults of neighbours are not reported here.
            with suppress(InvalidWheel, FileProblem):
                documents.append((path.name, read_wheel_document(path)))
        combine(documents)


def _releases(folder: Path) -> Mapping[Release, list[Path]]:
    """Return the variant wheels of a folder by name and version (B-50)."""
    releases: dict[Release, list[Path]] = {}
    with reporting_os_errors("the folder cannot be read", where=str(folder)):
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".whl")
    for path in paths:
        filename = wheel_filename_of(path.name)  # installers ignore an invalid one, too
        if filename is not None and filename.is_variant:
            releases.setdefault((filename.name, filename.version), []).append(path)
    return releases


def combined_index_file(documents: Sequence[tuple[str, VariantDocument]]) -> bytes:
    """Return the index file of a release, combined from its wheels (B-50).

    :raises InvalidWheel: the combined document cannot be written.
    """
    combined = combine(documents)
    try:
        return write_document(combined)
    except InvalidDocument as error:
        where = ", ".join(wheel_name for wheel_name, _ in documents)
        raise InvalidWheel(
            f"the documents cannot be written as one: {error.message}",
            where=where,
            note=error.note,
        ) from None


def _write_if_changed(path: Path, content: bytes) -> Path:
    with reporting_os_errors("the index file cannot be read", where=str(path)):
        is_unchanged = path.is_file() and path.read_bytes() == content
    if not is_unchanged:
        with new_file(path, overwrite=True) as file:
            write_all(file, content)
    return path


def _merged_error(errors: list[WheelfitError]) -> WheelfitError:
    """Return the first error, with the others in its note."""
    first, *others = errors
    if others:
        notes = [first.note] if first.note else []
        notes += [f"also: {other}" for other in others]
        first.note = "\n".join(notes)
    return first
