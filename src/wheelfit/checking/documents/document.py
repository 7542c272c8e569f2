"""Checks of a single variant document: its form (F-131), and the consistency of its content."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict, Unpack

from msgspec import structs

from wheelfit.checking import checks, tool_profiles
from wheelfit.checking.documents.classifiers import classifier_findings
from wheelfit.checking.documents.positions import with_positions, with_toml_positions
from wheelfit.checking.documents.spelling import (
    is_typo,
    label_words,
    likely_meant,
    lookalike_of,
    spellings_of,
)
from wheelfit.checking.findings import Correction, Finding, Location
from wheelfit.core import strict_toml
from wheelfit.core.index_metadata import label_fault
from wheelfit.core.labels import NULL, OLD_NULL, Label, derive_label, writer_warnings
from wheelfit.core.metadata import NEWEST_KEYS, examine_document
from wheelfit.core.project_table import read_project_table
from wheelfit.core.provider_table import EMULATED_PLUGINS, HARDWARE
from wheelfit.core.providers import (
    ABI_DEPENDENCY,
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
    recognise,
)
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.static_families import STATIC_FAMILIES
from wheelfit.core.strict_json import path_of
from wheelfit.core.variant_json_layouts import entries
from wheelfit.core.variant_json_layouts.schema import PEP_825, PEP_850
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.checking.tool_profiles import Profile
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.properties import Feature, PropertySet
    from wheelfit.core.providers import Recognition
    from wheelfit_runtime.platforms.vocabulary import Vocabulary

VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {family.namespace: family.module("vocabulary").VOCABULARY for family in providers.families()}
)
"""The features and values that providers of hardware offer, by namespace (P-28)."""
_CURRENT_LAYOUTS = frozenset(["L5", "L7"])
"""The newest layouts of PEP 825 and PEP 850."""
_HASH_LABEL = re.compile(r"[0-9a-f]{8}")
_WELL_KNOWN = HARDWARE | {ABI_DEPENDENCY, *STATIC_FAMILIES}
_MAX_WORDS = 1000
"""Labels with more different words than this are generated, so they have no typing errors."""
_MAX_LISTED = 20
"""Values that a message lists."""
_MAX_COMPARED = 5000
"""Pairs of a wrong and a valid value that are compared for spelling."""
_MAX_CACHED_SIZE = 1 << 14
"""The largest document, in bytes, whose findings are cached.

