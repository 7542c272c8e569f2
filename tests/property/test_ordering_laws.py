"""Ordering is total, filters cannot change it, and preferences only narrow or reorder."""

from __future__ import annotations

from dataclasses import replace
from functools import cmp_to_key
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from wheelfit.core.compatible_tags import tags_for
from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import Preferences, Ranking, order_labels
from wheelfit.core.properties import Feature, Property, PropertySet
from wheelfit.core.selection import select
from wheelfit.core.support import Support, support_for
from wheelfit.core.target import TagPreference
from wheelfit.platforms.facts import Capability, NvidiaDriver, NvidiaGpu
from wheelfit.platforms.features import Detection, DeviceValues, FeatureConfig, Status
from wheelfit.platforms.providers import nvidia
from wheelfit.testing.detectors import FixedDetector

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.core.ordering import Choice

NAMESPACES = ["n0", "n1", "n2"]
FEATURES = ["f0", "f1", "f2"]
VALUES = ["a", "b", "c", "d"]

NO_PREFERENCES = Preferences()

NAMES = st.sampled_from(NAMESPACES)
FEATURE_NAMES = st.sampled_from(FEATURES)
VALUE_LISTS = st.lists(st.sampled_from(VALUES), unique=True, max_size=4)
PROPERTIES = st.builds(Property, NAMES, FEATURE_NAMES, st.sampled_from(VALUES))
CHOICES = st.one_of(NAMES, st.builds(Feature, NAMES, FEATURE_NAMES), PROPERTIES)
SETS = st.lists(PROPERTIES, max_size=7).map(PropertySet)
LABELS = st.text("ab1_.", min_size=1, max_size=3).map(Label)


@st.composite
def detections(draw: st.DrawFn, namespace: str) -> Detection:
    """Draw what a target supports of a namespace, sometimes on unlike devices."""
    names = draw(st.permutations(FEATURES))[: draw(st.integers(0, 3))]
    configs = tuple(FeatureConfig(name, tuple(draw(VALUE_LISTS))) for name in names)
    devices = [
        DeviceValues(config.name, f"device {index}", frozenset(draw(VALUE_LISTS)))
        for config in configs
        for index in range(draw(st.sampled_from([0, 0, 0, 2])))
    ]
    return Detection(namespace, configs, Status.SUPPORTED, devices=tuple(devices))


@st.composite
def supports(draw: st.DrawFn) -> Support:
    """Draw what a target supports."""
    return Support({name: draw(detections(name)) for name in draw(st.sets(NAMES))})


@st.composite
def documents(draw: st.DrawFn) -> VariantDocument:
    """Draw a document whose priorities name every namespace, some with legacy overrides."""
    return VariantDocument(
        tuple(draw(st.permutations(NAMESPACES))),
        variants=draw(st.dictionaries(LABELS, SETS, max_size=8)),
        feature_priorities=draw(st.dictionaries(NAMES, st.tuples(FEATURE_NAMES), max_size=1)),
        value_priorities=draw(
            st.dictionaries(
                st.builds(Feature, NAMES, FEATURE_NAMES),
                VALUE_LISTS.map(tuple),
                max_size=1,
            )
        ),
    )


CHOICE_LISTS: st.SearchStrategy[tuple[Choice, ...]] = st.lists(CHOICES, max_size=3).map(tuple)
PREFERENCES = st.builds(
    Preferences,
    prefer=CHOICE_LISTS,
    require=st.lists(CHOICES, max_size=1).map(tuple),
    forbid=CHOICE_LISTS,
)


def labels(
    document: VariantDocument, support: Support, preferences: Preferences = NO_PREFERENCES
) -> list[str]:
    """Return the labels that may be chosen, best first."""
    return [ranked.label for ranked in order_labels(document, support, preferences)]


@settings(max_examples=150)
@given(documents(), supports(), PREFERENCES, st.randoms(use_true_random=False))
def test_total(
    document: VariantDocument, support: Support, preferences: Preferences, random: object
) -> None:
    """F-66, F-68: the order of the labels in the document does not matter."""
    names = list(document.variants)
    random.shuffle(names)  # type: ignore[attr-defined]
    shuffled = replace(document, variants={name: document.variants[name] for name in names})
    assert labels(shuffled, support, preferences) == labels(document, support, preferences)


@settings(max_examples=150)
@given(documents(), supports(), PREFERENCES, st.sets(LABELS))
def test_filter_then_sort_is_sort_then_filter(
    document: VariantDocument, support: Support, preferences: Preferences, kept: set[Label]
) -> None:
    """F-66: two labels are compared the same way whatever other labels there are."""
    fewer = {name: value for name, value in document.variants.items() if name in kept}
    before = labels(replace(document, variants=fewer), support, preferences)
    after = [name for name in labels(document, support, preferences) if name in kept]
    assert before == after


@settings(max_examples=150)
@given(documents(), supports())
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
@given(documents(), supports(), PREFERENCES)
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
@given(documents(), supports(), CHOICE_LISTS)
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
@given(documents(), supports())
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


