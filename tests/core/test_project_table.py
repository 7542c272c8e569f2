"""The ``[variant]`` table of pyproject.toml."""

from __future__ import annotations

import doctest
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wheelfit.core.document import VariantDocument
from wheelfit.core.labels import Label
from wheelfit.core.metadata import check_document, read_document, to_mapping, write_document
from wheelfit.core.plugin_answer import PluginAnswer
from wheelfit.core.project_table import (
    BuildTimeProvider,
    ProjectTable,
    read_project_table,
    wheel_document,
)
from wheelfit.core.properties import EMPTY, Feature, PropertySet
from wheelfit.core.providers import BuiltinProvider, PluginProvider, StaticProvider
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

HOST = "https://variants-schema.wheelnext.dev"
EXAMPLE = """
[project]
name = "fastfft"

[variant.default-priorities]
namespace = ["x86_64", "blas_lapack", "openmp", "abi"]

[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]

[variant.providers.blas_lapack]
build-requires = ["blas-lapack-variant-provider"]

[variant.providers.openmp]
static-properties = { provider = ["gnu", "llvm"], threads = ["many", "one"] }
feature-order = ["threads", "provider"]
optional = true

[variant.providers.abi]
builtin = "abi_dependency"

[variant.variants.v3_openblas]
x86_64.level = ["v3"]
blas_lapack.provider = ["openblas"]

[variant.variants."v3.both"]
x86_64.level = ["v3", "v2"]
blas_lapack.provider = ["openblas", "mkl"]
openmp = {}
"""
V3_OPENBLAS = PropertySet.from_mapping(
    {"x86_64": {"level": ["v3"]}, "blas_lapack": {"provider": ["openblas"]}}
)
BLAS = (
    FeatureConfig("provider", ("openblas", "mkl"), multi_value=True),
    FeatureConfig("integers", ("64", "32")),
)
ANSWER = PluginAnswer(BLAS, all_compatible=True)


def table_of(data: str | dict[str, Any]) -> ProjectTable:
    """Read the table in a text, or one that is parsed."""
    table = read_project_table(tomllib.loads(data) if isinstance(data, str) else {"variant": data})
    assert table is not None
    return table


def document_of(
    label: str = "null",
    properties: PropertySet = EMPTY,
    *,
    table: ProjectTable | None = None,
    answer: PluginAnswer = ANSWER,
) -> VariantDocument:
    """Return the document of a wheel of the example, or of another table with its plugin."""
    return wheel_document(
        table or table_of(EXAMPLE), Label(label), properties, answers={"blas_lapack": answer}
    )


def faults_of(table: object) -> list[tuple[str, str]]:
    """Return path and rule of every fault of a table."""
    with pytest.raises(InvalidDocument) as excinfo:
        read_project_table({"variant": table})
    assert excinfo.value.where == "pyproject.toml"
    return [(fault.path, fault.rule) for fault in excinfo.value.faults]


def changed(**entries: Any) -> dict[str, Any]:
    """Return the table of the example with other providers."""
    table: dict[str, Any] = tomllib.loads(EXAMPLE)["variant"]
    table["providers"].update(entries)
    return table


def with_namespaces(*namespaces: str) -> dict[str, Any]:
    """Return a table of priorities alone."""
    return {"default-priorities": {"namespace": list(namespaces)}}


