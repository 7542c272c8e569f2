"""Whom TLS trusts is what the user says."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import truststore

from wheelfit.sources.certificates import unverified_context, verifying_context
from wheelfit_runtime.errors import InvalidConfiguration

CERTIFICATES = Path(__file__).parent / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")


def test_system_by_default() -> None:
    """Nothing named: the system decides."""
    assert isinstance(verifying_context(None, None, environ={}), truststore.SSLContext)


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_variables(variable: str) -> None:
    """A named file is the only thing trusted."""
    context = verifying_context(None, None, environ={variable: AUTHORITY})
    (trusted,) = context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "wheelfit test server"),),)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_setting_before_variables(tmp_path: Path) -> None:
    """The setting comes before any variable, which may then be as broken as it likes."""
    environ = {"REQUESTS_CA_BUNDLE": str(tmp_path / "absent")}
    assert verifying_context(AUTHORITY, None, environ=environ).get_ca_certs()


def test_folders(tmp_path: Path) -> None:
    """Folders are fine; one of several may be missing."""
    folders = os.pathsep.join([str(tmp_path / "absent"), str(CERTIFICATES)])
    verifying_context(None, None, environ={"SSL_CERT_DIR": folders})
    verifying_context(str(CERTIFICATES), None, environ={})


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"\xff\x00"])
def test_a_broken_file_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    """A named file that cannot be used never means the system's certificates."""
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_bytes(content)
    for cert, environ in ((str(path), {}), (None, {"SSL_CERT_FILE": str(path)})):
        with pytest.raises(InvalidConfiguration) as excinfo:
            verifying_context(cert, None, environ=environ)
        assert excinfo.value.where == str(path)


def test_no_folder_at_all(tmp_path: Path) -> None:
    """If no named folder exists, that is an error too."""
    with pytest.raises(InvalidConfiguration):
        verifying_context(None, None, environ={"SSL_CERT_DIR": str(tmp_path / "absent")})


def test_client_certificate() -> None:
    """A file with key and certificate is taken; one without the key is an error."""
    verifying_context(AUTHORITY, str(CERTIFICATES / "client.pem"), environ={})
    unverified_context(str(CERTIFICATES / "client.pem"))
    for bad in (AUTHORITY, "/absent"):
        with pytest.raises(InvalidConfiguration, match="client certificate"):
            verifying_context(None, bad, environ={})
