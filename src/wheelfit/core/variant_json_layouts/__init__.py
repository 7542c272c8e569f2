"""The layouts of documents, and the detection of a document's layout (F-45).

The readers of layouts are in this folder: each in a module, with a row in `DRAFTS` or `STABLE`.
Other modules use the model, `wheelfit.core.document.VariantDocument`. The writers are called by
`wheelfit.core.metadata`; the current layouts are also named in
`wheelfit.checking.documents.document` and `wheelfit.wheels.conversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.variant_json_layouts import schema
from wheelfit.core.variant_json_layouts.draft_2026_03 import DRAFT_2026_03
from wheelfit.core.variant_json_layouts.drafts_2025 import L1_LIKE_L2, L1_LIKE_L3, L2, L3
from wheelfit.core.variant_json_layouts.pep825 import PEP825, PEP825_FIRST
from wheelfit.core.variant_json_layouts.pep850 import PEP850
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.variant_json_layouts.layout import Layout


class StableLayout(Struct, frozen=True):
    """The layout of one major version from 1 on (F-37)."""

    version: tuple[int, int, int]
    """The newest version of which the layout reads every key."""
    layout: Layout


DRAFTS: Mapping[str, Layout] = {
    "/peps/850/v0.2.0.json": PEP850,
    "/v0.2.0.json": PEP850,  # written by variantlib 0.2.2
    "/peps/9999/v0.2.0.json": DRAFT_2026_03,
    "/peps/826/v0.2.0.json": DRAFT_2026_03,
    "/peps/825/v0.1.1.json": PEP825,
    "/peps/825/v0.1.0.json": PEP825_FIRST,
}
"""The layouts by path on the host of the drafts, besides those of 2025, which are recognised by
shape. Each 0.x is listed, as it may be incompatible (F-38)."""
STABLE: dict[int, StableLayout] = {}
"""The layouts by major version, on any known host; newer minor versions are read too (F-37)."""

_BY_SHAPE = frozenset(["/v0.0.2.json", "/v0.0.3.json"])


class DetectedLayout(Struct, frozen=True):
    """The layout of a document, as its schema or its shape shows."""

    layout: Layout
    tolerant: bool = False
    """Whether the document may have keys that the layout lacks (F-37)."""
    notes: tuple[str, ...] = ()


def detect(document: Mapping[str, Any], *, accept_unknown_drafts: bool = False) -> DetectedLayout:
    """Return the layout of a document, in the order of F-45.

    :param accept_unknown_drafts: whether an unknown 0.x is read like a newer minor
        version of the layouts that are known (F-38).
    :raises InvalidDocument: ``unsupported-schema``; the schema must be refused (F-36, F-38, F-40).
    """
    if schema.KEY not in document:
        return DetectedLayout(_by_shape(document, versioned=False))
    text = document[schema.KEY]
    if not isinstance(text, str):
        _refuse(f"expected a string, found {shown(text)}", "F-32")
    if text in schema.BARE:
        return DetectedLayout(_by_shape(document, versioned=False))
    name = schema.parse_schema(text)
    if name is None:
        _refuse(f"{shown(text)} does not name a version of the format", "F-40")
    if not name.is_known_host:
        _refuse(f"{shown(text)} is not on a host that the format uses", "F-40")
    if name.version[0] > 0:
        return _stable(text, name.version)
    if name.host == schema.HOST:
        if name.path in _BY_SHAPE:
            return DetectedLayout(_by_shape(document, versioned=True))
        if name.path in DRAFTS:
            return DetectedLayout(DRAFTS[name.path])
    if not accept_unknown_drafts:
        _refuse(f"{shown(text)} is a draft that this version of wheelfit does not read", "F-38")
    layout: Layout = PEP850 if "providers" in document else PEP825
    note = f"{shown(text)} is an unknown draft, read as {layout.title} (F-38)"
    return DetectedLayout(layout, tolerant=True, notes=(note,))


def _stable(text: str, version: tuple[int, int, int]) -> DetectedLayout:
    known = STABLE.get(version[0])
    if known is None:
        _refuse(
            f"{shown(text)} has the major version {version[0]}, "
            "which this version of wheelfit does not read",
            "F-36",
        )
    if version <= known.version:
        return DetectedLayout(known.layout)
    note = f"{shown(text)} is newer than {known.layout.title}; unknown keys are ignored (F-37)"
    return DetectedLayout(known.layout, tolerant=True, notes=(note,))


def _by_shape(document: Mapping[str, Any], *, versioned: bool) -> Layout:
    """Return the layout among those of 2025, or PEP 850 written under their names (F-45)."""
    providers = document.get("providers")
    keys: set[str] = set()
    if isinstance(providers, dict):
        for entry in providers.values():
            if isinstance(entry, dict):
                keys.update(entry)
    if not keys.isdisjoint(("static-properties", "feature-order", "builtin")):
        return PEP850
    if "install-time" in keys or "static-properties" in document:
        return L3 if versioned else L1_LIKE_L3
    return L2 if versioned else L1_LIKE_L2


def _refuse(message: str, rule: str) -> NoReturn:
    raise InvalidDocument(
        [Fault(path_of(schema.KEY), message, rule)],
        code="unsupported-schema",
        hint="plain wheels stay usable; a newer version of wheelfit may read the document",
    )
