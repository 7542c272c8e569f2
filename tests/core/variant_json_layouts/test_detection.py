"""Which layout a document has, and which schema is refused."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from error_codes import raises_code

from wheelfit.core.metadata import check_document, read_document
from wheelfit.core.variant_json_layouts import STABLE, StableLayout, detect
from wheelfit.core.variant_json_layouts.pep850 import Pep850
from wheelfit.core.variant_json_layouts.schema import PEP_825, PEP_850, SchemaName, parse_schema
from wheelfit_runtime.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "https://variants-schema.wheelnext.dev"
STATIC = {"x": {"static-properties": {"a": ["1"]}}}
OLD_STATIC = {"x": {"install-time": False}}
PLUGIN = {"x": {"requires": ["x-plugin"]}}


def document(schema: object, providers: object = PLUGIN, **more: object) -> dict[str, Any]:
    """Make a small document; None leaves the schema out."""
    made = {
        "default-priorities": {"namespace": ["x"]},
        "providers": providers,
        "variants": {"one": {"x": {"a": ["1"]}}},
        **more,
    }
    return made if schema is None else {"$schema": schema, **made}


@pytest.mark.parametrize(
    ("schema", "providers", "layout"),
    [
        (f"{HOST}/peps/850/v0.2.0.json", PLUGIN, "L7"),
        (f"{HOST}/v0.2.0.json", PLUGIN, "L7"),
        (f"{HOST}/peps/9999/v0.2.0.json", PLUGIN, "L6"),
        (f"{HOST}/peps/826/v0.2.0.json", PLUGIN, "L6"),
        (f"{HOST}/peps/825/v0.1.1.json", PLUGIN, "L5"),
        (f"{HOST}/peps/825/v0.1.0.json", PLUGIN, "L4"),
        (f"{HOST}/v0.0.3.json", PLUGIN, "L2"),
        (f"{HOST}/v0.0.3.json", OLD_STATIC, "L3"),
        (f"{HOST}/v0.0.3.json", STATIC, "L7"),
        (f"{HOST}/v0.0.2.json", PLUGIN, "L2"),
        (f"{HOST}/v0.0.2.json", OLD_STATIC, "L3"),
        (f"{HOST}/v0.0.2.json", {"x": {"builtin": "abi_dependency"}}, "L7"),
        (f"{HOST}/v0.0.2.json", {"x": {"requires": ["x"], "feature-order": []}}, "L7"),
        (f"{HOST}/", PLUGIN, "L1"),
        (HOST, OLD_STATIC, "L1"),
        (HOST, STATIC, "L7"),
        (None, PLUGIN, "L1"),
        (None, OLD_STATIC, "L1"),
        (None, STATIC, "L7"),
        (None, "nonsense", "L1"),
        (None, {"x": "nonsense"}, "L1"),
    ],
)
def test_which_layout(schema: str | None, providers: object, layout: str) -> None:
    """F-45, F-46: the URL decides for L4 to L7, the shape for those of 2025."""
    assert detect(document(schema, providers)).layout.name == layout
    assert read_document(document(schema, providers), where="x").layout == layout


def test_static_properties_on_top() -> None:
    """F-45: top-level static values alone make it the shape of L3."""
    made = document(f"{HOST}/v0.0.2.json", **{"static-properties": {}})
    assert detect(made).layout.name == "L3"


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        (f"{HOST}/peps/850/v9.0.0.json", "F-36"),
        (f"{HOST}/peps/850/v1.0.0.json", "F-36"),
        ("https://packaging.python.org/variants/v1.0.0.json", "F-36"),
        (f"{HOST}/peps/850/v0.2.1.json", "F-38"),
        (f"{HOST}/peps/850/v0.3.0.json", "F-38"),
        (f"{HOST}/v0.0.1.json", "F-38"),
        (f"{HOST}/other/v0.0.3.json", "F-38"),
        ("https://packaging.python.org/v0.0.3.json", "F-38"),
        ("https://example.org/peps/850/v0.2.0.json", "F-40"),
        ("https://example.org/v0.0.3.json", "F-40"),
        ("https://example.org/", "F-40"),
        ("https://user@variants-schema.wheelnext.dev/v0.2.0.json", "F-40"),
        ("https://variants-schema.wheelnext.dev:8443/v0.2.0.json", "F-40"),
        ("https://variants-schema.wheelnext.dev.example.org/v0.2.0.json", "F-40"),
        ("http://variants-schema.wheelnext.dev/v0.2.0.json", "F-40"),
        (f"{HOST}/peps/850/v0.2.0.json?x=1", "F-40"),
        (f"{HOST}/peps/850/v0.2.0.json#x", "F-40"),
        (f"{HOST}/peps/850/v0.2.0.json\n", "F-40"),
        (f"{HOST}/peps/850/v0.2.json", "F-40"),
        (f"{HOST}/peps/850/v0.2.0", "F-40"),
        (f"{HOST}/peps/850/", "F-40"),
        (f"{HOST}/peps/850/v0.2.{'1' * 5000}.json", "F-40"),
        ("v0.2.0", "F-40"),
        ("", "F-40"),
        (3, "F-32"),
        (None, "F-32"),
        ([f"{HOST}/v0.2.0.json"], "F-32"),
    ],
)
def test_refused_schemas(schema: object, rule: str) -> None:
    """F-32, F-36, F-38, F-40: other types, unknown majors and drafts, foreign hosts and texts."""
    made: Mapping[str, Any] = {**document(None), "$schema": schema}
    with raises_code("unsupported-schema") as excinfo:
        read_document(made, where="fast-1-variants.json")
    (fault,) = excinfo.value.faults
    assert fault.path == "$schema"
    assert fault.rule == rule
    assert excinfo.value.where == "fast-1-variants.json"
    assert excinfo.value.hint
    assert check_document(made) == (fault,)


def test_unknown_drafts_on_request() -> None:
    """F-38: with the explicit option an unknown 0.x is read, unknown keys noted."""
    providers = {"x": {**STATIC["x"], "new": 1}}
    made = document(f"{HOST}/peps/850/v0.3.0.json", providers, extra={})
    read = read_document(made, where="x", accept_unknown_drafts=True)
    assert read.layout == "L7"
    assert list(read.variants) == ["one"]
    draft, *unknown = read.notes
    assert draft.endswith("is an unknown draft, read as PEP 850 v0.2.0 (F-38)")
    assert [note.split(":")[0] for note in unknown] == ["extra", "providers.x.new"]
    assert check_document(made, accept_unknown_drafts=True) == ()
    without = {key: value for key, value in made.items() if key != "providers"}
    assert read_document(without, where="x", accept_unknown_drafts=True).layout == "L5"


class Future(Pep850, frozen=True):
    """Stand in for a layout of a stable version."""


@pytest.fixture
def _future(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a layout of a stable version."""
    monkeypatch.setitem(STABLE, 1, StableLayout((1, 1, 0), Future("L9", "version 1.1")))


