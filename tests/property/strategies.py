"""What the laws draw from: documents, what targets support, wheels of a release, wishes."""

from __future__ import annotations

from hypothesis import strategies as st
from packaging.version import Version

from wheelfit.core.compatible_tags import tags_for
from wheelfit.core.document import VariantDocument
from wheelfit.core.labels import Label
from wheelfit.core.ordering import Choice, Preferences
from wheelfit.core.properties import EMPTY, Feature, Property, PropertySet
from wheelfit.core.property_support import Support
from wheelfit.core.providers import BuiltinProvider, PluginProvider, Provider, StaticProvider
from wheelfit.core.target import TagPreference
from wheelfit_runtime.platforms.features import Detection, DeviceValues, FeatureConfig, Status

# --- documents that may be written ------------------------------------------------------

_NAMES = st.text("abz0_", min_size=1, max_size=3)
_VALUES = st.text("abz019_.", min_size=1, max_size=4)
_DISTINCT_VALUES = st.lists(_VALUES, min_size=1, max_size=4, unique=True).map(tuple)

# The structs are wrapped in a function: annotations of theirs name what only checkers import.
_STATIC = st.builds(
    lambda features, optional: StaticProvider(features, optional=optional),
    st.lists(
        st.builds(FeatureConfig, _NAMES, _DISTINCT_VALUES, st.just(value=False)),
        min_size=1,
        max_size=3,
        unique_by=lambda config: config.name,
    ).map(tuple),
    optional=st.booleans(),
)
_PLUGINS = st.builds(
    PluginProvider,
    st.lists(
        st.sampled_from(["a", "a-b>=1,<2", "c[x]==1.0", "d @ https://example.org/d.whl"]),
        min_size=1,
        max_size=2,
        unique=True,
    ).map(tuple),
    plugin_api=st.sampled_from([None, "a", "a.b:C.d"]),
    optional=st.booleans(),
)
_BUILTINS = st.builds(BuiltinProvider, _NAMES, optional=st.booleans())
_PROVIDERS: st.SearchStrategy[Provider] = st.one_of(_STATIC, _PLUGINS, _BUILTINS)


@st.composite
def written_documents(draw: st.DrawFn) -> VariantDocument:
    """Draw a document that may be written."""
    namespaces = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    features = st.dictionaries(_NAMES, _DISTINCT_VALUES, min_size=1, max_size=3)
    properties = st.dictionaries(st.sampled_from(namespaces), features, min_size=1, max_size=3).map(
        PropertySet.from_mapping
    )
    labels = st.text("abz0_", min_size=1, max_size=4).map(Label)
    variants = draw(st.dictionaries(labels, properties, max_size=5))
    if draw(st.booleans()):
        variants[Label("null")] = EMPTY
    providers = {name: draw(_PROVIDERS) for name in namespaces}
    return VariantDocument(tuple(namespaces), providers, variants)


# --- documents and targets of few words, so that they meet --------------------------------

NAMESPACES = ["n0", "n1", "n2"]
_FEATURES = ["f0", "f1", "f2"]
_FEW_VALUES = ["a", "b", "c", "d"]

_NAMESPACE = st.sampled_from(NAMESPACES)
_FEATURE = st.sampled_from(_FEATURES)
_VALUE_LISTS = st.lists(st.sampled_from(_FEW_VALUES), unique=True, max_size=4)
_PROPERTIES = st.builds(Property, _NAMESPACE, _FEATURE, st.sampled_from(_FEW_VALUES))
_OF_A_FEATURE = st.builds(Feature, _NAMESPACE, _FEATURE)

SETS = st.lists(_PROPERTIES, max_size=7).map(PropertySet)
LABELS = st.text("ab1_.", min_size=1, max_size=3).map(Label)

CHOICES = st.one_of(_NAMESPACE, _OF_A_FEATURE, _PROPERTIES)
CHOICE_LISTS: st.SearchStrategy[tuple[Choice, ...]] = st.lists(CHOICES, max_size=3).map(tuple)
PREFERENCES = st.builds(
    lambda **wishes: Preferences(**wishes),  # noqa: PLW0108 - as above
    prefer=CHOICE_LISTS,
    require=st.lists(CHOICES, max_size=1).map(tuple),
    forbid=CHOICE_LISTS,
)


@st.composite
def _detections(draw: st.DrawFn, namespace: str) -> Detection:
    """Draw what a target supports of a namespace, sometimes on unlike devices."""
    names = draw(st.permutations(_FEATURES))[: draw(st.integers(0, 3))]
    configs = tuple(FeatureConfig(name, tuple(draw(_VALUE_LISTS))) for name in names)
    devices = [
        DeviceValues(config.name, f"device {index}", frozenset(draw(_VALUE_LISTS)))
        for config in configs
        for index in range(draw(st.sampled_from([0, 0, 0, 2])))
    ]
    return Detection(namespace, configs, Status.SUPPORTED, devices=tuple(devices))


@st.composite
def supports(draw: st.DrawFn) -> Support:
    """Draw what a target supports."""
    return Support({name: draw(_detections(name)) for name in draw(st.sets(_NAMESPACE))})


@st.composite
def rankings(draw: st.DrawFn) -> VariantDocument:
    """Draw a document whose priorities name every namespace, some with legacy overrides."""
    return VariantDocument(
        tuple(draw(st.permutations(NAMESPACES))),
        variants=draw(st.dictionaries(LABELS, SETS, max_size=8)),
        feature_priorities=draw(st.dictionaries(_NAMESPACE, st.tuples(_FEATURE), max_size=1)),
        value_priorities=draw(
            st.dictionaries(_OF_A_FEATURE, _VALUE_LISTS.map(tuple), max_size=1),
        ),
    )


# --- wheels --------------------------------------------------------------------------------

TAGS = TagPreference(
    tags_for("cpython", Version("3.13"), [], ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64"])
)
_TAG_TEXTS = st.sampled_from(
    [
        "py3-none-any",
        "cp313-cp313-manylinux_2_17_x86_64",
        "cp313-cp313-manylinux_2_28_x86_64.manylinux_2_17_x86_64",
        "cp312-cp312-win_amd64",
        "py2.py3-none-any",
    ]
)
# F-14: "2" and "02" are the same number, "2a" is more.
_BUILDS = st.sampled_from(["", "1-", "2-", "02-", "2a-", "10a-"])


@st.composite
def releases(draw: st.DrawFn) -> tuple[VariantDocument, list[str]]:
    """Draw a document and file names, some with labels it does not have."""
    document = draw(rankings())
    known = st.sampled_from(sorted(document.variants)) if document.variants else st.nothing()
    label = st.one_of(st.none(), known, st.just("null"), st.just("zz"))
    rows = draw(st.sets(st.tuples(_BUILDS, _TAG_TEXTS, label), max_size=8))
    return document, sorted(
        f"a-1-{number}{tags}{'-' + name if name else ''}.whl" for number, tags, name in rows
    )