The documents of a label are often equal in all wheels.
"""


def check_variant_document(
    data: bytes,
    location: Location,
    *,
    label: Label | None = None,
    is_whole: bool = True,
    profiles: frozenset[Profile] = frozenset(),
) -> tuple[list[Finding], VariantDocument | None]:
    """Check a document by itself.

    :param label: the label of its wheel; None for the index file of a release.
    :param is_whole: whether an index file has all variants of its release.
    :return: the findings, and the usable part of the document; None if it is unusable.
    """
    examine = _examine_cached if len(data) <= _MAX_CACHED_SIZE else _examine
    findings, document = examine(data, label, is_whole=is_whole, profiles=profiles)
    return [
        finding._replace(where=location.where, member=location.member) for finding in findings
    ], document


def check_project_file(data: bytes, location: Location) -> list[Finding]:
    """Return the faults of the ``[variant]`` table of a project, and of its classifiers."""
    try:
        pyproject = strict_toml.load(data)
    except ValueError as error:
        message = f"the file is not TOML: {error}"
        return [location.finding(checks.UNREADABLE_DOCUMENT, message, remedy="correct its syntax")]
    findings = []
    try:
        read_project_table(pyproject)
    except InvalidDocument as error:
        findings += _fault_findings(error.faults, location)
    project = pyproject.get("project")
    classifiers = project.get("classifiers") if isinstance(project, dict) else None
    if isinstance(classifiers, list) and all(
        isinstance(classifier, str) for classifier in classifiers
    ):
        findings += classifier_findings(classifiers, location, "project", "classifiers")
    return with_toml_positions(findings, data)


def _examine(
    data: bytes, label: Label | None, *, is_whole: bool, profiles: frozenset[Profile]
) -> tuple[list[Finding], VariantDocument | None]:
    """Return the findings in a document, without the file it is in."""
    faults, document = examine_document(data, where="")
    findings = _fault_findings(faults, _NO_FILE)
    if document is None:
        return with_positions(findings, data), None
    if label is not None:
        findings += _wrong_label_findings(document, label)
    findings += _DocumentChecks(document, is_index=is_whole and label is None).all()
    findings += tool_profiles.document_findings(document, _NO_FILE, profiles)
    return with_positions(findings, data), document


def _fault_findings(faults: Iterable[Fault], location: Location) -> list[Finding]:
    return [
        location.finding(
            checks.DOCUMENT_CHECKS.get(fault.rule, checks.INVALID_DOCUMENT),
            fault.message,
            path=fault.path,
            rule=fault.rule,
            **_key_correction(_likely_key(fault)),
        )
        for fault in faults
    ]


def _likely_key(fault: Fault) -> str | None:
    """Return the key of the format that is likely meant by an unknown one."""
    parent, _, key = fault.path.rpartition(".")
    if parent and not parent.startswith("providers."):
        return None
    valid_keys = entries.KNOWN_KEYS if parent else NEWEST_KEYS
    return None if key in valid_keys else likely_meant(key, valid_keys)


class _CorrectionArguments(TypedDict, total=False):
    """The keyword arguments that give a finding its correction."""

    correction: Correction
    remedy: str


def _key_correction(key: str | None) -> _CorrectionArguments:
    if key is None:
        return {}
    return {"correction": Correction(json.dumps(key), is_of_key=True), "remedy": f"write {key}"}


def _value_correction(
    values: Sequence[str], wrong_values: Iterable[str], valid_values: Sequence[str]
) -> _CorrectionArguments:
    """Return the correction of some wrong values; empty if that of one is unclear."""
    wrong_values = list(wrong_values)
    if len(wrong_values) * len(valid_values) > _MAX_COMPARED:
        return {}
    replacements = {value: likely_meant(value, valid_values) for value in wrong_values}
    corrections = [text for text in replacements.values() if text is not None]
    if len(corrections) < len(replacements):
        return {}
    corrected = sorted({replacements.get(value) or value for value in values})
    return {
        "correction": Correction(json.dumps(corrected)),
        "remedy": f"write {listed(corrections)}",
    }


_examine_cached = lru_cache(maxsize=256)(_examine)


def _wrong_label_findings(document: VariantDocument, label: Label) -> Iterator[Finding]:
    """Yield a finding if the document of a wheel is of another label (F-24)."""
    fault = label_fault(document, label)
    if fault is None and label not in document.variants:
        # Readers accept null without an entry; writers must add one.
        fault = f"the document has no entry for {label}"
    if fault is not None and label not in document.unusable:  # else there is a finding already
        yield _NO_FILE.finding(checks.WRONG_LABEL, fault, path="variants")


# `check_variant_document` adds the file, so that findings of equal documents can be cached.
_NO_FILE = Location("")


class _DocumentChecks:
    """The checks of a document that a reader can use."""

    def __init__(self, document: VariantDocument, *, is_index: bool) -> None:
        self._document = document
        self._is_index = is_index
        self._used = {
            feature
            for properties in document.variants.values()
            for feature, _ in properties.features()
        }
        self._namespaces = {feature.namespace for feature in self._used}

    def all(self) -> Iterator[Finding]:
        yield from self._check_layout()
        for namespace in dict.fromkeys((*self._document.priorities, *sorted(self._namespaces))):
            yield from self._check_namespace(namespace)
        for label, properties in self._document.variants.items():
            yield from self._check_label(label, properties)
            for feature, values in properties.features():
                yield from self._check_values(label, feature, values)
        yield from self._check_all_labels()

    def _check_layout(self) -> Iterator[Finding]:
        document = self._document
        if document.layout not in _CURRENT_LAYOUTS or document.schema not in (PEP_825, PEP_850):
            schema = document.schema or "there is no $schema"
            yield _NO_FILE.finding(
                checks.OLD_LAYOUT, f"the layout is {document.layout} ({schema})", path="$schema"
            )
        if document.lacks_providers and self._used:
            yield _NO_FILE.finding(
                checks.NO_PROVIDERS,
                f"no provider can detect {', '.join(sorted(self._namespaces))}",
                path="$schema",
            )

    def _check_namespace(self, namespace: str) -> Iterator[Finding]:
        path = path_of("providers", namespace)
        others = [*_WELL_KNOWN, *(set(self._document.priorities) if self._is_index else ())]
        other = None if namespace in _WELL_KNOWN else lookalike_of(namespace, others)
        if other is not None:
            yield _NO_FILE.finding(
                checks.LOOKALIKE_NAMESPACE,
                f"the namespace {namespace} can be mistaken for {other}",
                path=path,
            )
        provider = self._document.providers.get(namespace)
        match provider:
            case StaticProvider():
                yield from self._check_static(namespace, provider, path)
            case PluginProvider():
                yield from self._check_plugin(namespace, provider, path)
            case BuiltinProvider(name=name) if name != ABI_DEPENDENCY:
                yield _NO_FILE.finding(
                    checks.UNRECOGNISED_PROVIDER,
                    f"no tool has a built-in provider {name}",
                    path=path,
                    rule="P-8",
                )

    def _check_static(
        self, namespace: str, provider: StaticProvider, path: str
    ) -> Iterator[Finding]:
        if namespace in HARDWARE:
            yield _NO_FILE.finding(
                checks.VENDOR_STATIC_LIST,
                f"with a static list, {namespace} counts as supported on every machine",
                path=path,
            )
        if not self._is_index or self._document.unusable:
            return  # other variants of the release may use it
        for config in provider.features:
            used = {feature.name for feature in self._used if feature.namespace == namespace}
            if config.name not in used:
                note = f"; they use {listed(sorted(used))}" if used else ""
                yield _NO_FILE.finding(
                    checks.UNUSED_LIST,
                    f"no variant uses {namespace} :: {config.name}{note}",
                    path=path,
                )

    def _check_plugin(
        self, namespace: str, provider: PluginProvider, path: str
    ) -> Iterator[Finding]:
        reasons = [
            recognition.reason
            for recognition in _recognitions(namespace, provider)
            if recognition.builtin is None
        ]
        # A requirement without a reason is recognised, or is invalid and reported elsewhere.
        are_all_unrecognised = len(reasons) == len(provider.requires)
        if not are_all_unrecognised:
            return
        if namespace in HARDWARE:
            yield _NO_FILE.finding(
                checks.UNRECOGNISED_PROVIDER,
                reasons[0] if reasons else "it has no requirement, so no provider can be queried",
                path=path,
            )
        elif provider.requires:
            yield _NO_FILE.finding(
                checks.NEEDS_TRUST,
                f"{namespace} is only supported where {provider.requires[0]} is trusted",
                path=path,
            )

    def _check_values(
        self, label: Label, feature: Feature, values: tuple[str, ...]
    ) -> Iterator[Finding]:
        path = path_of("variants", label, feature.namespace, feature.name)
        provider = self._document.providers.get(feature.namespace)
        match provider:
            case StaticProvider():
                yield from self._check_static_values(provider, feature, values, path)
            case PluginProvider() if has_builtin_vocabulary(feature.namespace, provider):
                yield from self._check_vocabulary(feature, values, path)
            case PluginProvider() if not provider.requires:
                yield self._unselectable(f"no provider is available for {feature.namespace}", path)
            case BuiltinProvider(name=name) if name != ABI_DEPENDENCY:
                yield self._unselectable(f"no tool has a built-in provider {name}", path)
            case None if self._document.lacks_providers:
                # It has no table of providers (PEP 825), so only the namespace decides the values.
                if feature.namespace in VOCABULARIES:
                    yield from self._check_vocabulary(feature, values, path)
            case None:
                unused_lists = [
                    name
                    for name, other in self._document.providers.items()
                    if isinstance(other, StaticProvider) and name not in self._namespaces
                ]
                note = (
                    f"; there is a static list for {', '.join(unused_lists)}"
                    if unused_lists
                    else ""
                )
                yield self._unselectable(f"{feature.namespace} has no provider{note}", path)

    def _unselectable(
        self, message: str, path: str, **correction: Unpack[_CorrectionArguments]
    ) -> Finding:
        return _NO_FILE.finding(checks.UNSELECTABLE_VARIANT, message, path=path, **correction)

    def _check_static_values(
        self, provider: StaticProvider, feature: Feature, values: tuple[str, ...], path: str
    ) -> Iterator[Finding]:
        """Compare values with a static list, which has all supported ones (P-11)."""
        lists = {config.name: config.values for config in provider.features}
        listed_values = lists.get(feature.name)
        if listed_values is None:
            features = listed(sorted(lists)) if lists else "nothing"
            yield self._unselectable(
                f"the static list of {feature.namespace} has {features}, not {feature.name}", path
            )
            return
        unlisted_values = [value for value in values if value not in listed_values]
        if len(unlisted_values) == len(values):
            yield self._unselectable(
                f"the static list of {feature} has {listed(listed_values, most=_MAX_LISTED)}, and "
                f"none of {listed(values, most=_MAX_LISTED)}",
                path,
                **_value_correction(values, unlisted_values, listed_values),
            )
        elif unlisted_values:
            verb = "is" if len(unlisted_values) == 1 else "are"
            yield _NO_FILE.finding(
                checks.DEAD_VALUE,
                f"{listed(unlisted_values, most=_MAX_LISTED)} {verb} not in the static list of "
                f"{feature}",
                path=path,
                **_value_correction(values, unlisted_values, listed_values),
            )

    def _check_vocabulary(
        self, feature: Feature, values: tuple[str, ...], path: str
    ) -> Iterator[Finding]:
        """Compare values with the vocabulary of the namespace (P-28, P-30)."""
        vocabulary = VOCABULARIES[feature.namespace]
        is_disputed = vocabulary.is_disputed(feature.name)
        if is_disputed:
            # The other names of each feature, by its name in the published provider.
            other_names = vocabulary.misspelt
            published = listed(list(other_names))
            others = listed([name for names in other_names.values() for name in names])
            yield _NO_FILE.finding(
                checks.DISPUTED_SPELLING,
                f"the published provider has {published}, others have {others}, and this "
                f"document has {feature.name}",
                path=path,
            )
        offered = vocabulary.features.get(feature.name)
        if offered is None:
            if not is_disputed:
                features = listed(vocabulary.features, most=4)
                yield _NO_FILE.finding(
                    checks.UNKNOWN_FEATURE,
                    f"{feature.namespace} has no feature {feature.name}; it has {features}",
                    path=path,
                    **_key_correction(likely_meant(feature.name, vocabulary.features)),
                )
            return
        if len(values) > 1 and not offered.multi_value:
            yield _NO_FILE.finding(
                checks.SEVERAL_VALUES, f"{feature} has {len(values)} values", path=path
            )
        unknown = [value for value in values if not offered.is_known(value)]
        if unknown:
            consequence = (
                ", so no machine can select the variant" if unknown == list(values) else ""
            )
            yield _NO_FILE.finding(
                checks.UNKNOWN_VALUE,
                f"no provider offers {feature} with the value "
                f"{listed(unknown, most=_MAX_LISTED)}{consequence}",
                path=path,
                **_value_correction(values, unknown, (*offered.published, *offered.unpublished)),
            )
        unpublished = [value for value in values if value in offered.unpublished]
        if unpublished and not is_disputed:
            yield _NO_FILE.finding(
                checks.UNPUBLISHED_VALUE,
                f"the published provider does not offer {feature} with the value "
                f"{listed(unpublished, most=_MAX_LISTED)}",
                path=path,
            )

    def _check_label(self, label: Label, properties: PropertySet) -> Iterator[Finding]:
        path = path_of("variants", label)
        for warning in writer_warnings(label):
            message = re.sub(r" \([A-Z]-\d+\)$", "", warning)  # a field of the finding has the rule
            yield _NO_FILE.finding(checks.LONG_LABEL, message, path=path)
        looks_derived = _HASH_LABEL.fullmatch(label) and re.search("[0-9]", label)
        if looks_derived and label != OLD_NULL and properties:
            derived = derive_label(properties)
            if label != derived:
                yield _NO_FILE.finding(
                    checks.STALE_LABEL,
                    f"the label derived from the properties is {derived}",
                    path=path,
                )
        if label in (NULL, OLD_NULL):
            return
        spellings = sorted(set(spellings_of(properties)))
        for word in label_words(label):
            intended = next((text for text in spellings if is_typo(word, text)), None)
            if intended is not None and word not in spellings:
                yield _NO_FILE.finding(
                    checks.SIMILAR_LABEL,
                    f"the label {label} has {word}; its properties suggest {intended}",
                    path=path,
                )

    def _check_all_labels(self) -> Iterator[Finding]:
        labels_by_properties: dict[PropertySet, list[Label]] = {}
        for label, properties in sorted(self._document.variants.items()):
            labels_by_properties.setdefault(properties, []).append(label)
        for properties, (first, *others) in labels_by_properties.items():
            for other in others:
                common = "the same properties" if properties else "no properties"
                yield _NO_FILE.finding(
                    checks.SAME_PROPERTIES,
                    f"{other} and {first} have {common}",
                    path=path_of("variants", other),
                )
        yield from self._check_similar_labels()

    def _check_similar_labels(self) -> Iterator[Finding]:
        counts = Counter(
            word for label in self._document.variants for word in set(label_words(label))
        )
        if len(counts) > _MAX_WORDS:
            return
        for label, properties in sorted(self._document.variants.items()):
            spellings = set(spellings_of(properties))
            for word in label_words(label):
                # Of two similar words the more frequent one is probably right.
                intended = [
                    other
                    for other in counts
                    if is_typo(word, other) and (counts[other], other) > (counts[word], word)
                ]
                is_explained = word in spellings or any(is_typo(word, text) for text in spellings)
                if intended and not is_explained:
                    yield _NO_FILE.finding(
                        checks.SIMILAR_LABEL,
                        f"the label {label} has {word}; others have {min(intended)}",
                        path=path_of("variants", label),
                    )


def _recognitions(namespace: str, provider: PluginProvider) -> Iterator[Recognition]:
    """Yield the provider that each requirement, without its marker, is recognised as (P-62)."""
    for text in provider.requires:
        try:
            requirement = parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement:
            continue
        single_provider = structs.replace(
            provider, requires=(str(structs.replace(requirement, marker=None)),)
        )
        yield recognise(namespace, single_provider, {})


def has_builtin_vocabulary(namespace: str, provider: PluginProvider) -> bool:
    """Return whether wheelfit itself knows the features and values that a plugin offers."""
    if namespace not in VOCABULARIES:
        return False
    packages = {row.package for row in EMULATED_PLUGINS if row.namespace == namespace}
    for text in provider.requires:
        try:
            if parse_requirement(text, allow_variant_markers=False).name in packages:
                return True
        except InvalidRequirement:
            continue
    return False
