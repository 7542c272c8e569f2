"""Verification of a file by the attestations of its publisher (PEP 740).

Only this module imports the reference library, which verifies certificates, transparency logs and
the identities of publishers. No network is used: the library includes the root of trust.
"""

from __future__ import annotations

import json
import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import wheel_filename_of
from wheelfit.errors import AttestationProblem, install_hint
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KINDS = ("github", "gitlab", "google", "circleci")
_MAX_ATTESTATIONS = 20
_STATEMENT = "application/vnd.in-toto+json"


def can_verify() -> bool:
    """Return whether the library is installed that verifies attestations."""
    return find_spec("pypi_attestations") is not None


def parse_publisher(text: str) -> tuple[str, str]:
    """Parse the identity of a publisher, such as ``github:owner/repository``.

    >>> parse_publisher("GitHub:pypa/Packaging")
    ('github', 'pypa/packaging')

    :param text: kind and name; a name without a kind is a repository on GitHub.
    :raises ValueError: the kind is unknown, or the name is missing.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = "github", text
    kind, name = kind.strip().lower(), name.strip().strip("/").lower()
    if kind not in _KINDS or not name or any(letter.isspace() for letter in name):
        raise ValueError(f"{text[:80]!r} is not a publisher; write github:OWNER/REPOSITORY")
    return kind, name


def verify_provenance(
    provenance: bytes, filename: str, sha256: str, *, trusted: Iterable[str] = ()
) -> tuple[str, ...]:
    """Verify all attestations of a file; return the signers.

    :param provenance: the document of the index.
    :param sha256: of the content of the file, hexadecimal.
    :param trusted: identities, each of which must be the only signer, so that no setting weakens
        another; empty: any signer that the index names is accepted.
    :return: identities as `parse_publisher` reads them, each once.
    :raises AttestationProblem: a signature is not valid, there is none, or others signed.
    :raises UserError: the library is not installed.
    """
    library = _library()
    try:
        document = library.Provenance.model_validate_json(provenance)
    except ValueError as error:  # the errors of the library are of this type
        raise AttestationProblem(
            f"the provenance of the file cannot be read: {_first_line(error)}", where=filename
        ) from None
    wheel = wheel_filename_of(filename)
    is_labelled = wheel is not None and wheel.is_variant  # the library refuses such names
    signers: dict[str, None] = {}
    for publisher, attestation in _attestations(document, filename):
        try:
            if is_labelled:
                _verify_labelled(publisher, attestation, filename, sha256)
            else:
                file = library.Distribution(name=filename, digest=sha256)
                attestation.verify(publisher, file, offline=True)
        except ValueError as error:  # the errors of the library are of this type
            raise AttestationProblem(
                f"an attestation is not valid: {_first_line(error)}",
                where=filename,
                hint="nothing was installed; report it to the index operator",
            ) from None
        signers[_identity(publisher)] = None
    if not signers:
        raise AttestationProblem("the provenance of the file has no attestation", where=filename)
    for text in trusted:
        wanted = ":".join(parse_publisher(text))
        if other_signers := [signer for signer in signers if signer != wanted]:
            raise AttestationProblem(
                f"the file was published by {', '.join(other_signers)}, not by {wanted}",
                where=filename,
            )
    return tuple(signers)


def _verify_labelled(publisher: Any, attestation: Any, filename: str, sha256: str) -> None:
    """Verify an attestation of a wheel with a label.

    Certificate, log and signature are verified as for every file; the library also compares the
    statement with the file, but parses names in its own way.

    :raises ValueError: the attestation is not valid.
    """
    from pypi_attestations import AttestationType
    from sigstore.errors import VerificationError
    from sigstore.verify import Verifier

    policy = publisher._as_policy()  # noqa: SLF001 - the policy with which the library verifies
    try:
        verifier = Verifier.production(offline=True)
        kind, payload = verifier.verify_dsse(attestation.to_bundle(), policy)
    except VerificationError as error:
        raise ValueError(str(error)) from None
    if kind != _STATEMENT:
        raise ValueError(f"{kind!r} was signed, which is not a statement")
    statement = json.loads(payload)
    subjects = statement.get("subject") if isinstance(statement, dict) else None
    match subjects:
        case [{"name": str(name), "digest": {"sha256": digest}}]:
            if name != filename:
                raise ValueError(f"it names {name!r}")
            if digest != sha256:
                raise ValueError("the digest in it is that of another file")
        case _:
            raise ValueError("its statement is not about one file")
    AttestationType(statement.get("predicateType"))


def make_provenance(attestations: bytes, filename: str, sha256: str) -> bytes:
    """Verify the attestations of an upload, and return the provenance to serve (PEP 740).

    The signers are read from the certificates, which are verified with all the rest: the document
    names only real signers.

    :param attestations: a list of attestations, as JSON.
    :param sha256: of the content of the file, hexadecimal.
    :raises AttestationProblem: a signature is not valid, or a signer is of no known kind.
    :raises UserError: the library is not installed.
    """
    library = _library()
    try:
        statements = json.loads(attestations)
        if (
            not isinstance(statements, list)
            or not statements
            or len(statements) > _MAX_ATTESTATIONS
        ):
            raise AttestationProblem(
                f"the attestations must be a list of 1 to {_MAX_ATTESTATIONS}", where=filename
            )
        bundles = [
            {
                "publisher": _signer(attestation, filename),
                "attestations": [attestation.model_dump(mode="json")],
            }
            for attestation in map(library.Attestation.model_validate, statements)
        ]
    except (ValueError, RecursionError) as error:
        raise AttestationProblem(
            f"an attestation cannot be read: {_first_line(error)}", where=filename
        ) from None
    provenance = json.dumps({"version": 1, "attestation_bundles": bundles}).encode()
    verify_provenance(provenance, filename, sha256)
    return provenance


_ISSUER, _REPOSITORY, _BUILD = (f"1.3.6.1.4.1.57264.1.{number}" for number in (8, 12, 18))
"""The fields of certificates for the issuer, the repository, and the workflow run there."""
_ISSUERS = {
    "https://token.actions.githubusercontent.com": (
        "GitHub", "https://github.com/", "/.github/workflows/", "workflow"
    ),
    "https://gitlab.com": ("GitLab", "https://gitlab.com/", "//", "workflow_filepath"),
}  # fmt: skip
"""By issuer: the kind of publisher, the URL before the name of a repository, the text between
repository and workflow in a build, and the publisher's key of the workflow."""


