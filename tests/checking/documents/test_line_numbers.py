"""On which line of a document something stands."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.documents.line_numbers import line_numbers, with_lines
from wheelfit.checking.findings import CheckedFile
from wheelfit.core.strict_json import path_of

TEXT = b"""{
  "a": {"b": [1,
    "x\\"{[,:y", 3]},
  "c.d": [{"e":
    null}, {"f": []}],
  "h\\u0061": {}
}
"""


def test_every_place() -> None:
    """Keys and elements are on the line on which they begin; strings hide brackets."""
    lines = line_numbers(TEXT)
    assert lines == {
        "": 1,
        "a": 2,
        "a.b": 2,
        "a.b[0]": 2,
        "a.b[1]": 3,
        "a.b[2]": 3,
        '["c.d"]': 4,
        '["c.d"][0]': 4,
        '["c.d"][0].e': 4,
        '["c.d"][1]': 5,
        '["c.d"][1].f': 5,
        "ha": 6,
    }


@pytest.mark.parametrize("data", [b"{", b"\xff", b"]", b""])
def test_no_document(data: bytes) -> None:
    """What is not JSON has no lines but the first."""
    assert line_numbers(data) == {"": 1}


def test_no_deeper_than_any_document() -> None:
    """Endless brackets are left alone."""
    assert len(line_numbers(b"[" * 10_000)) < 100


def test_no_more_than_is_asked() -> None:
    """What stands behind the last place that is asked for is not read."""
    assert line_numbers(TEXT, {"a.b"}).keys() < line_numbers(TEXT).keys()
    assert line_numbers(b'{"a": {},\n"b": {}, nonsense', {"b"}) == {"": 1, "a": 1, "b": 2}


def test_what_is_missing() -> None:
    """Something that should be there and is not stands where its parent stands."""
    place = CheckedFile("x.json")
    check = CHECKS["wrong-keys"]
    found = [place.found(check, "", path=path) for path in ("a.z", 'a.b[1].q["r s"]', "z", "")]
    assert [one.line for one in with_lines(found, TEXT)] == [2, 3, 1, 1]


def test_without_places() -> None:
    """Findings about the whole document are left as they are."""
    found = [CheckedFile("x.json").found(CHECKS["wrong-keys"], "")]
    assert with_lines(found, TEXT) == found


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
@settings(max_examples=50)
def test_all_places_of_any_document(document: dict[str, object]) -> None:
    """Every place of any document is found, whatever its keys and strings hold."""
    lines = line_numbers(json.dumps(document, indent=1).encode())

    def walk(steps: tuple[str | int, ...], value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                assert path_of(*steps, key) in lines
                walk((*steps, key), inner)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                assert path_of(*steps, index) in lines
                walk((*steps, index), inner)

    walk((), document)