class TestReading:
    """What the table may say."""

    def test_the_example(self) -> None:
        """B-1, B-5: the structure of the document in TOML, and build-requires."""
        table = table_of(EXAMPLE)
        assert table.priorities == ("x86_64", "blas_lapack", "openmp", "abi")
        assert dict(table.providers) == {
            "x86_64": PluginProvider(("x86-64-variant-provider<1",)),
            "blas_lapack": BuildTimeProvider(("blas-lapack-variant-provider",)),
            "openmp": StaticProvider(
                (
                    FeatureConfig("threads", ("many", "one")),
                    FeatureConfig("provider", ("gnu", "llvm")),
                ),
                optional=True,
            ),
            "abi": BuiltinProvider("abi_dependency"),
        }
        assert list(table.variants) == ["v3_openblas", "v3.both"]
        assert table.variants[Label("v3_openblas")] == V3_OPENBLAS
        assert table.notes == ()

    def test_document_as_table(self) -> None:
        """B-1: whatever a document may say, the table may say, and means the same."""
        made = document_of("v3_openblas", V3_OPENBLAS)
        document = read_document(write_document(made), where="variant.json")
        table = table_of(to_mapping(document))
        assert dict(table.providers) == dict(document.providers)
        assert dict(table.variants) == dict(document.variants)
        assert table.priorities == document.priorities

    def test_no_table(self) -> None:
        """B-3: a project without the table has none."""
        assert read_project_table({"project": {"name": "x"}}) is None

    @pytest.mark.parametrize("listed", ["", "[variant.variants]", "[variant.variants.null]"])
    def test_no_variants(self, listed: str) -> None:
        """B-3: what can be built need not be listed, null least of all."""
        head = EXAMPLE.partition("[variant.variants")[0]
        table = table_of(head + listed)
        assert {label for label in table.variants if label != "null"} == set()
        document = document_of(table=table)
        assert list(document.variants) == ["null"]

    def test_every_fault_at_once(self) -> None:
        """B-1, B-7: all faults are told together, each with its path in the file."""
        table = changed(
            x86_64={"requires": ["x y", "a"], "plugin-api": "a b"},
            abi={"builtin": "abi_dependency", "requires": ["a"], "new": 1},
            other={"requires": ["a"]},
        )
        table["variants"]["null"] = {"x86_64": {"level": ["v1"]}}
        table["variants"]["con"] = {"amd": {"arch": ["gfx90a"]}, "x86_64": {"level": ["v1", "v1"]}}
        table["variants"]["empty"] = {}
        table["extra"] = {}
        table["default-priorities"]["feature"] = {}
        assert faults_of(table) == [
            ("variant.extra", "F-20"),
            ("variant.default-priorities.feature", "F-21"),
            ("variant.providers.x86_64.requires[0]", "P-6"),
            ("variant.providers.x86_64.plugin-api", "P-7"),
            ("variant.providers.abi", "P-1"),
            ("variant.providers.abi.new", "F-130"),
            ("variant.providers.other", "F-22"),
            ("variant.variants.null", "F-6"),
            ("variant.variants.con", "F-4"),
            ("variant.variants.con.amd", "F-21"),
            ("variant.variants.con.x86_64.level", "F-23"),
            ("variant.variants.empty", "F-7"),
        ]

    @pytest.mark.parametrize(
        ("table", "path", "rule"),
        [
            ([], "variant", "F-32"),
            ("x", "variant", "F-32"),
            ({}, "variant.default-priorities", "F-20"),
            (with_namespaces(), "variant.default-priorities.namespace", "F-21"),
            ({"default-priorities": 1}, "variant.default-priorities", "F-32"),
            (with_namespaces("a"), "variant.providers", "F-20"),
            (with_namespaces("a") | {"providers": 1}, "variant.providers", "F-32"),
            ({"a b": {}}, 'variant["a b"]', "F-20"),
            ({"x": [[[[[[[[[1]]]]]]]]]}, "variant", "F-30"),
        ],
    )  # fmt: skip
    def test_malformed(self, table: object, path: str, rule: str) -> None:
        """B-1: what breaks a document breaks the table."""
        assert (path, rule) in faults_of(table)

    def test_namespace_without_provider(self) -> None:
        """B-7: a namespace in use without a provider is an error, listed or not."""
        table = changed()
        del table["providers"]["x86_64"]
        assert faults_of(table) == [("variant.providers.x86_64", "F-22")]
        table["default-priorities"]["namespace"].remove("x86_64")
        assert faults_of(table) == [
            ("variant.variants.v3_openblas.x86_64", "F-21"),
            ('variant.variants["v3.both"].x86_64', "F-21"),
        ]


