from __future__ import annotations

import json
import tracemalloc
from datetime import date
from typing import Any

import pytest
from sampled_cases import sampled

from wheelfit.core.strict_json import JsonLimits, check_limits, load, path_of, shown
from wheelfit_runtime.errors import InvalidDocument


def refused(data: bytes, limits: JsonLimits | None = None) -> InvalidDocument:
    """Return the error with which a document is refused."""
    with pytest.raises(InvalidDocument) as excinfo:
        load(data, limits or JsonLimits())
    assert {fault.rule for fault in excinfo.value.faults} == {"F-30"}
    return excinfo.value


def test_a_document() -> None:
    """F-30: an object within the limits is read as the standard library reads it."""
    text = '{"a": [1, "x\\"[{:,", [], {}], "ä": {"b": null, "c": -1.5e3}, "d": "\\u00e9"}\n'
    assert load(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": "\t"}', "not JSON"),
        (b'{"a": "x}', "not JSON"),
        (b'{"a": 1} x', "after the end of the document, at line 1 column 10"),
        (b'{"a": 1}{}', "after the end"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b"[]", "is a list, not an object"),
        (b'"x"', "is a string, not an object"),
        (b"null", "is null, not an object"),
        (b"1", "is a number, not an object"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8: invalid start byte at byte 7"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number that cannot be read"),
    ],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    """F-30: encoding, byte order mark, syntax, NaN, trailing text and other roots."""
    assert message in str(refused(data))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"a": 1, "a": 2}', ["a"]),
        ('{"a": 1, "\\u0061": 2}', ["a"]),
        ('{"a": {"b": 1, "c": 2, "b": 3}, "d": {"e": 1, "e": 1}}', ["a.b", "d.e"]),
        ('{"x.y": [0, {"b": {"c": 1, "c": 1}}]}', ['["x.y"][1].b.c']),
        ('{"a": ["text", {"c": 1, "c": 1}]}', ["a[1].c"]),
    ],
)
def test_duplicate_keys(text: str, paths: list[str]) -> None:
    """F-30: a key that comes twice at any level is refused, every one with its path."""
    faults = refused(text.encode()).faults
    assert [fault.path for fault in faults] == paths


def test_keys_are_compared_within_their_object() -> None:
    """F-30: the same key in different objects is fine, mixed lists included."""
    text = '{"a": ["text", {"c": 1}], "b": {"a": {"a": "a:a"}}}'
    assert load(text.encode()) == json.loads(text)


def test_size() -> None:
    """F-30: a document of the limit is read, one byte more is refused."""
    data = b'{"a": 1}'
    assert load(data, JsonLimits(size=len(data))) == {"a": 1}
    assert "9 bytes" in str(refused(data + b" ", JsonLimits(size=len(data))))


@pytest.mark.parametrize("text", ['{"a": [{"b": [%s]}]}', '{"[[[": [{"]": ["[", %s]}]}'])
def test_depth(text: str) -> None:
    """F-30: the depth counts objects and lists; brackets in strings do not count."""
    limits = JsonLimits(depth=5)
    assert load((text % "[]").encode(), limits) == json.loads(text % "[]")
    assert load((text % "[],[],{}").encode(), limits)
    assert "deeper than the limit of 5" in str(refused((text % "[[]]").encode(), limits))
    assert "deeper" in str(refused((text % '{"a": {}}').encode(), limits))


def test_labels_and_values() -> None:
    """F-30: labels and list elements are counted, at the limit they are accepted."""
    limits = JsonLimits(labels=2, values=3)
    data = b'{"variants": {"a": {}, "b": {"n": {"f": ["1", "2", "3"]}}}}'
    assert load(data, limits)
    many = b'{"variants": {"a": {}, "b": {}, "c": {}}}'
    error = refused(many, limits)
    assert error.faults[0].path == "variants"
    assert "more labels than the limit of 2" in str(error)
    for text in (b'{"a": ["1", "2"], "b": [["3"]]}', b'{"a": [1,\n{"x": 1}, [], null]}'):
        assert "more list elements than the limit of 3" in str(refused(text, limits))
        assert load(text, JsonLimits(values=4))


def test_labels_are_those_of_variants() -> None:
    """F-30: members of other objects are no labels, and a key is read however it is written."""
    many = json.dumps({f"l{number}": {} for number in range(20)})
    limits = JsonLimits(labels=3)
    assert load(
        f'{{"x": {many}, "variants": {{"a": {{}}}}, "y": {{"variants": {many}}}}}'.encode(), limits
    )
    for text in (
        f'{{"x":1,"v\\u0061riants" :\n{many}}}',
        f' {{"variants":{{}},"variants":{many}}}',
    ):
        assert "more labels than the limit of 3" in str(refused(text.encode(), limits))


