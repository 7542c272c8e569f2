"""A signing authority for tests, whose attestations are trusted by tests only (PEP 740).

The services of Sigstore are replaced by keys: certificates with the claims of a workflow, a log of
certificates and a log of signatures. Its attestations are valid for every program that reads its
root of trust, to test signing, publishing and verification.
"""

from __future__ import annotations

import hashlib
import json
import struct
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TUF = "https://tuf-repo-cdn.sigstore.dev"
"""The URL of Sigstore's root of trust; the folder of its cached copy is named after it."""
_ORIGIN = "log.invalid"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_PREDICATE = "https://docs.pypi.org/attestations/publish/v1"
_ISSUER = "https://token.actions.githubusercontent.com"
_TIMESTAMPS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")  # RFC 6962, 3.3
_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


class _Key:
    """A key of the authority."""

    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.public = self.private.public_key()
        self.der = self.public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(self.der).digest()

    def sign(self, data: bytes) -> bytes:
        return self.private.sign(data, ec.ECDSA(SHA256()))


class SigningAuthority:
    """A maker of attestations by the workflow ``release.yml`` of a repository on GitHub.

    :param repository: ``OWNER/NAME``.
    """

    def __init__(self, repository: str) -> None:
        self._repository = f"https://github.com/{repository}"
        self._build = f"{self._repository}/.github/workflows/release.yml@refs/heads/main"
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._root_key = _Key()
        self._certificate_log_key, self._signature_log_key = _Key(), _Key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._root_key, self._name, "key_cert_sign", "crl_sign")
        builder = builder.add_extension(constraints, critical=True)
        self._authority = builder.sign(self._root_key.private, SHA256())

    def attest(self, filename: str, sha256: str) -> bytes:
        """Return an attestation, as JSON, that the workflow published a file."""
        statement = _json({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": filename, "digest": {"sha256": sha256}}],
            "predicateType": _PREDICATE,
            "predicate": None,
        })  # fmt: skip
        signer = _Key()
        certificate = self._certificate(signer)
        head = f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(statement)} "
        signature = signer.sign(head.encode() + statement)
        return _json({
            "version": 1,
            "verification_material": {
                "certificate": _base64(certificate.public_bytes(Encoding.DER)),
                "transparency_entries": [self._log_entry(statement, signature, certificate)],
            },
            "envelope": {"statement": _base64(statement), "signature": _base64(signature)},
        })  # fmt: skip

    def trust(self, folder: Path) -> Mapping[str, str]:
        """Write the root of trust; return variables that make programs use it for Sigstore's.

        This works on Linux, for programs that verify without a network.
        """
        cache = folder / "sigstore-python" / "tuf" / quote(_TUF, safe="")
        cache.mkdir(parents=True)
        (cache / "trusted_root.json").write_bytes(_json(self._trusted_root()))
        return {"XDG_CACHE_HOME": str(folder)}

    def _trusted_root(self) -> dict[str, object]:
        period = {"start": (self._now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def log(key: _Key) -> dict[str, object]:
            public = {
                "rawBytes": _base64(key.der),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": period,
            }
            return {
                "baseUrl": f"https://{_ORIGIN}",
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": _base64(key.id)},
            }

        authority = self._authority.public_bytes(Encoding.DER)
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self._signature_log_key)],
            "ctlogs": [log(self._certificate_log_key)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "test", "commonName": "test authority"},
                    "uri": f"https://{_ORIGIN}",
                    "certChain": {"certificates": [{"rawBytes": _base64(authority)}]},
                    "validFor": period,
                }
            ],
        }

    # --- certificates --------------------------------------------------------------------

    def _builder(self, key: _Key, subject: x509.Name, *usages: str) -> x509.CertificateBuilder:
        identifier = x509.SubjectKeyIdentifier.from_public_key
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(minutes=5))
            .not_valid_after(self._now + timedelta(days=1))
            .add_extension(identifier(key.public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root_key.public),
                critical=False,
            )
            .add_extension(
                x509.KeyUsage(**{usage: usage in usages for usage in _USAGES}), critical=True
            )
        )

    def _certificate(self, signer: _Key) -> x509.Certificate:
        """Return a certificate of the workflow, with the timestamp of the log of certificates."""
        subject = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(self._build)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        builder = self._builder(signer, x509.Name([]), "digital_signature")
        builder = builder.add_extension(subject, critical=True).add_extension(usage, critical=False)
        # Issuer, repository, ref and workflow, by the last number of their ids at Fulcio.
        claims = {8: _ISSUER, 12: self._repository, 14: "refs/heads/main", 18: self._build}
        for number, text in claims.items():
            claim = x509.ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}")
            value = _der(0x0C, text.encode())
            builder = builder.add_extension(
                x509.UnrecognizedExtension(claim, value), critical=False
            )
        timestamps = self._timestamps(builder.sign(self._root_key.private, SHA256()))
        extension = x509.UnrecognizedExtension(_TIMESTAMPS, timestamps)
        return builder.add_extension(extension, critical=False).sign(
            self._root_key.private, SHA256()
        )

    def _timestamps(self, certificate: x509.Certificate) -> bytes:
        """Return the list of one timestamp of a certificate (RFC 6962, 3.2 and 3.3)."""
        content = certificate.tbs_certificate_bytes
        time = int(self._now.timestamp()) * 1000
        entry = self._root_key.id + len(content).to_bytes(3) + content
        # Version, kind of the signature, time, kind of the entry; then the entry, no extensions.
        signature = self._certificate_log_key.sign(
            struct.pack("!BBQH", 0, 0, time, 1) + entry + b"\0\0"
        )
        # Version, id of the log, time, no extensions; then the signature with its algorithms.
        stamp = struct.pack("!B32sQH", 0, self._certificate_log_key.id, time, 0)
        stamp += struct.pack("!BBH", 4, 3, len(signature)) + signature  # SHA-256, ECDSA
        return _der(0x04, struct.pack("!HH", len(stamp) + 2, len(stamp)) + stamp)

    # --- the log of signatures -----------------------------------------------------------

    def _log_entry(
        self, statement: bytes, signature: bytes, certificate: x509.Certificate
    ) -> dict[str, object]:
        """Return the only entry of a log, with timestamp and proof of inclusion."""
        key = self._signature_log_key
        body = _json({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": _hash(statement + signature),
                "payloadHash": _hash(statement),
                "signatures": [
                    {
                        "signature": _base64(signature),
                        "verifier": _base64(certificate.public_bytes(Encoding.PEM)),
                    }
                ],
            },
        })  # fmt: skip
        time = int(self._now.timestamp())
        timestamp = _json(
            {"body": _base64(body), "integratedTime": time, "logID": key.id.hex(), "logIndex": 0}
        )
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"{_ORIGIN}\n1\n{_base64(root)}\n"
        note_signature = _base64(key.id[:4] + key.sign(note.encode()))
        return {
            "logIndex": "0",
            "logId": {"keyId": _base64(key.id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(time),
            "inclusionPromise": {"signedEntryTimestamp": _base64(key.sign(timestamp))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _base64(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n— {_ORIGIN} {note_signature}\n"},
            },
            "canonicalizedBody": _base64(body),
        }


def _json(value: object) -> bytes:
    """Return canonical JSON (RFC 8785); sufficient for these values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _hash(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:  # X.690, 8.1.3
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 + len(length)]) + length + content
