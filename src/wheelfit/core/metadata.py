"""Reading, checking and writing of variant metadata, beside and inside wheels.

Reading is lenient, so that a bad entry does not make the others unusable (F-130); checking is
strict and reports all faults at once (F-131); writing refuses invalid documents (F-132).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from wheelfit.core import abi_dependency, strict_json
from wheelfit.core.document import VariantDocument
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.strict_json import DEFAULT_LIMITS, JsonLimits, path_of
from wheelfit.core.variant_json_layouts import detect, pep825, pep850
from wheelfit.core.variant_json_layouts.findings import Findings
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from wheelfit.core.variant_json_layouts.layout import Parts

WrittenLayout: TypeAlias = Literal["850", "825"]
"""The layouts that are written: PEP 850 v0.2.0, or PEP 825 v0.1.1 without providers."""


def read_document(
    data: bytes | Mapping[str, Any],
    *,
    where: str,
    limits: JsonLimits = DEFAULT_LIMITS,
    accept_unknown_drafts: bool = False,
    strict: bool = False,
) -> VariantDocument:
    """Read a document leniently: use the valid parts and note the others (F-130, F-136).

    :param data: the bytes of the file, or plain data (dicts, lists, scalars) as from a
        lock file.
    :param accept_unknown_drafts: whether an unknown 0.x schema is read too (F-38).
    :param strict: whether an unusable part makes the whole document invalid (``--strict``).
    :raises InvalidDocument: syntax, limits or priorities make all of it unusable.
    :raises InvalidDocument: ``unsupported-schema``; its schema must be refused (F-36, F-38, F-40).
    """
    try:
        _, findings, document = _read(
            data, pedantic=False, limits=limits, accept_unknown_drafts=accept_unknown_drafts
        )
    except InvalidDocument as error:
        code = error.reference
        raise InvalidDocument(error.faults, code=code, where=where, hint=error.hint) from None
    refusals = findings.faults if strict else findings.refusals
    if refusals:
        raise InvalidDocument(refusals, where=where)
    return document


def check_document(
    data: bytes | Mapping[str, Any], *, accept_unknown_drafts: bool = False
) -> tuple[Fault, ...]:
    """Return every violation; empty if the document is valid (F-131)."""
    try:
        mapping, findings, _ = _read(
            data, pedantic=True, accept_unknown_drafts=accept_unknown_drafts
        )
    except InvalidDocument as error:
        return error.faults
    return _faults(mapping, findings)


def _faults(mapping: Mapping[str, Any], findings: Findings) -> tuple[Fault, ...]:
    missing = () if "$schema" in mapping else (Fault("$schema", "the key is missing", "F-20"),)
    return (*missing, *findings.faults)


def examine_document(
    data: bytes, *, where: str
) -> tuple[tuple[Fault, ...], VariantDocument | None]:
    """Return the results of `check_document` and `read_document`, faster for valid documents.

    :return: every violation, and the document as a lenient reader sees it; None if it is unusable.
    """
    try:
        mapping, findings, document = _read(data, pedantic=True)
        faults = _faults(mapping, findings)
    except InvalidDocument as error:
        faults = error.faults
    else:
        if not faults:
            # A lenient reader ignores only faults, so without any both results are the same.
            return (), document
    try:
        return faults, read_document(data, where=where)
    except InvalidDocument:
        return faults, None


def write_document(
    document: VariantDocument,
    layout: WrittenLayout = "850",
    *,
    accept_losses: bool = False,
) -> bytes:
    """Return the canonical bytes of a document, equal for equal documents (F-29).

    :param layout: ``850``, or ``825`` if the user requests it, which drops the providers (F-57).
    :param accept_losses: whether to write although the layout cannot express all of it (F-56); see
        `losses`.
    :raises InvalidDocument: it may not be written (F-132); lists all faults at once.
    """
    mapping = to_mapping(document, layout, accept_losses=accept_losses)
    text = json.dumps(mapping, indent=2, sort_keys=True, ensure_ascii=False)
    return f"{text}\n".encode()


def to_mapping(
    document: VariantDocument,
    layout: WrittenLayout = "850",
    *,
    accept_losses: bool = False,
) -> dict[str, Any]:
    """Return a document as plain data, as for a lock file."""
    faults = list(writing_faults(document, layout))
    if not accept_losses:
        faults += [Fault("", loss, "F-56") for loss in losses(document)]
    if faults:
        raise InvalidDocument(faults)
    return _WRITERS[layout](document)


def losses(document: VariantDocument, layout: WrittenLayout = "850") -> tuple[str, ...]:
    """Return the data that a written layout cannot express (F-56).

    Dropping the providers needs no consent, since the user chose the layout of PEP 825 (F-57), but
    is reported too (F-39).
    """
    lost = [
        f"the preferred features of {namespace} are lost: {', '.join(names)}"
        for namespace, names in document.feature_priorities.items()
    ]
    lost += [
        f"the preferred values of {feature} are lost: {', '.join(values)}"
        for feature, values in document.value_priorities.items()
    ]
    if layout == "825" and document.providers:
        lost.append(
            "the providers are dropped: without them every variant but null is unsupported, "
            "unless users list what their machines support (F-39)"
        )
    return tuple(lost)


def writing_faults(document: VariantDocument, layout: WrittenLayout = "850") -> tuple[Fault, ...]:
    """Return the faults for which a document may not be written (F-132).

    A document to write is checked as strictly as a foreign one.
    """
    faults = [
        Fault(path_of("variants", label), f"the label is unusable: {reason}", "F-132")
        for label, reason in document.unusable.items()
    ]
    reported_paths = set()
    for name, provider in document.providers.items():
        if isinstance(provider, BrokenProvider):
            path = path_of("providers", name)
            faults.append(Fault(path, f"it is unusable: {provider.reason}", "F-132"))
            reported_paths.add(path)
    written_faults = check_document(_WRITERS[layout](document))
    return (*faults, *(fault for fault in written_faults if fault.path not in reported_paths))


NEWEST_KEYS = pep850.KEYS
"""The keys of a document in the newest layout."""
_WRITERS = {"850": pep850.write, "825": pep825.write}


def _read(
    data: bytes | Mapping[str, Any],
    *,
    pedantic: bool,
    limits: JsonLimits = DEFAULT_LIMITS,
    accept_unknown_drafts: bool = False,
) -> tuple[Mapping[str, Any], Findings, VariantDocument]:
    """Return a document as plain data, its faults, and the model of its valid parts."""
    if isinstance(data, Mapping):
        strict_json.check_limits(data, limits)
        mapping = data
    else:
        mapping = strict_json.load(data, limits)
    detected = detect(mapping, accept_unknown_drafts=accept_unknown_drafts)
    findings = Findings(pedantic=pedantic)
    for note in detected.notes:
        findings.add_note(note)
    parts = detected.layout.read(mapping, findings, tolerant=detected.tolerant)
    parts = _without_invalid_abi_labels(parts, findings)
    document = VariantDocument(
        priorities=parts.priorities,
        providers=parts.providers,
        variants=parts.variants,
        feature_priorities=parts.feature_priorities,
        value_priorities=parts.value_priorities,
        layout=detected.layout.name,
        schema=mapping.get("$schema", ""),
        unusable=findings.unusable,
        notes=findings.notes,
        lost_namespaces=tuple(findings.degradations),
    )
    return mapping, findings, document


def _without_invalid_abi_labels(parts: Parts, findings: Findings) -> Parts:
    """Remove labels whose ABI dependency names no project or no release (P-46, P-47).

    The namespaces depend on the providers, so no layout can do this by itself.
    """
    namespaces = abi_dependency.abi_namespaces(parts.providers)
    if not namespaces:
        return parts
    kept = {}
    for label, properties in parts.variants.items():
        reason = None
        for feature, values in properties.features():
            if feature.namespace in namespaces:
                problem = abi_dependency.fault(feature.name, values)
                if problem is not None:
                    steps = ("variants", label, feature.namespace, feature.name)
                    fault = findings.add_fault(steps, *problem)
                    reason = reason or str(fault)
        if reason is None:
            kept[label] = properties
        else:
            findings.unusable[label] = reason
    count = len(parts.variants) - len(kept)
    if not count:
        return parts
    labels = "label does" if count == 1 else "labels do"
    findings.add_note(f"{count} {labels} not name releases of a package (P-46, P-47)")
    return replace(parts, variants=kept)