class TestBuildRequires:
    """Providers that are asked when a wheel is built."""

    def test_what_it_may_have(self) -> None:
        """B-20: plugin-api and optional may stand beside it."""
        entry = {"build-requires": ["a>1", "b"], "plugin-api": "a.b:C", "optional": True}
        table = table_of(changed(blas_lapack=entry))
        assert table.providers["blas_lapack"] == BuildTimeProvider(("a>1", "b"), "a.b:C", True)

    def test_optional_ones_are_asked(self) -> None:
        """B-20: at build time every provider counts as enabled."""
        entry = {"build-requires": ["a"], "optional": True}
        table = table_of(changed(blas_lapack=entry))
        assert list(table.build_time_providers) == ["blas_lapack"]
        assert table.build_time_providers["blas_lapack"].plugin == PluginProvider(("a",))

    @pytest.mark.parametrize(
        ("more", "path", "rule"),
        [
            ({"requires": ["a"]}, ".requires", "B-20"),
            ({"static-properties": {"a": ["1"]}}, ".static-properties", "B-20"),
            ({"builtin": "abi_dependency"}, ".builtin", "P-1"),
            ({"feature-order": ["a"]}, ".feature-order", "P-4"),
            ({"enable-if": "os_name == 'nt'"}, ".enable-if", "F-130"),
            ({"optional": "no"}, ".optional", "F-32"),
            ({"plugin-api": "a-b"}, ".plugin-api", "P-7"),
            ({"build-requires": []}, ".build-requires", "P-6"),
            ({"build-requires": "a"}, ".build-requires", "F-32"),
            ({"build-requires": ["a", 1]}, ".build-requires[1]", "F-32"),
            ({"build-requires": ["a", "b c"]}, ".build-requires[1]", "P-6"),
            ({"build-requires": ["a; variant_label == ''"]}, ".build-requires[0]", "F-109"),
            ({"build-requires": ["a; os_name == 'nt'"]}, ".build-requires", "P-6"),
            ({"build-requires": ["a; os_name == 'nt'", "b"]}, ".plugin-api", "P-7"),
        ],
    )
    def test_what_it_may_not_have(self, more: dict[str, Any], path: str, rule: str) -> None:
        """B-20: it excludes requires and static-properties, and follows the rules of requires."""
        table = changed(blas_lapack={"build-requires": ["a"], **more})
        assert faults_of(table) == [(f"variant.providers.blas_lapack{path}", rule)]

    def test_namespace_that_is_not_listed(self) -> None:
        """B-20: such a provider belongs in the priorities like any other."""
        table = changed(more={"build-requires": ["a"]})
        assert faults_of(table) == [("variant.providers.more", "F-22")]


