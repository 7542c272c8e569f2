"""What the linter knows of namespaces is what the providers offer."""

from __future__ import annotations

import pytest

from wheelfit.checking.documents.document import VOCABULARIES
from wheelfit_runtime.platforms.hardware_family import HardwareFamily
from wheelfit_runtime.platforms.providers import families, namespaces


@pytest.mark.parametrize("family", families(), ids=namespaces())
def test_every_value_a_provider_offers_is_known(family: HardwareFamily) -> None:
    """P-28, P-30: features, values, and whether a wheel may list several."""
    features = VOCABULARIES[family.namespace].features
    for config in family.provider.get_all_configs():
        offered = features[config.name]
        assert [value for value in config.values if not offered.is_known(value)] == []
        assert offered.multi_value == config.multi_value


@pytest.mark.parametrize("family", families(), ids=namespaces())
def test_what_is_known_can_be_a_value(family: HardwareFamily) -> None:
    """P-28, P-73: the provider accepts whatever the linter knows, wheelfit's own included."""
    accepts = family.provider.accepts
    for name, offered in VOCABULARIES[family.namespace].features.items():
        wrong = [
            v for v in (*offered.published, *offered.unpublished) if accepts(name, v) is not True
        ]
        assert wrong == []


@pytest.mark.parametrize(
    ("value", "known"),
    [("20.1.0", True), ("40.0.1", True), ("20.1.1", False), ("13.0.0", False), ("bmg", False)],
)
def test_gpus_of_intel_s_that_are_not_made_yet(value: str, known: bool) -> None:  # noqa: FBT001
    """P-130, P-132: newer designs may be anything; of the older ones all are known."""
    assert VOCABULARIES["intel"].features["device_ip"].is_known(value) is known


@pytest.mark.parametrize(("value", "known"), [("v5e", True), ("7x", True), ("v9", False)])
def test_generations_of_tpus(value: str, known: bool) -> None:  # noqa: FBT001
    """P-153: wheelfit's own feature, which the published plugin does not have."""
    offered = VOCABULARIES["tpu"].features["generation"]
    assert offered.is_known(value) is known
    assert value not in offered.published
