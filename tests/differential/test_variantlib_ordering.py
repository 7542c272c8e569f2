"""Ordering and filtering, held against variantlib 0.2.2 as a black box."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import order_labels
from wheelfit.core.support import ProviderPolicy, support_for
from wheelfit.testing.detectors import FixedDetector

ORACLE = Path(__file__).parents[1] / "oracles" / "variantlib_order.py"
SCHEMA = "https://variants-schema.wheelnext.dev/v0.2.0.json"
CASES = 2400

NAMESPACES = ["blas", "cpu", "gpu", "n_0", "openmp", "prio"]
FEATURES = ["arch", "kind", "level", "lower_bound", "x"]
VALUES = ["1", "10", "2", "2.0", "80_real", "80_virtual", "mkl", "v1", "v2", "v3"]
LABEL_CHARACTERS = "abz019._"


def distinct(draw: random.Random, source: list[str], most: int) -> list[str]:
    """Draw at least one of some texts, in any order."""
    return draw.sample(source, draw.randint(1, most))


def provider(draw: random.Random) -> dict[str, Any]:
    """Draw a provider with a static list."""
    features = distinct(draw, FEATURES, 4)
    entry: dict[str, Any] = {
        "static-properties": {name: distinct(draw, VALUES, 6) for name in features}
    }
    if len(features) > 1 or draw.random() < 0.3:
        entry["feature-order"] = draw.sample(features, len(features))
    if draw.random() < 0.1:
        entry["optional"] = True
    return entry


def variant(draw: random.Random, namespaces: list[str], supported: dict[str, Any]) -> Any:
    """Draw the properties of a label, mostly such that the lists support them."""
    properties: dict[str, dict[str, list[str]]] = {}
    for namespace in distinct(draw, namespaces, len(namespaces)):
        lists = supported[namespace]["static-properties"]
        for feature in distinct(draw, list(lists), len(lists)):
            values = distinct(draw, VALUES, 3)
            if draw.random() < 0.85:
                values = list(dict.fromkeys([draw.choice(lists[feature]), *values[1:]]))
            properties.setdefault(namespace, {})[feature] = draw.sample(values, len(values))
        if draw.random() < 0.05:
            properties.setdefault(namespace, {})[draw.choice(FEATURES)] = [draw.choice(VALUES)]
    return properties


def document(draw: random.Random) -> dict[str, Any]:
    """Draw a document with static lists only, in the layout that both sides read."""
    namespaces = distinct(draw, NAMESPACES, 4)
    providers = {namespace: provider(draw) for namespace in namespaces}
    variants: dict[str, Any] = {}
    for _ in range(draw.randint(0, 10)):
        label = "".join(draw.choices(LABEL_CHARACTERS, k=draw.randint(1, 4)))
        variants[label] = variant(draw, namespaces, providers)
    if len(variants) > 1 and draw.random() < 0.4:
        # Equal properties under two labels: only the label decides.
        first, second, *_ = variants
        variants[second] = variants[first]
    if draw.random() < 0.5:
        variants["null"] = {}
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": namespaces},
        "providers": providers,
        "variants": variants,
    }


def ours(data: dict[str, Any]) -> list[list[Any]]:
    """Order a document as wheelfit does."""
    read = read_document(data, where="case")
    # P-2, A-79: variantlib takes static lists of optional providers although nobody
    # enabled them; here they are enabled, so that the rest can be compared.
    policy = ProviderPolicy(enabled=frozenset(read.priorities))
    support = support_for(read, FixedDetector(), environment={}, policy=policy)
    return [
        [ranked.label, sorted(map(str, support.filter(ranked.properties)))]
        for ranked in order_labels(read, support)
    ]


def theirs(answer: list[list[Any]], data: dict[str, Any]) -> list[list[Any]]:
    """Leave out the null variant that variantlib adds where no wheel has it.

    F-26: null needs no entry to be *usable*; to list it although the release has none is
    left to who knows the wheels.
    """
    return [row for row in answer if row[0] != NULL or NULL in data["variants"]]


@pytest.mark.network
def test_same_order_as_variantlib(variantlib_python: Path, tmp_path: Path) -> None:
    """F-28, F-66, F-103: the same labels, in the same order, filtered to the same values."""
    draw = random.Random("PEP 825")
    cases = [document(draw) for _ in range(CASES)]
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    # variantlib reads configuration from the working directory and from home.
    subprocess.run(
        [variantlib_python, "-I", str(ORACLE), "cases.json", "answers.json"],
        cwd=tmp_path,
        env={
            **{name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ},
            "HOME": str(tmp_path),
        },
        check=True,
        timeout=300,
    )
    answers = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    assert len(answers) == CASES
    refused = [answer["error"] for answer in answers if isinstance(answer, dict)]
    assert refused == []
    for data, answer in zip(cases, answers, strict=True):
        assert ours(data) == theirs(answer, data), json.dumps(data)
    # The cases are worth comparing: most have a choice, and many lose a label.
    choices = [len(ours(data)) for data in cases]
    assert sum(count > 2 for count in choices) > CASES / 3
    lost = [len(data["variants"]) - count for data, count in zip(cases, choices, strict=True)]
    assert sum(count > 0 for count in lost) > CASES / 4
