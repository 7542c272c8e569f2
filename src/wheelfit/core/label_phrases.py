"""What the properties of a label ask of a machine, in words, whatever machine it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core import abi_dependency
from wheelfit.core.phrases import wish
from wheelfit.core.providers import StaticProvider
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.core.properties import Feature, PropertySet
    from wheelfit.core.providers import Provider

_NEEDS = "needs "


def needs_in_words(properties: PropertySet, providers: Mapping[str, Provider]) -> str:
    """Say what must hold where a variant is taken, without a final full stop.

    >>> from wheelfit.core.properties import PropertySet
    >>> wanted = PropertySet.from_mapping(
    ...     {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]}}
    ... )
    >>> needs_in_words(wanted, {})
    'needs CUDA driver >= 12.8 and a GPU of compute capability 9.0'
    """
    clauses = list(_clauses(properties, providers))
    wishes = [clause.removeprefix(_NEEDS) for clause in clauses if clause.startswith(_NEEDS)]
    others = [clause for clause in clauses if not clause.startswith(_NEEDS)]
    together = [_NEEDS + " and ".join(wishes)] if wishes else []
    return "; ".join((*together, *others)) or "fits every machine"


def _clauses(properties: PropertySet, providers: Mapping[str, Provider]) -> Iterator[str]:
    builds = abi_dependency.abi_namespaces(providers)
    for feature, values in properties.features():
        if _is_met_everywhere(feature, values, providers.get(feature.namespace)):
            continue
        project = abi_dependency.project_of(feature.name) if feature.namespace in builds else None
        if project is None:
            yield wish(feature, values)
        else:  # P-51
            yield f"{_NEEDS}{project} {listed(abi_dependency.recent_first(values), 'or')}"


def _is_met_everywhere(
    feature: Feature, values: tuple[str, ...], provider: Provider | None
) -> bool:
    """Say whether the package's own list has a value: then no machine is asked (P-11)."""
    if not isinstance(provider, StaticProvider) or provider.optional:
        return False
    listed = (one.values for one in provider.features if one.name == feature.name)
    return any(value in known for known in listed for value in values)
