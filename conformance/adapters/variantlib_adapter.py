"""Drive variantlib for the conformance suite: ``PYTHON variantlib_adapter.py``.

PYTHON is an interpreter in which variantlib is installed. It is a library: what is asked of it
is asked of its public functions and classes. It takes documents as data that somebody else has
read, and lists of what is supported from plug-ins and static lists only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suite.serving import Answer, Request, error, invalid, result, serve, unsupported
from variantlib.api import (
    check_variant_supported,
    get_variant_environment_dict,
    get_variants_by_priority,
)
from variantlib.constants import VALIDATION_WHEEL_NAME_REGEX
from variantlib.errors import ValidationError
from variantlib.models.variant import VariantDescription, VariantFeature, VariantProperty
from variantlib.variants_json import VariantsJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

AREAS = [
    "filename",
    "label",
    "property",
    "document",
    "merging",
    "compatibility",
    "ordering",
    "marker",
]
Given = dict[str, Any]


class _Unsupported(Exception):
    """variantlib does not show what is asked."""


def _parse_wheel_filename(given: Given) -> Answer:
    found = VALIDATION_WHEEL_NAME_REGEX.fullmatch(given["filename"])
    if found is None:
        return invalid("the pattern for wheels does not match")
    return result(partial=True, build=found["build"], label=found["variant_label"])


def _parse_property(given: Given) -> Answer:
    found = VariantProperty.from_str(given["text"])
    return result(
        namespace=found.namespace,
        feature=found.feature,
        value=found.value,
        text=found.to_str(),
    )


def _parse_feature(given: Given) -> Answer:
    found = VariantFeature.from_str(given["text"])
    return result(namespace=found.namespace, feature=found.feature, text=found.to_str())


def _parse_label(given: Given) -> Answer:
    label = given["label"]
    if not label:
        raise _Unsupported("an empty label asks variantlib for a hash")
    properties = [] if label == "null" else [VariantProperty("a", "b", "c")]
    return result(label=VariantDescription(properties, label).label)


def _derive_label(given: Given) -> Answer:
    properties = [VariantProperty.from_str(text) for text in given["properties"]]
    return result(label=VariantDescription(properties).label)


def _data(given: Given) -> Any:
    if "document" not in given:
        raise _Unsupported("variantlib takes documents that somebody else has read")
    if given.get("options"):
        raise _Unsupported("variantlib has no such option")
    return given["document"]


def _read_document(given: Given) -> Answer:
    return _model(VariantsJson(_data(given)))


def _model(document: VariantsJson) -> Answer:
    return result(
        partial=True,
        priorities=list(document.namespace_priorities),
        providers={name: _provider(one) for name, one in document.providers.items()},
        variants={label: one.to_dict() for label, one in document.variants.items()},
    )


def _provider(provider: Any) -> Given:
    if provider.static_properties:
        order = provider.feature_order or list(provider.static_properties)
        lists = [[name, list(provider.static_properties[name])] for name in order]
        found: Given = {"kind": "static", "features": lists}
    elif provider.builtin:
        found = {"kind": "builtin", "name": provider.builtin}
    elif provider.requires:
        found = {"kind": "plugin", "requires": list(provider.requires)}
        if provider.plugin_api is not None:
            found["plugin-api"] = provider.plugin_api
    else:
        found = {"kind": "static", "features": []}
    if provider.optional:
        found["optional"] = True
    return found


def _check_document(given: Given) -> Answer:
    data = _data(given)
    try:
        VariantsJson(data)
    except ValidationError:
        return result(partial=True, valid=False)
    return result(partial=True, valid=True)


def _write_document(given: Given) -> Answer:
    if given.get("layout", "850") != "850":
        raise _Unsupported("variantlib writes one layout")
    text = VariantsJson(given["document"]).to_str()
    return result(text=text, document=json.loads(text))


def _merge_documents(given: Given) -> Answer:
    first, *others = (VariantsJson(one) for one in given["documents"])
    for other in others:
        first.merge(other)
    return _model(first)


def _ordered(given: Given) -> list[str]:
    if given.get("target") or given.get("options"):
        raise _Unsupported("variantlib takes no list of what is supported, and no such option")
    document = given["document"]
    found = [one.label for one in get_variants_by_priority(variants_json=document)]
    # It adds a null variant where there is none.
    return [label for label in found if label in document["variants"]]


def _marker_environment(given: Given) -> Answer:
    declared = given["properties"]
    variant = VariantDescription.from_dict(declared, given["label"])
    if declared:
        info = VariantsJson(
            {
                "$schema": "https://variants-schema.wheelnext.dev/v0.2.0.json",
                "default-priorities": {"namespace": list(given["supported"])},
                "providers": {
                    name: {"static-properties": lists, "feature-order": list(lists)}
                    for name, lists in given["supported"].items()
                },
                "variants": {given["label"]: declared},
            }
        )
        filtered = check_variant_supported(vdesc=variant, variant_info=info)
        if filtered is None:
            return invalid("it does not fit")
        variant = filtered
    found = get_variant_environment_dict(variant)
    return {
        "result": {
            name: one if isinstance(one, str) else sorted(one) for name, one in found.items()
        }
    }


QUESTIONS: Mapping[str, Callable[[Given], Answer]] = {
    "parse-wheel-filename": _parse_wheel_filename,
    "parse-property": _parse_property,
    "parse-feature": _parse_feature,
    "parse-label": _parse_label,
    "derive-label": _derive_label,
    "read-document": _read_document,
    "check-document": _check_document,
    "write-document": _write_document,
    "merge-documents": _merge_documents,
    "is-compatible": lambda given: result(compatible=bool(_ordered(given))),
    "order-labels": lambda given: result(order=_ordered(given)),
    "marker-environment": _marker_environment,
}


def _ask(request: Request) -> Answer:
    question = QUESTIONS.get(request["question"])
    if question is None:
        return unsupported("variantlib has no function for this")
    try:
        return question(request["input"])
    except _Unsupported as reason:
        return unsupported(str(reason))
    except ValidationError as refusal:
        return invalid(refusal)
    except Exception as failure:  # noqa: BLE001 - a crash is an answer too
        return error(f"{type(failure).__name__}: {failure}")


def answers(requests: list[Request]) -> Iterator[tuple[Request, Answer]]:
    """Answer every question."""
    for request in requests:
        yield request, _ask(request)


if __name__ == "__main__":
    # It reads configuration from the working directory and from home.
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = folder
        serve("variantlib", version("variantlib"), AREAS, answers)
