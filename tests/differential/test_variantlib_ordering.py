"""Ordering and filtering, held against variantlib 0.2.2 as a black box."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from differential.documents import MISTAKES, Case, Wishes, draw_case
from differential.oracles import ORACLES, Reason, answers_of, show
from python_runs import printed_by

from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import Choice, Preferences, order_labels
from wheelfit.core.properties import Feature, Property
from wheelfit.core.property_support import support_for
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.testing.detectors import FixedDetector
from wheelfit_runtime.errors import InvalidDocument

AT_ONCE = 2_500

Answer = list[list[Any]]

OPTIONAL = ("P-2", "static lists of optional providers count although nobody enabled them")
NO_NULL = ("F-26", "a null variant is listed although the release has none")


def preferences(wishes: Wishes) -> Preferences:
    """Say in our words what a user prefers."""
    choices: list[Choice] = list(wishes.namespaces)
    choices += [
        Feature(namespace, name) for namespace, names in wishes.features.items() for name in names
    ]
    choices += [
        Property(namespace, name, value)
        for namespace, features in wishes.values.items()
        for name, values in features.items()
        for value in values
    ]
    return Preferences(prefer=tuple(choices))


def configuration(wishes: Wishes) -> str | None:
    """Say in the words of variantlib what a user prefers."""
    if not wishes:
        return None
    tables = {
        "namespace_priorities": wishes.namespaces,
        "feature_priorities": wishes.features,
        "property_priorities": wishes.values,
    }
    return tomli_w.dumps({name: table for name, table in tables.items() if table})


def order(data: dict[str, Any], wishes: Wishes, *, enabled: bool) -> Answer:
    """Order a document as wheelfit does.

    :param enabled: whether the user enabled every optional provider.
    """
    read = read_document(data, where="case")
    policy = ProviderPolicy(enabled=frozenset(read.priorities)) if enabled else ProviderPolicy()
    support = support_for(read, FixedDetector(), environment={}, policy=policy)
    return [
        [ranked.label, sorted(map(str, support.filter(ranked.properties)))]
        for ranked in order_labels(read, support, preferences(wishes))
    ]


def ours(case: Case) -> Answer | None:
    """Order a case as wheelfit does; None when the document is refused."""
    try:
        return order(case.document, case.wishes, enabled=False)
    except InvalidDocument:
        return None


def hold_against_mistake(case: Case, found: Answer | None) -> None:
    """Check that a mistake costs what its rule says, and nothing more."""
    assert case.mistake is not None
    sound = case.mistake.counts_as(case.document)
    expected = None if sound is None else order(sound, case.wishes, enabled=False)
    assert found == expected, f"{case.mistake.rule}: {json.dumps(case.document)}"


def differences(case: Case, found: Answer | None, theirs: Any) -> set[Reason]:
    """Return why an answer is not ours; whatever no rule explains fails."""
    reasons = set()
    sound = case.document
    if case.mistake is not None:
        hold_against_mistake(case, found)
        reasons.add((case.mistake.rule, case.mistake.why))
        assert isinstance(theirs, dict) == case.mistake.refused, theirs
        if case.mistake.refused:
            return reasons
        # Accepted in spite of its schema: then in the order of the schema that we know.
        sound = {**case.document, "$schema": "https://variants-schema.wheelnext.dev/v0.2.0.json"}
        found = order(sound, case.wishes, enabled=False)
    assert isinstance(theirs, list), f"{theirs}\n{json.dumps(case.document)}"
    if theirs != found and (expected := order(sound, case.wishes, enabled=True)) != found:
        reasons.add(OPTIONAL)
        found = expected
    if theirs != found and NULL not in sound["variants"]:
        assert theirs.pop() == [NULL, []]
        reasons.add(NO_NULL)
    assert theirs == found, json.dumps(case.document)
    return reasons


def ask(python: Path, folder: Path, cases: list[Case]) -> list[Any]:
    """Let variantlib answer, in a folder where nothing configures it but the cases."""
    pairs = [[case.document, configuration(case.wishes)] for case in cases]
    return list(answers_of(python, "variantlib_order.py", folder, pairs))


@pytest.mark.network
@pytest.mark.parametrize(
    "many", [500, *(pytest.param(many, marks=pytest.mark.corpora) for many in (2_000, 10_000))]
)
def test_same_order_as_variantlib(
    many: int, variantlib_python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-28, F-66, F-69, F-103: same labels, order and values, but for what a rule explains."""
    draw = random.Random("PEP 825")
    cases = [draw_case(draw) for _ in range(many)]
    answers = [
        answer
        for start in range(0, many, AT_ONCE)
        for answer in ask(variantlib_python, tmp_path, cases[start : start + AT_ONCE])
    ]
    found: Counter[Reason] = Counter()
    agreements = 0
    orders = [ours(case) for case in cases]
    for case, order_found, answer in zip(cases, orders, answers, strict=True):
        reasons = differences(case, order_found, answer)
        agreements += not reasons
        found.update(reasons)
    title = f"variantlib 0.2.2: {len(cases)} selections, {agreements} the same; the others:"
    show(capsys, title, found)
    assert set(found) == {OPTIONAL, NO_NULL, *((mistake.rule, mistake.why) for mistake in MISTAKES)}
    assert agreements > many * 2 / 3
    # The cases are worth comparing: most have a choice, many lose a label, many have a user.
    choices = [len(one or ()) for one in orders]
    assert sum(count > 2 for count in choices) > many / 3
    labels = [len(case.document["variants"]) for case in cases]
    assert sum(most > few for most, few in zip(labels, choices, strict=True)) > many / 4
    assert sum(bool(case.wishes) for case in cases) > many / 4


@pytest.mark.network
def test_published_documents_that_variantlib_reads(
    variantlib_python: Path, shared_data: Path, tmp_path: Path
) -> None:
    """F-45, F-46: variantlib reads 38 of the 235 published index files, wheelfit all of them.

    What it refuses are keys of the layouts of 2025, which have a meaning.
    """
    files = sorted(shared_data.rglob("*-variants.json"))
    (tmp_path / "files.json").write_text(json.dumps([str(file) for file in files]), "utf-8")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    words = ("-I", ORACLES / "variantlib_read.py", "files.json")
    told = printed_by(*words, python=variantlib_python, environ=environ, cwd=tmp_path)
    refused = [reason for reason in json.loads(told) if reason is not None]
    assert (len(files), len(files) - len(refused)) == (235, 38)
    assert all("unexpected subkeys" in reason for reason in refused if "abi_dep" not in reason)
    for file in files:
        assert read_document(file.read_bytes(), where=file.name).variants
