"""What a project needs, read from its ``pyproject.toml``."""

from __future__ import annotations

import pytest
from error_codes import raises_code
from packaging.utils import canonicalize_name
from sampled_cases import sampled

from wheelfit.resolution.project_file import ProjectFile, read_project_file
from wheelfit.sources.urls import subdirectory_of
from wheelfit_runtime.errors import FileProblem

WHERE = "pyproject.toml"


def read(text: str) -> ProjectFile:
    """Read the text of a file."""
    return read_project_file(text.encode(), WHERE)


def faults(text: str) -> list[str]:
    """Return what is wrong with a file, sentence for sentence."""
    with raises_code("invalid-project") as excinfo:
        read(text)
    assert excinfo.value.where == WHERE
    return [str(fault) for fault in excinfo.value.faults]


WHOLE = """\
[project]
name = "Demo.App"
version = "1"
requires-python = ">=3.11,<4"
dependencies = [
  "numpy>=2",
  "colorama; sys_platform == 'win32'",
]

[project.optional-dependencies]
GPU = ["torch[opt]>=2.8"]
plot = ["matplotlib", "demo-app[gpu]; python_version < '3.14'"]
all = ["demo.app[plot,gpu]"]
none = []

[dependency-groups]
test = ["pytest", "demo-app[gpu]"]
Dev = [{include-group = "test"}, "ruff", {include-group = "TEST"}]
"""


def test_everything_a_project_needs() -> None:
    """Dependencies, extras and groups, each requirement with the line it is written on."""
    found = read(WHOLE)
    assert (found.name, str(found.requires_python)) == ("demo-app", "<4,>=3.11")
    assert [str(dependency) for dependency in found.dependencies] == [
        "numpy>=2 (pyproject.toml:6)",
        'colorama; sys_platform == "win32" (pyproject.toml:7)',
    ]
    assert list(found.extras) == ["gpu", "plot", "all", "none"]
    assert list(found.groups) == ["test", "dev"]


def test_what_the_project_needs_of_itself() -> None:
    """``demo[all]`` stands for what the extra brings, under the markers on the way."""
    found = read(WHOLE)
    torch = "torch[opt]>=2.8 (pyproject.toml:11)"
    conditional = 'torch[opt]>=2.8; python_version < "3.14" (pyproject.toml:11)'
    plain = "matplotlib (pyproject.toml:12)"
    assert [str(one) for one in found.extras[canonicalize_name("plot")]] == [plain, conditional]
    assert [str(one) for one in found.extras[canonicalize_name("all")]] == [
        torch,
        plain,
        conditional,
    ]
    assert [str(one) for one in found.groups[canonicalize_name("test")]] == [
        "pytest (pyproject.toml:17)",
        torch,
    ]


def test_groups_in_groups() -> None:
    """A group brings what it includes, each requirement once."""
    names = [one.requirement.name for one in read(WHOLE).groups[canonicalize_name("dev")]]
    assert names == ["pytest", "torch", "ruff"]


def test_extras_may_name_each_other() -> None:
    """Extras in a circle all bring the same; markers on the way hold together."""
    found = read(
        '[project]\nname="d"\n[project.optional-dependencies]\n'
        "a = ['x; os_name == \"nt\"', 'd[b]']\nb = ['y', \"d[a]; python_version > '3'\"]\n"
    )
    assert [str(one.requirement) for one in found.extras[canonicalize_name("a")]] == [
        'x; os_name == "nt"',
        "y",
    ]
    assert [str(one.requirement) for one in found.extras[canonicalize_name("b")]] == [
        "y", 'x; python_version > "3" and os_name == "nt"',
    ]  # fmt: skip


def test_many_ways_to_a_group() -> None:
    """Groups that include two others each, forty deep, are read once each."""
    lines = ['g0 = ["x"]']
    lines += [
        f'g{n} = [{{include-group="g{n - 1}"}}, {{include-group="g{n - 1}"}}]' for n in range(1, 41)
    ]
    found = read("[dependency-groups]\n" + "\n".join(lines))
    assert [str(one.requirement) for one in found.groups[canonicalize_name("g40")]] == ["x"]


@pytest.mark.parametrize(
    ("length", "conditions"), sampled([(1500, [""]), (14, ["'3.9'", "'3.10'"])], fast={0})
)
def test_extras_that_stand_for_too_much(length: int, conditions: list[str]) -> None:
    """Neither long chains nor conditions that double at each step take stack or hours."""
    lines = []
    for number in range(length):
        marks = [f"; python_version > {condition}" if condition else "" for condition in conditions]
        needs = ", ".join(f'"demo[e{number + 1}]{mark}"' for mark in marks)
        lines.append(f"e{number} = [{needs}]")
    table = "\n".join([*lines, f'e{length} = ["lib"]'])
    text = f'[project]\nname = "demo"\nversion = "1"\n[project.optional-dependencies]\n{table}'
    (fault,) = faults(text)
    assert fault == "its extras and groups include each other too often"


def test_groups_without_a_package() -> None:
    """A file may describe no package at all, only groups."""
    found = read('[dependency-groups]\ntest = ["pytest"]\n')
    assert (found.name, found.dependencies) == (None, ())
    assert list(found.groups) == ["test"]


