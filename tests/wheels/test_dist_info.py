"""Headers of METADATA and WHEEL are found without reading all of them."""

from __future__ import annotations

import email

import pytest

from wheelfit.wheels.dist_info import header_value

LICENSE = b"""\
Metadata-Version: 2.1
Name: fast
License: Copyright
BLANK
        Requires-Python: nothing of the kind
\tVersion: neither
Requires-Python: >=3.9
Version: 1.0

Summary: the body has none
""".replace(b"BLANK", b"        ")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["Name", "requires-python", "VERSION", "Summary", "License"])
def test_headers_are_those_that_mail_has(name: str, ending: bytes) -> None:
    """A licence of many lines, blank ones among them, neither ends the headers nor has some."""
    text = LICENSE.replace(b"\n", ending)
    whole = email.message_from_bytes(text)[name]
    first = None if whole is None else str(whole).splitlines()[0].strip()
    assert header_value(text, name) == first
