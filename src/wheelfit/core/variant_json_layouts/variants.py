"""Reading of ``variants``, the properties by label, which is the same in every layout (F-23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.core.labels import NULL, OLD_NULL, Label, is_label, writer_faults
from wheelfit.core.properties import EMPTY, Feature, PropertySet, feature_of, is_name, is_value
from wheelfit.core.strict_json import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from wheelfit.core.variant_json_layouts.findings import Findings

KEY = "variants"
_MAX_CACHED = 4096

Row = tuple[Feature, tuple[str, ...]]


def uses_namespace(document: Mapping[str, Any], namespace: str) -> bool:
    """Return whether any variant names a namespace."""
    variants = document.get(KEY)
    entries = variants.values() if isinstance(variants, dict) else ()
    return any(isinstance(entry, dict) and entry.get(namespace) for entry in entries)


def read_variants(
    document: Mapping[str, Any],
    namespaces: Collection[str],
    findings: Findings,
    *,
    namespace_with_hyphens: str | None = None,
) -> dict[Label, PropertySet]:
    """Read the usable labels; the broken ones go to the findings (F-130).

    :param namespaces: the namespaces that variants may use (F-21).
    :param namespace_with_hyphens: a namespace in whose feature names ``-`` is read as ``_`` (F-54).
    """
    if KEY not in document:
        findings.add_fatal_fault((KEY,), "the key is missing", "F-20")
        return {}
    entries = document[KEY]
    if not isinstance(entries, dict):
        findings.add_fatal_fault((KEY,), f"expected an object, found {shown(entries)}", "F-32")
        return {}
    reader = _Reader(frozenset(namespaces), findings, namespace_with_hyphens)
    variants: dict[Label, PropertySet] = {}
    for text, entry in entries.items():
        properties = reader.read(text, entry)
        if properties is not None:
            variants[Label(text)] = properties
    findings.summarise_labels()
    return variants


class _Reader:
    """A reader of labels, which checks the same feature and values only once."""

    __slots__ = (
        "_checked",
        "_findings",
        "_label",
        "_namespace_with_hyphens",
        "_namespaces",
        "_reason",
    )

    def __init__(
        self, namespaces: frozenset[str], findings: Findings, namespace_with_hyphens: str | None
    ) -> None:
        self._namespaces = namespaces
        self._findings = findings
        self._namespace_with_hyphens = namespace_with_hyphens
        self._checked: dict[tuple[str, str, tuple[str, ...]], Row] = {}
        self._label = ""
        self._reason: str | None = None

    def read(self, text: str, entry: object) -> PropertySet | None:
        """Return the properties of a label; None if they are not valid."""
        self._label, self._reason = text, None
        if not is_label(text):
            self._fault((), f"{shown(text)} is not a valid label", "F-2")
        elif self._findings.pedantic:
            for fault in writer_faults(Label(text)):
                self._findings.add_fault((KEY, text), fault, "F-4")
        rows = self._rows(entry)
        if text == NULL and rows:
            self._fault((), "the label null may not have properties", "F-6")
        if self._reason is not None:
            self._findings.unusable[text] = self._reason
            return None
        if self._findings.pedantic and not rows and text not in (NULL, OLD_NULL):
            self._findings.add_fault((KEY, text), "a label other than null needs properties", "F-7")
        return PropertySet.from_rows(rows) if rows else EMPTY

    def _rows(self, entry: object) -> list[Row]:
        if not isinstance(entry, dict):
            self._fault((), f"expected an object, found {shown(entry)}", "F-32")
            return []
        rows: list[Row] = []
        for namespace, features in entry.items():
            if not isinstance(features, dict):
                self._fault((namespace,), f"expected an object, found {shown(features)}", "F-32")
                continue
            if not features:  # F-25: the same as absent
                problem = "an empty object has no effect"
                self._findings.add_minor_fault((KEY, self._label, namespace), problem, "F-25")
                continue
            if namespace not in self._namespaces:
                self._report_unlisted(namespace)
            checked = [self._row(namespace, *item) for item in features.items()]
            valid_rows = [row for row in checked if row is not None]
            features_read = {feature for feature, _ in valid_rows}
            may_repeat = namespace == self._namespace_with_hyphens
            if may_repeat and len(features_read) < len(valid_rows):
                self._fault((namespace,), "a feature is listed more than once", "F-54")
            rows += valid_rows
        return rows

    def _row(self, namespace: str, name: str, values: object) -> Row | None:
        if not isinstance(values, list):
            self._fault((namespace, name), f"expected a list, found {shown(values)}", "F-32")
            return None
        key = (namespace, name, tuple(values))
        try:
            cached = self._checked.get(key)
        except TypeError:  # something in the list is a list or an object
            cached = None
        return cached or self._check_row(*key)

    def _check_row(self, namespace: str, name: str, values: tuple[Any, ...]) -> Row | None:
        feature_name = name
        if namespace == self._namespace_with_hyphens and "-" in name:
            feature_name = name.replace("-", "_")
            self._findings.add_note(
                f"{namespace}: the feature {shown(name)} is read as {feature_name} (F-54)"
            )
        is_valid = is_name(namespace)
        if not is_name(feature_name):
            self._fault((namespace, name), f"{shown(name)} is not a valid feature name", "F-2")
            is_valid = False
        if not values:
            self._fault((namespace, name), "at least one value is needed", "F-23")
            is_valid = False
        for index, value in enumerate(values):
            if not isinstance(value, str):
                problem = f"expected a string, found {shown(value)}"
                self._fault((namespace, name, index), problem, "F-32")
                is_valid = False
            elif not is_value(value):
                problem = f"{shown(value)} is not a valid value"
                self._fault((namespace, name, index), problem, "F-2")
                is_valid = False
        if not is_valid:
            return None
        ascending = tuple(sorted(set(values)))
        if len(ascending) != len(values):
            self._fault((namespace, name), "a value is listed more than once", "F-23")
            return None
        row = (feature_of(namespace, feature_name), ascending)
        if ascending != values:
            where = (KEY, self._label, namespace, name)
            self._findings.add_minor_fault(where, "the values are not in order", "F-23")
            if self._findings.pedantic:
                return row  # not cached, so that it is reported of every label
        if len(self._checked) < _MAX_CACHED:
            self._checked[namespace, name, values] = row
        return row

    def _report_unlisted(self, namespace: str) -> None:
        if is_name(namespace):
            problem = f"the namespace {shown(namespace)} is not in the priorities"
            self._fault((namespace,), problem, "F-21")
        else:
            self._fault((namespace,), f"{shown(namespace)} is not a valid namespace", "F-2")

    def _fault(self, steps: tuple[str | int, ...], message: str, rule: str) -> None:
        """Record a fault that makes the label unusable; the first one is its reason."""
        fault = self._findings.add_fault((KEY, self._label, *steps), message, rule)
        if self._reason is None:
            self._reason = str(fault)
