"""The small files in which implementations declare themselves."""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime.declaring import declare

from wheelfit_runtime.loader.declaration_files import FOLDER, escaped, linked_folders
from wheelfit_runtime.loader.declarations import (
    Feature,
    Implementation,
    KnownImplementation,
    Property,
    as_table,
    scan,
)

CU12 = {
    "schema": 1,
    "group": "spam",
    "implementation": "cu12",
    "module": "spam_cu12",
    "distribution": "spam-cu12",
    "priority": 3,
    "properties": [
        "nvidia :: sm_arch :: 90_real",
        "nvidia :: cuda_version_lower_bound :: 12.0",
        "nvidia :: sm_arch :: 80_real",
    ],
}


def test_an_implementation(tmp_path: Path) -> None:
    """All that is said of one is read; values of a feature are put together."""
    where = declare(tmp_path, "spam-cu12.json", CU12)
    found = scan([str(tmp_path)])
    assert found.implementations == (
        Implementation(
            "spam",
            "cu12",
            "spam_cu12",
            (
                Property(Feature("nvidia", "cuda_version_lower_bound"), ("12.0",)),
                Property(Feature("nvidia", "sm_arch"), ("90_real", "80_real")),
            ),
            3,
            "spam-cu12",
            where=str(where),
        ),
    )
    assert not found.problems


def test_dimensions(tmp_path: Path) -> None:
    """A declaration says what its own features are: of one value in a process, or ranked."""
    told = {
        **CU12,
        "dimensions": {"acme :: wire": "requirement", "acme :: order": ["3", "2"]},
    }
    declare(tmp_path, "a.json", told)
    (implementation,) = scan([str(tmp_path)]).implementations
    assert implementation.single_valued_features == (Feature("acme", "wire"),)
    assert implementation.ranked_features == (Property(Feature("acme", "order"), ("3", "2")),)


def test_a_group(tmp_path: Path) -> None:
    """A group says which implementations exist."""
    known = {"implementation": "avx2", "install": "spam-avx2"}
    declare(tmp_path, "spam.json", {"schema": 1, "group": "spam", "known": [known]})
    assert scan([str(tmp_path)]).known == {"spam": (KnownImplementation("avx2", "spam-avx2"),)}


def test_the_first_on_the_path_counts(tmp_path: Path) -> None:
    """A declaration hides others of its name further down, as a module does."""
    declare(tmp_path / "one", "a.json", {**CU12, "module": "mine"})
    declare(tmp_path / "two", "b.json", CU12)
    (implementation,) = scan([str(tmp_path / "one"), str(tmp_path / "two")]).implementations
    assert implementation.module == "mine"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("", "not JSON"),
        ("[" * 100_000 + "]" * 100_000, "larger than"),
        (
            "[" * 20_000 + "]" * 20_000,
            "not JSON" if sys.version_info < (3, 14) else "not a JSON object",
        ),
        ('{"schema": ' + "9" * 6_000 + "}", "not JSON"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "not JSON"),
        ([], "not a JSON object"),
        ({}, "schema"),
        ({**CU12, "schema": True}, "schema"),
        ({**CU12, "schema": 2}, "newer wheelfit"),
        ({**CU12, "group": 3}, "group"),
        ({**CU12, "group": "../evil"}, "group"),
        ({**CU12, "implementation": None}, "implementation"),
        ({**CU12, "module": "os; import evil"}, "module"),
        ({**CU12, "module": "..relative"}, "module"),
        ({**CU12, "distribution": "a\nb"}, "distribution"),
        ({**CU12, "distribution": "a\x9b31m\u202e"}, "distribution"),
        ({**CU12, "distribution": "\ud800"}, "distribution"),
        ({**CU12, "distribution": ""}, "distribution"),
        ({**CU12, "distribution": "x" * 201}, "distribution"),
        ({**CU12, "priority": "high"}, "priority"),
        ({**CU12, "priority": 10**30}, "priority"),
        ({**CU12, "priority": 1.5}, "priority"),
        ({**CU12, "properties": "nvidia"}, "properties"),
        ({**CU12, "properties": [["x"]]}, "properties"),
        ({**CU12, "properties": ["nvidia :: sm_arch"]}, "properties"),
        ({**CU12, "properties": ["x :: y :: z"] * 501}, "properties"),
        ({**CU12, "dimensions": []}, "dimensions"),
        ({**CU12, "dimensions": {"acme": "requirement"}}, "dimensions"),
        ({**CU12, "dimensions": {"acme :: wire": "capability"}}, "dimensions"),
        ({**CU12, "dimensions": {"acme :: wire": [1]}}, "dimensions"),
        ({"schema": 1, "group": "spam", "known": {}}, "known"),
        ({"schema": 1, "group": "spam", "known": ["avx2"]}, "known"),
        ({"schema": 1, "group": "spam", "known": [{"implementation": "a"}]}, "install"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, told: object, words: str) -> None:
    """A broken or hostile file is named with what is wrong, and the others still count."""
    wrong = declare(tmp_path, "a.json", told)
    declare(tmp_path, "b.json", {**CU12, "group": "eggs"})
    found = scan([str(tmp_path)])
    (problem,) = found.problems
    assert problem.startswith(f"{wrong}: ")
    assert words in problem
    assert len(problem) < 1000
    assert [implementation.group for implementation in found.implementations] == ["eggs"]


