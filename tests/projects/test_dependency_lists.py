"""Lists of requirements in a ``pyproject.toml``, changed as text."""

from __future__ import annotations

import tomllib

import pytest
from error_codes import raises_code
from packaging.utils import canonicalize_name

from wheelfit.projects.dependency_lists import (
    DependencyList,
    ProjectText,
    with_requirement,
    without_requirement,
)

HEAD = '[project]\nname = "demo"\nversion = "1"\n'
OWN = DependencyList()


def project(text: str) -> ProjectText:
    """Return a project with this text."""
    return ProjectText.of(text.encode(), "pyproject.toml")


def added(text: str, *requirements: str, to: DependencyList = OWN) -> str:
    """Return a text after requirements were added."""
    edited = project(text)
    for requirement in requirements:
        edited, _ = with_requirement(edited, to, requirement)
    return edited.encode().decode()


def removed(text: str, name: str, *, from_: DependencyList = OWN) -> str:
    """Return a text after a dependency was removed."""
    edited, changes = without_requirement(project(text), from_, canonicalize_name(name))
    assert changes
    return edited.encode().decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'dependencies = [\n    "new>=1",\n]\n'),
        ("dependencies = []\n", 'dependencies = [\n    "new>=1",\n]\n'),
        ("dependencies = [\n  # none\n]\n", 'dependencies = [\n  # none\n    "new>=1",\n]\n'),
        ('dependencies = ["b"]  # c\n', 'dependencies = ["b", "new>=1"]  # c\n'),
        ('dependencies = [ "b", ]\n', 'dependencies = [ "b", "new>=1", ]\n'),
        ("dependencies = ['b']\n", "dependencies = ['b', 'new>=1']\n"),
        ('dependencies = ["b", "z"]\n', 'dependencies = ["b", "new>=1", "z"]\n'),
        ('dependencies = ["z", "b"]\n', 'dependencies = ["z", "b", "new>=1"]\n'),
        (
            'dependencies = [\n  "b",  # why, [ "\n]\n',
            'dependencies = [\n  "b",  # why, [ "\n  "new>=1",\n]\n',
        ),
        (
            'dependencies = [\n\t"b"  # why\n\t# end\n]\n',
            'dependencies = [\n\t"b",  # why\n\t"new>=1"\n\t# end\n]\n',
        ),
        (
            'dependencies = [\n  "b",\n  # about z\n  "z",\n]\n',
            'dependencies = [\n  "b",\n  "new>=1",\n  # about z\n  "z",\n]\n',
        ),
        (
            'dependencies = [\n  # all\n  "x",\n  "z",\n]\n',
            'dependencies = [\n  "new>=1",\n  # all\n  "x",\n  "z",\n]\n',
        ),
        ('dependencies = ["b",\n  "c"]\n', 'dependencies = ["b",\n  "c",\n  "new>=1"]\n'),
        (
            'dependencies = [\n    "z"\n  , "b"\n]\n',
            'dependencies = [\n    "z"\n  , "b",\n  "new>=1"\n]\n',
        ),
    ],
)
def test_add(before: str, after: str) -> None:
    """A list keeps its form, its order and its comments."""
    more = '\n# about the tool\n[tool.x]\ny = "[project]"\n'
    assert added(HEAD + before + more, "new>=1") == HEAD + after + more


def test_line_endings() -> None:
    """Lines end as they did."""
    text = HEAD.replace("\n", "\r\n")
    assert added(text, "new") == f'{text}dependencies = [\r\n    "new",\r\n]\r\n'


def test_no_line_at_the_end() -> None:
    """A file that ends without a line break is not an obstacle."""
    assert tomllib.loads(added(HEAD.strip(), "new"))["project"]["dependencies"] == ["new"]


EXTRA, GROUP = DependencyList("extra", "gpu"), DependencyList("group", "test")


@pytest.mark.parametrize(
    ("before", "to", "after"),
    [
        (HEAD, EXTRA, HEAD + '\n[project.optional-dependencies]\ngpu = [\n    "new",\n]\n'),
        (HEAD, GROUP, HEAD + '\n[dependency-groups]\ntest = [\n    "new",\n]\n'),
        ("[tool.x]\n", GROUP, '[tool.x]\n\n[dependency-groups]\ntest = [\n    "new",\n]\n'),
        (
            HEAD + '[project.optional-dependencies]\nGPU = ["old"]\n',
            EXTRA,
            HEAD + '[project.optional-dependencies]\nGPU = ["old", "new"]\n',
        ),
        (
            HEAD + 'optional-dependencies.x = ["old"]\n[tool.x]\n',
            EXTRA,
            HEAD + 'optional-dependencies.x = ["old"]\n'
            'optional-dependencies.gpu = [\n    "new",\n]\n[tool.x]\n',
        ),
        (
            'dependency-groups = { dev = ["old"] }\n',
            GROUP,
            'dependency-groups = { dev = ["old"], test = ["new"] }\n',
        ),
        (
            '[dependency-groups]\ntest = [{include-group = "dev"}, "b"]\ndev = []\n',
            GROUP,
            '[dependency-groups]\ntest = [{include-group = "dev"}, "b", "new"]\ndev = []\n',
        ),
    ],
)
def test_add_to_another_list(before: str, to: DependencyList, after: str) -> None:
    """Extras and groups are found in any spelling, and made where they belong."""
    assert added(before, "new", to=to) == after


