"""The ``-variants.json`` of a release, from its wheels and from nothing else (F-60 to F-74)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import Place
from wheelfit.core.filename import index_file_name
from wheelfit.core.index_metadata import combine, contradictions, read_wheel_document
from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document, write_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import InvalidDocument, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.checking.findings import Finding
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.server.generate.collection import Found


@dataclass(frozen=True, slots=True)
class VariantWheel:
    """Hold a wheel with a label."""

    found: Found
    filename: WheelFilename
    document: VariantDocument | None = None
    """What it says, if that was just read."""


def combined_document(
    wheels: Sequence[VariantWheel],
) -> tuple[bytes | None, tuple[Finding, ...]]:
    """Return the document of a release, or why there can be none (F-65).

    :param wheels: all variant wheels of one release, each sound by itself.
    :raises FileProblem: a wheel cannot be read.
    """
    ordered = sorted(wheels, key=lambda one: one.found.filename)
    name, version = ordered[0].filename.name, ordered[0].filename.version
    # Wheels with the same label and the same bytes of it say the same; reading JSON takes longest.
    read: dict[tuple[str, bytes], VariantDocument] = {}
    documents: list[tuple[str, VariantDocument]] = []
    findings: list[Finding] = []
    for one in ordered:
        if one.document is not None:
            documents.append((one.found.name, one.document))
            continue
        with WheelArchive(one.found.path, one.filename, where=one.found.name) as archive:
            data = archive.variant_document() or b""
        label = one.filename.label or NULL
        if (label, data) in read:
            continue
        try:
            document = read_wheel_document(data, label, where=one.found.name)
        except InvalidWheel as error:
            place = Place(one.found.name, "variant.json")
            findings.append(place.found(checks.WRONG_LABEL, error.message))
            continue
        read[label, data] = document
        documents.append((one.found.name, document))
    if findings:
        return None, tuple(findings)
    for conflict in contradictions(documents):
        said = "; ".join(
            f"{where}: {value}"
            for where, value in zip((conflict.first, conflict.second), conflict.values, strict=True)
        )
        place = Place(conflict.second, "variant.json")
        findings.append(
            place.found(
                checks.INCONSISTENT_WHEELS,
                f"it and {conflict.first} contradict each other about {conflict.path} ({said})",
                path=conflict.path,
            )
        )
    if findings:
        return None, tuple(findings)
    try:
        written = write_document(combine(documents), accept_losses=False)
    except InvalidDocument as error:
        where = index_file_name(name, version)
        return None, (Place(where).found(checks.INCONSISTENT_WHEELS, _in_one_line(error)),)
    return written, ()


def published_findings(found: Found, generated: bytes | None) -> Iterator[Finding]:
    """Yield how a file that somebody put there differs from what the wheels say (F-74).

    Only what it means counts, not how it is written.

    :param generated: from the wheels; None if there is none.
    """
    place = Place(found.name)
    if generated is None:
        yield place.found(
            checks.LABEL_WITHOUT_WHEEL, "no variant wheel backs it, and an index invents nothing"
        )
        return
    try:
        theirs = read_document(found.path.read_bytes(), where=found.name)
    except InvalidDocument as error:
        yield place.found(checks.UNREADABLE_DOCUMENT, _in_one_line(error))
        return
    ours = read_document(generated, where=found.name)
    for what, one, other in (
        ("default-priorities", theirs.priorities, ours.priorities),
        ("variants", dict(theirs.variants), dict(ours.variants)),
        ("providers", dict(theirs.providers), dict(ours.providers)),
    ):
        if one != other:
            yield place.found(
                checks.CLAIMS_DISAGREE, f"{what} are not those of the wheels", path=what
            )


def _in_one_line(error: InvalidDocument) -> str:
    return " ".join(f"{error.message}: {error.note}".split() if error.note else [error.message])
