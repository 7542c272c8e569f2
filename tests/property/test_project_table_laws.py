"""Whatever stands in pyproject.toml, it is a table or a list of faults."""

from __future__ import annotations

import datetime as dt

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.labels import Label
from wheelfit.core.metadata import check_document, write_document
from wheelfit.core.plugin_answer import PluginAnswer, read_report
from wheelfit.core.project_table import ProjectTable, read_project_table, wheel_document
from wheelfit.core.properties import PropertySet
from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

HOST = "https://variants-schema.wheelnext.dev"
DAY = dt.date(2026, 1, 1)
SCALARS = st.sampled_from(["", "a", "A", "a; os_name == 'nt'", "x y", 1, 1.5, float("nan"), DAY])
KEYS = st.sampled_from(["a", "b", "requires", "A b"])
ANYTHING = st.recursive(
    SCALARS | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SOUND = st.sampled_from(
    [
        {"requires": ["a"]},
        {"build-requires": ["b"], "optional": True},
        {"static-properties": {"f": ["1", "2"]}},
        {"builtin": "abi_dependency"},
    ]
)
ENTRIES = SOUND | st.fixed_dictionaries(
    {},
    optional={
        "requires": st.just(["a"]) | ANYTHING,
        "build-requires": st.just(["b"]) | ANYTHING,
        "static-properties": st.just({"f": ["1", "2"]}) | ANYTHING,
        "builtin": st.just("abi_dependency") | ANYTHING,
        "plugin-api": st.just("a:b") | ANYTHING,
        "feature-order": st.just(["f"]) | ANYTHING,
        "optional": st.booleans() | ANYTHING,
        "install-time": st.booleans() | ANYTHING,
        "enable-if": st.just("os_name == 'nt'") | ANYTHING,
    },
)
PRIORITIES = st.just({"namespace": ["a", "b"]})
VARIANTS = st.just({"one": {"a": {"f": ["1"]}}, "two": {"b": {"f": ["2", "1"]}}})
SCHEMAS = st.sampled_from(
    [
        f"{HOST}/{path}.json"
        for path in ("v0.0.2", "v0.0.3", "peps/826/v0.2.0", "peps/850/v0.2.0", "v9.0.0")
    ]
)
TABLES = st.fixed_dictionaries(
    {
        "default-priorities": PRIORITIES,
        "providers": st.fixed_dictionaries({"a": SOUND, "b": SOUND}),
    },
    optional={"variants": VARIANTS},
) | st.fixed_dictionaries(
    {"default-priorities": PRIORITIES | ANYTHING},
    optional={
        "$schema": SCHEMAS | ANYTHING,
        "providers": st.fixed_dictionaries({"a": ENTRIES, "b": ENTRIES}) | ANYTHING,
        "variants": VARIANTS | ANYTHING,
        "static-properties": st.just({"a": {"f": ["1", "2"]}}) | ANYTHING,
    },
)
ANSWER = PluginAnswer((FeatureConfig("f", ("1", "2"), multi_value=True),), all_compatible=True)


def read(table: object) -> tuple[ProjectTable | None, tuple[Fault, ...]]:
    """Return the table, or its faults."""
    try:
        return read_project_table({"variant": table}), ()
    except InvalidDocument as error:
        return None, error.faults


@settings(max_examples=200)
@given(TABLES | ANYTHING)
def test_nothing_crashes(table: object) -> None:
    """B-1, F-32: a table is read, or its faults have paths; what a table makes is valid."""
    found, faults = read(table)
    assert all(fault.path.startswith("variant") for fault in faults)
    if found is None:
        assert faults
        return
    answers = dict.fromkeys(found.build_time_providers, ANSWER)
    for label, properties in {Label("null"): PropertySet(), **found.variants}.items():
        document = wheel_document(found, label, properties, answers=answers)
        assert list(document.priorities) == list(found.priorities) == list(document.providers)
        assert check_document(write_document(document, accept_losses=True)) == ()


CONFIGS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": ANYTHING,
            "values": ANYTHING | st.just(["1", "2"]),
            "multi_value": ANYTHING,
        },
    ),
    max_size=4,
)


@settings(max_examples=100)
@given(CONFIGS | ANYTHING)
def test_any_answer(configs: object) -> None:
    """P-17, P-34: whatever a plugin returns is an answer of sound names, or a failure."""
    answer = read_report(configs, {})
    for feature in answer.features:
        properties = PropertySet.from_mapping({"x": {feature.name: feature.values}})
        assert len(properties) == len(feature.values)
    assert not (answer.failure and answer.features)
