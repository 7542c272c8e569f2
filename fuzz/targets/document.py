"""Variant metadata documents: lenient, strict and writing agree (F-20 to F-57, F-130 to F-136)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.core.index_metadata import combine
from wheelfit.core.labels import is_label
from wheelfit.core.metadata import (
    check_document,
    losses,
    read_document,
    to_mapping,
    write_document,
    writing_faults,
)
from wheelfit.core.properties import EMPTY
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.strict_json import JsonLimits, load
from wheelfit_runtime.errors import InvalidDocument

if TYPE_CHECKING:
    from wheelfit.core.document import VariantDocument

LONGEST = 4096
"""Bytes of an input."""

TIGHT = JsonLimits(size=200, depth=3, labels=2, values=4)
"""So small that short inputs reach them."""

MANY_WORDS = 3000
"""Characters, which few short sentences and a path in a document have."""


def check(data: bytes) -> None:
    """Hold the readers and the writer of documents to their rules for some bytes."""
    check_json(data, JsonLimits())
    check_json(data, TIGHT)
    faults = check_document(data)
    for fault in faults:
        check_words(fault.message)
        check_words(fault.path)
    for accept in (False, True):
        lenient = read(data, accept=accept)
        strict = read(data, accept=accept, strict=True)
        if lenient is None:
            assert strict is None
            assert check_document(data, accept_unknown_drafts=accept)
            continue
        check_model(lenient)
        assert strict is None or strict == lenient
        found = check_document(data, accept_unknown_drafts=accept)
        if not found:
            # F-131: without a fault nothing is lost.
            assert strict is not None
            assert not lenient.unusable
            assert not any(isinstance(item, BrokenProvider) for item in lenient.providers.values())
            if not accept and lenient.layout in {"L5", "L7"}:
                # Only a built-in provider of the future needs words (P-8), and old layouts.
                assert all("(P-8)" in note for note in lenient.notes)
                check_reordered(data, lenient)
            check_combined(lenient)
        check_writing(lenient)
        plain = json.loads(data)
        assert read(plain, accept=accept) == lenient
        assert check_document(plain, accept_unknown_drafts=accept) == found


def read(data: Any, *, accept: bool, strict: bool = False) -> VariantDocument | None:
    """Read a document; none when it is refused."""
    try:
        return read_document(data, where="x", accept_unknown_drafts=accept, strict=strict)
    except InvalidDocument as error:
        assert error.faults
        assert error.where == "x"
        return None


def check_model(document: VariantDocument) -> None:
    """Check that what is read keeps the promises of the model."""
    assert not document.unusable.keys() & document.variants.keys()
    assert bool(document.notes) or not document.unusable
    for words in (*document.notes, *document.unusable.values()):
        check_words(words)
    for label, properties in document.variants.items():
        assert is_label(label)
        assert set(properties.namespaces) <= set(document.priorities)
        if label == "null":
            assert properties == EMPTY  # F-6


def check_words(words: str) -> None:
    """Check that what is said fits into a few lines and cannot steer a terminal (F-136)."""
    assert words.isprintable()
    assert len(words) < MANY_WORDS


def check_writing(document: VariantDocument) -> None:
    """Check that what may be written is flawless and reads back as it was (F-29, F-132)."""
    for layout in ("850", "825"):
        faults = writing_faults(document, layout)
        try:
            data = write_document(document, layout, accept_losses=True)
        except InvalidDocument as error:
            assert faults
            assert error.faults == faults
            continue
        assert not faults
        assert check_document(data) == ()
        again = read_document(data, where="y")
        assert again.priorities == document.priorities
        assert again.variants == document.variants
        if layout == "850":
            assert again.providers == {
                # F-56: the condition of an old layout cannot be said.
                name: replace(provider, enabled_by=None)
                for name, provider in document.providers.items()
                if not isinstance(provider, BrokenProvider)
            }
        assert write_document(again, layout) == data
        assert losses(again) == ()
        assert to_mapping(again, layout) == json.loads(data)


def check_reordered(data: bytes, document: VariantDocument) -> None:
    """Check that the order of keys and blanks mean nothing in a flawless document (F-29).

    In old layouts the order of features can be that of the document (F-50).
    """
    plain = json.loads(data)
    for text in (
        json.dumps(turned(plain), indent=1),
        json.dumps(plain, ensure_ascii=True, separators=(",", ":")),
    ):
        again = read_document(text.encode(), where="x")
        assert again.priorities == document.priorities
        assert again.providers == document.providers
        assert again.variants == document.variants
        assert again.notes == document.notes
        if not writing_faults(document):
            assert write_document(again) == write_document(document)


def check_combined(document: VariantDocument) -> None:
    """Check that a flawless document is consistent with itself (F-60 to F-63)."""
    both = combine([("a.whl", document), ("b.whl", document)])
    assert both.priorities == document.priorities
    assert both.providers == document.providers
    assert both.variants == document.variants
    assert both.feature_priorities == document.feature_priorities
    assert both.value_priorities == document.value_priorities


def turned(value: Any) -> Any:
    """Return plain data with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


class Duplicate(Exception):
    """An object has a key twice."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of distinct keys."""
    if len(dict(pairs)) != len(pairs):
        raise Duplicate
    return dict(pairs)


def refuse(name: str) -> None:
    """Take one of ``NaN`` and ``Infinity``, which Python knows and JSON does not."""
    raise ValueError(name)


def measured(value: Any) -> tuple[int, int]:
    """Return depth and number of list elements, the slow way."""
    if not isinstance(value, dict | list):
        return 0, 0
    inner = [measured(item) for item in (value if isinstance(value, list) else value.values())]
    elements = sum(count for _, count in inner) + (len(value) if isinstance(value, list) else 0)
    return 1 + max((depth for depth, _ in inner), default=0), elements


def is_document(data: bytes, limits: JsonLimits) -> bool:
    """Say what F-30 says, without any care for time or depth."""
    try:
        root = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
        depth, values = measured(root)
    except (ValueError, Duplicate, RecursionError):
        return False
    variants = root.get("variants") if isinstance(root, dict) else None
    return (
        isinstance(root, dict)
        and len(data) <= limits.size
        and depth <= limits.depth
        and values <= limits.values
        and not (isinstance(variants, dict) and len(variants) > limits.labels)
    )


def check_json(data: bytes, limits: JsonLimits) -> None:
    """Check that exactly what F-30 allows is read, as the standard library reads it."""
    try:
        root = load(data, limits)
    except InvalidDocument:
        assert not is_document(data, limits)
    else:
        assert is_document(data, limits)
        assert root == json.loads(data)