class TestOldTables:
    """Tables in layouts of the past."""

    OLD = f"""
[variant]
"$schema" = "{HOST}/v0.0.3.json"
[variant.default-priorities]
namespace = ["x86_64", "blas"]
feature.x86_64 = ["level"]
feature.blas = ["threads"]
property.blas.library = ["mkl"]
[variant.providers.x86_64]
requires = ["provider-variant-x86-64"]
enable-if = "platform_machine == 'x86_64'"
[variant.providers.blas]
requires = ["blas-plugin"]
install-time = false
new-key = 1
"""

    def test_schema_selects_the_layout(self) -> None:
        """B-4: an old table loads with notes when $schema names its layout."""
        table = table_of(self.OLD)
        assert table.providers["x86_64"] == PluginProvider(
            ("provider-variant-x86-64",), enabled_by="platform_machine == 'x86_64'"
        )
        assert table.providers["blas"] == BuildTimeProvider(("blas-plugin",))
        assert table.feature_priorities == {"x86_64": ("level",), "blas": ("threads",)}
        assert table.value_priorities == {Feature("blas", "library"): ("mkl",)}
        assert table.notes == (
            "providers.blas.new-key: unknown key, ignored (F-46)",
            "x86_64: enable-if is not written (F-56)",
            "blas: its plugin is run at build time (F-47, B-20)",
        )

    def test_output_is_current(self) -> None:
        """B-4, B-22: written as PEP 850, with the order that the old table wants."""
        answer = PluginAnswer(
            (FeatureConfig("library", ("openblas", "mkl")), FeatureConfig("threads", ("omp",))),
            all_compatible=True,
        )
        document = wheel_document(
            table_of(self.OLD), Label("null"), EMPTY, answers={"blas": answer}
        )
        written = json.loads(write_document(document, accept_losses=True))
        assert written["$schema"] == f"{HOST}/peps/850/v0.2.0.json"
        assert written["providers"] == {
            "x86_64": {"requires": ["provider-variant-x86-64"]},
            "blas": {
                "static-properties": {"library": ["mkl", "openblas"], "threads": ["omp"]},
                "feature-order": ["threads", "library"],
            },
        }
        assert sorted(json.loads(write_document(document, "825", accept_losses=True))) == [
            "$schema",
            "default-priorities",
            "variants",
        ]

    def test_without_schema(self) -> None:
        """B-4: without $schema the table is current, whatever its shape."""
        old = tomllib.loads(self.OLD)["variant"]
        del old["$schema"]
        found = faults_of(old)
        assert ("variant.default-priorities.feature", "F-21") in found
        assert ("variant.providers.x86_64.enable-if", "F-130") in found

    def test_static_values(self) -> None:
        """B-4: static values that an old table holds itself need no plugin."""
        table = table_of(
            self.OLD + "[variant.static-properties.blas]\nlibrary = ['openblas', 'mkl']\n"
        )
        assert table.providers["blas"] == StaticProvider(
            (FeatureConfig("library", ("mkl", "openblas")),)
        )

    def test_march(self) -> None:
        """B-4, B-5: the draft of March has the order of features in the priorities."""
        table = table_of(f"""
[variant]
"$schema" = "{HOST}/peps/9999/v0.2.0.json"
[variant.default-priorities]
namespace = ["blas"]
feature.blas = ["threads"]
[variant.providers.blas]
build-requires = ["blas-plugin"]
""")
        assert table.providers["blas"] == BuildTimeProvider(("blas-plugin",))
        answer = PluginAnswer(
            (FeatureConfig("library", ("mkl",)), FeatureConfig("threads", ("omp",))), True
        )
        document = wheel_document(table, Label("null"), EMPTY, answers={"blas": answer})
        static = document.providers["blas"]
        assert isinstance(static, StaticProvider)
        assert [feature.name for feature in static.features] == ["threads", "library"]

    def test_without_providers_in_the_layout(self) -> None:
        """B-4: a table that names PEP 825 needs providers as well, and may have them."""
        table = changed()
        table["$schema"] = f"{HOST}/peps/825/v0.1.1.json"
        read = table_of(table)
        assert list(read.providers) == ["x86_64", "blas_lapack", "openmp", "abi"]
        assert any("F-42" in note for note in read.notes)

    def test_unknown_schema(self) -> None:
        """B-4, F-38: a layout that is not known is refused, and the place is named."""
        table = {**changed(), "$schema": f"{HOST}/peps/850/v0.9.0.json"}
        assert faults_of(table) == [("variant.$schema", "F-38")]


def faults_of_wheel(
    label: str, properties: PropertySet, table: ProjectTable | None = None, **answers: PluginAnswer
) -> list[tuple[str, str]]:
    """Return path and rule of what forbids a wheel."""
    with pytest.raises(InvalidDocument) as excinfo:
        wheel_document(table or table_of(EXAMPLE), Label(label), properties, answers=answers)
    return [(fault.path, fault.rule) for fault in excinfo.value.faults]


