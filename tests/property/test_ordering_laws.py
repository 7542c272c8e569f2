"""Ordering is total, filters cannot change it, and preferences only narrow or reorder."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from property.strategies import (
    CHOICE_LISTS,
    LABELS,
    PREFERENCES,
    SETS,
    TAGS,
    rankings,
    releases,
    supports,
)

from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import Label
from wheelfit.core.ordering import Preferences, Ranking, order_labels
from wheelfit.core.properties import Feature, PropertySet
from wheelfit.core.property_support import Support
from wheelfit.core.selection import Selection, select

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.ordering import Choice

NO_PREFERENCES = Preferences()
RANDOM = st.randoms(use_true_random=False)


def labels(
    document: VariantDocument, support: Support, preferences: Preferences = NO_PREFERENCES
) -> list[str]:
    """Return the labels that may be chosen, best first."""
    return [ranked.label for ranked in order_labels(document, support, preferences)]


@settings(max_examples=150)
@given(rankings(), supports())
def test_compatible_is_what_the_support_accepts(
    document: VariantDocument, support: Support
) -> None:
    """F-28: ordering drops exactly what support refuses, and every refusal has a reason."""
    accepted = set(labels(document, support))
    for name, wanted in document.variants.items():
        refusal = support.refusal(wanted)
        assert (refusal is None) == (name in accepted)
        for feature, values in wanted.features():
            if support.values(feature.namespace, feature.name).isdisjoint(values):
                assert f"{feature.name} :: " in (refusal or "")


@settings(max_examples=150)
@given(rankings(), supports(), PREFERENCES)
def test_preferences_never_add(
    document: VariantDocument, support: Support, preferences: Preferences
) -> None:
    """F-91: options reorder or narrow; what they drop, they object to."""
    free = labels(document, support)
    narrowed = labels(document, support, preferences)
    assert set(narrowed) <= set(free)
    for name in free:
        objection = preferences.objection(document.variants[Label(name)], support)
        assert (objection is None) == (name in narrowed)


@settings(max_examples=150)
@given(rankings(), supports(), CHOICE_LISTS)
def test_forbidding_more_leaves_less(
    document: VariantDocument, support: Support, choices: tuple[Choice, ...]
) -> None:
    """F-91: each thing forbidden narrows further."""
    rest = labels(document, support)
    for count in range(len(choices)):
        fewer = labels(document, support, Preferences(forbid=choices[: count + 1]))
        assert set(fewer) <= set(rest)
        rest = fewer


@settings(max_examples=150)
@given(rankings(), supports())
def test_filter_keeps_every_feature(document: VariantDocument, support: Support) -> None:
    """F-103: of a compatible variant, filtering never removes a whole feature."""
    for name in labels(document, support):
        wanted = document.variants[Label(name)]
        kept = support.filter(wanted)
        assert [feature for feature, _ in kept.features()] == [
            feature for feature, _ in wanted.features()
        ]
        assert set(kept) <= set(wanted)
        assert support.filter(kept) == kept


def selected(
    document: VariantDocument,
    names: Iterable[str],
    support: Support,
    preferences: Preferences = NO_PREFERENCES,
) -> Selection:
    """Select among wheels named by their file names."""
    return select(
        [parse_wheel_filename(name) for name in names],
        document=document,
        support=support,
        tags=TAGS,
        preferences=preferences,
    )


def fitting(selection: Selection) -> list[str]:
    """Return the wheels that may be chosen, best first."""
    return [
        verdict.filename.text for verdict in selection.verdicts if verdict.verdict != "rejected"
    ]


@settings(max_examples=150)
@given(releases(), supports(), PREFERENCES, st.data())
def test_leaving_wheels_out_keeps_the_order_of_the_rest(
    release: tuple[VariantDocument, list[str]],
    support: Support,
    preferences: Preferences,
    data: st.DataObject,
) -> None:
    """F-66, F-67, F-68, F-90: to filter and then to sort is to sort and then to filter.

    So the order is total: of any two wheels one is better, whatever others there are.
    """
    document, names = release
    assume(names)
    kept = data.draw(st.sets(st.sampled_from(names)))
    before = fitting(selected(document, sorted(kept), support, preferences))
    after = fitting(selected(document, names, support, preferences))
    assert before == [name for name in after if name in kept]


@settings(max_examples=150)
@given(releases(), supports(), PREFERENCES, st.none() | LABELS)
def test_no_wish_selects_what_is_not_supported(
    release: tuple[VariantDocument, list[str]],
    support: Support,
    preferences: Preferences,
    pinned: Label | None,
) -> None:
    """F-91: whatever the user asks for, every wheel left is one that is left without asking."""
    document, names = release
    if pinned is not None:
        preferences = replace(preferences, labels={"a": pinned})
    free = fitting(selected(document, names, support))
    narrowed = selected(document, names, support, preferences)
    assert set(fitting(narrowed)) <= set(free)
    for verdict in narrowed.verdicts:
        if verdict.verdict != "rejected":
            assert TAGS.best(verdict.filename.tags) is not None
            assert not verdict.properties or support.refusal(verdict.properties) is None
            assert pinned is None or verdict.filename.label == pinned


@settings(max_examples=150)
@given(releases(), supports(), PREFERENCES, RANDOM)
def test_selection_is_total_and_complete(
    release: tuple[VariantDocument, list[str]],
    support: Support,
    preferences: Preferences,
    random: Random,
) -> None:
    """F-67, F-68, F-90: one verdict per wheel, best first, independent of the input order."""
    document, names = release

    def judge(names: list[str]) -> list[tuple[str, str, str]]:
        verdicts = selected(document, names, support, preferences).verdicts
        return [(verdict.filename.text, verdict.verdict, verdict.reason) for verdict in verdicts]

    found = judge(names)
    assert sorted(name for name, _, _ in found) == names
    assert all(reason for _, _, reason in found)
    verdicts = [verdict for _, verdict, _ in found]
    fitting = len([verdict for verdict in verdicts if verdict != "rejected"])
    assert verdicts == (["chosen"] + ["compatible"] * (fitting - 1) if fitting else []) + [
        "rejected"
    ] * (len(names) - fitting)
    # Plain wheels come after every variant that fits.
    plain = [parse_wheel_filename(name).label is None for name, _, _ in found[:fitting]]
    assert plain == sorted(plain)
    shuffled = list(names)
    random.shuffle(shuffled)
    assert judge(shuffled) == found
    # F-93: without the chosen one, the next one is chosen.
    if fitting > 1:
        rest = judge([name for name in names if name != found[0][0]])
        assert rest[0][0] == found[1][0]


@settings(max_examples=150)
@given(rankings(), supports(), SETS)
def test_keys_are_ascending(
    document: VariantDocument, support: Support, wanted: PropertySet
) -> None:
    """F-66: one key per feature, ascending, each standing for a supported property."""
    ranking = Ranking(document, support, Preferences())
    key = ranking.key(wanted)
    if key is not None:
        assert list(key) == sorted(key)
        best = ranking.best_properties(key)
        assert {Feature(item.namespace, item.feature) for item in best} == {
            feature for feature, _ in wanted.features()
        }
        assert all(item in wanted and support.supports(item) for item in best)
