"""The ``[variant]`` table is edited, and nothing else of the file."""

from __future__ import annotations

import tomllib

import pytest
from error_codes import raises_code
from hypothesis import given
from hypothesis import strategies as st

from wheelfit.building.table_editing import TableEdits, edit_table
from wheelfit.core.labels import Label, writer_faults
from wheelfit.core.project_table import read_project_table
from wheelfit_runtime.errors import InvalidDocument

NVIDIA = {"requires": ["nvidia-variant-provider<1"], "plugin-api": "a.b:C"}
WITH_COMMENTS = """\
# the project
[project]
name = "fast"   # its name

# what matters most
[variant.default-priorities]
namespace = [
    "x86_64",  # processors
]

# about processors
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]  # ours
# the end of processors

# about v3
[variant.variants.v3]
x86_64.level = ["v3"]

[tool.other]
text = '''
[variant.providers.not_a_header]
# and no comment
'''
"""
FORMS = {
    "tables": WITH_COMMENTS,
    "inline": 'variant = {default-priorities = {namespace = ["x86_64"]}, providers = '
    '{x86_64 = {requires = ["p"]}}, variants = {v3 = {x86_64 = {level = ["v3"]}}}}\n',
    "dotted": '[variant]\ndefault-priorities.namespace = ["x86_64"]\n'
    'providers.x86_64.requires = ["p"]\nvariants.v3.x86_64.level = ["v3"]  # here\n[tool.x]\na = 1',
    "mixed": '[variant.variants]\nv3.x86_64.level = ["v3"]\n[tool.x]\na = 1\n'
    '[variant.providers]\nx86_64 = {requires = ["p"]}\n[variant]\n'
    'default-priorities = {namespace = ["x86_64"]}',
    "nested": '[variant.default-priorities]\nnamespace = ["x86_64"]\n'
    '[variant.providers.x86_64.static-properties]\nlevel = ["v3"]\n'
    '[variant.variants.v3.x86_64]\nlevel = ["v3"]\n',
}


def edit(text: str, **edits: object) -> str:
    """Edit a text."""
    return edit_table(text.encode(), TableEdits(**edits), where="pyproject.toml").decode()  # type: ignore[arg-type]


def test_a_new_table_stands_behind_everything() -> None:
    """B-1: a project without a table gets one that is read without faults."""
    text = edit(
        '[project]\nname = "fast"',
        providers={"x86_64": {"requires": ["p"]}},
        remarks={"x86_64": "Processors"},
        variants={"v3": {"x86_64": {"level": ["v3"]}}},
    )
    assert text == (
        '[project]\nname = "fast"\n\n[variant.default-priorities]\nnamespace = ["x86_64"]\n\n'
        '# Processors\n[variant.providers.x86_64]\nrequires = ["p"]\n\n'
        '[variant.variants.v3]\nx86_64.level = ["v3"]\n'
    )
    assert read_project_table(tomllib.loads(text)) is not None


def test_comments_and_order_stay() -> None:
    """B-8: every line that was there is there afterwards, in its order, and new ones are apart."""
    text = edit(
        WITH_COMMENTS,
        providers={"nvidia": NVIDIA},
        variants={"cuda": {"nvidia": {"sm_arch": ["90_real"]}}},
        first=("nvidia",),
    )
    new = [line for line in text.splitlines() if line not in WITH_COMMENTS.splitlines()]
    assert new == [
        '    "nvidia",',
        "[variant.providers.nvidia]",
        'requires = ["nvidia-variant-provider<1"]',
        'plugin-api = "a.b:C"',
        "[variant.variants.cuda]",
        'nvidia.sm_arch = ["90_real"]',
    ]
    rest = iter(text.splitlines())
    assert all(line in rest for line in WITH_COMMENTS.splitlines())
    assert '"x86_64",  # processors' in text
    assert "# about v3\n[variant.variants.v3]" in text
    assert tomllib.loads(text)["variant"]["default-priorities"]["namespace"] == ["nvidia", "x86_64"]


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_stay_and_byte_order_marks_go(bom: bytes, ending: str) -> None:
    """B-8: new lines end as the others do; with a byte order mark nobody could read the file."""
    data = bom + WITH_COMMENTS.replace("\n", ending).encode()
    edits = TableEdits(providers={"nvidia": NVIDIA}, without_variants=("v3",))
    found = edit_table(data, edits, where="pyproject.toml")
    assert found.startswith(b"# the project")
    assert found.count(ending.encode()) == found.count(b"\n")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_added_to_and_taken_from(form: str) -> None:
    """Tables, inline tables and dotted keys: what is added and taken out again leaves no trace."""
    text = FORMS[form]
    before = tomllib.loads(text)
    more = edit(
        text,
        providers={"nvidia": NVIDIA},
        remarks={"nvidia": "GPUs"},
        variants={"cuda": {"nvidia": {"sm_arch": ["90_real"]}}},
    )
    assert tomllib.loads(more)["variant"]["providers"]["nvidia"] == NVIDIA
    assert edit(more, providers={"nvidia": NVIDIA}) == more
    less = edit(
        more,
        without_variants=("cuda",),
        without_providers=("nvidia",),
        remarks={"nvidia": "GPUs"},
    )
    assert tomllib.loads(less) == before
    assert "GPUs" not in less
    none = edit(less, without_variants=("v3",), without_providers=("x86_64",))
    assert tomllib.loads(none) == {key: one for key, one in before.items() if key != "variant"}


