"""The order of variants once more, as short as F-66 can be told, and random cases for it.

This is the second implementation that A-80 asks for: it shares no code with any tool. It reads
only documents whose providers are static lists.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from suite.cases import Case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["drawn_cases", "order"]

_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
_NAMESPACES = ["blas", "cpu", "gpu", "n_0", "openmp", "prio"]
_FEATURES = ["arch", "kind", "level", "lower_bound", "x"]
_VALUES = ["1", "10", "2", "2.0", "80_real", "80_virtual", "mkl", "v1", "v2", "v3"]
_LABEL = "abz019._"


def order(document: Mapping[str, Any]) -> list[str]:
    """Return the compatible labels of a document, best first.

    :param document: as JSON; every provider is a static list.
    """
    ranked = []
    for label, properties in document["variants"].items():
        keys = []
        for namespace, features in properties.items():
            place = document["default-priorities"]["namespace"].index(namespace)
            provider = document["providers"][namespace]
            lists = provider["static-properties"]
            names = provider.get("feature-order", list(lists))
            for feature, values in features.items():
                ranks = [rank for rank, one in enumerate(lists.get(feature, ())) if one in values]
                keys.append((place, names.index(feature), ranks[0]) if ranks else None)
        if None not in keys:
            # A list that goes on comes before one that has ended.
            ranked.append(([*sorted(key for key in keys if key), (10**9,)], label))
    return [label for _, label in sorted(ranked)]


def drawn_cases(count: int) -> list[Case]:
    """Draw cases; the same number gives the same cases.

    :param count: how many.
    """
    draw = random.Random("A-80")
    return [_case(number, _document(draw)) for number in range(count)]


def _case(number: int, document: Mapping[str, Any]) -> Case:
    return Case(
        id=f"ordering-drawn-{number:03}",
        area="ordering",
        rules=("F-28", "F-66", "A-80"),
        claim="A drawn document has the order that the second implementation says.",
        question="order-labels",
        input={"document": document},
        expected={"result": {"order": order(document)}},
    )


def _document(draw: random.Random) -> dict[str, Any]:
    namespaces = _some(draw, _NAMESPACES, 4)
    providers = {namespace: _provider(draw) for namespace in namespaces}
    variants = dict(_variants(draw, namespaces, providers))
    if len(variants) > 1 and draw.random() < 0.4:
        first, second, *_ = variants
        variants[second] = variants[first]  # only the label decides
    if draw.random() < 0.5 or not variants:
        variants["null"] = {}
    return {
        "$schema": _SCHEMA,
        "default-priorities": {"namespace": namespaces},
        "providers": providers,
        "variants": variants,
    }


def _provider(draw: random.Random) -> dict[str, Any]:
    features = _some(draw, _FEATURES, 4)
    provider: dict[str, Any] = {
        "static-properties": {feature: _some(draw, _VALUES, 6) for feature in features}
    }
    if len(features) > 1:
        provider["feature-order"] = draw.sample(features, len(features))
    return provider


def _variants(
    draw: random.Random, namespaces: list[str], providers: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for _ in range(draw.randint(0, 8)):
        label = "".join(draw.choices(_LABEL, k=draw.randint(1, 4)))
        properties: dict[str, dict[str, list[str]]] = {}
        for namespace in _some(draw, namespaces, len(namespaces)):
            lists = providers[namespace]["static-properties"]
            for feature in _some(draw, list(lists), len(lists)):
                values = set(_some(draw, _VALUES, 3))
                if draw.random() < 0.85:
                    values.add(draw.choice(lists[feature]))
                properties.setdefault(namespace, {})[feature] = sorted(values)
        yield label, properties


def _some(draw: random.Random, source: list[str], most: int) -> list[str]:
    return draw.sample(source, draw.randint(1, most))
