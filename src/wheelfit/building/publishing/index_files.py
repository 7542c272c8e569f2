"""The ``-variants.json`` of a release whose wheels lie here, or on the index already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.building.index_file import combined_index_file, read_wheel_document
from wheelfit.building.publishing.outgoing import Kind
from wheelfit.checking.pages import Listed, sort_files
from wheelfit.core import index_metadata
from wheelfit.core.filename import index_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.building.publishing.outgoing import Release, Set
    from wheelfit.sources.page import File


def index_files_of(
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
    read: Callable[[File], bytes | None],
) -> dict[Release, bytes]:
    """Combine the documents of all variant wheels of each release (B-50).

    :param there: by project: what the index has.
    :return: by release; without releases that have no variants, or whose file is there already.
    :raises InconsistentDocuments: wheels contradict each other.
    :raises InvalidWheel: a wheel has no document, or an unsound one, or what they say together
        cannot be written.
    """
    found = {}
    for release in outgoing.releases:
        mine = [one for one in outgoing.of(release) if one.kind is Kind.VARIANT]
        listed = sort_files(there.get(release[0], ())).get(release, Listed())
        names = {one.filename for one in mine}
        documents = [(one.filename, read_wheel_document(one.path)) for one in mine]
        for file, wheel in listed.wheels:
            if wheel.label is not None and file.filename not in names:
                data = read(file)
                where = file.filename
                documents.append(
                    (where, index_metadata.read_wheel_document(data, wheel.label, where=where))
                )
        if not documents:
            continue
        data = combined_index_file(documents)
        name = index_file_name(*release)
        if not any(_has(file, name, data) for file in listed.index_files):
            found[release] = data
    return found


def _has(file: File, name: str, data: bytes) -> bool:
    import hashlib  # noqa: PLC0415 - start-up

    return file.filename == name and file.hashes.get("sha256") == hashlib.sha256(data).hexdigest()