def test_the_last_provider_takes_the_table_with_it() -> None:
    """B-8: there never is an empty list of namespaces; comments stay."""
    text = edit(WITH_COMMENTS, without_variants=("v3",), without_providers=("x86_64",))
    assert "variant" not in tomllib.loads(text)
    assert [line for line in WITH_COMMENTS.splitlines() if line.startswith("# ")] == [
        line for line in text.splitlines() if line.startswith("# ")
    ]


def test_abi_exports_stay_without_the_rest_of_the_table() -> None:
    """B-8, B-61: the exports of a library do not depend on variants; a table may have only them."""
    exports = '\n[variant.abi-exports]\nlevel = "minor"\nlibraries = ["libfast.so"]\n'
    text = edit(WITH_COMMENTS + exports, without_variants=("v3",), without_providers=("x86_64",))
    assert tomllib.loads(text)["variant"] == tomllib.loads(exports)["variant"]
    more = edit(text, providers={"nvidia": NVIDIA})
    assert tomllib.loads(more)["variant"]["providers"] == {"nvidia": NVIDIA}


@pytest.mark.parametrize("form", FORMS)
def test_entries_can_be_exchanged(form: str) -> None:
    """The only provider and the only variant can become others; nothing is there twice."""
    text = edit(
        FORMS[form],
        providers={"x86_64": {"static-properties": {"level": ["v4", "v3"]}}},
        variants={"v3": {"x86_64": {"level": ["v4"]}}},
    )
    table = tomllib.loads(text)["variant"]
    assert table["providers"] == {"x86_64": {"static-properties": {"level": ["v4", "v3"]}}}
    assert table["variants"] == {"v3": {"x86_64": {"level": ["v4"]}}}
    assert table["default-priorities"] == {"namespace": ["x86_64"]}


def test_an_empty_table_of_variants_is_none() -> None:
    """A header without labels below it, as a template has it, is no reason to give up."""
    text = WITH_COMMENTS.replace('v3]\nx86_64.level = ["v3"]', "]").replace(
        "variants.]", "variants]"
    )
    assert tomllib.loads(text)["variant"]["variants"] == {}
    more = edit(text, variants={"v4": {"x86_64": {"level": ["v4"]}}})
    assert list(tomllib.loads(more)["variant"]["variants"]) == ["v4"]
    assert edit(text, first=("x86_64",)) == text


def test_what_is_in_use_stays() -> None:
    """B-7: a provider that a label needs is not taken out, and the label is named."""
    with raises_code("invalid-project", match="the label v3 needs it") as excinfo:
        edit(WITH_COMMENTS, without_providers=("x86_64",))
    assert "--remove-variant v3" in str(excinfo.value.hint)


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        ("a =", {}),
        ('[variant.default-priorities]\nnamespace = ["x"]\n', {"providers": {"y": NVIDIA}}),
        (WITH_COMMENTS, {"without_providers": ("amd",)}),
        (WITH_COMMENTS, {"without_variants": ("amd",)}),
        (WITH_COMMENTS, {"providers": {"nvidia": {"requires": [1]}}}),
        (WITH_COMMENTS, {"variants": {"new": {"amd": {"gfx_arch": ["gfx942"]}}}}),
        (WITH_COMMENTS, {"variants": {"null": {"x86_64": {"level": ["v1"]}}}}),
    ],
)
def test_what_would_be_wrong_is_refused(text: str, edits: dict[str, object]) -> None:
    """B-6: neither a broken file nor a table that would be broken is written."""
    with pytest.raises(InvalidDocument) as excinfo:
        edit(text, **edits)
    assert excinfo.value.where == "pyproject.toml"


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)


@given(
    form=st.sampled_from(sorted(FORMS)),
    names=st.lists(NAMES.filter(lambda name: name not in ("x86_64", "null")), min_size=1,
                   max_size=4, unique=True),
    labels=st.lists(NAMES.filter(lambda name: name not in ("v3", "null")
                                 and not writer_faults(Label(name))), max_size=3, unique=True),
)  # fmt: skip
def test_edits_say_what_was_wished_and_can_be_undone(
    form: str, names: list[str], labels: list[str]
) -> None:
    """Whatever is added in whatever form comes out as data, and out again as if it never was."""
    text = FORMS[form]
    entries = {name: {"static-properties": {"feature": ["a", "b"]}} for name in names}
    variants = {label: {names[0]: {"feature": ["b"]}} for label in labels}
    more = edit(text, providers=entries, variants=variants, first=tuple(reversed(names)))
    table = tomllib.loads(more)["variant"]
    assert table["default-priorities"]["namespace"] == [*reversed(names), "x86_64"]
    assert all(table["providers"][name] == entry for name, entry in entries.items())
    assert all(table["variants"][label] == spaces for label, spaces in variants.items())
    less = edit(more, without_variants=tuple(labels), without_providers=tuple(names))
    assert tomllib.loads(less) == tomllib.loads(text)
