"""The ``-variants.json`` of releases whose upstream has none, from the wheels (F-128).

Where the upstream has one, it is served unchanged. Otherwise its content is read from a wheel of
each label; if a wheel cannot be read, or two contradict each other, there is no document.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING

from wheelfit.core.filename import (
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    wheel_filename_of,
)
from wheelfit.core.index_metadata import combine, read_wheel_document
from wheelfit.core.labels import NULL, Label
from wheelfit.core.metadata import write_document
from wheelfit.errors import InconsistentDocuments
from wheelfit.sources.page import File
from wheelfit_runtime.errors import IntegrityError, InvalidDocument, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.sources.repository import Files


GENERATED = "generated:"
"""The prefix of addresses of generated documents; no link of a page has it."""
_MAX_LABELS = 64
"""Labels of a release that are looked up, each with a few requests."""


def missing_documents(files: Iterable[File]) -> dict[str, File]:
    """Return entries for the documents that an upstream lacks, by file name."""
    wheels: defaultdict[tuple[NormalizedName, Version], list[str]] = defaultdict(list)
    listed_releases: set[tuple[NormalizedName, Version]] = set()
    for file in files:
        listed = parse_index_file_name(file.filename)
        if listed is not None:
            listed_releases.add(listed)
            continue
        release = release_of_variant(file.filename)
        if release is not None:
            wheels[release].append(f"{file.filename} {sorted(file.hashes.items())} {file.url}")
    documents: dict[str, File] = {}
    for (name, version), lines in wheels.items():
        if (name, version) not in listed_releases:
            filename = index_file_name(name, version)
            # The URL changes with the wheels.
            digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
            documents[filename] = File(filename=filename, url=f"{GENERATED}{digest}")
    return documents


def make_document(
    document: File, files: Iterable[File], reader: Files, note: Callable[[str], None]
) -> bytes:
    """Return the document of the wheels; empty if there can be none."""
    release = parse_index_file_name(document.filename)
    by_label: dict[Label, File] = {}
    for file in files:
        if not file.url.startswith(GENERATED) and release_of_variant(file.filename) == release:
            by_label.setdefault(parse_wheel_filename(file.filename).label or NULL, file)
    if len(by_label) > _MAX_LABELS:
        note(f"{document.filename} is not generated: there are {len(by_label)} labels")
        return b""
    try:
        read = [
            (
                file.filename,
                read_wheel_document(reader.variant_document(file), label, where=file.filename),
            )
            for label, file in sorted(by_label.items())
        ]
        return write_document(combine(read), accept_losses=False)
    except (IntegrityError, InconsistentDocuments, InvalidDocument, NetworkError) as error:
        note(f"{document.filename} is not generated: {error.message}")
        return b""


def release_of_variant(filename: str) -> tuple[NormalizedName, Version] | None:
    """Return the release of a wheel with a label; None for every other file."""
    wheel = wheel_filename_of(filename)
    return (wheel.name, wheel.version) if wheel is not None and wheel.is_variant else None
