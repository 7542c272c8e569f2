"""Lists of values that no machine is asked about."""

from __future__ import annotations

import doctest
import json
import re
import tomllib
from pathlib import Path

import pytest

from wheelfit.checking.documents.document import check_variant_document
from wheelfit.checking.findings import Location
from wheelfit.core import static_families
from wheelfit.core.labels import Label
from wheelfit.core.metadata import to_mapping
from wheelfit.core.ordering import order_labels
from wheelfit.core.project_table import ProjectTable, read_project_table, wheel_document
from wheelfit.core.properties import PropertySet
from wheelfit.core.property_support import support_for
from wheelfit.core.providers import StaticProvider
from wheelfit.core.static_families import STATIC_FAMILIES, StaticFamily
from wheelfit.testing.detectors import FixedDetector
from wheelfit_runtime.platforms.features import FeatureConfig
from wheelfit_runtime.platforms.providers import by_namespace

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "static-families.md"


def table_of(family: StaticFamily) -> ProjectTable:
    """Read a template as the table of a project."""
    table = read_project_table(tomllib.loads(family.template()))
    assert table is not None
    return table


@pytest.fixture(params=list(STATIC_FAMILIES))
def family(request: pytest.FixtureRequest) -> StaticFamily:
    """Return each family."""
    return STATIC_FAMILIES[request.param]


def test_the_lists_are_those_of_the_published_packages() -> None:
    """P-160, P-161: names and order; nobody's spelling is translated."""
    listed = {
        f"{name} :: {feature.name}": " ".join(feature.values)
        for name, family in STATIC_FAMILIES.items()
        for feature in family.features
    }
    assert listed == {
        "blas_lapack :: provider": "accelerate openblas mkl",
        "openmp :: provider": "gnu intel llvm",
        "priority :: order": "1 2 3",
    }
    assert all(name == family.namespace for name, family in STATIC_FAMILIES.items())


def test_a_template_is_read_as_the_family(family: StaticFamily) -> None:
    """P-162: what a project copies is a whole table, without a note, and means the family."""
    table = table_of(family)
    assert table.priorities == (family.namespace,)
    assert table.providers == {family.namespace: StaticProvider(family.features)}
    assert (table.variants, table.notes) == ({}, ())
    assert family.template().startswith(f"# {family.purpose}\n")
    assert re.fullmatch(r"[A-Z].*\.", family.purpose)


def test_a_template_of_several_features_keeps_their_order() -> None:
    """P-5, P-162: TOML has no order of keys that could be relied on."""
    features = (FeatureConfig("zeta", ("2", "1")), FeatureConfig("alpha", ("on",)))
    several = StaticFamily("made_up", "What two features are.", features)
    assert table_of(several).providers["made_up"] == StaticProvider(several.features)


def test_a_wheel_made_from_a_template_is_sound(family: StaticFamily) -> None:
    """P-160, P-161: check has nothing to say of the document, whichever value is chosen."""
    for feature in family.features:
        for value in feature.values:
            properties = {family.namespace: {feature.name: [value]}}
            document = wheel_document(
                table_of(family), Label("one"), PropertySet.from_mapping(properties)
            )
            data = json.dumps(to_mapping(document)).encode()
            findings, read = check_variant_document(data, Location("x.json"), label=Label("one"))
            assert read is not None
            assert [str(finding.message) for finding in findings] == []


def test_a_priority_only_ranks() -> None:
    """P-161: every value is supported everywhere, and 1 comes first."""
    family = STATIC_FAMILIES["priority"]
    document = wheel_document(
        table_of(family),
        Label("first"),
        PropertySet.from_mapping({"priority": {"order": ["1"]}}),
    )
    others = {
        Label(name): PropertySet.from_mapping({"priority": {"order": [number]}})
        for name, number in (("third", "3"), ("second", "2"))
    }
    release = type(document)(
        document.priorities, document.providers, {**others, **document.variants}
    )
    support = support_for(release, FixedDetector(), environment={})
    ranked = order_labels(release, support)
    assert [one.label for one in ranked] == ["first", "second", "third"]


def test_nothing_is_detected(family: StaticFamily) -> None:
    """P-162: no provider of ours has the namespace; the list is the answer."""
    assert by_namespace(family.namespace) is None
    properties = {family.namespace: {f.name: [f.values[-1]] for f in family.features}}
    document = wheel_document(table_of(family), Label("x"), PropertySet.from_mapping(properties))
    support = support_for(document, FixedDetector(), environment={})
    assert support.detections[family.namespace].features == family.features


def test_the_page_shows_every_template(family: StaticFamily) -> None:
    """P-162: and its examples run."""
    assert family.template() in PAGE.read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    """P-162: as written in the module and on the page."""
    for result in (
        doctest.testmod(static_families),
        doctest.testfile(str(PAGE), module_relative=False),
    ):
        assert result.attempted
        assert not result.failed
