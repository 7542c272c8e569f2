"""Work grows with the size of what strangers wrote, and not with its square.

Counted are lines of our code that run and texts that are compared, so the numbers are the same on
every machine and say nothing about seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from types import FrameType
from typing import Any, TypeVar

import pytest

from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.index_metadata import contradictions
from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.metadata import check_document, read_document, write_document
from wheelfit.core.properties import Property, PropertySet
from wheelfit.core.strict_json import JsonLimits, load
from wheelfit.core.versions import has_too_many_digits
from wheelfit.locking.document import Lock
from wheelfit.sources.simple_api import parse_links
from wheelfit_runtime.errors import WheelfitError

SMALL, LARGE = 100, 800
HOST = "https://variants-schema.wheelnext.dev"
Made = TypeVar("Made")
FRESH = count()
"""So that no text was seen, and remembered, before."""


class Text(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def counting(value: Any) -> Any:
    """Return plain data whose texts count."""
    if isinstance(value, dict):
        return {Text(key): counting(item) for key, item in value.items()}
    if isinstance(value, list):
        return [counting(item) for item in value]
    return Text(value) if isinstance(value, str) else value


def work(call: Callable[[], object]) -> int:
    """Return how many lines of wheelfit run and how many texts are compared in a call."""
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if "wheelfit" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    Text.compared = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(WheelfitError):
            call()
    finally:
        sys.settrace(before)
    return lines + Text.compared


def assert_linear(make: Callable[[int, int], Made], call: Callable[[Made], object]) -> None:
    """Check that eight times the size costs at most twelve times the work.

    :param make: from a size and a fresh number to what the work is about.
    :param call: does the work that counts.
    """
    made = (make(size, next(FRESH)) for size in (SMALL, LARGE))
    small, large = (work(partial(call, one)) for one in made)
    assert 0 < large < 12 * small


def document(draft: str = "peps/850/v0.2.0.json", /, **more: Any) -> dict[str, Any]:
    """Make a document with parts that are given."""
    return {
        "$schema": f"{HOST}/{draft}",
        "default-priorities": {"namespace": ["x"]},
        "providers": {"x": {"requires": ["x"]}},
        "variants": {},
        **more,
    }


def many(size: int, fresh: int) -> list[str]:
    """Return distinct names."""
    return [f"n{fresh}_{number}" for number in range(size)]


L2 = "v0.0.2.json"
L6 = "peps/9999/v0.2.0.json"
DOCUMENTS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "labels": lambda n, f: document(variants={t: {"x": {"a": [t]}} for t in many(n, f)}),
    "broken labels": lambda n, f: document(variants={t.upper(): {} for t in many(n, f)}),
    "values": lambda n, f: document(variants={"a": {"x": {"a": many(n, f)}}}),
    "equal values": lambda n, f: document(variants={"a": {"x": {"a": [f"v{f}"] * n}}}),
    "broken values": lambda n, f: document(variants={"a": {"x": {"a": [f"V{f}"] * n}}}),
    "features": lambda n, f: document(variants={"a": {"x": {t: ["1"] for t in many(n, f)}}}),
    "namespaces": lambda n, f: document(variants={"a": {t: {"a": ["1"]} for t in many(n, f)}}),
    "priorities": lambda n, f: document(**{"default-priorities": {"namespace": many(n, f)}}),
    "equal priorities": lambda n, f: document(
        **{"default-priorities": {"namespace": [f"n{f}"] * n}}
    ),
    "unlisted providers": lambda n, f: document(
        providers={f"p{t}": {"requires": ["x"]} for t in many(n, f)},
        **{"default-priorities": {"namespace": many(n, f)}},
    ),
    "requirements": lambda n, f: document(providers={"x": {"requires": many(n, f)}}),
    "static lists": lambda n, f: document(
        providers={
            "x": {
                "static-properties": {t: [t, "1"] for t in many(n, f)},
                "feature-order": many(n, f)[::-1],
            }
        },
    ),
    "unknown keys": lambda n, f: document(**dict.fromkeys(many(n, f), 1)),
    "providers of L2": lambda n, f: document(
        L2,
        providers={t: {"plugin-use": "none"} for t in many(n, f)},
        **{
            "default-priorities": {
                "namespace": ["x"],
                "property": {t: {"a": ["1"]} for t in many(n, f)},
            }
        },
    ),
    "prefixes of L6": lambda n, f: document(
        L6,
        providers={"x": {"static-properties": {t: ["1"] for t in many(n, f)}}},
        **{
            "default-priorities": {
                "namespace": ["x"],
                "feature": {"x": many(n, f)[::-1]},
                "property": {"x": {t: ["2", "1"] for t in many(n, f)}},
            }
        },
    ),
}


@pytest.mark.parametrize("shape", DOCUMENTS)
def test_documents(shape: str) -> None:
    """However a document is built, reading, checking and writing it is linear."""

    def call(made: Any) -> None:
        check_document(made)
        write_document(read_document(made, where="x"), accept_losses=True)

    assert_linear(lambda size, fresh: counting(DOCUMENTS[shape](size, fresh)), call)


def test_contradictions() -> None:
    """That documents without providers name what others lack is found in one pass."""

    def make(size: int, fresh: int) -> list[tuple[str, VariantDocument]]:
        names = counting(many(size, fresh))
        bare = document("peps/825/v0.1.1.json", **{"default-priorities": {"namespace": names}})
        del bare["providers"]
        return [
            (where, read_document(made, where=where))
            for where, made in [("a", bare), ("b", bare), ("c", document())]
        ]

    assert_linear(make, contradictions)


JSON: dict[str, Callable[[int], str]] = {
    "lists": lambda n: json.dumps({"a": [[1]] * n}),
    "texts": lambda n: json.dumps({"a": ["\\"] * n}),
    "keys": lambda n: json.dumps({f"k{number}": {} for number in range(n)}),
    "equal keys": lambda n: "{" + ",".join(['"a":1'] * n) + "}",
    "open lists": lambda n: '{"a":' + "[" * n,
    "open text": lambda n: '{"a":"' + '\\"' * n,
    "too many labels": lambda n: json.dumps({"variants": {f"l{m}": {} for m in range(n)}}),
}


@pytest.mark.parametrize("shape", JSON)
@pytest.mark.parametrize(
    "limits", [JsonLimits(), JsonLimits(labels=10, values=10)], ids=["wide", "tight"]
)
def test_json(shape: str, limits: JsonLimits) -> None:
    """Whatever the text, refusing or reading it is linear."""
    assert_linear(lambda size, _: JSON[shape](size).encode(), lambda data: load(data, limits))


def marker_of(atoms: list[str], word: str, depth: int = 1) -> str:
    """Join atoms within parentheses."""
    return "(" * depth + f" {word} ".join(atoms) + ")" * depth


MARKERS: dict[str, Callable[[int, int], str]] = {
    "and": lambda n, f: marker_of([f"os_name != '{t}'" for t in many(n, f)], "and"),
    "or": lambda n, f: marker_of([f"os_name == '{t}'" for t in many(n, f)], "or", 50),
    "mixed": lambda n, f: marker_of(
        [f"(os_name == '{t}' or extra == 'a' and variant_label == 'b')" for t in many(n, f)], "and"
    ),
    "variant": lambda n, f: marker_of([f"'{t}' in variant_namespaces" for t in many(n, f)], "or"),
    "escapes": lambda n, f: f"os_name == '{f}" + r"\n\q\x41" * n + "'",
    "no end": lambda n, f: f"os_name == '{f}" + "a" * n,
    "word": lambda n, f: f"a{f}" * n,
    "blanks": lambda n, f: f"os_name == '{f}'" + " " * n + "x",
}


@pytest.mark.parametrize("shape", MARKERS)
def test_markers(shape: str) -> None:
    """Reading, writing, resolving and evaluating a marker is linear."""

    def call(text: str) -> None:
        marker = parse_marker(text)
        str(marker)
        marker.resolve_variants(VariantContext.NULL)
        marker.evaluate({"os_name": "posix"}, "a")

    assert_linear(MARKERS[shape], call)


def test_markers_of_many_properties() -> None:
    """Many markers on a wheel with many properties cost no more than both together."""

    def make(size: int, fresh: int) -> tuple[Marker, VariantContext]:
        names = many(size, fresh)
        properties = PropertySet.from_mapping({"x": {name: ["1", "2"] for name in names}})
        context = VariantContext("a", properties)
        atoms = [f"'x :: {name} :: 2' not in variant_properties" for name in names]
        atoms += [f"'x :: {name}' not in variant_features" for name in names]
        return parse_marker(marker_of(atoms, "or")), context

    def call(made: tuple[Marker, VariantContext]) -> None:
        marker, context = made
        marker.resolve_variants(context)
        marker.evaluate({}, "", context)

    assert_linear(make, call)


def test_properties() -> None:
    """A set of properties is built, ordered and asked in linear work."""

    def make(size: int, fresh: int) -> list[Property]:
        return [Property("x", Text(name), Text("1")) for name in many(size, fresh)[::-1]]

    def call(items: list[Property]) -> None:
        properties = PropertySet(items)
        assert len(list(properties)) == len(items)
        assert properties.namespaces == ("x",)
        assert hash(properties) == hash(PropertySet.of(items))
        assert all(item in properties for item in items)
        PropertySet.from_mapping(properties.to_mapping())

    assert_linear(make, call)


NAMES: dict[str, Callable[[int, int], str]] = {
    "name": lambda n, f: f"a{f}" + "." * n + "-1-py3-none-any.whl",
    "build": lambda n, f: f"a-1-{f}" + "1a" * n + "-py3-none-any.whl",
    "label": lambda n, f: f"a-1-py3-none-any-{f}" + "a" * n + ".whl",
    "parts": lambda n, f: f"a{f}" + "-1" * n + ".whl",
    "version": lambda n, f: f"a-{f}" + ".1" * n + "-py3-none-any.whl",
}


@pytest.mark.parametrize("shape", NAMES)
def test_file_names(shape: str) -> None:
    """A file name costs the same few steps however long it is."""
    assert_linear(NAMES[shape], parse_wheel_filename)


@pytest.mark.parametrize(
    ("text", "endless"),
    [
        ("1" * 500, True),
        (f"a{'1' * 500}", True),
        (("1" * 499 + "a") * 9, False),
        ("1." * 999, False),
    ],
)
def test_endless_numbers(text: str, endless: bool) -> None:  # noqa: FBT001 - a parameter
    """A number is too long from 500 digits on, wherever it stands."""
    assert has_too_many_digits(text) is endless


LOCKS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "packages": lambda n, f: {"packages": [package(t) for t in many(n, f)]},
    "broken markers": lambda n, f: {"packages": [package(t, marker="x") for t in many(n, f)]},
    "broken versions": lambda n, f: {
        "packages": [package(t, version="x", marker="x") for t in many(n, f)]
    },
    "broken wheels": lambda n, f: {
        "packages": [{"name": f"a{f}", "wheels": [{"url": t} for t in many(n, f)]}]
    },
    "broken roots": lambda n, _f: {"packages": [], "tool": {"wheelfit": {"roots": [1] * n}}},
}


def package(name: str, **more: str) -> dict[str, Any]:
    """Make an entry of a lock file."""
    url = f"https://h/{name}-1-py3-none-any.whl"
    return {"name": name, "version": "1", **more, "wheels": [{"url": url, "hashes": {"md5": "0"}}]}


@pytest.mark.parametrize("shape", LOCKS)
def test_locks(shape: str) -> None:
    """A lock file is read, or refused with every fault, in linear work."""
    assert_linear(
        lambda size, fresh: counting(LOCKS[shape](size // 5, fresh)),
        lambda table: Lock.of({"lock-version": "1.0", "created-by": "x", **table}),
    )


PAGES: dict[str, Callable[[int], str]] = {
    "anchors": lambda n: "".join(f"<a href='f/a-{m}.zip#sha256=00'>a</a>" for m in range(n)),
    "folders": lambda n: "".join(f"<a href='f{m}/a-1.zip'>a</a>" for m in range(n)),
    "ignored": lambda n: "".join(f"<a href='file:///a-{m}.zip'>a</a>" for m in range(n)),
    "open tags": lambda n: "<a " * n,
    "open comments": lambda n: "<!-- " * n,
    "texts": lambda n: "<script>" * n,
    "attributes": lambda n: f"<a {' '.join(f'a{m}=1' for m in range(n))} href='a-1.zip'>a</a>",
    "bases": lambda n: "<base href='x'>" * n,
    "closing": lambda n: "</a>" * n,
}


@pytest.mark.parametrize("shape", PAGES)
def test_pages(shape: str) -> None:
    """Whatever the page, finding its links is linear."""
    assert_linear(
        lambda size, _: PAGES[shape](size).encode(),
        lambda body: parse_links(body, "text/html", "https://h/simple/a/", source="s"),
    )
