"""TOML of strangers is read in bounded time, or refused."""

from __future__ import annotations

import tomllib

import pytest

from wheelfit.core.strict_toml import load


def test_a_document() -> None:
    """P-44: a sound document is read as the standard library reads it."""
    text = 'a.b = "x.y.z"\n[[c."d e".f]]\ng = [1, 2.5, 1979-05-27]\n# ' + "a." * 40 + "\n"
    assert load(text.encode()) == tomllib.loads(text)


def test_version_1_1() -> None:
    """An inline table may have several lines, as in TOML 1.1."""
    assert load(b"a = {\n  b = 1, # one\n}\n") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a", "after a key"),
        (b"a = 1\n\xff", r"not UTF-8: invalid start byte \(at line 2, column 1\)"),
        (b"a = [1,\n", r"invalid value \(at line 1, column 8, where the document ends\)"),
        (b"a = 1\na = 2", r"overwrite a value \(at line 2, column 6, where"),
        ('a = 1\nb = "ä'.encode(), r"unterminated string \(at line 2, column 7, where"),
        (b"a." * 100_000 + b"a = 1", "nested deeper than the limit of 32"),
        (b"a . " * 100_000 + b"a = 1", "nested deeper than the limit of 32"),
        (b'"a".' * 100_000 + b"a = 1", "nested deeper than the limit of 32"),
        (b"[[" + b"'a'." * 50_000 + b"a]]", "nested deeper than the limit of 32"),
        (b"a = " + b"9" * 5000, "a number that cannot be read"),
        (b"a = " + b"[" * 100_000, "nested deeper than the limit of 32"),
        (b"a" * 3_000_000, "after a key"),
        (b'a = "' + b"." * 5_000_000 + b'"', "more than 4194304 bytes"),
        (b"[[a]]\n" * 130_000, "more than 1000000 entries"),
        (b" [[a]]\n" * 130_000, "more than 1000000 entries"),
    ],
    ids=range(15),
)
def test_what_is_refused(data: bytes, message: str) -> None:
    """P-44: what is none, or would take the parser for ever, is refused with the reason."""
    with pytest.raises(ValueError, match=message):
        load(data)
