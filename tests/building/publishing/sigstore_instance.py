"""A sigstore of one's own on this machine: an authority, a log of certificates and one of entries.

Certificates, timestamps and proofs are real ones, by keys that are made for each test.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from web_servers import AnsweringServer

from wheelfit.server.messages import Request, Response

ISSUER = "https://token.actions.githubusercontent.com"
IDENTITY = "https://github.com/owner/fast/.github/workflows/release.yml@refs/heads/main"
_SCT = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_FULCIO = "1.3.6.1.4.1.57264.1"
_CLAIMS = {
    8: ISSUER,
    12: "https://github.com/owner/fast",
    14: "refs/heads/main",
    18: IDENTITY,
}
"""What certificates say of the job that signs, by the last number of its place: who vouches for it,
its repository, its branch and its workflow."""
_START = "2020-01-01T00:00:00Z"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _der_value(tag: int, data: bytes) -> bytes:
    length = bytes([len(data)]) if len(data) < 128 else struct.pack("!BH", 0x82, len(data))
    return bytes([tag]) + length + data


class Sigstore(AnsweringServer):
    """A certificate authority and a transparency log."""

    def __init__(self) -> None:
        super().__init__()
        self.ca, self.ct, self.log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        self.identities: list[dict[str, Any]] = []
        """Claims of those who got a certificate."""
        self.is_down = False
        now = datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.root = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.ca.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.ca.public_key()),
                           critical=False)
            .sign(self.ca, hashes.SHA256())
        )  # fmt: skip

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of clients: the root of trust, and the services."""
        service = {"url": self.origin, "majorApiVersion": 1, "validFor": {"start": _START},
                   "operator": "test"}  # fmt: skip
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [self._trusted(self.log)],
                "ctlogs": [self._trusted(self.ct)],
                "certificateAuthorities": [
                    {
                        "subject": {"organization": "test", "commonName": "authority"},
                        "uri": self.origin,
                        "certChain": {"certificates": [{"rawBytes": _text(self.root.public_bytes(
                            serialization.Encoding.DER))}]},
                        "validFor": {"start": _START},
                    }
                ],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "rekorTlogUrls": [service],
                "rekorTlogConfig": {"selector": "ANY"},
            },
        }  # fmt: skip

    def _trusted(self, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
        return {
            "baseUrl": self.origin,
            "hashAlgorithm": "SHA2_256",
            "publicKey": {"rawBytes": _text(_der(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                          "validFor": {"start": _START}},
            "logId": {"keyId": _text(hashlib.sha256(_der(key)).digest())},
        }  # fmt: skip

    def token(self, audience: str = "sigstore") -> str:
        """Return the identity token of a job."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": audience, "sub": IDENTITY,
                  "iat": now, "exp": now + 60}  # fmt: skip
        return str(jwt.encode(claims, self.ca, algorithm="ES256"))

    # --- what it answers --------------------------------------------------------------------

    def answer(self, request: Request) -> Response:
        """Answer a request."""
        status, told = self._answer(request, json.load(request.body))
        return Response.of(status, json.dumps(told).encode(), {})

    def _answer(self, request: Request, said: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.is_down:
            return 503, {"message": "down"}
        if request.path == "/api/v2/signingCert":
            shown = request.headers.get("authorization", "")
            claims = jwt.decode(shown.removeprefix("Bearer "), self.ca.public_key(),
                                algorithms=["ES256"], audience="sigstore")  # fmt: skip
            self.identities.append(claims)
            signing = x509.load_pem_x509_csr(base64.b64decode(said["certificateSigningRequest"]))
            chain = [self._certificate(signing.public_key(),
                                       claims["sub"]), self.root]  # fmt: skip
            texts = [one.public_bytes(serialization.Encoding.PEM).decode() for one in chain]
            return 201, {"signedCertificateEmbeddedSct": {"chain": {"certificates": texts}}}
        if request.path == "/api/v1/log/entries":
            return 201, self._entry(said["spec"]["proposedContent"])
        return 404, {}

    def _certificate(self, key: Any, subject: str) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.root.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]),
                           critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(
                self.ca.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName(
                [x509.UniformResourceIdentifier(subject)]), critical=True)
        )  # fmt: skip
        for number, claim in _CLAIMS.items():
            kind, value = ObjectIdentifier(f"{_FULCIO}.{number}"), _der_value(0x0C, claim.encode())
            builder = builder.add_extension(x509.UnrecognizedExtension(kind, value), critical=False)
        tbs = builder.sign(self.ca, hashes.SHA256()).tbs_certificate_bytes
        return builder.add_extension(
            x509.UnrecognizedExtension(_SCT, self._timestamp(tbs)), critical=False
        ).sign(self.ca, hashes.SHA256())

    def _timestamp(self, tbs: bytes) -> bytes:
        """Return the proof that a certificate is in a log (RFC 6962)."""
        moment = int(time.time() * 1000)
        entry = hashlib.sha256(_der(self.ca)).digest() + struct.pack("!I", len(tbs))[1:] + tbs
        data = struct.pack("!BBQH", 0, 0, moment, 1) + entry + struct.pack("!H", 0)
        signature = self.ct.sign(data, ec.ECDSA(hashes.SHA256()))
        log = hashlib.sha256(_der(self.ct)).digest()
        sct = b"\0" + log + struct.pack("!QH", moment, 0) + b"\4\3"
        sct += struct.pack("!H", len(signature)) + signature
        listed = struct.pack("!H", len(sct)) + sct
        return _der_value(0x04, struct.pack("!H", len(listed)) + listed)

    def _entry(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return a new entry of a log that has this one only, with its proofs."""
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        spec = {
            "envelopeHash": _sha256(content["envelope"].encode()),
            "payloadHash": _sha256(payload),
            "signatures": [{"signature": envelope["signatures"][0]["sig"],
                            "verifier": content["verifiers"][0]}],
        }  # fmt: skip
        body = _canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        log = hashlib.sha256(_der(self.log)).digest()
        entry = {"body": _text(body), "integratedTime": int(time.time()), "logID": log.hex(),
                 "logIndex": 0}  # fmt: skip
        promise = self.log.sign(_canonical(entry), ec.ECDSA(hashes.SHA256()))
        leaf = hashlib.sha256(b"\0" + body).digest()
        note = f"log.example\n1\n{_text(leaf)}\n"
        signed = log[:4] + self.log.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        proof = {"checkpoint": f"{note}\n— log.example {_text(signed)}\n", "hashes": [],
                 "logIndex": 0, "rootHash": leaf.hex(), "treeSize": 1}  # fmt: skip
        return {
            "entry": {
                **entry,
                "verification": {"inclusionProof": proof, "signedEntryTimestamp": _text(promise)},
            }
        }


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _sha256(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
