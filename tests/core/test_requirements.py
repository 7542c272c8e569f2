"""Requirements: parts, errors, and where variant markers may be."""

from __future__ import annotations

import pytest

from wheelfit.core.markers import VariantContext
from wheelfit.core.requirements import marker_start, parse_requirement
from wheelfit.errors import InvalidRequirement


class TestParse:
    """Reading one requirement; its laws are in the property tests."""

    @pytest.mark.parametrize(
        ("text", "normal"),
        [
            ("Torch", "torch"),
            ("torch [Opt.Einsum,b] >=2.8 , <3", "torch[b,opt-einsum]<3,>=2.8"),
            ("a (==1.0) ; os.name=='nt'", 'a==1.0; os_name == "nt"'),
            ("a @ https://host/x;y ; extra=='b'", 'a @ https://host/x;y ; extra == "b"'),
            ("a @ file:///a-1-py3-none-any.whl", "a @ file:///a-1-py3-none-any.whl"),
        ],
    )
    def test_normal_form(self, text: str, normal: str) -> None:
        """Names and extras are normalised, the rest is written in one way."""
        assert str(parse_requirement(text, allow_variant_markers=False)) == normal

    def test_where_the_marker_starts(self) -> None:
        """A semicolon in a URL is part of the URL unless a blank is before it."""
        assert marker_start("a>=1;os_name=='x'") == 4
        assert marker_start("a @ https://h/x;y ; z") == 18
        assert marker_start("a @ https://h/x;y") is None
        assert marker_start("a") is None

    def test_applies(self) -> None:
        """F-101: the marker is evaluated in the context of a wheel."""
        requirement = parse_requirement("a; variant_label == ''", allow_variant_markers=True)
        assert requirement.applies({}, variant=VariantContext.PLAIN)
        assert not requirement.applies({}, variant=VariantContext.NULL)
        assert parse_requirement("a", allow_variant_markers=True).applies({})


class TestVariantMarkers:
    """F-109: variant markers only where there is a wheel."""

    def test_allowed_in_a_wheel(self) -> None:
        """F-100: the metadata of a wheel may use them."""
        requirement = parse_requirement(
            'a; "nvidia" in variant_namespaces', allow_variant_markers=True
        )
        assert requirement.marker is not None
        assert requirement.marker.uses_variants

    def test_refused_elsewhere(self) -> None:
        """F-109: what a user types has no wheel; the caret is at the variable."""
        text = 'a>=1; os_name == "nt" or "nvidia" in variant_namespaces'
        with pytest.raises(
            InvalidRequirement, match="variant_namespaces cannot be used"
        ) as excinfo:
            parse_requirement(text, allow_variant_markers=False, where="requirements.txt")
        assert excinfo.value.position == text.index("variant_namespaces")
        assert excinfo.value.where == "requirements.txt"


class TestErrors:
    """A bad requirement is shown with a caret where reading stopped."""

    @pytest.mark.parametrize(
        ("text", "position", "message"),
        [
            ("", 0, "a requirement is empty"),
            ("foo=1", 3, "expected semicolon"),
            ("foo>=1 <2", 7, "expected comma"),
            ("foo; os_nam == 'x'", 5, "'os_nam' is not a marker variable"),
            ("foo; variant_label > 'x'", 19, "variant_label is text"),
            ("foo >>1; bad", 4, "expected semicolon"),
            ("foo[a", 5, "expected matching ']' for '\\['"),
            ("./foo.whl", 0, "expected package name"),
            (" foo_ >1", 4, "a name ends with a letter"),
            ("foo @ https://h/x;y z", 20, "expected semicolon"),
        ],
    )
    def test_points_at_the_place(self, text: str, position: int, message: str) -> None:
        """The first thing wrong in the line is what is reported."""
        with pytest.raises(InvalidRequirement, match="^" + message) as excinfo:
            parse_requirement(text, allow_variant_markers=True, where="there")
        assert excinfo.value.position == position
        assert excinfo.value.source == text
        assert excinfo.value.where == "there"

    def test_a_single_equals_sign(self) -> None:
        """The commonest slip gets a hint."""
        with pytest.raises(InvalidRequirement) as excinfo:
            parse_requirement("foo=1", allow_variant_markers=True)
        assert excinfo.value.hint == "write == to require one version"
