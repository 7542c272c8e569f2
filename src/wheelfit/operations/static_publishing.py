"""Releases on static indexes: pages change when all files are there."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.publishing.wire import read_attestations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.building.publishing.outgoing import Outgoing, Set
    from wheelfit.checking.findings import Finding
    from wheelfit.operations.publish_destinations import StaticIndex
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress


def publish_static(
    place: StaticIndex,
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
    progress: Progress,
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Publish files on a static index as one act: pages are exchanged when all files are there.

    :param place: the index.
    :param outgoing: the files.
    :param there: the files on its pages, by project.
    :param progress: of the bytes.
    :return: the paths that were written, and why files were refused instead.
    :raises EnvironmentBusy: another process publishes there.
    """
    from wheelfit.server.generate.generation import generate
    from wheelfit.server.generate.memory import Memory
    from wheelfit.server.generate.wishes import Wishes

    with tempfile.TemporaryDirectory(prefix="wheelfit-publish-") as name:
        folder = Path(name)
        for one in outgoing.files:
            lend(one.path, folder / one.filename)
            _lay_provenance(one, folder)
        if place.folder is not None:
            _lay_published(place.folder, outgoing, there, folder)
        wishes = Wishes(frozenset(outgoing.releases))
        memory = Memory(folder / ".facts.json")
        generated = generate(folder, place.target, memory, wishes, progress=progress)
    return generated.written, generated.refused


def _lay_provenance(one: Outgoing, folder: Path) -> None:
    """Write the attestations of a file beside it, as indexes serve them."""
    beside = one.path.with_name(f"{one.filename}.provenance")
    data = None
    if beside.is_file():
        data = beside.read_bytes()
    elif one.attestations and find_spec("pypi_attestations") is not None:
        import json

        from wheelfit.server.uploads.attested import provenance_of

        data, _ = provenance_of(json.dumps(read_attestations(one)), one.filename, one.sha256)
    if data is not None:
        (folder / beside.name).write_bytes(data)


def _lay_published(
    root: Path,
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
    folder: Path,
) -> None:
    """Put the other files of the same releases beside them, which are published as a whole."""
    from wheelfit.core.filename import release_of
    from wheelfit.server.generate.published import path_of_entry

    for project, files in there.items():
        for file in files:
            if release_of(file.filename) not in outgoing.releases:
                continue
            path = root / path_of_entry(project, file.url)
            here = folder / file.filename
            if here.exists() or not path.is_file() or file.filename.endswith(".json"):
                continue
            lend(path, here)
            if file.yanked is not None:
                (folder / f"{file.filename}.yanked").write_text(file.yanked, "utf-8")
            provenance = path.with_name(f"{path.name}.provenance")
            if provenance.is_file():
                lend(provenance, folder / provenance.name)


def lend(path: Path, place: Path) -> None:
    """Link a file to another place; copy it where the system has no links."""
    for give in (place.symlink_to, place.hardlink_to):
        with suppress(OSError):
            give(path.absolute())
            return
    shutil.copyfile(path, place)
