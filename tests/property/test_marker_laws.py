"""Markers agree with packaging on the standard subset, and resolving keeps the meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.markers import InvalidMarker as PackagingInvalidMarker
from packaging.markers import Marker as PackagingMarker
from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

from wheelfit.core.marker_grammar import (
    VARIANT_VARIABLES,
    Comparison,
    Literal,
    Variable,
    comparisons,
)
from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.properties import PropertySet
from wheelfit.errors import InvalidMarker

VERSIONS = ["3", "3.8", "3.11", "3.11.0", "3.13.0rc1", "3.14.0+", "3.*", "5.15.0-91-generic", "1!2"]
TEXTS = [
    "",
    "linux",
    "win32",
    "posix",
    "cpython",
    "CPython",
    "x86_64",
    "3.8 3.9",
    "A_b",
    "a-b",
    "ü",
]
STANDARD = {
    "os_name": ["posix", "nt"],
    "sys_platform": ["linux", "win32"],
    "platform_machine": ["x86_64", "arm64", ""],
    "platform_python_implementation": ["CPython", "PyPy"],
    "platform_release": ["6.1", "5.15.0-91-generic", ""],
    "platform_system": ["Linux", "Windows"],
    "platform_version": ["#1 SMP", ""],
    "python_version": ["3.8", "3.11", "3.14"],
    "python_full_version": ["3.8.1", "3.14.0+", "3.13.0rc1"],
    "implementation_name": ["cpython", "pypy"],
    "implementation_version": ["3.11.7", "7.3.13"],
}
ALIASES = [
    "os.name", "sys.platform", "platform.version", "platform.machine",
    "platform.python_implementation", "python_implementation",
]  # fmt: skip
OPERATORS = ["<", "<=", "==", "!=", ">=", ">", "~=", "===", "in", "not in", "not  in"]
BLANKS = st.sampled_from(["", " ", "  ", "\t"])


def quoted(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Put texts without quotes between quotes of either kind."""
    return st.builds(lambda text, quote: f"{quote}{text}{quote}", texts, st.sampled_from("'\""))


LITERALS = quoted(st.sampled_from(VERSIONS + TEXTS))
VARIABLES = st.sampled_from([*STANDARD, *ALIASES, "extra", "extras", "dependency_groups"])
STANDARD_ATOMS = st.one_of(
    st.tuples(VARIABLES, st.sampled_from(OPERATORS), LITERALS).map(" ".join),
    st.tuples(LITERALS, st.sampled_from(OPERATORS), VARIABLES).map(" ".join),
    st.tuples(LITERALS, st.sampled_from(["in", "not in"]), VARIABLES).map(" ".join),
    st.tuples(VARIABLES, st.sampled_from(OPERATORS), VARIABLES).map(" ".join),
    st.sampled_from(['"a" == "a"', 'python_version>="3.8"', "'3.8'<=python_version"]),
)


