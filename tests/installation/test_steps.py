"""Claims about planning renames; nothing is touched, folders are described by dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from error_codes import raises_code
from hypothesis import given
from hypothesis import strategies as st
from installation.scene import by_folder

from wheelfit.installation.steps import FolderListing, Step, StepKind, plan_steps
from wheelfit_runtime.errors import IntegrityError

Folder = Mapping[str, Any]
"""Names with folders, or with the content of files."""


def look_at(disk: Folder, mounts: Mapping[str, int] | None = None) -> Any:
    """Return what looks at described folders.

    :param mounts: numbers of other file systems, by path.
    """

    def device(path: str) -> int:
        found = [root for root in mounts or {} if path == root or path.startswith(f"{root}/")]
        return (mounts or {})[max(found)] if found else 1

    def look(folder: str) -> FolderListing | None:
        here: Any = disk
        for name in folder.strip("/").split("/"):
            if not isinstance(here, dict) or name not in here:
                return None
            here = here[name]
        if not isinstance(here, dict):
            return None
        folders = {name for name, inside in here.items() if isinstance(inside, dict)}
        return FolderListing(
            device(folder),
            folders,
            {name: 0 for name in here if name not in folders},
        )

    return look


def plan(disk: Folder, *gone: str, **options: Any) -> list[str]:
    """Return the steps for what is staged in ``/new`` and goes from ``/env``, in short."""
    mounts = options.pop("mounts", None)
    steps = plan_steps(
        [("/new", "/env")],
        by_folder(*(f"/env/{name}" for name in gone)),
        read_folder=look_at(disk, mounts),
        store=lambda _: "/old",
        kept={"/", "/env", "/env/site"},
        **options,
    )
    return [f"{step.kind} {step.path.removeprefix('/env/')}" for step in steps]


ENV = {"pkg": {"a": 1, "sub": {"b": 1}, "__pycache__": {}}, "shared": {"x": 1, "theirs": 1}}


@pytest.mark.parametrize(
    ("env", "new", "gone", "expected"),
    [
        (ENV, {}, ("pkg/a", "pkg/sub/b"), ["take pkg"]),
        (ENV, {}, ("pkg/sub/b",), ["take pkg/sub"]),
        (ENV, {}, ("pkg/a", "shared/x"), ["take pkg/a", "take shared/x"]),
        (ENV, {"pkg": {"n": 2}}, ("pkg/a", "pkg/sub/b"), ["swap pkg"]),
        (ENV, {"pkg": {"sub": {"b": 2}}}, ("pkg/sub/b",), ["swap pkg/sub"]),
        (ENV, {"shared": {"x": 2, "y": 2}}, ("shared/x",), ["swap shared/x", "put shared/y"]),
        (ENV, {"fresh": {"deep": {"n": 2}}}, (), ["put fresh"]),
        (ENV, {"pkg": 2}, ("pkg/a", "pkg/sub/b"), ["swap pkg"]),
        ({"m": 1}, {"m": {"n": 2}}, ("m",), ["swap m"]),
        ({"site": {"m": 1}}, {}, ("site/m",), ["take site/m"]),
        ({"p": {"empty": {}, "m": 1}}, {}, ("p/m",), ["take p/m"]),
        (ENV, {}, ("pkg/gone", "nowhere/x"), []),
        (
            {"d-1.dist-info": {"R": 1}, "e-1.dist-info": {"R": 1}, "d": {"m": 1}},
            {"d-2.dist-info": {"R": 2}, "e-1.dist-info": {"R": 2}, "d": {"m": 2}},
            ("d-1.dist-info/R", "e-1.dist-info/R", "d/m"),
            ["swap d", "put d-2.dist-info", "take d-1.dist-info", "swap e-1.dist-info"],
        ),
    ],
)
def test_steps(env: Folder, new: Folder, gone: tuple[str, ...], expected: list[str]) -> None:
    """Folders move as wholes, exchanged if both exist, and records at the end, new before old."""
    assert plan({"env": env, "new": new}, *gone) == expected


def test_without_exchange() -> None:
    """Where names cannot be exchanged, the old one goes and the new one comes at once."""
    disk = {"env": ENV, "new": {"pkg": {"n": 2}, "shared": {"x": 2}}}
    gone = ("pkg/a", "pkg/sub/b", "shared/x")
    assert plan(disk, *gone, exchange=False) == [
        "take pkg",
        "put pkg",
        "take shared/x",
        "put shared/x",
    ]


def test_without_folders() -> None:
    """Where folders cannot be renamed, files are, and folders that become empty are removed."""
    disk = {"env": ENV, "new": {"pkg": {"a": 2}}}
    assert plan(disk, "pkg/a", "pkg/sub/b", whole_folders=False) == [
        "swap pkg/a",
        "drop pkg/__pycache__",
        "take pkg/sub/b",
        "drop pkg/sub",
    ]


def test_vendored() -> None:
    """The record of a vendored project goes with the folder that it lies in, not after it."""
    disk = {"env": {"pkg": {"_vendor": {"x-1.dist-info": {"R": 1}}, "a": 1}}}
    steps = plan(disk, "pkg/a", "pkg/_vendor/x-1.dist-info/R", whole_folders=False)
    assert steps == [
        "take pkg/a",
        "take pkg/_vendor/x-1.dist-info/R",
        "drop pkg/_vendor/x-1.dist-info",
        "drop pkg/_vendor",
        "drop pkg",
    ]


def test_mounts() -> None:
    """A folder with another file system in it is gone through."""
    assert plan({"env": ENV}, "pkg/a", "pkg/sub/b", mounts={"/env/pkg/sub": 2}) == [
        "take pkg/a",
        "take pkg/sub/b",
    ]


def test_conflict() -> None:
    """What goes with nobody is in the way, unless it may be replaced."""
    disk = {"env": ENV, "new": {"shared": {"theirs": 2}}}
    with raises_code("file-conflict"):
        plan(disk)
    assert plan(disk, replace=True) == ["swap shared/theirs"]
    with raises_code("file-conflict"):  # a folder with something in it never is
        plan({"env": ENV, "new": {"shared": 2}}, replace=True)


NAMES = st.sampled_from(["a", "b", "c", "d-1.dist-info"])
TREES: st.SearchStrategy[Any] = st.recursive(
    st.just("old"), lambda inside: st.dictionaries(NAMES, inside, max_size=4), max_leaves=8
)
FOLDERS = st.dictionaries(NAMES, TREES, max_size=4)


def paths(folder: Any, start: str = "") -> dict[str, str]:
    """Return the files of a described folder with their content."""
    found: dict[str, str] = {}
    for name, inside in folder.items():
        if isinstance(inside, dict):
            found |= paths(inside, f"{start}{name}/")
        else:
            found[start + name] = inside
    return found


def moved(files: dict[str, str], step: Step) -> None:
    """Make one step on files, by path."""

    def rename(source: str, target: str) -> dict[str, str]:
        inside = [name for name in files if name == source or name.startswith(f"{source}/")]
        return {target + name[len(source) :]: files.pop(name) for name in inside}

    match step.kind:
        case StepKind.PUT:
            coming = rename(step.workplace_path, step.path)
            assert not rename(step.path, "")
            files |= coming
        case StepKind.TAKE:
            files |= rename(step.path, step.workplace_path)
        case StepKind.SWAP:
            coming, going = (
                rename(step.workplace_path, step.path),
                rename(step.path, step.workplace_path),
            )
            files |= {**coming, **going}
        case StepKind.DROP:
            assert not rename(step.path, "")


@given(env=FOLDERS, new=FOLDERS, data=st.data(), whole=st.booleans(), exchange=st.booleans())
def test_law(env: Any, new: Any, data: st.DataObject, whole: bool, exchange: bool) -> None:  # noqa: FBT001
    """Afterwards there is what came, and of the rest what did not go."""
    before = paths(env)
    gone = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    coming = dict.fromkeys(paths(new), "new")
    try:
        steps = plan_steps(
            [("/new", "/env")],
            by_folder(*(f"/env/{name}" for name in gone)),
            read_folder=look_at({"env": env, "new": new}),
            store=lambda _: "/old",
            kept={"/", "/env"},
            whole_folders=whole,
            exchange=exchange,
        )
    except IntegrityError:
        return
    files = {f"/env/{name}": "old" for name in before}
    files |= {f"/new/{name}": "new" for name in coming}
    for step in steps:
        moved(files, step)
    found = {name[5:]: text for name, text in files.items() if name.startswith("/env/")}
    assert found == {name: "old" for name in before if name not in gone} | coming
    kept = sorted(text for name, text in files.items() if not name.startswith("/env/"))
    assert kept == ["old"] * len(gone)
