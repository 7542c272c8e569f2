"""The certificates to trust over TLS, and the client certificate."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration, os_reason

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping


_UNREADABLE = "the certificates to trust cannot be read"
_UNREADABLE_CLIENT_CERT = "the client certificate cannot be read"
_SETTING_HINT = "correct or remove the setting; wheelfit does not use other certificates instead"
_CLIENT_CERT_HINT = "it must be a PEM file with the certificate and its private key, unencrypted"
_BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def verifying_context(
    cert: str | None, client_cert: str | None, *, environ: Mapping[str, str]
) -> ssl.SSLContext:
    """Return the context for servers whose certificate is verified.

    Only the named certificates are trusted: ``cert``, else the first of ``REQUESTS_CA_BUNDLE``,
    ``CURL_CA_BUNDLE`` and ``SSL_CERT_FILE`` with ``SSL_CERT_DIR``. If none is named, the system
    decides. A named file or folder that cannot be read is an error, not a reason to fall back on
    the system.

    :param cert: file or folder of certificates (PEM).
    :param client_cert: PEM file with a private key and its certificate.
    :raises InvalidConfiguration: a named file or folder is not usable.
    """
    import ssl  # 5 ms, only for the network

    named = _named(cert, environ)
    if named:
        # Without the certificates that the system trusts.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for setting, path in named:
            _load_trusted(context, setting, path)
    else:
        import truststore

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if client_cert is not None:
        _load_client_cert(context, client_cert)
    return context


def check_named(cert: str | None, client_cert: str | None, *, environ: Mapping[str, str]) -> None:
    """Check that all named files and folders exist, which is cheap; contexts check their content.

    :raises InvalidConfiguration: a named file or folder does not exist or cannot be opened.
    """
    for setting, text in _named(cert, environ):
        with _reading(_UNREADABLE, text, f"named by {setting}: ", _SETTING_HINT) as path:
            _check_readable(path)
    if client_cert is not None:
        with _reading(_UNREADABLE_CLIENT_CERT, client_cert, "", _CLIENT_CERT_HINT) as path:
            _check_readable(path)


def unverified_context(client_cert: str | None) -> ssl.SSLContext:
    """Return the context for trusted hosts, whose certificate is not verified.

    :raises InvalidConfiguration: the client certificate is not usable.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if client_cert is not None:
        _load_client_cert(context, client_cert)
    return context


def _named(cert: str | None, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the named files and folders of certificates, each with the setting that names it."""
    if cert is not None:
        return [("cert", cert)]
    for name in _BUNDLE_VARIABLES:
        if environ.get(name):
            return [(name, environ[name])]
    named = [("SSL_CERT_FILE", environ["SSL_CERT_FILE"])] if environ.get("SSL_CERT_FILE") else []
    folders = [folder for folder in environ.get("SSL_CERT_DIR", "").split(os.pathsep) if folder]
    # As in OpenSSL, some of several folders may be missing, but not all.
    existing = [folder for folder in folders if Path(folder).is_dir()] or ([] if named else folders)
    return named + [("SSL_CERT_DIR", folder) for folder in existing]


@contextmanager
def _reading(message: str, text: str, note: str, hint: str) -> Iterator[Path]:
    """Yield the path of a named file or folder; raise errors of reading it with a message.

    :param note: the text before the reason in the note of the error.
    """
    path = Path(os.path.expanduser(text))  # noqa: PTH111  # an unknown user is not an error yet
    try:
        yield path
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidConfiguration(
            message, where=str(path), note=note + _message(error), hint=hint
        ) from error


def _check_readable(path: Path) -> None:
    if not path.is_dir():
        path.open("rb").close()


def _load_trusted(context: ssl.SSLContext, setting: str, text: str) -> None:
    with _reading(_UNREADABLE, text, f"named by {setting}: ", _SETTING_HINT) as path:
        if path.is_dir():
            context.load_verify_locations(capath=str(path))
            return
        context.load_verify_locations(cafile=str(path))
    if not context.get_ca_certs() and not context.cert_store_stats().get("x509"):
        raise InvalidConfiguration(
            "the file of certificates to trust contains no certificate",
            where=str(path),
            note=f"named by {setting}",
        )


def _load_client_cert(context: ssl.SSLContext, text: str) -> None:
    with _reading(_UNREADABLE_CLIENT_CERT, text, "", _CLIENT_CERT_HINT) as path:
        context.load_cert_chain(str(path), password=_no_password)


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal.
    return ""


def _message(error: Exception) -> str:
    import ssl

    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return os_reason(error)
