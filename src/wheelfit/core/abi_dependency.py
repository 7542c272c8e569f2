"""The ABI dependency: builds for certain versions of another package (P-45 to P-58).

A feature is a project, and its values are releases of it: a build with ``abi :: torch :: 2.8``
works with every torch 2.8. The supported values follow from the versions that are installed,
chosen, or declared by the user; for other projects the resolver decides.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import force_setattr
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidName, NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core.providers import ABI_DEPENDENCY, BuiltinProvider, Provider
from wheelfit.core.strict_json import shown
from wheelfit.core.versions import has_too_many_digits, parse_version
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, status_of
from wheelfit_runtime.platforms.words import properties_text
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.properties import Feature, PropertySet

ABI_OVERRIDE = "VARIANT_ABI_DEPENDENCY"
"""Environment variable that declares versions: ``torch==2.8.0,numpy==2.1`` (P-57)."""


# --- names and values ---------------------------------------------------------------


@lru_cache(maxsize=4096)
def project_of(feature: str) -> NormalizedName | None:
    """Return the project of a feature; None if the feature is misspelt (P-46).

    >>> project_of("flash_attn"), project_of("flash__attn")
    ('flash-attn', None)
    """
    try:
        name = canonicalize_name(feature, validate=True)
    except InvalidName:
        return None
    return name if name.replace("-", "_") == feature else None


_VALUE = pattern(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){0,2}", re.ASCII)


@lru_cache(maxsize=4096)
def _parse_value(value: str) -> tuple[int, ...] | None:
    """Return the numbers of a value; None if it is not valid (P-47)."""
    if _VALUE.fullmatch(value) is None or has_too_many_digits(value):
        return None
    return tuple(map(int, value.split(".")))


def fault(feature: str, values: Iterable[str]) -> tuple[str, str] | None:
    """Return the fault of a feature and its values, with the rule; None: no fault."""
    if project_of(feature) is None:
        return f"{shown(feature)} is not spelled as a dist-info folder spells a project", "P-46"
    for value in values:
        if _parse_value(value) is None:
            return f"{shown(value)} is not a release of one to three numbers, as 2.8 is", "P-47"
    return None


def matches(value: str, version: Version) -> bool:
    """Return whether ``== value.*`` allows a version (P-48).

    >>> from packaging.version import Version
    >>> matches("2.8", Version("2.8.1rc1+cu128")), matches("2.8", Version("2.9"))
    (True, False)
    """
    release = _parse_value(value)
    if release is None or version.epoch:
        return False
    return (*version.release, 0, 0, 0)[: len(release)] == release


def supported_values(version: Version) -> tuple[str, ...]:
    """Return the values that allow a version, the most exact first (P-51).

    >>> from packaging.version import Version
    >>> supported_values(Version("12.6.4.1"))
    ('12.6.4', '12.6', '12')
    """
    if version.epoch:
        return ()  # P-48
    return tuple(_including_values(".".join(map(str, (*version.release, 0, 0)[:3]))))


def recent_first(values: Iterable[str]) -> list[str]:
    """Return the valid values, the most recent first, exact ones before those that include them.

    The values of one version are in the order of P-51.

    >>> recent_first(["2", "2.8.0", "2.9", "x"])
    ['2.9', '2.8.0', '2']
    """
    return sorted((v for v in values if _parse_value(v) is not None), key=_sort_key, reverse=True)


def _sort_key(value: str) -> tuple[int, ...]:
    return _parse_value(value) or ()


def not_admitted(specifier: SpecifierSet, values: Iterable[str]) -> tuple[str, ...]:
    """Return the values whose versions a requirement excludes altogether (P-58).

    >>> not_admitted(SpecifierSet(">=2.8,<3"), ["2.7", "2.8.0", "2"])
    ('2.7',)
    """
    allowed = specifier.to_range()
    return tuple(
        value
        for value in recent_first(values)
        if allowed.is_disjoint(_prefix_specifier(value).to_range())
    )


def _prefix_specifier(value: str) -> SpecifierSet:
    return SpecifierSet(f"=={value}.*")


# --- the ways to meet a label -------------------------------------------------------


class Branch(Struct, frozen=True):
    """A range of versions of a project that a build works with (P-53)."""

    project: NormalizedName
    value: str
    """The most exact value of the label for these versions."""
    specifier: str
    """The versions that match this value and no more exact one, as a specifier set."""
    feature: tuple[str, str]
    """Namespace and name of the feature."""
    matching_values: frozenset[str]
    """All values of the label that these versions match, used to evaluate markers (F-111)."""

    def __str__(self) -> str:
        return f"{self.project} {self.value}"


def branches(
    properties: PropertySet,
    namespaces: frozenset[str],
    forbidden: frozenset[tuple[str, str, str]] = frozenset(),
) -> Iterator[tuple[Branch, ...]]:
    """Yield the combinations of versions that a label works with, the most recent first.

    They exclude each other, and together they are all that P-52 allows (P-49, P-52, P-53).

    :param forbidden: properties that the user forbids, as namespace, feature and value (F-91).
    """
    choices = []
    for feature, values in properties.features():
        if feature.namespace in namespaces:
            excluded = {
                value for value in values if (feature.namespace, feature.name, value) in forbidden
            }
            choices.append(
                list(_branches_of_feature((feature.namespace, feature.name), values, excluded))
            )
    return product(*choices)


def _branches_of_feature(
    feature: tuple[str, str], values: Sequence[str], excluded: set[str]
) -> Iterator[Branch]:
    project = project_of(feature[1])
    if project is None:
        return
    recent_values = recent_first(values)[:_MAX_VALUES]
    more_exact: dict[str, list[str]] = {value: [] for value in recent_values}
    for value in recent_values:
        for outer in _including_values(value)[1:]:
            if outer in more_exact:
                more_exact[outer].append(value)
    for value in recent_values:
        matching = frozenset(outer for outer in _including_values(value) if outer in more_exact)
        if matching <= excluded:
            continue
        specifier = ",".join([f"=={value}.*", *(f"!={inner}.*" for inner in more_exact[value])])
        yield Branch(project, value, specifier, feature, matching)


_MAX_VALUES = 1000
"""The number of values of one feature that are used; no package was ever built for so many."""


def _including_values(value: str) -> list[str]:
    """Return the values that include a value, itself first: 2.8.1, 2.8, 2."""
    parts = value.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


# --- what is supported --------------------------------------------------------------


INSTALLED = "is installed"


class KnownVersion(Struct, frozen=True):
    """The version of a package that builds may be made for."""

    version: Version
    state: str = INSTALLED
    """The end of a sentence after name and version, such as ``is installed``."""

    @property
    def is_installed(self) -> bool:
        """Whether it is installed already."""
        return self.state == INSTALLED


class KnownVersions(Struct, frozen=True):
    """The known versions of packages that builds may be made for (P-51)."""

    versions: Mapping[NormalizedName, KnownVersion] = field(default_factory=dict)
    is_open: bool = False
    """Whether packages without a version here may still be chosen."""

    def __post_init__(self) -> None:
        force_setattr(self, "versions", MappingProxyType(dict(self.versions)))


def abi_namespaces(providers: Mapping[str, Provider]) -> frozenset[str]:
    """Return the namespaces whose provider is the ABI dependency; any name is allowed (P-45)."""
    return frozenset(
        namespace
        for namespace, provider in providers.items()
        if isinstance(provider, BuiltinProvider) and provider.name == ABI_DEPENDENCY
    )


def detect(namespace: str, document: VariantDocument, known: KnownVersions) -> Detection:
    """Return the supported values of a namespace whose provider is the ABI dependency (P-51)."""
    features, sources = [], []
    for name, values in document.named_values(namespace).items():
        project = project_of(name)
        if project is None:
            continue
        version = known.versions.get(project)
        if version is not None:
            features.append(FeatureConfig(name, supported_values(version.version), True))
            sources.append(f"{project} {version.version} {version.state}")
        elif known.is_open:
            features.append(FeatureConfig(name, tuple(recent_first(values)), True))
            sources.append(f"{project} is chosen together with it")
        else:
            sources.append(f"{project} is not there")
    source = "; ".join(sources)
    return Detection(namespace, tuple(features), status_of(features), source=source)


def refusal(feature: Feature, values: Sequence[str], known: KnownVersions) -> str:
    """Return the reason why a build does not work with the known versions, as a clause."""
    project = project_of(feature.name) or feature.name
    values_in_words = listed(recent_first(values) or list(values), "or")
    known_version = known.versions.get(canonicalize_name(feature.name))
    if known_version is None:
        state = f"{project} is neither installed nor chosen"
    else:
        state = f"{project} {known_version.version} {known_version.state}"
    return f"is built for {project} {values_in_words}, {state} ({properties_text(feature, values)})"


# --- what the user declares ---------------------------------------------------------


def read_override(text: str) -> tuple[dict[NormalizedName, KnownVersion], tuple[str, ...]]:
    """Read the environment variable that declares versions (P-57).

    :returns: the versions, and the ignored parts with the reason, one clause each.
    """
    versions: dict[NormalizedName, KnownVersion] = {}
    ignored = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, version_text = item.partition("==")
        try:
            version = parse_version(version_text.strip())
            project = canonicalize_name(name.strip(), validate=True)
        except (InvalidVersion, InvalidName):
            ignored.append(f"{item!r} is ignored, write it as torch==2.8.0")
            continue
        versions[project] = KnownVersion(version, f"is declared by {ABI_OVERRIDE}")
    return versions, tuple(ignored)