class TestWheelDocument:
    """From the table to the document of one wheel."""

    def test_what_is_copied(self) -> None:
        """B-2: priorities and providers go into every wheel as they are, used or not."""
        document = document_of()
        written = to_mapping(document)
        assert written["default-priorities"] == {
            "namespace": ["x86_64", "blas_lapack", "openmp", "abi"]
        }
        given = tomllib.loads(EXAMPLE)["variant"]["providers"]
        for namespace in ("x86_64", "openmp", "abi"):
            assert written["providers"][namespace] == given[namespace]
        assert written["variants"] == {"null": {}}
        assert check_document(write_document(document)) == ()

    def test_the_answer(self) -> None:
        """B-22: build-requires and plugin-api go, the answer comes, optional is kept."""
        entry = {"build-requires": ["a"], "plugin-api": "a.b", "optional": True}
        table = table_of(changed(blas_lapack=entry))
        document = document_of("v3_openblas", V3_OPENBLAS, table=table)
        assert to_mapping(document)["providers"]["blas_lapack"] == {
            "static-properties": {"provider": ["openblas", "mkl"], "integers": ["64", "32"]},
            "feature-order": ["provider", "integers"],
            "optional": True,
        }
        assert list(to_mapping(document)["variants"]) == ["v3_openblas"]

    def test_one_feature(self) -> None:
        """B-22: one feature needs no order; one without values is left out."""
        answer = PluginAnswer((BLAS[0], FeatureConfig("empty", ())), all_compatible=True)
        document = document_of("v3_openblas", V3_OPENBLAS, answer=answer)
        assert to_mapping(document)["providers"]["blas_lapack"] == {
            "static-properties": {"provider": ["openblas", "mkl"]}
        }

    def test_a_namespace_that_begins_like_another(self) -> None:
        """P-28: of a namespace that nobody asked about, the vocabulary is what is broken."""
        entry = {"build-requires": ["a"], "plugin-api": "a.b"}
        data = changed(blas_lapack=entry)
        data["providers"]["x86"] = entry
        data["default-priorities"]["namespace"].append("x86")
        table = table_of(data)
        with pytest.raises(InvalidDocument) as excinfo:
            wheel_document(
                table,
                Label("a"),
                PropertySet.from_mapping({"x86_64": {"level": ["v9"]}}),
                answers={"blas_lapack": ANSWER, "x86": ANSWER},
                vocabulary={"x86_64": [FeatureConfig("level", ("v3",))]},
            )
        assert [fault.rule for fault in excinfo.value.faults] == ["P-28"]

    def test_properties_that_the_answer_lacks(self) -> None:
        """B-22: every property of the wheel in that namespace must be in the result."""
        wanted = PropertySet.from_mapping(
            {
                "x86_64": {"level": ["v9"]},  # of another namespace, which nobody was asked about
                "blas_lapack": {"provider": ["netlib", "openblas"], "vendor": ["x"]},
            }
        )
        assert faults_of_wheel("a", wanted, blas_lapack=ANSWER) == [
            ("variants.a.blas_lapack.provider", "B-22"),
            ("variants.a.blas_lapack.vendor", "B-22"),
        ]

    def test_answers_that_cannot_be_used(self) -> None:
        """B-21, B-22, P-29: no answer, a failed one, and one about a single machine."""
        where = "providers.blas_lapack"
        assert faults_of_wheel("null", EMPTY) == [(where, "B-22")]
        failed = PluginAnswer(failure="it crashed")
        assert faults_of_wheel("null", EMPTY, blas_lapack=failed) == [(where, "P-34")]
        assert faults_of_wheel("null", EMPTY, blas_lapack=PluginAnswer(BLAS)) == [(where, "B-21")]
        nothing = PluginAnswer(all_compatible=True)
        assert faults_of_wheel("null", EMPTY, blas_lapack=nothing) == [
            (f"{where}.static-properties", "P-3")
        ]

    def test_single_values(self) -> None:
        """B-6, P-30: several values of a feature that takes one are refused when building."""
        wanted = PropertySet.from_mapping({"blas_lapack": {"integers": ["32", "64"]}})
        assert faults_of_wheel("a", wanted, blas_lapack=ANSWER) == [
            ("variants.a.blas_lapack.integers", "P-30")
        ]
        both = PropertySet.from_mapping({"x86_64": {"level": ["v2", "v3"]}})
        vocabulary = {"x86_64": [FeatureConfig("level", ("v3", "v2", "v1"))]}
        with pytest.raises(InvalidDocument, match="P-30"):
            wheel_document(
                table_of(EXAMPLE), Label("a"), both,
                answers={"blas_lapack": ANSWER}, vocabulary=vocabulary,
            )  # fmt: skip

    def test_all_checks_before_writing(self) -> None:
        """B-6, B-7: label, properties, namespaces and providers, all at once."""
        wanted = PropertySet.from_mapping({"amd": {"arch": ["x"]}})
        assert faults_of_wheel("con", wanted, blas_lapack=ANSWER) == [
            ("variants.con.amd", "B-7"),
            ("variants.con", "F-4"),
        ]
        assert faults_of_wheel("..", EMPTY, blas_lapack=ANSWER) == [
            ('variants[".."]', "F-4"),
            ('variants[".."]', "F-7"),
        ]
        assert faults_of_wheel("A", V3_OPENBLAS, blas_lapack=ANSWER) == [("variants.A", "F-2")]
        assert faults_of_wheel("null", V3_OPENBLAS, blas_lapack=ANSWER) == [
            ("variants.null", "F-6")
        ]

    def test_a_long_label(self) -> None:
        """F-3, B-6: a label above 32 characters is written with a warning."""
        for length, warnings in ((32, 0), (33, 1)):
            document = document_of("x" * length, V3_OPENBLAS)
            assert len(document.notes) == warnings


