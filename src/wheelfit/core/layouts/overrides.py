"""Apply the priorities that old layouts have for features and values (F-49, F-50)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.core.layouts.priorities import Prefixes, put_first
from wheelfit.core.properties import Feature
from wheelfit.core.providers import StaticProvider
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.layouts.findings import Findings
    from wheelfit.core.providers import Provider


def order_static(
    namespace: str, provider: StaticProvider, prefixes: Prefixes, findings: Findings
) -> StaticProvider:
    """Return a static provider with the prefixes of its document applied (F-49).

    :param provider: with features and values in document order.
    :param findings: takes the note that no order was given (F-50).
    """
    by_name = {feature.name: feature for feature in provider.features}
    first = prefixes.features.get(namespace, ())
    if len(by_name) > 1 and not by_name.keys() <= set(first):
        findings.note(f"{namespace}: no complete order of features, document order is used (F-50)")
    values = prefixes.values.get(namespace, {})
    return replace(
        provider,
        features=tuple(
            FeatureConfig(name, put_first(values.get(name, ()), by_name[name].values))
            for name in put_first(first, by_name)
        ),
    )


def kept_overrides(
    providers: Mapping[str, Provider], prefixes: Prefixes
) -> tuple[dict[str, tuple[str, ...]], dict[Feature, tuple[str, ...]]]:
    """Return the prefixes that only the answer of a plugin can be ordered by (F-49).

    :param providers: of the document; static ones were ordered on reading.
    """
    features = {
        namespace: names
        for namespace, names in prefixes.features.items()
        if names and not isinstance(providers.get(namespace), StaticProvider)
    }
    values = {
        Feature(namespace, name): items
        for namespace, by_feature in prefixes.values.items()
        if not isinstance(providers.get(namespace), StaticProvider)
        for name, items in by_feature.items()
        if items
    }
    return features, values
