"""Which variant a build is asked for."""

from __future__ import annotations

import pytest
from error_codes import raises_code

from wheelfit.core.labels import Label
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.variant_request import VariantRequest, choose_variant, read_settings
from wheelfit_runtime.error_codes import Code
from wheelfit_runtime.errors import InvalidConfiguration

V3 = PropertySet.from_mapping({"x86_64": {"level": ["v3"]}})
V4 = PropertySet.from_mapping({"x86_64": {"level": ["v4"]}})
TABLE = {Label("fast"): V3, Label("cfdbe307"): V3, Label("fa7c1393"): V3}


class TestSettings:
    """Config settings as frontends hand them over."""

    @pytest.mark.parametrize("settings", [{}, {"setup-args": ["-Dx=1"]}, {"editable": ""}])
    def test_nothing_asked(self, settings: dict[str, str | list[str]]) -> None:
        """Without a word about variants nothing is asked for."""
        assert read_settings(settings) is None

    def test_union(self) -> None:
        """B-15, B-14: properties of both settings count, as texts or as lists."""
        request = read_settings(
            {
                "variant": "x86_64::level::v3",
                "variant-name": ["x86_64 :: aes :: on", "x86_64::level::v3"],
            }
        )
        assert request == VariantRequest(
            PropertySet.from_mapping({"x86_64": {"level": ["v3"], "aes": ["on"]}})
        )
        assert request is not None
        # B-19: the name that other backends give.
        assert choose_variant(request, {})[0] == "7e3cb5eb"

    def test_label(self) -> None:
        """B-15: the label that is given is used instead of the hash."""
        settings = {"variant-name": "x86_64::level::v3", "variant-label": "x8664v3"}
        request = read_settings(settings)
        assert request is not None
        assert choose_variant(request, {}) == ("x8664v3", V3)

    @pytest.mark.parametrize("value", ["", "true", "anything"])
    def test_null(self, value: str) -> None:
        """B-15, B-14: null-variant may have any value, the empty one too."""
        request = read_settings({"null-variant": value})
        assert request is not None
        assert choose_variant(request, {}) == ("null", EMPTY)
        assert read_settings({"variant-label": "null"}) == request

    @pytest.mark.parametrize("other", ["variant", "variant-name", "variant-label"])
    def test_null_excludes_the_others(self, other: str) -> None:
        """B-15: null-variant excludes the other three."""
        with pytest.raises(InvalidConfiguration, match=f"excludes {other} "):
            read_settings({"null-variant": "", other: "x"})

    @pytest.mark.parametrize(
        ("settings", "code"),
        [
            ({"variant-property": "a :: b :: c"}, "invalid-configuration"),
            ({"variants": "x"}, "invalid-configuration"),
            ({"variant-label": ["a", "b"]}, "invalid-configuration"),
            ({"variant-label": []}, "invalid-configuration"),
            ({"variant-label": "A"}, "invalid-label"),
            ({"variant-label": ""}, "invalid-label"),
            ({"variant": ""}, "invalid-property"),
            ({"variant": "a :: b"}, "invalid-property"),
            ({"variant": "a :: b :: c", "variant-label": "null"}, "invalid-label"),
        ],
    )
    def test_malformed(self, settings: dict[str, str | list[str]], code: Code) -> None:
        """B-14: unknown settings and what cannot be read are errors."""
        with raises_code(code):
            read_settings(settings)


class TestChoice:
    """From what is asked for to label and properties."""

    def test_properties_and_label(self) -> None:
        """B-16: with properties a label names them, whether the table knows it or not."""
        assert choose_variant(VariantRequest(V4, Label("new")), TABLE) == ("new", V4)
        assert choose_variant(VariantRequest(V3, Label("fast")), TABLE) == ("fast", V3)

    def test_properties_and_label_that_disagree(self) -> None:
        """B-16: a label of the table must have equal properties."""
        with raises_code("invalid-label", match="x86_64 :: level :: v3"):
            choose_variant(VariantRequest(V4, Label("fast")), TABLE)

    def test_label_alone(self) -> None:
        """B-16: without properties a label selects from the table, and null always can."""
        assert choose_variant(VariantRequest(label=Label("fast")), TABLE) == ("fast", V3)
        assert choose_variant(VariantRequest(label=Label("null")), TABLE) == ("null", EMPTY)

    def test_unknown_label_alone(self) -> None:
        """B-15, B-16: a label without properties that no table has is an error."""
        with raises_code("invalid-label", match="there are: cfdbe307, fa7c1393, fast"):
            choose_variant(VariantRequest(label=Label("slow")), TABLE)
        with raises_code("invalid-label", match="there are: none"):
            choose_variant(VariantRequest(label=Label("slow")), {})

    def test_no_label(self) -> None:
        """F-140, B-33: a hash stands in for a label only where none was given."""
        assert choose_variant(VariantRequest(V3), {}) == ("fa7c1393", V3)
        assert choose_variant(VariantRequest(V3, Label("a")), {}) == ("a", V3)
        assert choose_variant(VariantRequest(V3), TABLE) == ("fa7c1393", V3)

    def test_collision(self) -> None:
        """F-143: a hash that is the label of other properties asks for a label."""
        with raises_code("invalid-label", match="cfdbe307") as excinfo:
            choose_variant(VariantRequest(V4), TABLE)
        assert "choose a label" in (excinfo.value.hint or "")
        assert choose_variant(VariantRequest(V4, Label("v4")), TABLE) == ("v4", V4)

    def test_properties_or_null(self) -> None:
        """B-33: at least one property, or null, which is for the null variant only."""
        with pytest.raises(InvalidConfiguration, match="at least one property"):
            VariantRequest()
        with raises_code("invalid-label", match="null may not have properties"):
            VariantRequest(V3, Label("null"))

    def test_duplicates(self) -> None:
        """B-33: the same property twice is one; two values of one feature are a set."""
        request = read_settings({"variant": ["a::b::2", "a :: b :: 1", "a::b::2"]})
        assert request is not None
        assert [str(item) for item in request.properties] == ["a :: b :: 1", "a :: b :: 2"]