def test_a_pipe_a_folder_and_loose_ends(tmp_path: Path) -> None:
    """What is not a regular file is not waited for, and a link that leads nowhere is named."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "nowhere.json").symlink_to(tmp_path / "missing")
    (folder / "round.json").symlink_to("round.json")
    (folder / "endless.json").symlink_to("/dev/zero")
    (folder / "note.txt").write_text("not asked for")
    assert [
        problem.rpartition("/")[2].partition(":")[0] for problem in scan([str(tmp_path)]).problems
    ] == [
        "endless.json",
        "folder.json",
        "nowhere.json",
        "pipe.json",
        "round.json",
    ]


def test_a_link_to_a_file(tmp_path: Path) -> None:
    """Installers may link to their cache, so a link to a file counts."""
    real = declare(tmp_path / "cache", "x.json", CU12)
    (tmp_path / "site" / FOLDER).mkdir(parents=True)
    (tmp_path / "site" / FOLDER / "spam.json").symlink_to(real)
    assert len(scan([str(tmp_path / "site")]).implementations) == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    """A file or folder without permission is named."""
    declare(tmp_path / "a", "x.json", CU12).chmod(0)
    declare(tmp_path / "b", "x.json", CU12)
    (tmp_path / "b" / FOLDER).chmod(0)
    try:
        problems = scan([str(tmp_path / "a"), str(tmp_path / "b")]).problems
    finally:
        (tmp_path / "b" / FOLDER).chmod(0o700)
    assert len(problems) == 2
    assert all("cannot be read" in problem for problem in problems)


def test_a_strange_path(tmp_path: Path) -> None:
    """What is not text, no folder, or not there is passed over in silence."""
    file = tmp_path / "app.zip"
    file.write_bytes(b"PK")
    odd: list[object] = [str(file), str(tmp_path / "missing"), tmp_path, b"bytes", None, "\0"]
    odd += [["no", "text"], "x" * 5000]
    assert scan(odd) == scan([])


def test_a_closed_entry_of_the_path(tmp_path: Path) -> None:
    """Modules are not found either where nobody may look, so nothing is told."""
    declare(tmp_path / "closed", "x.json", CU12)
    round_about = tmp_path / "round"
    round_about.symlink_to("round")
    assert scan([str(round_about)]) == scan([])


def test_names_for_a_terminal(tmp_path: Path) -> None:
    """What is told of a file is one line that no terminal obeys, whatever its name is."""
    declare(tmp_path, "a\n\x1b[31m.json", "{")
    (problem,) = scan([str(tmp_path)]).problems
    assert problem.isprintable()
    assert "a\\n\\x1b[31m.json: is not JSON" in problem
    assert escaped("grün") == "grün"


def test_further_folders(tmp_path: Path) -> None:
    """Folders that only importlib knows are read after those on the path, each once."""
    declare(tmp_path / "one", "a.json", {**CU12, "module": "first"})
    declare(tmp_path / "two", "a.json", CU12)
    declare(tmp_path / "two", "b.json", {**CU12, "implementation": "other"})
    folders = [str(tmp_path / name / FOLDER) for name in ("one", "two", "none")]
    found = scan([str(tmp_path / "one")], folders=folders)
    assert [implementation.module for implementation in found.implementations] == [
        "first",
        "spam_cu12",
    ]
    assert found.problems == ()
    assert '"other"' in as_table([], folders).replace("'", '"')


def test_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that begin at the current folder count as importlib has them: once, or not at all."""
    place = tmp_path / "here"
    wrong = declare(place, "a.json", "{")
    monkeypatch.chdir(place)
    folders = [str(wrong.parent)]
    (problem,) = scan(["", ".", "../here"], folders=folders).problems
    assert problem.startswith(f"{wrong}: ")
    wrong.unlink()
    wrong.parent.rmdir()
    place.rmdir()
    assert scan(["", "lib"]) == scan([])


