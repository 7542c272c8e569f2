"""Draw documents with static lists, some with a mistake, and what a user prefers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from differential.releases import LABEL_CHARACTERS, some

HOST = "https://variants-schema.wheelnext.dev"
SCHEMA = f"{HOST}/v0.2.0.json"

NAMESPACES = ["blas", "cpu", "gpu", "n_0", "openmp", "prio"]
FEATURES = ["arch", "kind", "level", "lower_bound", "x"]
VALUES = ["1", "10", "2", "2.0", "80_real", "80_virtual", "mkl", "v1", "v2", "v3"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """Hold what a user puts before the lists of a document (F-69)."""

    namespaces: Sequence[str] = ()
    features: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By namespace."""
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """By namespace and feature."""

    def __bool__(self) -> bool:
        return bool(self.namespaces or self.features or self.values)


@dataclass(frozen=True, slots=True)
class Mistake:
    """Say what can be wrong in a document, and what follows."""

    rule: str
    """What wheelfit follows."""
    why: str
    """What variantlib does."""
    make: Callable[[random.Random, Json], None]
    """Puts the mistake into a sound document."""
    refused: bool = True
    """Whether variantlib refuses the whole document."""
    counts_as: Callable[[Json], Json | None] = lambda document: document
    """Turns the document with the mistake into a sound one that means the same to
    wheelfit; None: wheelfit refuses it."""


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one selection to be made."""

    document: Json
    wishes: Wishes
    mistake: Mistake | None
    """What is wrong with the document; it is known, so that it explains a difference."""


def draw_case(draw: random.Random) -> Case:
    """Draw a document, and sometimes a mistake or a user with wishes."""
    document = _document(draw)
    wishes = _wishes(draw, document) if draw.random() < 0.4 else Wishes()
    mistake = draw.choice(MISTAKES) if draw.random() < 0.1 else None
    if mistake is not None:
        mistake.make(draw, document)
    return Case(document, wishes, mistake)


# --- sound documents -----------------------------------------------------------------------


def _document(draw: random.Random) -> Json:
    namespaces = some(draw, NAMESPACES, 4)
    providers = {namespace: _static(draw) for namespace in namespaces}
    # Namespaces that no variant uses keep their place in the list.
    used = some(draw, namespaces, len(namespaces))
    variants: Json = {}
    for _ in range(draw.randint(0, 10)):
        variants[_label(draw)] = _properties(draw, used, providers)
    if len(variants) > 1 and draw.random() < 0.4:
        # Equal properties under two labels: only the label decides.
        first, second, *_ = variants
        variants[second] = variants[first]
    if draw.random() < 0.9:
        variants["null"] = {}
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": namespaces},
        "providers": providers,
        "variants": variants,
    }


def _label(draw: random.Random) -> str:
    return "".join(draw.choices(LABEL_CHARACTERS, k=draw.randint(1, 4)))


def _static(draw: random.Random) -> Json:
    """Draw a provider with a static list (P-3, P-5)."""
    features = some(draw, FEATURES, 4)
    entry: Json = {"static-properties": {name: some(draw, VALUES, 6) for name in features}}
    if len(features) > 1 or draw.random() < 0.3:
        entry["feature-order"] = draw.sample(features, len(features))
    if draw.random() < 0.05:
        entry["optional"] = True
    return entry


def _properties(draw: random.Random, namespaces: Sequence[str], providers: Json) -> Json:
    """Draw the properties of a label, mostly such that the lists support them."""
    properties: Json = {}
    for namespace in some(draw, namespaces, len(namespaces)):
        lists = providers[namespace]["static-properties"]
        for feature in some(draw, list(lists), len(lists)):
            values = some(draw, VALUES, 3)
            if draw.random() < 0.85:
                values = list(dict.fromkeys([draw.choice(lists[feature]), *values[1:]]))
            properties.setdefault(namespace, {})[feature] = draw.sample(values, len(values))
        if draw.random() < 0.05:
            properties.setdefault(namespace, {})[draw.choice(FEATURES)] = [draw.choice(VALUES)]
    return properties


def _wishes(draw: random.Random, document: Json) -> Wishes:
    """Draw what a user prefers; some of it does not occur in the document."""
    namespaces = document["default-priorities"]["namespace"]
    features = {
        namespace: some(draw, FEATURES, 3)
        for namespace in some(draw, namespaces, 2)
        if draw.random() < 0.6
    }
    values = {
        namespace: {feature: some(draw, VALUES, 3) for feature in some(draw, FEATURES, 2)}
        for namespace in some(draw, namespaces, 2)
        if draw.random() < 0.6
    }
    first = some(draw, NAMESPACES, 3) if draw.random() < 0.6 else ()
    return Wishes(first, features, values)


# --- mistakes ------------------------------------------------------------------------------


def _without_label(label: str) -> Callable[[Json], Json]:
    def sound(document: Json) -> Json:
        copy = deepcopy(document)
        del copy["variants"][label]
        return copy

    return sound


def _schema(text: str) -> Callable[[random.Random, Json], None]:
    def make(_draw: random.Random, document: Json) -> None:
        document["$schema"] = text

    return make


def _label_without_properties(_draw: random.Random, document: Json) -> None:
    document["variants"]["empty"] = {}


def _broken_value(draw: random.Random, document: Json) -> None:
    namespace = draw.choice(document["default-priorities"]["namespace"])
    feature = next(iter(document["providers"][namespace]["static-properties"]))
    document["variants"]["broken"] = {namespace: {feature: ["Upper"]}}


def _broken_label(draw: random.Random, document: Json) -> None:
    namespace = draw.choice(document["default-priorities"]["namespace"])
    document["variants"]["a-b"] = {namespace: {"x": ["1"]}}


def _null_with_properties(draw: random.Random, document: Json) -> None:
    namespace = draw.choice(document["default-priorities"]["namespace"])
    document["variants"]["null"] = {namespace: {"x": ["1"]}}


def _odd(provider: Json) -> Callable[[random.Random, Json], None]:
    """Add a namespace that nobody can answer, before all others, and a label that uses it."""

    def make(_draw: random.Random, document: Json) -> None:
        document["default-priorities"]["namespace"].insert(0, "odd")
        document["providers"]["odd"] = provider
        document["variants"]["odd"] = {"odd": {"x": ["1"]}}

    return make


def _sound_but_odd(document: Json) -> Json:
    copy = _without_label("odd")(document)
    # The namespace keeps its place; nothing of it is supported.
    copy["providers"]["odd"] = {"static-properties": {"none": ["none"]}}
    return copy


MISTAKES: Sequence[Mistake] = (
    Mistake(
        "F-7",
        "a label without properties refuses the document",
        _label_without_properties,
    ),
    Mistake(
        "F-36",
        "an unknown major version of the schema is accepted",
        _schema(f"{HOST}/v9.0.0.json"),
        refused=False,
        counts_as=lambda _: None,
    ),
    Mistake(
        "F-40",
        "a schema on a foreign host is accepted",
        _schema("https://example.org/v0.2.0.json"),
        refused=False,
        counts_as=lambda _: None,
    ),
    Mistake(
        "F-130",
        "a broken value refuses the document, not one label",
        _broken_value,
        counts_as=_without_label("broken"),
    ),
    Mistake(
        "F-130",
        "a broken label refuses the document",
        _broken_label,
        counts_as=_without_label("a-b"),
    ),
    Mistake(
        "F-6",
        "null with properties refuses the document",
        _null_with_properties,
        # What `null` stands for is fixed; an entry that says otherwise makes it unusable.
        counts_as=_without_label("null"),
    ),
    Mistake(
        "P-5",
        "a static list without order of features refuses the document, not one namespace",
        _odd({"static-properties": {"x": ["1"], "y": ["1"]}}),
        counts_as=_sound_but_odd,
    ),
    Mistake(
        "F-130",
        "an unknown key of a provider refuses the document, not one namespace",
        _odd({"static-properties": {"x": ["1"]}, "unknown": 1}),
        counts_as=_sound_but_odd,
    ),
    Mistake(
        "P-14",
        "a plugin that is not installed refuses the selection, not one namespace",
        _odd({"requires": ["no-such-provider"]}),
        counts_as=_sound_but_odd,
    ),
    Mistake(
        "P-8",
        "an unknown built-in provider refuses the selection, not one namespace",
        _odd({"builtin": "something_else"}),
        counts_as=_sound_but_odd,
    ),
)
"""Every mistake that is drawn; each kind explains one kind of difference."""