BOMBS = {
    "lists": b"[" * 4_000_000,
    "objects": b'{"a":' * 800_000,
    "backslashes": b'{"a": "' + b"\\" * 4_000_000,
    "a string without end": b'{"a": "' + b'\\"' * 2_000_000,
    "quotes": b'"' * 1_000_000,
    "siblings": b'{"a": [' + b"[]," * 1_300_000,
    "digits": b'{"a": ' + b"1" * 4_000_000 + b"}",
    "numbers": b'{"a": [1' + b",1" * 2_000_000 + b"]}",
    "unbalanced": b"[][]]" * 800_000,
    "closing brackets": b"{" + b"]" * 4_000_000,
    "too large": b"[" * 60_000_000,
    "labels": b'{"variants":{' + b",".join(b'"l%d":{}' % n for n in range(200_000)) + b"}}",
    "labels, with a wide character": '{"\U0001f4a3":0,"variants":{'.encode()
    + b",".join(b'"label%d":{}' % n for n in range(250_000))
    + b"}}",
    "values": b'{"x":["a"' + b',"a"' * 1_000_000 + b"]}",
    "values beside colons": b'{"' + b":" * 2_000_000 + b'":["a"' + b',"a"' * 500_000 + b"]}",
}


@pytest.mark.parametrize("name", sampled(BOMBS, fast=range(0, 100, 2)))
def test_bombs(name: str) -> None:
    """F-30: input built to be expensive is refused with little memory, and never by recursion.

    A text that costs more than its length squared would not come to an end here.
    """
    data = BOMBS[name]
    tracemalloc.start()
    refused(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (100_000 if name == "too large" else 20_000_000)


@pytest.mark.parametrize("size", [1 << 15, 1 << 16, (1 << 16) + 1, 1 << 18])
@pytest.mark.parametrize("text", ['"%s"', '{"a": ["%s", {}, []]}', '{"%s": {"a": [1, {}]}}'])
def test_long_strings(text: str, size: int) -> None:
    """F-30: however a text falls into pieces, it counts the same."""
    data = (text % ("\\\\[,:" * (size // 8))).encode()
    document = b'{"b": [], "a": ' + data + b"}"
    assert load(document) == json.loads(document)
    padded = b" " * (size - 20) + document
    assert load(padded) == json.loads(document)


def test_more_depth_than_python_can_read() -> None:
    """F-30: a limit of the user's beyond what can be read does not end in a crash."""
    document = b'{"a":' * 2_500 + b"1" + b"}" * 2_500
    try:
        json.loads(document)
    except RecursionError:
        assert "nested" in str(refused(document, JsonLimits(depth=3_000)))
    else:  # from Python 3.13 on, json reads deeper
        load(document, JsonLimits(depth=3_000))


def test_limits_of_parsed_data() -> None:
    """F-30: data from a lock file is held to the same limits."""
    limits = JsonLimits(depth=3, labels=1, values=2)
    check_limits({"variants": {"a": {}}, "b": [["1"]]}, limits)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"variants": {"a": {}, "b": {}}}, "more labels"),
        ({"b": ["1", "2", "3"]}, "list elements"),
        ({"a": {"b": {"c": {}}}}, "deeper"),
        ({"a": [[[]]]}, "deeper"),
    ]
    for document, message in cases:
        with pytest.raises(InvalidDocument) as excinfo:
            check_limits(document, limits)
        assert message in str(excinfo.value)


def test_paths() -> None:
    """A path can be read and is never ambiguous, whatever the keys are."""
    assert path_of("variants", "cuda12.6", "nvidia", 0) == 'variants["cuda12.6"].nvidia[0]'
    assert path_of("$schema") == "$schema"
    assert path_of("a\nb\ud800") == '["a\\nb\\ud800"]'
    assert len(path_of("x" * 10_000 + ".")) < 100


def test_values_in_messages() -> None:
    """A value in a message is escaped and short."""
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 10_000)) < 100
    values: list[Any] = [None, True, 1, 1.5, [], {}, "é", date(2026, 1, 1)]
    assert [shown(value) for value in values] == [
        "null",
        "true",
        "a number",
        "1.5",
        "a list",
        "an object",
        r"'\xe9'",
        "a date",
    ]
