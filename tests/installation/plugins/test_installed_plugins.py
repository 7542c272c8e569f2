"""Plugins by their entry points."""

from __future__ import annotations

import pytest

from wheelfit.installation.plugins.installed_plugins import plugin_entry_points


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"[console_scripts]\nx = y:z\n", []),
        (b"[variant_plugins]\nName = a.b : C.d [extra]\n", [("Name", "a.b:C.d")]),
        (b"[variant_plugins]\na = m\nb = n:P\n", [("a", "m"), ("b", "n:P")]),
        (b"[variant_plugins]\na = no endpoint\n", []),
        (b"[variant_plugins]\na = m\na = n\n", [("a", "n")]),
        (b"no section = x\n", []),
        (b"[variant_plugins\n", []),
        (b"[variant_plugins]\na = %(x)s\n", []),
        (b"\xff\xfe\x00", []),
    ],
)
def test_entry_points(text: bytes, expected: list[tuple[str, str]]) -> None:
    """P-32: names mean nothing and are kept as they are; what cannot be read lists nothing."""
    assert list(plugin_entry_points(text)) == expected
