"""The vocabulary that check knows, beside what the providers say of themselves."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from wheelfit.check.vocabulary import VOCABULARIES
from wheelfit.core.provider_table import HARDWARE
from wheelfit.core.static_families import STATIC_FAMILIES
from wheelfit.platforms.discovery import BUILT_IN
from wheelfit.platforms.tables.aarch64 import FEATURES, MISSPELT


@pytest.fixture(params=list(VOCABULARIES))
def provider(request: pytest.FixtureRequest) -> Any:
    """Return each provider's module."""
    return importlib.import_module(BUILT_IN[request.param])


def test_every_namespace_of_hardware_has_a_vocabulary_and_a_provider() -> None:
    """P-28, P-160: and no static family has either."""
    assert VOCABULARIES.keys() == BUILT_IN.keys() == HARDWARE
    assert not VOCABULARIES.keys() & STATIC_FAMILIES.keys()


def test_what_a_provider_offers_is_known(provider: Any) -> None:
    """P-28: both read the same tables, so nothing a machine may have is called unknown."""
    vocabulary = VOCABULARIES[provider.NAMESPACE]
    for config in provider.get_all_configs():
        offered = vocabulary.features[config.name]
        assert [value for value in config.values if not offered.is_known(value)] == []


def test_what_is_known_is_offered(provider: Any) -> None:
    """P-28: no value is known here that our provider would refuse; other names are none."""
    for name, offered in VOCABULARIES[provider.NAMESPACE].features.items():
        for value in offered.published | offered.wider:
            assert provider.accepts(name, value), (name, value)
    assert provider.accepts("no_such_feature", "1") is None


def test_both_say_alike_which_features_have_several_values(provider: Any) -> None:
    """P-30: what may be listed several times in a wheel."""
    known = VOCABULARIES[provider.NAMESPACE].features
    for config in provider.get_all_configs():
        assert config.multi_value == known[config.name].multi_value, config.name


def test_nothing_is_both_published_and_ours(provider: Any) -> None:
    """P-41: the two circles do not overlap."""
    for offered in VOCABULARIES[provider.NAMESPACE].features.values():
        assert not offered.published & offered.wider


def test_misspelt_names_are_disputed_on_both_sides() -> None:
    """P-110: neither spelling is valid for everybody; the others are."""
    arm = VOCABULARIES["aarch64"]
    disputed = {name for name in [*FEATURES, *MISSPELT] if arm.is_disputed(name)}
    assert disputed == {"btiecv", "asimdrdmatomics", "bti", "ecv", "asimdrdm", "atomics"}
    assert not arm.features.keys() & MISSPELT.keys()
