"""The licence that metadata declares."""

from __future__ import annotations

import pytest

from wheelfit.core.core_metadata import LicenseFields, read_metadata
from wheelfit.locking.export.license import license_of


@pytest.mark.parametrize(
    ("fields", "kind", "text", "source"),
    [
        (LicenseFields("mit or apache-2.0", "x"), "expression", "MIT OR Apache-2.0",
         "License-Expression"),
        (LicenseFields("LicenseRef-Ours"), "expression", "LicenseRef-Ours", "License-Expression"),
        (LicenseFields("my own"), "name", "my own", "License-Expression"),
        (LicenseFields(text="BSD", classifiers=("License :: OSI Approved :: MIT License",)),
         "name", "BSD", "License"),
        (LicenseFields(text="Copyright " * 40, classifiers=(
            "License :: OSI Approved :: MIT License", "License :: Free For Home Use")),
         "name", "MIT License; Free For Home Use", "Classifier"),
        (LicenseFields(text="y" * 200), "name", "y" * 119 + "…", "License"),
        (LicenseFields(text="a\x1b[31m\u202eb\udcff\nc"), "name", "a [31m b?\u0020c", "License"),
        (LicenseFields(text="UNKNOWN"), "unknown", "unknown", ""),
        (LicenseFields(), "unknown", "unknown", ""),
    ],
)  # fmt: skip
def test_the_newest_field_counts(fields: LicenseFields, kind: str, text: str, source: str) -> None:
    """An expression, else a name, else classifiers; in one line that every format can hold."""
    found = license_of(fields)
    assert (found.kind, found.text, found.source) == (kind, text, source)


def test_from_metadata() -> None:
    """Each field is read as written; classifiers of other things are none."""
    core = read_metadata(
        b"Metadata-Version: 2.4\nName: a\nVersion: 1\nLicense-Expression: MIT\n"
        b"License-File: LICENSE\nLicense-File: doc/other.txt\nLicense: old\n"
        b"Classifier: License :: OSI Approved\nClassifier: Typing :: Typed\n\n",
        "a",
    )
    assert core.license == LicenseFields(
        "MIT", "old", ("License :: OSI Approved",), ("LICENSE", "doc/other.txt")
    )
    assert license_of(core.license).files == ("LICENSE", "doc/other.txt")