def joined(atoms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Join atoms by ``and`` and ``or``, with parentheses here and there."""

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join)
        grouped = st.tuples(BLANKS, inner, BLANKS).map(lambda parts: f"({''.join(parts)})")
        return binary | grouped

    return st.recursive(atoms, extend, max_leaves=6)


STANDARD_MARKERS = joined(STANDARD_ATOMS)


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a complete environment; the sets of lock files may be missing."""
    environment: dict[str, Any] = {
        name: draw(st.sampled_from(values)) for name, values in STANDARD.items()
    }
    for name in ("extras", "dependency_groups"):
        if draw(st.booleans()):
            environment[name] = draw(st.frozensets(st.sampled_from(["a-b", "A.b", "linux"])))
    return environment


def packaging_result(text: str, environment: dict[str, Any], extra: str) -> bool | None:
    """Evaluate with packaging; none when it refuses to compare."""
    try:
        return PackagingMarker(text).evaluate({**environment, "extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName):
        return None


def our_result(text: str, environment: dict[str, Any], extra: str) -> bool | None:
    """Evaluate with our parser; none when it refuses to compare."""
    marker = parse_marker(text)
    try:
        return marker.evaluate(environment, extra)
    except InvalidMarker:
        return None


@settings(max_examples=200)
@given(
    STANDARD_MARKERS,
    st.lists(environments(), min_size=1, max_size=5),
    st.sampled_from(["", "a-b", "A_b", "linux"]),
)
def test_evaluates_like_packaging(text: str, machines: list[dict[str, Any]], extra: str) -> None:
    """The standard variables mean what packaging says everywhere, errors included."""
    for environment in machines:
        assert our_result(text, environment, extra) == packaging_result(text, environment, extra)


@settings(max_examples=150)
@given(STANDARD_MARKERS)
def test_writes_like_packaging(text: str) -> None:
    """A standard marker is written as packaging writes it, and reads back equal."""
    marker = parse_marker(text)
    assert str(marker) == str(PackagingMarker(text))
    assert parse_marker(str(marker)) == marker


PIECES = ["", " ", "\t", "\n", "(", ")", "'", '"', "\\", "=", "<", ".", "_", ";", "x", "é"]
PIECES += ["in", "and", "or", "not", "extra"]


@st.composite
def slips(draw: st.DrawFn) -> str:
    """Draw a marker with a few characters changed, most of them no marker any more."""
    text = draw(STANDARD_MARKERS)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(PIECES))
        text = text[:at] + piece + text[at + draw(st.integers(0, 2)) :]
    return text


# Of an unknown escape packaging makes a warning, and strict warnings make that an error.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@settings(max_examples=600)
@given(slips())
def test_accepts_what_packaging_accepts(text: str) -> None:
    """The grammar of standard markers is packaging's, to the letter."""
    try:
        PackagingMarker(text)
    except PackagingInvalidMarker:
        with pytest.raises(InvalidMarker) as excinfo:
            parse_marker(text)
        assert 0 <= excinfo.value.position <= len(text)
    else:
        parse_marker(text)


@given(st.text(max_size=8))
def test_any_string_survives_writing(value: str) -> None:
    """Whatever a string holds, quotes and backslashes included, it reads back equal."""
    marker = Marker(Comparison(Variable("os_name"), "==", Literal(value)))
    assert parse_marker(str(marker)) == marker


# --- variant markers -----------------------------------------------------------------

DECLARED = PropertySet.from_mapping(
    {
        "nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["80_real", "90_real"]},
        "x86_64": {"level": ["v2", "v3", "v4"]},
    }
)
VARIANT_ATOMS = st.one_of(
    st.tuples(
        st.just("variant_label"),
        st.sampled_from([" == ", " != ", " in ", " not in "]),
        st.sampled_from(['""', '"null"', '"cu128"', '"cu128 cu129"']),
    ).map("".join),
    st.tuples(
        st.sampled_from(
            [
                ("nvidia", "variant_namespaces"),
                ("blas", "variant_namespaces"),
                ("nvidia :: sm_arch", "variant_features"),
                ("nvidia::none", "variant_features"),
                ("nvidia  ::sm_arch:: 90_real", "variant_properties"),
                ("nvidia::cuda_version_lower_bound::12.8", "variant_properties"),
                ("x86_64 :: level :: v3", "variant_properties"),
                ("x86_64 :: level :: v9", "variant_properties"),
                ("X86_64 :: level", "variant_properties"),
            ]
        ),
        st.sampled_from(["in", "not in"]),
    ).map(lambda parts: f'"{parts[0][0]}" {parts[1]} {parts[0][1]}'),
)
DEFINITE_ATOMS = st.sampled_from(
    ['python_version >= "3.11"', 'os_name == "posix"', 'extra == "a-b"', 'sys_platform == "linux"']
)
MIXED_MARKERS = joined(VARIANT_ATOMS | VARIANT_ATOMS | DEFINITE_ATOMS)


@st.composite
def filtered_contexts(draw: st.DrawFn) -> VariantContext:
    """Draw what a target keeps of the declared properties: never none of a feature."""
    kept: dict[str, dict[str, list[str]]] = {}
    for feature, values in DECLARED.features():
        chosen = draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
        kept.setdefault(feature.namespace, {})[feature.name] = chosen
    return VariantContext("cu128", PropertySet.from_mapping(kept))


CONTEXTS = st.sampled_from([VariantContext.PLAIN, VariantContext.NULL]) | filtered_contexts()


def value_of(
    marker: Marker | bool,  # noqa: FBT001 - that is what resolving returns
    environment: dict[str, Any],
    extra: str,
    context: VariantContext,
) -> bool:
    """Evaluate what resolving returned."""
    return marker if isinstance(marker, bool) else marker.evaluate(environment, extra, context)


@settings(max_examples=200)
@given(MIXED_MARKERS, CONTEXTS, environments(), st.sampled_from(["", "a-b"]))
def test_resolving_keeps_the_meaning(
    text: str, context: VariantContext, environment: dict[str, Any], extra: str
) -> None:
    """B-40: a resolved marker has no variant part and means the same everywhere."""
    marker = parse_marker(text)
    resolved = marker.resolve_variants(context)
    assert value_of(resolved, environment, extra, context) == marker.evaluate(
        environment, extra, context
    )
    if isinstance(resolved, Marker):
        assert not resolved.uses_variants
        assert parse_marker(str(resolved)) == resolved


@settings(max_examples=200)
@given(MIXED_MARKERS, filtered_contexts(), environments(), st.sampled_from(["", "a-b"]))
def test_resolving_at_build_time_holds_on_every_target(
    text: str, context: VariantContext, environment: dict[str, Any], extra: str
) -> None:
    """B-41: what a build decides from declared properties is true on any target.

    It decides all but whether a target has one of several declared values.
    """
    marker = parse_marker(text)
    resolved = marker.resolve_variants(VariantContext("cu128", DECLARED), filtered=False)
    assert value_of(resolved, environment, extra, context) == marker.evaluate(
        environment, extra, context
    )
    if isinstance(resolved, Marker):
        undecided = {
            item.left.value
            for item in comparisons(resolved.expression)
            if item.variable() in VARIANT_VARIABLES and isinstance(item.left, Literal)
        }
        assert undecided <= {"nvidia  ::sm_arch:: 90_real", "x86_64 :: level :: v3"}
        assert "variant_label" not in resolved.variables


@settings(max_examples=200)
@given(MIXED_MARKERS)
def test_mixed_markers_survive_writing(text: str) -> None:
    """A marker with variant parts reads back equal after writing."""
    marker = parse_marker(text)
    assert parse_marker(str(marker)) == marker
