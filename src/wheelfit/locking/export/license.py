"""The licence that a project declares, in any of the fields that core metadata has had for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

if TYPE_CHECKING:
    from wheelfit.core.core_metadata import LicenseFields

_MAX_NAME_LENGTH = 120
"""The longest name of a licence in characters; a longer text is the licence itself."""

_UNSTATED = "unknown"
"""The text that old build tools wrote for an unstated licence."""


@dataclass(frozen=True, slots=True)
class License:
    """A declared licence."""

    kind: Literal["expression", "name", "unknown"]
    """The form of the text: an SPDX expression, another name, or ``unknown``."""
    text: str
    """The expression or name, in one line."""
    source: str = ""
    """The metadata field it comes from; empty: none."""
    files: tuple[str, ...] = ()
    """The declared paths of the licence files in the wheel."""


def license_of(fields: LicenseFields) -> License:
    """Return the licence that metadata declares (PEP 639, and older fields).

    >>> from wheelfit.core.core_metadata import LicenseFields
    >>> license_of(LicenseFields(expression="mit OR apache-2.0")).text
    'MIT OR Apache-2.0'
    """
    files = tuple(map(_clean, fields.files))
    if fields.expression:
        try:
            expression = canonicalize_license_expression(fields.expression)
        except InvalidLicenseExpression:
            name = _shortened(_clean(fields.expression))
            return License("name", name, "License-Expression", files)
        return License("expression", str(expression), "License-Expression", files)
    text = _clean(fields.text)
    if text.lower() == _UNSTATED:
        text = ""
    if text and len(text) <= _MAX_NAME_LENGTH:
        return License("name", text, "License", files)
    names = [_clean(classifier.rpartition("::")[2]) for classifier in fields.classifiers]
    if names:
        return License("name", _shortened("; ".join(dict.fromkeys(names))), "Classifier", files)
    if text:  # the whole text in place of a name; its beginning identifies it
        return License("name", _shortened(text), "License", files)
    return License("unknown", "unknown", "", files)


def _clean(text: str) -> str:
    """Return a text as one line of printable characters, which every export format accepts."""
    encodable = text.encode("utf-8", "replace").decode("utf-8")
    return " ".join(
        "".join(character if character.isprintable() else " " for character in encodable).split()
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 1]}…"
