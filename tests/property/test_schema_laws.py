"""What is written is valid by the published JSON schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from property.strategies import written_documents

from wheelfit.core.document import VariantDocument
from wheelfit.core.metadata import read_document, write_document


def validator(folder: Path, name: str) -> Draft202012Validator:
    """Return a validator for one of the published schemas."""
    schema = json.loads((folder / "schemas" / name).read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def pep_825(shared_data: Path) -> Draft202012Validator:
    """Give the schema of PEP 825 v0.1.1."""
    return validator(shared_data, "pep825-v0.1.1.json")


@pytest.fixture(scope="module")
def providers_draft(shared_data: Path) -> Draft202012Validator:
    """Give the draft schema with providers; it is older than PEP 850, which has none yet."""
    return validator(shared_data, "providers-draft-v0.2.0.json")


def as_the_draft_knows_it(document: dict[str, Any]) -> dict[str, Any]:
    """Take out what PEP 850 added to the draft (P-5, P-8): feature orders and built-ins."""
    providers = {}
    for name, entry in document["providers"].items():
        kept = {key: value for key, value in entry.items() if key != "feature-order"}
        if "builtin" in kept:
            kept = {"static-properties": {}, "optional": kept.get("optional", False)}
        providers[name] = kept
    return {**document, "providers": providers}


def faults(validator: Draft202012Validator, document: dict[str, Any]) -> list[str]:
    """Return what a schema has against a document."""
    return [error.message for error in validator.iter_errors(document)]


@settings(max_examples=100)
@given(document=written_documents())
def test_pep_825_documents_are_valid(
    pep_825: Draft202012Validator, document: VariantDocument
) -> None:
    """F-39, F-57: what is written as 825/v0.1.1 is valid by its published schema."""
    assert faults(pep_825, json.loads(write_document(document, "825"))) == []


@settings(max_examples=100)
@given(document=written_documents())
def test_pep_850_documents_are_valid(
    providers_draft: Draft202012Validator, document: VariantDocument
) -> None:
    """F-39: what is written as 850/v0.2.0 is valid by the draft, but for what came later."""
    written = json.loads(write_document(document))
    assert faults(providers_draft, as_the_draft_knows_it(written)) == []


def test_published_documents_are_valid_once_converted(
    pep_825: Draft202012Validator, providers_draft: Draft202012Validator, shared_data: Path
) -> None:
    """F-56, F-57: every published document is valid by the schemas in both layouts written."""
    texts = {file.read_bytes() for file in shared_data.rglob("*-variants.json")}
    assert len(texts) == 40
    for text in texts:
        document = read_document(text, where="a published document")
        written = json.loads(write_document(document, accept_losses=True))
        assert faults(providers_draft, as_the_draft_knows_it(written)) == []
        without = json.loads(write_document(document, "825", accept_losses=True))
        assert faults(pep_825, without) == []


def test_the_schemas_find_mistakes(
    pep_825: Draft202012Validator, providers_draft: Draft202012Validator
) -> None:
    """F-20: the schemas do reject what is wrong, so passing them means something."""
    wrong = {"$schema": "", "default-priorities": {"namespace": []}, "variants": {"A": {}}}
    assert len(faults(pep_825, wrong)) == 2
    assert len(faults(providers_draft, {**wrong, "providers": {"x": {"y": 1}}})) >= 3