def test_what_importlib_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook of an installer leads to folders; a module of that name is no reason to fail."""

    class Hook:
        def __init__(self) -> None:
            self.leads_to: list[str] | None = [str(tmp_path)]

        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            if self.leads_to is None:
                return None
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = self.leads_to
            return spec

    hook = Hook()
    monkeypatch.setattr(sys, "meta_path", [hook])
    assert linked_folders() == (str(tmp_path),)
    monkeypatch.setitem(sys.modules, FOLDER, ModuleType(FOLDER))
    assert linked_folders() == ()
    monkeypatch.delitem(sys.modules, FOLDER)
    hook.leads_to = None
    assert linked_folders() == ()


def test_too_many_files(tmp_path: Path) -> None:
    """A folder that is full of files does not hold up an import, and is named."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    for number in range(2001):
        (folder / f"{number:04}.json").touch()
    assert any("2001 files" in problem for problem in scan([str(tmp_path)]).problems)


def test_a_table(tmp_path: Path) -> None:
    """A frozen application may have the same as a module; folders come first."""
    declare(tmp_path, "spam-cu12.json", CU12)
    declare(tmp_path, "broken.json", "{")
    module = ModuleType("table")
    exec(as_table([str(tmp_path)]), vars(module))
    (implementation,) = scan([], module.TABLE).implementations
    assert implementation == scan([str(tmp_path)]).implementations[0]._replace(
        where=implementation.where
    )
    assert implementation.where == "wheelfit_implementation_table:spam-cu12.json"
    declare(tmp_path, "spam-cu12.json", {**CU12, "module": "newer"})
    (first,) = scan([str(tmp_path)], module.TABLE).implementations
    assert first.module == "newer"


@pytest.mark.parametrize("odd", ["NaN", "1e999", "[" * 300 + "]" * 300, '"\\ud800"'])
def test_a_table_of_odd_files(tmp_path: Path, odd: str) -> None:
    """Whatever else a file holds, the module with it can be imported."""
    declare(tmp_path, "a.json", f'{{"more": {odd}, {json.dumps(CU12)[1:]}')
    module = ModuleType("table")
    exec(as_table([str(tmp_path)]), vars(module))
    assert [implementation.name for implementation in scan([], module.TABLE).implementations] == [
        "cu12"
    ]


def test_a_wrong_table() -> None:
    """What is wrong in a table is told likewise."""
    assert "not a JSON object" in scan([], {"x.json": 3}).problems[0]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(sorted({*CU12, "dimensions", "known"})), _JSON), st.booleans()
)
def test_whatever_is_declared(told: dict[str, object], is_near: bool) -> None:  # noqa: FBT001
    """No document makes an import fail: it counts, or is named."""
    found = scan([], {"x.json": {**CU12, **told} if is_near else told})
    assert len(found.implementations) + len(found.known) + len(found.problems) == 1
