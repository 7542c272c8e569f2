"""Requirements are accepted, read and written as packaging does it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement as PackagingInvalidRequirement
from packaging.requirements import Requirement as PackagingRequirement
from packaging.utils import canonicalize_name

from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import InvalidRequirement

BLANKS = st.sampled_from(["", "", " ", "\t "])
NAMES = st.sampled_from(["a", "Foo", "foo_bar", "foo.Bar-baz", "x2"])
CLAUSES = st.tuples(
    st.sampled_from(["==", "!=", ">=", "<=", ">", "<", "~=", "==="]),
    BLANKS,
    st.sampled_from(["1", "1.0", "2.0rc1", "1.*", "1.0+cu128", "1!2.0.post1", "abc"]),
).map("".join)
SPECIFIERS = st.lists(CLAUSES, max_size=3).flatmap(
    lambda clauses: st.sampled_from([", ", ",", " , ", " "]).map(lambda comma: comma.join(clauses))
)
EXTRAS = st.sampled_from(["", "[]", "[a]", "[A_b,c]", "[ a , b ]", "[a b]"])
URLS = st.sampled_from(["https://host/a-1.whl", "file:///a;b", "https://u:p@host/a?x#sha256=0"])
MARKERS = st.sampled_from(
    ["", "; os_name == 'posix'", " ;extra=='a' or python_version<'3'", ";", "; os_name"]
)
WITH_VERSIONS = st.tuples(BLANKS, NAMES, BLANKS, EXTRAS, BLANKS, SPECIFIERS, BLANKS, MARKERS)
WITH_PARENTHESES = st.tuples(NAMES, EXTRAS, st.just("("), SPECIFIERS, st.just(")"), MARKERS)
WITH_URLS = st.tuples(NAMES, EXTRAS, BLANKS, st.just("@"), BLANKS, URLS, BLANKS, MARKERS)
REQUIREMENTS = (WITH_VERSIONS | WITH_PARENTHESES | WITH_URLS).map("".join)


@st.composite
def slips(draw: st.DrawFn) -> str:
    """Draw a requirement with a character or two changed."""
    text = draw(REQUIREMENTS)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(["", " ", ";", ",", "@", "[", "]", "(", ")", "=", "-", "\n"]))
        text = text[:at] + piece + text[at + draw(st.integers(0, 1)) :]
    return text


@settings(max_examples=600)
@given(slips())
def test_reads_what_packaging_reads(text: str) -> None:
    """Acceptance and every part of a requirement without variant markers are packaging's."""
    try:
        expected = PackagingRequirement(text)
    except PackagingInvalidRequirement:
        with pytest.raises(InvalidRequirement) as excinfo:
            parse_requirement(text, allow_variant_markers=True)
        assert 0 <= excinfo.value.position <= len(text)
        return
    requirement = parse_requirement(text, allow_variant_markers=False)
    assert requirement.name == canonicalize_name(expected.name)
    assert requirement.extras == {canonicalize_name(extra) for extra in expected.extras}
    assert requirement.specifier == expected.specifier
    assert requirement.url == expected.url
    assert str(requirement.marker) == str(expected.marker)


@settings(max_examples=200)
@given(slips())
def test_written_requirements_read_back_equal(text: str) -> None:
    """Reading and writing are inverses, and packaging reads what is written."""
    try:
        requirement = parse_requirement(text, allow_variant_markers=True)
    except InvalidRequirement:
        return
    # packaging takes a name that ends in "_", though its normal form is not a name.
    assume(not any(name.endswith("-") for name in [requirement.name, *requirement.extras]))
    assert parse_requirement(str(requirement), allow_variant_markers=True) == requirement
    assert str(PackagingRequirement(str(requirement))) == str(requirement)
