"""Core metadata is read as the standard library reads it, and edited without a trace."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.metadata import parse_email

from wheelfit.core.core_metadata import read_metadata, without_variant_markers
from wheelfit.core.markers import VariantContext

LINE_ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r"])
DEPENDENCIES = st.sampled_from(
    [
        "a",
        "b>=1 ; os_name == 'nt'",
        "c;",
        "d; extra == 'x' or",
        "e; variant_label == ''",
        "f; variant_label != '' and\n   os_name == 'nt'",
        "g; variant_label == '' or os_name == 'nt'",
    ]
)
OTHERS = [
    "Summary: variant_label",
    "Description: a\n        b: c",
    "X-Y:",
    "Keywords: a\n  Name: x",
    "",
    "no field",
    "Author: Jürgen",
    "Provides-Extra: x",
]
LINES = st.one_of(
    DEPENDENCIES.map("Requires-Dist: ".__add__),
    DEPENDENCIES.map("requires-dist:".__add__),
    st.sampled_from(OTHERS),
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Draw metadata with line ends of every kind."""
    lines = ["Metadata-Version: 2.4", "Name: a", "Version: 1", *draw(st.lists(LINES, max_size=8))]
    text = "".join(line + draw(LINE_ENDS) for line in lines)
    return (text + draw(st.sampled_from(["", "\nRequires-Dist: e; variant_label == ''"]))).encode()


@settings(max_examples=300)
@given(documents())
def test_reads_what_the_standard_library_reads(data: bytes) -> None:
    """The dependencies are those of the e-mail parser, unfolded."""
    raw, _ = parse_email(data)
    expected = tuple(
        re.sub(r"[ \t]*(?:\r\n|\r|\n)[ \t]+", " ", text).strip(" \t")
        for text in raw.get("requires_dist", ())
    )
    assert read_metadata(data, "w").requires_texts == expected


@settings(max_examples=300)
@given(documents(), st.sampled_from([VariantContext.PLAIN, VariantContext.NULL]))
def test_editing_twice_changes_nothing_more(data: bytes, context: VariantContext) -> None:
    """B-40, B-42: what remains has no variant markers, and the fields around are the same."""
    edited = without_variant_markers(data, context)
    assert without_variant_markers(edited, context) == edited
    before, other_before = parse_email(data)
    after, other_after = parse_email(edited)
    before.pop("requires_dist", None)
    left = after.pop("requires_dist", [])
    assert (after, other_after) == (before, other_before)
    assert not any("variant_" in text for text in left)
