"""A private internet: named hosts on loopback, reached through a proxy with HTTPS.

Programs that honour ``HTTPS_PROXY`` and a certificate file from the environment, as wheelfit, pip
and uv do, find the hosts under their real names, so that tests can depend on host names.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self


class Document(NamedTuple):
    """The document of a host at a path."""

    content: bytes
    content_type: str = "application/octet-stream"
    status: int = 200
    location: str = ""
    """The target of a redirect."""


class FakeHost(Protocol):
    """The content of a host."""

    def __call__(self, path: str) -> Document | None:
        """Return the document at a path, such as ``/simple/torch/``; None: there is none."""


class Internet:
    """A private internet of named hosts, which can be reached until `close` is called.

    :param folder: the folder for certificates; it is created if it does not exist.
    :param hosts: the hosts by name; others are unreachable.
    """

    def __init__(self, folder: Path, hosts: Mapping[str, FakeHost]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.hosts = dict(hosts)
        """The hosts; a removed host becomes unreachable."""
        self.requests: list[str] = []
        """The requested addresses, in order."""
        self._folder = folder
        self._lock = Lock()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._authority_name = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, "test authority")]
        )
        self._authority = folder / "authority.pem"
        self._authority.write_bytes(self._certificate(None).public_bytes(Encoding.PEM))
        self._server = _Server(self)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def environ(self) -> dict[str, str]:
        """The environment variables by which programs reach these hosts alone."""
        proxy = f"http://127.0.0.1:{self._server.server_address[1]}"
        names = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
        return {
            "HTTPS_PROXY": proxy,
            "HTTP_PROXY": proxy,
            "NO_PROXY": "127.0.0.1,localhost",
            **dict.fromkeys(names, str(self._authority)),
        }

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def context(self, host: str) -> ssl.SSLContext:
        """Return the TLS context of a host."""
        with self._lock:
            if host not in self._contexts:
                path = self._folder / f"{host}.pem"
                key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                path.write_bytes(key + self._certificate(host).public_bytes(Encoding.PEM))
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(path)
                self._contexts[host] = context
            return self._contexts[host]

    def _certificate(self, host: str | None) -> x509.Certificate:
        """Return the certificate of a host; without a host that of the authority."""
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])]) if host else None
        public = self._key.public_key()
        key_id = x509.SubjectKeyIdentifier.from_public_key(public)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject or self._authority_name)
            .issuer_name(self._authority_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(host is None, None), critical=True)
            .add_extension(key_id, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id),
                critical=False,
            )
        )
        if host is not None:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, SHA256())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, internet: Internet) -> None:
        self.internet = internet
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_: object) -> None:
        """Print nothing if a client closes its connection."""


class _Handler(BaseHTTPRequestHandler):
    """A proxy that answers for all hosts."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        host = self.path.rpartition(":")[0]
        if host not in self.server.internet.hosts:
            self.send_error(502)
            self.close_connection = True
            return
        self.send_response(200)
        self.end_headers()
        context = self.server.internet.context(host)
        self._tls = context.wrap_socket(self.connection, server_side=True)
        self._host = host
        self.rfile = self._tls.makefile("rb")
        self.wfile = self._tls.makefile("wb", 0)  # type: ignore[assignment]
        self.close_connection = False  # also if the CONNECT request has HTTP/1.0

    def do_GET(self) -> None:
        host, path = getattr(self, "_host", ""), self.path
        if not host and path.startswith("http://"):  # a request to the proxy, without a tunnel
            host, _, rest = path.removeprefix("http://").partition("/")
            path = f"/{rest}"
            self.server.internet.requests.append(f"http://{host}{path}")
        else:
            self.server.internet.requests.append(f"https://{host}{path}")
        serve = self.server.internet.hosts.get(host)
        answer = serve(path.partition("?")[0]) if serve is not None else None
        if answer is None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body, status = answer.content, answer.status
        start, end = 0, len(body)
        requested_range = self.headers.get("Range", "").removeprefix("bytes=")
        if requested_range and "," not in requested_range and status == 200:
            first, _, last = requested_range.partition("-")
            start = int(first) if first else max(0, end - int(last))
            end = min(end, int(last) + 1) if first and last else end
            status = 206
        self.send_response(status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{len(body)}"')
        if answer.location:
            self.send_header("Location", answer.location)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[start:end])

    def finish(self) -> None:
        super().finish()
        tls = getattr(self, "_tls", None)
        if tls is not None:
            tls.close()

    do_HEAD = do_GET  # noqa: N815 - as inherited

    def log_message(self, *_: object) -> None:
        """Print nothing."""
