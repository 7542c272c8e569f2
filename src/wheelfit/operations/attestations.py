"""Attestations of packages to install, verified where the user requires it (PEP 740)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import InvalidName, canonicalize_name

from wheelfit.errors import AttestationProblem
from wheelfit.sources.page import File
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.operations.context import Reporter
    from wheelfit.operations.requests import AttestationOptions
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.repository import Repository
    from wheelfit.wheels.unpacked import UnpackedWheel

LARGEST_PROVENANCE = 4 << 20
"""Bytes of the longest provenance document."""


def required_attestations(
    request: AttestationOptions,
) -> tuple[frozenset[str], Mapping[str, Sequence[str]]]:
    """Return the packages that need attestations, ``:all:`` for every one, and their publishers.

    :raises UserError: an option names no package or no publisher.
    """
    trusted = _trusted_publishers(request.trusted_publisher)
    required = (
        name if name == ":all:" else _project(name) for name in request.require_attestations
    )
    return frozenset((*required, *trusted)), trusted


def verify_attestations(
    pins: Iterable[Pin],
    wheels: Mapping[str, UnpackedWheel],
    repository: Repository,
    request: AttestationOptions,
    reporter: Reporter,
) -> None:
    """Verify the attestations of each wheel that the options require.

    :param wheels: unpacked wheels by the URL of their pins; for others the SHA-256 of the index
        page is used, without which a wheel is not verified.
    :raises AttestationProblem: an attestation is invalid, or missing though required.
    :raises UserError: the library is not installed, or an option is invalid.
    """
    required, trusted = required_attestations(request)
    if not required and not request.verify_attestations:
        return
    from wheelfit.sources.attestations import verify_provenance

    for pin in pins:
        is_required = bool({":all:", pin.name} & required)
        if not is_required and not request.verify_attestations:
            continue
        name = pin.filename.text
        url = _provenance_url(pin, repository)
        if url is None:
            if is_required:
                raise AttestationProblem(
                    "the file has no attestation, but one is required",
                    where=name,
                    hint="nothing was installed; the index has no provenance of this file",
                )
            reporter.detail(f"{name}: the index has no attestations of it")
            continue
        wheel = wheels.get(pin.file.url)
        digest = pin.file.hashes.get("sha256") if wheel is None else wheel.sha256
        if digest is None:
            continue
        provenance = repository.read(File(f"{name}.provenance", url), limit=LARGEST_PROVENANCE)
        signers = verify_provenance(provenance, name, digest, trusted=trusted.get(pin.name, ()))
        reporter.note(f"{name}: published by {', '.join(signers)}")


def _provenance_url(pin: Pin, repository: Repository) -> str | None:
    """Return the URL of the provenance; a lock has none, so the index page is read."""
    if pin.file.provenance is not None:
        return pin.file.provenance
    # Local files, wheels that were built and direct references are on no page of an index.
    if pin.file.is_local or pin.file.origin is not None or pin.is_direct:
        return None
    page = repository.project(pin.name)
    for file in page.files if page is not None else ():
        if file.filename == pin.file.filename and file.provenance is not None:
            return file.provenance
    return None


def _trusted_publishers(texts: Sequence[str]) -> dict[str, list[str]]:
    if not texts:
        return {}
    from wheelfit.sources.attestations import parse_publisher

    trusted: dict[str, list[str]] = {}
    for text in texts:
        name, _, publisher = text.partition("=")
        try:
            parse_publisher(publisher)
            project = canonicalize_name(name.strip(), validate=True)
        except ValueError:
            raise UserError(
                f"{text[:80]!r} names no package or no publisher",
                hint="write NAME=github:OWNER/REPOSITORY",
            ) from None
        trusted.setdefault(project, []).append(publisher)
    return trusted


def _project(text: str) -> str:
    """Return the normalised name of a package; an invalid one would accept every wheel."""
    try:
        return canonicalize_name(text, validate=True)
    except InvalidName:
        raise UserError(
            f"attestations are required of {text[:80]!r}, which is not a valid package name",
            hint="give the option once for each name",
        ) from None
