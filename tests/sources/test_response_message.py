"""Claims about the message in a server's answer."""

from __future__ import annotations

import pytest

from wheelfit.sources.response_message import response_message

NGINX = (
    "<html>\r\n<head><title>403 Forbidden</title></head>\r\n<body>\r\n"
    "<center><h1>403 Forbidden</h1></center>\r\n<hr><center>nginx</center>\r\n"
)
APACHE = (
    "<!DOCTYPE HTML><html><head>\n<title>403 Forbidden</title>\n</head><body>\n"
    "<h1>Forbidden</h1>\n<p>You may not read it.</p>"
)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (NGINX, "403 Forbidden nginx"),
        (APACHE, "Forbidden You may not read it."),
        ("<html><title>Index</title><h1>403 Forbidden</h1>", "Index 403 Forbidden"),
        ("<html><title>403</title><p>no such file", "403 no such file"),
        ("<html><title>403 Forbidden</title></html>", "403 Forbidden"),
    ],
)
def test_title(page: str, message: str) -> None:
    """A title that a heading repeats is not stated twice."""
    assert response_message("Forbidden", page.encode()) == message
