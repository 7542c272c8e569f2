"""Adding a layout is a module and an entry in a table; nothing else has to know (F-41)."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from core.variant_json_layouts.made_up import MadeUp
from error_codes import raises_code
from packaging.tags import Tag

import wheelfit
from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.index_metadata import combine, disagreement
from wheelfit.core.labels import Label
from wheelfit.core.metadata import check_document, losses, read_document, write_document
from wheelfit.core.property_support import support_for
from wheelfit.core.selection import select
from wheelfit.core.target import TagPreference
from wheelfit.core.variant_json_layouts import STABLE, StableLayout
from wheelfit_runtime.errors import InvalidDocument

DOCUMENT: dict[str, Any] = {
    "$schema": "https://packaging.python.org/variants/v1.0.0.json",
    "knows": [["blas", ["library", ["openblas", "mkl"]]], ["cpu", ["level", ["v3", "v2"]]]],
    "builds": [
        ["mkl", "blas :: library :: mkl"],
        ["open_v3", "blas :: library :: openblas", "cpu :: level :: v3"],
        ["open", "blas :: library :: openblas"],
        ["v4", "cpu :: level :: v4"],
        ["null"],
        ["broken", "cpu :: LEVEL :: v4"],
    ],
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the layout to those of stable versions."""
    monkeypatch.setitem(STABLE, 1, StableLayout((1, 0, 0), MadeUp()))


@pytest.fixture
def document() -> VariantDocument:
    """Read the document as from an index."""
    return read_document(json.dumps(DOCUMENT).encode(), where="it")


def test_without_its_entry_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-36: the schema is unknown until the layout is among those of stable versions."""
    monkeypatch.delitem(STABLE, 1)
    with raises_code("unsupported-schema"):
        read_document(DOCUMENT, where="it")


def test_selection_knows_the_model_only(document: VariantDocument) -> None:
    """F-41, F-66, F-130: wheels are chosen by a layout that selection has never heard of."""
    names = [f"fast-1.0-py3-none-any-{build[0]}.whl" for build in DOCUMENT["builds"]]
    selection = select(
        [parse_wheel_filename(name) for name in [*names, "fast-1.0-py3-none-any.whl"]],
        document=document,
        support=support_for(document, None, environment={}),
        tags=TagPreference((Tag("py3", "none", "any"),)),
    )
    verdicts = [(verdict.filename.label, verdict.verdict) for verdict in selection.verdicts]
    assert verdicts == [
        ("open_v3", "chosen"), ("open", "compatible"), ("mkl", "compatible"),
        ("null", "compatible"), (None, "compatible"), ("broken", "rejected"), ("v4", "rejected"),
    ]  # fmt: skip
    assert "builds[5]" in selection.verdicts[-2].reason


def test_all_the_rest_knows_the_model_only(document: VariantDocument) -> None:
    """F-41, F-56, F-63, F-93: it is combined, compared, converted and written like any other."""
    sound = read_document({**DOCUMENT, "builds": DOCUMENT["builds"][:-1]}, where="it")
    assert combine([("a.whl", sound), ("b.whl", sound)]).variants == sound.variants
    own = read_document({**DOCUMENT, "builds": [["mkl", "blas :: library :: mkl"]]}, where="it")
    assert disagreement(own, document, Label("mkl")) is None
    assert losses(sound) == ()
    data = write_document(sound)
    again = read_document(data, where="it")
    assert (again.layout, again.priorities, again.variants, again.providers) == (
        "L7", sound.priorities, sound.variants, sound.providers,
    )  # fmt: skip


def test_its_faults_are_found_like_all_others() -> None:
    """F-37, F-131: mistakes have a path in its own words; a newer minor version may know more."""
    faults = check_document({**DOCUMENT, "more": 1})
    assert [(fault.path, fault.rule) for fault in faults] == [
        ("more", "F-20"),
        ("builds[5]", "F-2"),
    ]
    newer = {**DOCUMENT, "$schema": "https://packaging.python.org/variants/v1.3.0.json", "more": 1}
    assert [fault.path for fault in check_document(newer)] == ["builds[5]"]
    with pytest.raises(InvalidDocument):
        read_document({"$schema": DOCUMENT["$schema"]}, where="it")


def test_nobody_else_imports_a_layout() -> None:
    """F-41: of the modules outside, only the reader and writer of documents name layouts."""
    source = Path(wheelfit.__file__).parent
    inside = source / "core" / "variant_json_layouts"
    modules = {f"wheelfit.core.variant_json_layouts.{path.stem}" for path in inside.glob("*.py")}
    named: set[str] = set()
    for path in source.rglob("*.py"):
        if inside in path.parents:
            continue
        text = path.read_text("utf-8")
        if "layouts" not in text:  # to parse every module takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                layouts = {name.rsplit(".", 1)[1] for name in found & modules}
                if layouts & {"drafts_2025", "draft_2026_03", "pep825", "pep850"}:
                    named.add(path.relative_to(source).as_posix())
    assert named == {"core/metadata.py"}