VARIANT_MARKER = (
    "project.dependencies[0]: line 3: \"b; 'x' in variant_features\": variant_features cannot be "
    "used here: no wheel has been chosen yet"
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[project]\n", "project.name: line 1: is missing"),
        ('[project]\nname = "a b"', "project.name: line 2: 'a b' is not a valid project name"),
        (
            '[project]\nname = "a"\ndynamic = [\n"version",\n"dependencies"]',
            "project.dynamic[1]: line 5: dependencies are dynamic: only a build can determine them",
        ),
        (
            '[project]\nname = "a"\ndynamic = ["dependencies"]\ndependencies = []',
            "project.dynamic[0]: line 3: dependencies is set and also listed as dynamic",
        ),
        (
            '[project]\nname="a"\ndynamic=1',
            "project.dynamic: line 3: must be a list of strings, not a number",
        ),
        (
            '[project]\nname="a"\nrequires-python="3"',
            "project.requires-python: line 3: '3' is not a version specifier",
        ),
        (
            '[project]\nname="a"\nrequires-python=3',
            "project.requires-python: line 3: a number is not a version specifier",
        ),
        (
            '[project]\nname="a"\ndependencies="b"',
            "project.dependencies: line 3: must be a list, not 'b'",
        ),
        (
            '[project]\nname="a"\ndependencies=[1]',
            "project.dependencies[0]: line 3: must be a string, not a number",
        ),
        ("project = 1", "project: line 1: must be a table, not a number"),
        (
            '[project]\nname="a"\ndependencies=["b; \'x\' in variant_features"]',
            VARIANT_MARKER,
        ),
        (
            '[project]\nname="a"\ndependencies=["a[x]"]',
            "project.dependencies[0]: line 3: the project has no extra x",
        ),
        (
            '[project]\nname="a"\noptional-dependencies=[]',
            "project.optional-dependencies: line 3: must be a table, not an empty list",
        ),
        (
            "[dependency-groups]\na-b = []\nA_b = []",
            "dependency-groups.A_b: line 3: a-b is repeated in another spelling",
        ),
        ('[dependency-groups]\n"a b" = []', 'dependency-groups["a b"]: line 2: is not a name'),
        (
            '[dependency-groups]\na = [{include-group="b"}]',
            "dependency-groups.a[0]: line 2: there is no group b",
        ),
        (
            '[dependency-groups]\na = [{include-group="a"}]',
            "dependency-groups.a[0]: line 2: the group a includes itself",
        ),
        (
            '[dependency-groups]\na = [{include-group="!"}]',
            "dependency-groups.a[0]: line 2: '!' is not a valid group name",
        ),
        (
            '[dependency-groups]\na = [{include-group="b", x=1}]\nb=[]',
            "dependency-groups.a[0]: line 2: is not an include-group, the only table allowed here",
        ),
        ("x = 1", "pyproject.toml has neither [project] nor [dependency-groups]"),
    ],
)
def test_what_is_wrong(text: str, fault: str) -> None:
    """Each fault says the path, the line and what is wrong."""
    assert faults(text) == [fault]


def test_a_circle_of_groups() -> None:
    """Groups in a circle are a fault wherever the circle closes."""
    found = faults('[dependency-groups]\na = [{include-group="b"}]\nb = ["x", {include-group="a"}]')
    assert found == [
        "dependency-groups.b[1]: line 3: the group a includes itself",
        "dependency-groups.a[0]: line 2: the group b includes itself",
    ]


def test_everything_wrong_at_once() -> None:
    """All faults are told together."""
    found = faults('[project]\nname = 1\ndependencies = ["a >>", 2]\n[dependency-groups]\nx = 1')
    assert [fault.partition(":")[0] for fault in found] == [
        "project.name", "project.dependencies[0]", "project.dependencies[1]", "dependency-groups.x",
    ]  # fmt: skip


def test_dynamic_dependencies_have_a_way_out() -> None:
    """Nothing is built, so what only a backend knows must be given otherwise."""
    with raises_code("invalid-project") as excinfo:
        read('[project]\nname = "a"\ndynamic = ["dependencies"]')
    assert excinfo.value.hint == "name its requirements, or a wheel of it"


def test_a_project_of_another_kind() -> None:
    """Who writes dependencies for one tool only is told so."""
    with raises_code("invalid-project") as excinfo:
        read('[tool.poetry.dependencies]\nx = "^1"')
    assert "PEP 621" in str(excinfo.value.hint)


def test_no_toml() -> None:
    """What is not TOML is a problem with the file."""
    with pytest.raises(FileProblem, match="is not TOML"):
        read("[project")


def test_a_source_with_a_fragment_and_a_subdirectory() -> None:
    """The subdirectory is added to the fragment of a URL that has a hash already."""
    project = read_project_file(
        b"[project]\nname = 'demo'\nversion = '1'\n[tool.uv.sources]\n"
        b"x = {url = 'https://h.example/x.zip#sha256=ab', subdirectory = 'python'}\n",
        "/demo/pyproject.toml",
    )
    (source,) = project.sources[canonicalize_name("x")]
    assert source.url == "https://h.example/x.zip#sha256=ab&subdirectory=python"
    assert subdirectory_of(source.url) == "python"