@pytest.mark.parametrize(
    ("items", "new", "after"),
    [
        (["a>=1"], "a>=2", ["a>=2"]),
        (["A.b >= 1"], "a-b>=2", ["A.b>=2"]),
        (["a>=1"], "a", ["a>=1"]),
        (["a>=1"], "a[x]", ["a[x]>=1"]),
        (["a[y]>=1"], "a[x]>=2", ["a[y,x]>=2"]),
        (["a>=1; python_version<'4'"], "a>=2", ["a>=2; python_version<'4'"]),
        (["a>=1"], "a>=2; sys_platform == 'linux'", ["a>=1", "a>=2; sys_platform == 'linux'"]),
        (
            ["a>=1; os_name=='nt'", "a>=2; os_name != 'nt'"],
            "a>=3; os_name != 'nt'",
            ["a>=1; os_name=='nt'", "a>=3; os_name != 'nt'"],
        ),
        (["a>=1"], "a @ https://x/a-1-py3-none-any.whl", ["a @ https://x/a-1-py3-none-any.whl"]),
        (["a @ https://x/a.whl ; os_name=='nt'"], "a==1", ["a==1; os_name=='nt'"]),
    ],
)
def test_what_is_there_already(items: list[str], new: str, after: list[str]) -> None:
    """A requirement on the same project gives way, and leaves what the new one does not name."""
    text = added(f"{HEAD}dependencies = {items}\n", new)
    assert tomllib.loads(text)["project"]["dependencies"] == after


def test_several_that_could_be_meant() -> None:
    """Of several requirements on a project a new one without a marker replaces none."""
    items = ["a>=1; os_name == 'nt'", "a>=2; os_name != 'nt'"]
    with raises_code("user-error", match="several requirements on a are in the dependencies"):
        added(f"{HEAD}dependencies = {items}\n", "a>=3")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('dependencies = ["old"]\n', "dependencies = []\n"),
        ('dependencies = ["old", "b"]\n', 'dependencies = ["b"]\n'),
        ('dependencies = ["b", "old>=1"]  # c\n', 'dependencies = ["b"]  # c\n'),
        ('dependencies = [\n  "b",\n  "old",  # why\n]\n', 'dependencies = [\n  "b",\n]\n'),
        ('dependencies = [\n  "b",\n  "old"  # why\n]\n', 'dependencies = [\n  "b",\n]\n'),
        (
            'dependencies = [\n  # all\n  "old",\n  # b\n  "b",\n]\n',
            'dependencies = [\n  # all\n  # b\n  "b",\n]\n',
        ),
        ('dependencies = ["a",\n  "old", "b"]\n', 'dependencies = ["a",\n  "b"]\n'),
        (
            'dependencies = ["old; os_name == \'nt\'", "b", "Old; os_name != \'nt\'"]\n',
            'dependencies = ["b"]\n',
        ),
    ],
)
def test_remove(before: str, after: str) -> None:
    """With a requirement goes its line and the comment on it, and nothing else."""
    assert removed(HEAD + before, "old") == HEAD + after


def test_remove_what_is_not_there() -> None:
    """A list without the requirement stays as it is."""
    before = project(HEAD + 'dependencies = ["b"]\n')
    after, changes = without_requirement(before, OWN, canonicalize_name("old"))
    assert (after, list(changes)) == (before, [])


def test_places() -> None:
    """The lists that name a project are found, the first element among others."""
    text = HEAD + 'dependencies = ["a"]\n[dependency-groups]\ntest = ["A>1", "b"]\n'
    places = project(text).lists_with(canonicalize_name("a"))
    assert [str(place) for place in places] == ["the dependencies of the project", "the group test"]


@pytest.mark.parametrize(
    ("text", "to", "message"),
    [
        ("[tool]\n", OWN, "project: is missing"),
        ("[tool.poetry]\n", OWN, "only Poetry edits"),
        (HEAD + 'dynamic = ["dependencies"]\n', OWN, "dependencies are dynamic"),
        (HEAD + "optional-dependencies = 3\n", EXTRA, "must be a table"),
        ("dependency-groups = []\n", DependencyList("group", "dev"), "must be a table"),
        (HEAD + 'dynamic = ["optional-dependencies"]\n', EXTRA, "optional-dependencies are dyn"),
        ('project = {name = "x"}\n', EXTRA, "without changing its other lines"),
        ('[[dependency-groups.test]]\ninclude-group = "dev"\n', GROUP, "without changing"),
    ],
)
def test_lists_that_cannot_be_edited(text: str, to: DependencyList, message: str) -> None:
    """What is missing or belongs to a build backend is an error."""
    with raises_code("invalid-project", match=message):
        added(text, "new", to=to)


def test_broken_toml() -> None:
    """A file that is not TOML is an error that names the file."""
    with raises_code("file-problem", match="not TOML"):
        project("[project\n")
