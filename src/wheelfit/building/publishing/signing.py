"""Attestations of published files: signatures with the identity of a CI job (PEP 740).

Sigstore issues a certificate for the identity, and a public log records signatures; no key is
stored. `sources.attestations` verifies them.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wheelfit.building.publishing.release_files import ATTESTATION, OutgoingFile
from wheelfit.building.publishing.trusted_publishing import identity
from wheelfit.errors import AttestationProblem, NeedsExtra
from wheelfit.wheels.atomic_write import new_file, write_all
from wheelfit_runtime.errors import FileProblem, Unreachable, WheelfitError, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


_AUDIENCE = "sigstore"
_TOKEN_VARIABLE = "SIGSTORE_ID_TOKEN"  # noqa: S105 - the name of a variable
"""The variable with a token of the identity, which GitLab sets; usable in any CI service."""


def attest(
    files: Iterable[OutgoingFile], environ: Mapping[str, str], instance: Path | None = None
) -> tuple[Path, ...]:
    """Sign files, and write ``FILE.publish.attestation`` beside each of them.

    :param files: files without an attestation.
    :param instance: the path of the client trust configuration of a sigstore instance; None: the
        public instance.
    :raises NeedsExtra: the library is not installed.
    :raises InvalidConfiguration: this process has no identity.
    :raises AttestationProblem: a file cannot be signed.
    :raises Unreachable: sigstore cannot be reached.
    """
    try:
        from pypi_attestations import Attestation, AttestationError
        from sigstore.oidc import ExpiredIdentity
        from sigstore.sign import (  # type: ignore[attr-defined]
            ExpiredCertificate,  # which signing raises
            SigningContext,
        )
    except ImportError:
        raise NeedsExtra("attestations", "pypi-attestations") from None
    # Sigstore warns of any instance other than the public one.
    logging.getLogger("sigstore").setLevel(logging.ERROR)
    configuration = _configuration(instance)
    paths = []
    with (
        _converted_errors(),
        SigningContext.from_trust_config(configuration).signer(_token(environ)) as signer,
    ):
        for file in files:
            try:
                bundle = signer.sign_dsse(_statement(file.filename, file.sha256))
                attestation = Attestation.from_bundle(bundle)
            except (AttestationError, ExpiredCertificate, ExpiredIdentity) as error:
                reason = str(error) or "the identity of the job has expired"
                raise AttestationProblem(
                    f"the file cannot be signed: {reason}", where=str(file.path)
                ) from None
            path = file.path.with_name(f"{file.filename}{ATTESTATION}")
            with new_file(path, overwrite=False) as content:
                write_all(content, attestation.model_dump_json().encode())
            paths.append(path)
    return tuple(paths)


def _statement(filename: str, sha256: str) -> Any:
    """Return the statement of PEP 740 that a file was published.

    ``Attestation.sign`` makes the same, but refuses file names with a label.
    """
    from pypi_attestations import AttestationType
    from sigstore.dsse import DigestSet, StatementBuilder, Subject

    subject = Subject(name=filename, digest=DigestSet(root={"sha256": sha256}))
    predicate = AttestationType.PYPI_PUBLISH_V1
    return StatementBuilder().subjects([subject]).predicate_type(predicate).build()


def _configuration(instance: Path | None) -> Any:
    from sigstore.models import ClientTrustConfig

    if instance is None:
        with _converted_errors():
            return ClientTrustConfig.production()
    try:
        text = instance.read_text("utf-8")
    except OSError as error:
        message = f"the file cannot be read: {os_reason(error)}"
        raise FileProblem(message, where=str(instance)) from None
    except UnicodeDecodeError:
        raise FileProblem("the file is not UTF-8", where=str(instance)) from None
    try:
        return ClientTrustConfig.from_json(text)
    except (ValueError, LookupError, TypeError) as error:
        raise FileProblem(
            f"the file is not a sigstore trust configuration: {str(error).splitlines()[0][:200]}",
            where=str(instance),
        ) from None


def _token(environ: Mapping[str, str]) -> Any:
    from sigstore.oidc import IdentityError, IdentityToken

    try:
        return IdentityToken(identity(_AUDIENCE, environ, "sigstore", variable=_TOKEN_VARIABLE))
    except IdentityError as error:
        raise AttestationProblem(f"nothing can be signed: {error}", where=_TOKEN_VARIABLE) from None


@contextmanager
def _converted_errors() -> Iterator[None]:
    """Convert errors of sigstore, of the network and of the root of trust to `Unreachable`."""
    try:
        yield
    except WheelfitError:
        raise
    except Exception as error:
        # Errors of sigstore have no common base class; those of requests are OSErrors.
        if not isinstance(error, OSError) and not type(error).__module__.startswith("sigstore."):
            raise
        reason = str(error.__cause__ or error).strip() or type(error).__name__
        raise Unreachable(
            f"files cannot be signed: {reason.splitlines()[0][:300]}",
            where="sigstore",
            hint="without --attest they are published unsigned",
        ) from None
