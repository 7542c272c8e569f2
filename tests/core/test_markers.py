"""Markers: the four variant variables, operators, errors, and partial evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.errors import InvalidMarker

LINUX = {
    "implementation_name": "cpython",
    "implementation_version": "3.13.1",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "5.15.0-91-generic",
    "platform_system": "Linux",
    "platform_version": "#1 SMP",
    "python_full_version": "3.13.1",
    "python_version": "3.13",
    "sys_platform": "linux",
}
# The example of the rules: label cu128_v3 on a machine with a GPU of 8.9.
CU128_V3 = VariantContext(
    "cu128_v3",
    PropertySet.from_mapping(
        {
            "nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["80_real"]},
            "x86_64": {"level": ["v3"]},
        }
    ),
)


def holds(text: str, context: VariantContext, extras: frozenset[str] | str = "") -> bool:
    """Evaluate a marker on Linux."""
    return parse_marker(text).evaluate(LINUX, extras, context)


class TestVariantVariables:
    """What markers see of the chosen wheel."""

    @pytest.mark.parametrize(
        ("marker", "on_cu128_v3", "on_null", "on_plain"),
        [
            ('"nvidia" in variant_namespaces', True, False, False),
            ('"nvidia :: sm_arch" in variant_features', True, False, False),
            ('variant_label != "null"', True, False, True),
            ('variant_label == ""', False, False, True),
            ('"blas" not in variant_namespaces', True, True, True),
        ],
    )
    def test_table_of_the_rules(
        self, marker: str, *, on_cu128_v3: bool, on_null: bool, on_plain: bool
    ) -> None:
        """F-102, F-104: the examples of the rules hold on a variant, null and plain wheel."""
        assert holds(marker, CU128_V3) is on_cu128_v3
        assert holds(marker, VariantContext.NULL) is on_null
        assert holds(marker, VariantContext.PLAIN) is on_plain

    @pytest.mark.parametrize(
        ("marker", "expected"),
        [
            ('variant_label == "cu128_v3"', True),
            ('"x86_64" in variant_namespaces', True),
            ('"x86_64 :: level" in variant_features', True),
            ('"x86_64 :: level :: v3" in variant_properties', True),
        ],
    )
    def test_the_four_variables(self, marker: str, *, expected: bool) -> None:
        """F-100: a string and three sets of strings, each with its own kind of element."""
        assert holds(marker, CU128_V3) is expected
        for context in (VariantContext.NULL, VariantContext.PLAIN):
            assert not holds(marker, context)
        name = next(iter(parse_marker(marker).variables))
        for other in {"variant_namespaces", "variant_features", "variant_properties"} - {name}:
            if name != "variant_label":
                assert not holds(marker.replace(name, other), CU128_V3)

    @pytest.mark.parametrize(
        "name", ["variant", "variant_labels", "variant_namespace", "variant_hash", "variants"]
    )
    def test_there_are_no_others(self, name: str) -> None:
        """F-100: another name is not a variable, and an error as any misspelt one."""
        for marker in (f'{name} == "x"', f'"x" in {name}'):
            with pytest.raises(InvalidMarker):
                parse_marker(marker)

    @pytest.mark.parametrize(
        ("variable", "element"),
        [
            ("variant_namespaces", "blas"),
            ("variant_features", "x86_64 :: aes"),
            ("variant_properties", "x86_64 :: level :: v4"),
            ("variant_properties", "blas :: library :: mkl"),
        ],
    )
    def test_what_is_not_declared(self, variable: str, element: str) -> None:
        """F-107: it is in no set of any wheel, so that a build may decide it."""
        for context in (CU128_V3, VariantContext.NULL, VariantContext.PLAIN):
            there = parse_marker(f'"{element}" in {variable}')
            absent = parse_marker(f'"{element}" not in {variable}')
            assert not there.evaluate(LINUX, variant=context)
            assert absent.evaluate(LINUX, variant=context)
            for filtered in (False, True):
                assert there.resolve_variants(context, filtered=filtered) is False
                assert absent.resolve_variants(context, filtered=filtered) is True

    def test_only_filtered_values_are_there(self) -> None:
        """F-103: a declared value the target lacks is not in the set."""
        assert holds('"nvidia::sm_arch::80_real" in variant_properties', CU128_V3)
        assert not holds('"nvidia::sm_arch::90_real" in variant_properties', CU128_V3)

    @pytest.mark.parametrize("colons", ["::", " :: ", ":: ", " ::", "  ::\t"])
    def test_blanks_around_colons_do_not_matter(self, colons: str) -> None:
        """F-106: differences in blanks around ``::`` are ignored."""
        assert holds(f'"x86_64{colons}level{colons}v3" in variant_properties', CU128_V3)
        assert holds(f'"x86_64{colons}level" in variant_features', CU128_V3)

    @pytest.mark.parametrize(
        "literal",
        [
            "nvidia",
            "NVIDIA :: sm_arch",
            "nvidia :: sm_arch :: 80_real",
            "nvidia : sm_arch",
            "",
            "::",
        ],
    )
    def test_a_wrong_shape_never_matches(self, literal: str) -> None:
        """F-106: a literal that is not a feature is in no set of features."""
        assert not holds(f'"{literal}" in variant_features', CU128_V3)
        assert holds(f'"{literal}" not in variant_features', CU128_V3)

    def test_label_is_text(self) -> None:
        """F-105: a label that looks like a version is compared as text."""
        context = VariantContext("1.0", EMPTY)
        assert holds('variant_label == "1.0"', context)
        assert not holds('variant_label == "1"', context)
        assert holds('"1" != variant_label', context)
        assert holds('variant_label in "0.9 1.0"', context)
        assert holds('"." in variant_label', context)

    @pytest.mark.parametrize(
        ("marker", "position"),
        [
            ('variant_label >= "1.0"', 14),
            ('variant_label ~= "1.0"', 14),
            ('variant_label === "1.0"', 14),
            ('os_name == "x" and "1" < variant_label', 23),
            ('variant_namespaces == "nvidia"', 19),
            ('"nvidia" == variant_namespaces', 9),
            ('variant_namespaces in "nvidia"', 19),
            ('"nvidia" >= variant_properties', 9),
            ("os_name in variant_features", 8),
            ("variant_label == os_name", 14),
            ("variant_label in variant_namespaces", 14),
        ],
    )
    def test_other_operators_are_refused(self, marker: str, position: int) -> None:
        """F-105: strings have text operators, sets only ``in`` with a literal on the left."""
        with pytest.raises(InvalidMarker) as excinfo:
            parse_marker(marker)
        assert excinfo.value.position == position

    def test_uses_variants(self) -> None:
        """F-109: a marker knows whether and where it looks at the wheel."""
        assert not parse_marker('os_name == "variant_label"').uses_variants
        marker = parse_marker('os_name == "a" or "x" in variant_namespaces')
        assert marker.uses_variants
        variable = marker.first_variant_variable
        assert variable is not None
        assert variable.position == 25


class TestStandardVariables:
    """The standard subset; its laws are in the property tests."""

    def test_one_of_several_extras(self) -> None:
        """A marker holds when it holds for one of the extras asked for."""
        marker = 'extra == "My_Extra"'
        assert holds(marker, VariantContext.PLAIN, frozenset(["other", "my.extra"]))
        assert not holds(marker, VariantContext.PLAIN, frozenset(["other"]))
        assert not holds(marker, VariantContext.PLAIN, frozenset())
        assert not holds(marker, VariantContext.PLAIN)

    @pytest.mark.parametrize(
        "marker", ['"a" == "a"', 'os_name ~= "posix"', '"a" in extras', 'extras == "a"']
    )
    def test_senseless_comparison_is_an_error_of_ours(self, marker: str) -> None:
        """What cannot be compared is reported with the marker, not as a traceback."""
        with pytest.raises(InvalidMarker) as excinfo:
            holds(marker, VariantContext.PLAIN)
        assert excinfo.value.source == marker

    def test_sets_of_lock_files(self) -> None:
        """PEP 751: ``extras`` and ``dependency_groups`` are sets of normalised names."""
        environment: dict[str, Any] = {**LINUX, "extras": frozenset(["My-Extra"])}
        assert parse_marker('"my_extra" in extras').evaluate(environment)


class TestErrors:
    """A bad marker is shown with a caret where reading stopped."""

    @pytest.mark.parametrize(
        ("marker", "position", "message"),
        [
            ("", 0, "expected a marker variable or a quoted string"),
            ("os_name", 7, "expected an operator"),
            ("os_name == posix", 11, "'posix' is not a marker variable"),
            ("os_name == 'posix", 11, "this quote is not closed"),
            ("(os_name == 'a'", 0, "this parenthesis is not closed"),
            ("os_name == 'a' xor os_name == 'b'", 15, "expected 'and', 'or' or the end"),
            ("os_name == 'a' and", 18, "expected a marker variable or a quoted string"),
            ("os_name not 'a'", 8, "expected an operator"),
            (r"os_name == '\x4'", 11, "this is not a valid quoted string"),
        ],
    )
    def test_points_at_the_place(self, marker: str, position: int, message: str) -> None:
        """The message says what was expected, the caret where."""
        with pytest.raises(InvalidMarker, match="^" + message) as excinfo:
            parse_marker(marker)
        assert excinfo.value.position == position
        assert excinfo.value.note == f"{marker}\n{' ' * position}^"

    def test_suggests_a_variable(self) -> None:
        """A slip in a name gets the name that was meant."""
        with pytest.raises(InvalidMarker) as excinfo:
            parse_marker('variant_lable == "x"')
        assert excinfo.value.hint == "did you mean variant_label?"

    def test_deep_nesting_is_refused(self) -> None:
        """Hostile metadata does not exhaust the stack."""
        with pytest.raises(InvalidMarker, match="nested parentheses"):
            parse_marker("(" * 5000 + "os_name == 'a'" + ")" * 5000)


class TestResolve:
    """B-40, B-41: deciding the variant parts of a marker."""

    @pytest.mark.parametrize(
        ("marker", "rest"),
        [
            ('extra == "x" and variant_label == "cu128_v3"', 'extra == "x"'),
            ('python_version < "3.8" or (variant_label == "cu126" and os_name == "nt")',
             'python_version < "3.8"'),
            ('"nvidia" in variant_namespaces and (os_name == "a" or os_name == "b")',
             'os_name == "a" or os_name == "b"'),
            ('os_name == "a" and (variant_label == "cu128_v3" and os_name == "b")',
             'os_name == "a" and os_name == "b"'),
            ('os_name == "a" and (variant_label == "" or os_name == "b" or os_name == "c")',
             'os_name == "a" and (os_name == "b" or os_name == "c")'),
            ('(os_name == "a" and os_name == "b") or variant_label == ""',
             'os_name == "a" and os_name == "b"'),
        ],
    )  # fmt: skip
    def test_keeps_the_rest(self, marker: str, rest: str) -> None:
        """B-40: true parts go, the other markers stay as they were written."""
        resolved = parse_marker(marker).resolve_variants(CU128_V3)
        assert isinstance(resolved, Marker)
        assert str(resolved) == rest
        assert resolved == parse_marker(rest)

    @pytest.mark.parametrize(
        ("marker", "value"),
        [
            ('variant_label == "cu128_v3"', True),
            ('os_name == "a" and variant_label == ""', False),
            ('os_name == "a" or variant_label != ""', True),
        ],
    )
    def test_may_be_decided_entirely(self, marker: str, *, value: bool) -> None:
        """B-40: a marker that always or never holds becomes a truth value."""
        assert parse_marker(marker).resolve_variants(CU128_V3) is value

    def test_everything_is_decided_for_a_plain_wheel(self) -> None:
        """B-40: a plain wheel has no label and no properties."""
        marker = parse_marker('variant_label == "" and "a" not in variant_namespaces')
        assert marker.resolve_variants(VariantContext.PLAIN) is True

    def test_leaves_a_standard_marker_alone(self) -> None:
        """A marker without variant variables comes back as it is."""
        marker = parse_marker('(os_name == "a" and os_name == "b") or extra == "c"')
        assert marker.resolve_variants(VariantContext.PLAIN) is marker

    @pytest.mark.parametrize(
        ("atom", "decided"),
        [
            ('variant_label == "l"', True),
            ('"n" in variant_namespaces', True),
            ('"n :: one" in variant_features', True),
            ('"n :: one :: 1" in variant_properties', True),
            ('"n :: one :: 2" in variant_properties', True),
            ('"n :: many :: 3" in variant_properties', True),
            ('"n :: many :: 1" in variant_properties', False),
            ('"n::many::2" not in variant_properties', False),
        ],
    )
    def test_declared_properties_may_be_filtered_later(self, atom: str, *, decided: bool) -> None:
        """B-41: one of several declared values is left to the target."""
        declared = PropertySet.from_mapping({"n": {"one": ["1"], "many": ["1", "2"]}})
        resolved = parse_marker(atom).resolve_variants(
            VariantContext("l", declared), filtered=False
        )
        assert isinstance(resolved, bool) is decided