class TestEdits:
    """Tables that tools change."""

    def test_the_last_provider(self) -> None:
        """B-8: removing the last provider removes the table, no empty list is left."""
        table = table_of(EXAMPLE.partition("[variant.variants")[0])
        for left in (["x86_64", "blas_lapack", "openmp"], ["x86_64", "blas_lapack"], ["x86_64"]):
            gone = next(name for name in reversed(table.priorities))
            smaller = table.without(gone)
            assert smaller is not None
            assert list(smaller.priorities) == list(smaller.providers) == left
            table = smaller
        assert table.without("x86_64") is None

    def test_one_in_use(self) -> None:
        """B-8, F-21: what labels of the table use cannot be removed from it."""
        with pytest.raises(InvalidDocument) as excinfo:
            table_of(EXAMPLE).without("x86_64")
        assert [fault.path for fault in excinfo.value.faults] == [
            "variant.variants.v3_openblas.x86_64",
            'variant.variants["v3.both"].x86_64',
        ]

    def test_preferences_go_too(self) -> None:
        """B-8: preferences of an old table leave with their namespace."""
        smaller = table_of(TestOldTables.OLD).without("blas")
        assert smaller is not None
        assert smaller.feature_priorities == {"x86_64": ("level",)}
        assert smaller.value_priorities == {}

    def test_null_without_a_table(self) -> None:
        """B-8: one namespace and its provider are enough for the null variant."""
        provider = PluginProvider(("x86-64-variant-provider<1",))
        table = ProjectTable(("x86_64",), {"x86_64": provider})
        document = wheel_document(table, Label("null"), EMPTY)
        assert check_document(write_document(document)) == ()
        assert to_mapping(document)["default-priorities"] == {"namespace": ["x86_64"]}


def test_the_page() -> None:
    """What the reference shows of the table is what happens."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "variant-table.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