def naive_order(document: VariantDocument, support: Support) -> list[str]:
    """Order the compatible labels by the letter of F-66 and F-49, without any table."""
    namespaces = list(document.priorities)

    def keys(wanted: PropertySet) -> list[tuple[int, int, int]]:
        found = []
        for feature, values in wanted.features():
            configs = support.detections[feature.namespace].features
            features = [config.name for config in configs]
            legacy = document.feature_priorities.get(feature.namespace, ())
            features = [name for name in legacy if name in features] + [
                name for name in features if name not in legacy
            ]
            (listed,) = [config.values for config in configs if config.name == feature.name]
            first = document.value_priorities.get(feature, ())
            ordered = [value for value in first if value in listed] + [
                value for value in listed if value not in first
            ]
            best = min(ordered.index(value) for value in values if value in ordered)
            place = (namespaces.index(feature.namespace), features.index(feature.name), best)
            found.append(place)
        return sorted(found)

    def compare(one: str, other: str) -> int:
        left, right = (keys(document.variants[Label(label)]) for label in (one, other))
        for ours, theirs in zip(left, right, strict=False):
            if ours != theirs:
                return -1 if ours < theirs else 1
        if len(left) != len(right):
            return -1 if len(left) > len(right) else 1
        return -1 if one < other else 1

    compatible = [
        name for name, wanted in document.variants.items() if support.refusal(wanted) is None
    ]
    return sorted(compatible, key=cmp_to_key(compare))


@settings(max_examples=150)
@given(documents(), supports())
def test_the_letter_of_the_rule(document: VariantDocument, support: Support) -> None:
    """F-66: the order is the one of the rule, written out naively."""
    assert labels(document, support) == naive_order(document, support)


SYSTEMS = [
    {"platform_system": "Linux", "platform_machine": "x86_64"},
    {"platform_system": "Linux", "platform_machine": "aarch64"},
    {"platform_system": "Windows", "platform_machine": "AMD64"},
]
PLATFORMS = [
    (system, driver, capability)
    for system in SYSTEMS
    for driver in [(11, 8), (12, 0), (12, 6), (12, 8), (13, 0)]
    for capability in [(5, 0), (7, 0), (7, 5), (9, 0), (12, 0)]
][::2]


def test_published_documents(shared_data: Path) -> None:
    """A-80: every published document orders by the letter of the rule on 38 platforms."""
    files = sorted(shared_data.rglob("*-variants.json"))
    assert len(files) > 100
    chosen = 0
    for file in files:
        document = read_document(file.read_bytes(), where=file.name)
        for system, driver, capability in PLATFORMS:
            gpu = NvidiaGpu(0, "", Capability(*capability))
            detector = FixedDetector(
                {
                    "nvidia": nvidia.supported(
                        NvidiaDriver(cuda_version=Capability(*driver), gpus=(gpu,))
                    ),
                    "x86_64": {"level": ["v3", "v2", "v1"]},
                    "aarch64": {"version": ["8.2a", "8.1a", "8a"]},
                    "amd": {"gfx_arch": ["gfx942"], "rocm_version": ["7.0"]},
                    "intel": {"device_ip": ["20.4.4", "20.1.0"]},
                }
            )
            support = support_for(document, detector, environment=system)
            ordered = labels(document, support)
            assert ordered == naive_order(document, support), file.name
            chosen += bool(ordered and document.variants[Label(ordered[0])])
            for wanted in document.variants.values():
                assert support.refusal(wanted) != ""
    assert chosen > len(files) * len(PLATFORMS) / 4


TAGS = TagPreference(
    tags_for("cpython", Version("3.13"), [], ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64"])
)
TAG_TEXTS = st.sampled_from(
    [
        "py3-none-any",
        "cp313-cp313-manylinux_2_17_x86_64",
        "cp313-cp313-manylinux_2_28_x86_64.manylinux_2_17_x86_64",
        "cp312-cp312-win_amd64",
        "py2.py3-none-any",
    ]
)


@st.composite
def releases(draw: st.DrawFn) -> tuple[VariantDocument, list[str]]:
    """Draw a document and file names, some with labels it does not have."""
    document = draw(documents())
    known = st.sampled_from(sorted(document.variants)) if document.variants else st.nothing()
    label = st.one_of(st.none(), known, st.just("null"), st.just("zz"))
    build = st.sampled_from(["", "1-", "2-", "10a-"])
    rows = draw(st.sets(st.tuples(build, TAG_TEXTS, label), max_size=8))
    return document, sorted(
        f"a-1-{number}{tags}{'-' + name if name else ''}.whl" for number, tags, name in rows
    )


@settings(max_examples=150)
@given(releases(), supports(), PREFERENCES, st.randoms(use_true_random=False))
def test_selection_is_total_and_complete(
    release: tuple[VariantDocument, list[str]],
    support: Support,
    preferences: Preferences,
    random: object,
) -> None:
    """F-67, F-68, F-90: one verdict per wheel, best first, independent of the input order."""
    document, names = release

    def judge(names: list[str]) -> list[tuple[str, str, str]]:
        selection = select(
            [parse_wheel_filename(name) for name in names],
            document=document,
            support=support,
            tags=TAGS,
            preferences=preferences,
        )
        return [(one.filename.text, one.verdict, one.reason) for one in selection.verdicts]

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
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judge(shuffled) == found
    # F-93: without the chosen one, the next one is chosen.
    if fitting > 1:
        rest = judge([name for name in names if name != found[0][0]])
        assert rest[0][0] == found[1][0]


@settings(max_examples=150)
@given(documents(), supports(), SETS)
def test_keys_are_ascending(
    document: VariantDocument, support: Support, wanted: PropertySet
) -> None:
    """F-66: one key per feature, ascending, each standing for a supported property."""
    ranking = Ranking(document, support, Preferences())
    key = ranking.key(wanted)
    if key is not None:
        assert list(key) == sorted(key)
        best = ranking.best(key)
        assert {Feature(item.namespace, item.feature) for item in best} == {
            feature for feature, _ in wanted.features()
        }
        assert all(item in wanted and support.supports(item) for item in best)
