"""What maintainers are told of namespaces is what machines are asked."""

from __future__ import annotations

import pytest

from wheelfit.building.provider_guide import KNOWN_NAMESPACES, guide_to
from wheelfit.building.table_editing import TableEdits, edit_table
from wheelfit.checking.documents.document import check_variant_document
from wheelfit.checking.findings import Location, Severity
from wheelfit.checking.tool_profiles import Profile
from wheelfit.core.metadata import write_document
from wheelfit.core.plugin_answer import vocabulary_faults
from wheelfit.core.project_table import read_project_table, wheel_document
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit.core.providers import PluginProvider, recognise
from wheelfit.core.variant_request import VariantRequest, choose_variant


@pytest.mark.parametrize("namespace", KNOWN_NAMESPACES)
def test_examples_are_right(namespace: str) -> None:
    """P-28: the example of each namespace is a property that its own provider knows."""
    guide = guide_to(namespace)
    assert guide is not None
    example = PropertySet([parse_property(guide.example)])
    label, properties = choose_variant(VariantRequest(example), {})
    known = {namespace: guide.features} if guide.features else {}
    assert not vocabulary_faults(label, properties, known)
    assert guide.lines()[0].startswith(f"{namespace}: ")


@pytest.mark.parametrize("namespace", KNOWN_NAMESPACES)
def test_entries_are_understood_without_a_plugin(namespace: str) -> None:
    """P-60: what is written for a namespace is recognised, and sound for uv too where it can be."""
    import tomllib

    guide = guide_to(namespace)
    assert guide is not None
    edits = TableEdits(providers={namespace: guide.entry})
    table = read_project_table(tomllib.loads(edit_table(b"", edits, where="x").decode()))
    assert table is not None
    assert not table.notes
    provider = table.providers[namespace]
    if isinstance(provider, PluginProvider):
        assert recognise(namespace, provider, {}).builtin == namespace
    request = VariantRequest(PropertySet([parse_property(guide.example)]))
    label, properties = choose_variant(request, {})
    data = write_document(wheel_document(table, label, properties))
    findings, document = check_variant_document(
        data, Location("x"), label=label, profiles=frozenset({Profile.UV})
    )
    assert document is not None
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    assert not [one for one in wrong if one.code != "uv-unsupported"]


def test_nothing_is_told_of_what_is_not_known() -> None:
    """Of other namespaces nothing is made up."""
    assert guide_to("acme") is None