@pytest.mark.parametrize(
    ("version", "tolerant"),
    [("1.0.0", False), ("1.1.0", False), ("1.1.1", True), ("1.2.0", True), ("1.10.0", True)],
)
@pytest.mark.parametrize("host", [HOST, "https://packaging.python.org"])
@pytest.mark.usefixtures("_future")
def test_newer_minor_versions(host: str, version: str, *, tolerant: bool) -> None:
    """F-37, F-41: from 1.0 on a newer minor is accepted, and its unknown keys are noted.

    To be read, a layout needs no more than its class and a place in the table.
    """
    made = document(f"{host}/any/v{version}.json", STATIC, extra={})
    found = detect(made)
    assert (found.layout.name, found.tolerant) == ("L9", tolerant)
    assert len(found.notes) == tolerant
    read = read_document(made, where="x")
    assert (read.layout, list(read.variants)) == ("L9", ["one"])
    faults = check_document(made)
    assert [fault.path for fault in faults] == ([] if tolerant else ["extra"])


@pytest.mark.usefixtures("_future")
def test_another_major_stays_refused() -> None:
    """F-36: knowing major 1 does not mean accepting 2."""
    with raises_code("unsupported-schema"):
        detect(document(f"{HOST}/v2.0.0.json"))


@pytest.mark.parametrize(
    "schema",
    [
        f"{HOST}/peps/850/v0.2.0.json",
        f"{HOST}/v0.0.3.json",
        f"{HOST}/peps/850/v9.0.0.json",
        f"{HOST}/peps/850/v0.9.0.json",
        "https://example.org/peps/850/v0.2.0.json",
        "http://127.0.0.1:9/v0.2.0.json",
        "file:///etc/passwd",
    ],
)
def test_nothing_is_fetched(schema: str) -> None:
    """F-31: $schema names a layout; whether it is known or not, nobody is connected to."""
    events: list[str] = []
    listening = True

    def listen(event: str, _: tuple[object, ...]) -> None:
        if listening and event.startswith(("socket.", "urllib.", "http.", "open", "subprocess.")):
            events.append(event)

    sys.addaudithook(listen)
    made = document(schema)
    check_document(made)
    with suppress(InvalidDocument):
        read_document(made, where="x", accept_unknown_drafts=True)
    listening = False
    assert events == []


def test_current_schemas() -> None:
    """F-35, F-40: host, path and version are read from the text, as of the current schemas."""
    assert parse_schema(PEP_825) == SchemaName(
        "variants-schema.wheelnext.dev", "/peps/825/v0.1.1.json", (0, 1, 1)
    )
    assert parse_schema(PEP_850) == SchemaName(
        "variants-schema.wheelnext.dev", "/peps/850/v0.2.0.json", (0, 2, 0)
    )
    assert parse_schema("file:///v0.2.0.json") is None
    final = parse_schema("https://packaging.python.org/schemas/variants/v1.0.0.json")
    assert final is not None
    assert final.is_known_host
    assert final.version == (1, 0, 0)
