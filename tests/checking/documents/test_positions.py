"""Where in a document something stands."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.documents.positions import (
    find_positions,
    with_positions,
    with_toml_positions,
)
from wheelfit.checking.findings import Correction, Location
from wheelfit.core.strict_json import path_of

TEXT = b"""{
  "a": {"b": [1,
    "x\\"{[,:y", 3]},
  "c.d": [{"e":
    null}, {"f": []}],
  "h\\u0061": {}
}
"""


def line_numbers(data: bytes, wanted: Collection[str] = ()) -> dict[str, int]:
    """Return the lines of places alone."""
    return {path: entry.line for path, entry in find_positions(data, wanted).items()}


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
    location = Location("x.json")
    check = CHECKS["wrong-keys"]
    found = [location.finding(check, "", path=path) for path in ("a.z", 'a.b[1].q["r s"]', "z", "")]
    assert [finding.line for finding in with_positions(found, TEXT)] == [2, 3, 1, 1]


def test_without_places() -> None:
    """Findings about the whole document are left as they are."""
    found = [Location("x.json").finding(CHECKS["wrong-keys"], "")]
    assert with_positions(found, TEXT) == found


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
@settings(max_examples=50)
def test_all_places_of_any_document(document: dict[str, object]) -> None:
    """Every place of any document is found, whatever its keys and strings hold."""
    text = json.dumps(document, indent=1)
    found = find_positions(text.encode())

    def walk(steps: tuple[str | int, ...], value: object) -> None:
        location = found[path_of(*steps)]
        assert location.value is None or json.loads(text[slice(*location.value)]) == value
        assert location.key is None or json.loads(text[slice(*location.key)]) == steps[-1]
        if isinstance(value, dict):
            for key, inner in value.items():
                walk((*steps, key), inner)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk((*steps, index), inner)

    walk((), document)


def test_corrections() -> None:
    """A correction takes the place of a key or of a value; without a place there is none."""
    location, check = Location("x.json"), CHECKS["wrong-keys"]
    found = [
        location.finding(
            check, "", path=path, correction=Correction(text, is_of_key=of_key), remedy="r"
        )
        for path, text, of_key in (
            ("a.b", '"c"', True),
            ("a.b[1]", '"y"', False),
            ("a.gone", '"b2"', True),
            ("a.b[0]", '"x"', True),  # an element has no key
            ("ha", '"a"', True),  # which is there already
        )
    ]
    corrected = with_positions(found, TEXT)
    regions = [one.correction and one.correction.region for one in corrected]
    assert regions == [(2, 9, 2, 12), (3, 5, 3, 15), None, None, None]
    assert [one.remedy == "r" for one in corrected] == [True, True, False, False, False]


def test_lists_in_order() -> None:
    """F-23: a list of values is put in order, as it was laid out if nothing is there twice."""

    def corrected(values: str) -> str | None:
        finding = Location("x.json").finding(CHECKS["bad-values"], "", path="a")
        (placed,) = with_positions([finding], f'{{"a": {values}}}'.encode())
        return placed.correction.text if placed.correction is not None else None

    assert corrected('["b",\n  "a"]') == '["a",\n  "b"]'
    assert corrected('["b", "a", "b"]') == '["a", "b"]'
    assert corrected("[]") is corrected("[1, 2]") is corrected('"a"') is None


def test_places_in_toml() -> None:
    """Findings in TOML have lines, and corrections the regions of values."""
    text = "b = 1\n[a]\nlist = [\n  \"ü\", 'x',\n]\n".encode()
    location, check = Location("pyproject.toml"), CHECKS["unknown-classifier"]
    found = [
        location.finding(check, "", path=path, correction=Correction('"y"'))
        for path in ("a.list[1]", "a.other", "")
    ]
    placed = with_toml_positions(found, text)
    assert [one.line for one in placed] == [4, 2, None]
    assert [one.correction and one.correction.region for one in placed] == [
        (4, 8, 4, 11), None, None,
    ]  # fmt: skip