def _signer(attestation: Any, filename: str) -> dict[str, str]:
    """Return the identity in a certificate, which is not verified yet."""
    claims = attestation.certificate_claims
    issuer, repository = claims.get(_ISSUER, ""), claims.get(_REPOSITORY, "")
    kind, site, separator, key = _ISSUERS.get(issuer, ("", "", "", ""))
    build = claims.get(_BUILD, "").removeprefix(f"{repository}{separator}")
    if not kind or not repository.startswith(site):
        raise AttestationProblem(
            f"the signer has an unknown kind of identity: {issuer[:100]!r}", where=filename
        )
    workflow = build.partition("@")[0]
    return {"kind": kind, "repository": repository.removeprefix(site), key: workflow}


def _attestations(document: Any, filename: str) -> Iterator[tuple[Any, Any]]:
    pairs = [
        (bundle.publisher, attestation)
        for bundle in document.attestation_bundles
        for attestation in bundle.attestations
    ]
    if len(pairs) > _MAX_ATTESTATIONS:
        raise AttestationProblem(
            f"the provenance of the file has {len(pairs)} attestations, and at most "
            f"{_MAX_ATTESTATIONS} are allowed",
            where=filename,
        )
    yield from pairs


def _identity(publisher: Any) -> str:
    """Return a publisher as ``kind:name``; the omitted parts were verified as well."""
    kind = str(publisher.kind).lower()
    names = [getattr(publisher, part, None) for part in ("repository", "vcs_origin", "email")]
    name = next(filter(None, names), getattr(publisher, "project_id", ""))
    return f"{kind}:{str(name).lower()}"


def _library() -> Any:
    try:
        import pypi_attestations
    except ImportError:
        raise UserError(
            "attestations cannot be verified: the library for it is not installed",
            hint=install_hint("attestations"),
        ) from None
    # It warns each time that it uses no network, which is intended.
    logging.getLogger("sigstore._internal.tuf").setLevel(logging.ERROR)
    return pypi_attestations


def _first_line(error: Exception) -> str:
    """Return the first line of an error, with control characters escaped."""
    line = str(error).partition("\n")[0]
    return json.dumps(line[:300], ensure_ascii=True)[1:-1]
