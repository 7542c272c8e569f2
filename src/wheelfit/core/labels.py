"""Labels: the last part of a variant wheel's file name.

A label names one property set within a release (F-8). ``null`` is always the variant without
properties (F-6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

from wheelfit.core.digests import sha256_of
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from wheelfit.core.properties import PropertySet

Label = NewType("Label", str)
"""A text that passed `parse_label`."""

NULL = Label("null")
"""The variant without properties (F-6)."""
OLD_NULL = Label("00000000")
"""The label of the null variant in wheels of 2025, which is not converted (F-53)."""

_LABEL = pattern(r"[0-9a-z_.]+")
_USUAL_LENGTH = 32
"""Characters above which writers warn; old tools allow 16 (F-3)."""
RESERVED_NAMES = frozenset(
    ["con", "prn", "aux", "nul"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)
"""The file names reserved by Windows, with any extension too: ``con.x`` is ``con`` (F-4)."""


def is_label(text: str) -> bool:
    """Return whether a text may be a label (F-2)."""
    return _LABEL.fullmatch(text) is not None


def parse_label(text: str) -> Label:
    """Parse a label, without stripping, of any length (F-2, F-3).

    :raises UserError: ``invalid-label``; the text breaks F-2.
    """
    if not is_label(text):
        raise UserError(
            f"{text!r} is not a valid variant label",
            code="invalid-label",
            hint="use lower-case ASCII letters, digits, '_' and '.' only (F-2)",
        )
    return Label(text)


def writer_faults(label: Label) -> tuple[str, ...]:
    """Return the faults for which writers and indexes refuse a label that readers accept (F-4)."""
    faults: list[str] = []
    if not label.strip("."):
        faults.append(f"the label {label[:_USUAL_LENGTH]!r} consists of dots only")
    if label.split(".", 1)[0] in RESERVED_NAMES:
        faults.append(f"the label {label[:_USUAL_LENGTH]!r} is a reserved device name on Windows")
    return tuple(faults)


def writer_warnings(label: Label) -> tuple[str, ...]:
    """Return a writer's warnings for its user about a label (F-3)."""
    if len(label) <= _USUAL_LENGTH:
        return ()
    length = f"{len(label)} characters; choose at most {_USUAL_LENGTH} (F-3)"
    return (f"the label {label!r} has {length}",)


def derive_label(properties: PropertySet) -> Label:
    """Return the label for properties whose author chose none (F-141, F-142).

    >>> from wheelfit.core.properties import Property, PropertySet
    >>> derive_label(PropertySet.of(Property("x86_64", "level", "v3")))
    'fa7c1393'
    """
    if not properties:
        return NULL  # F-142: never the hash of nothing
    text = "".join(f"{item}\n" for item in properties)  # F-141: already ascending
    return Label(sha256_of(text.encode("utf-8")).hex()[:8])
