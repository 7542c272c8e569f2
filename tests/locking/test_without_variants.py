"""What a lock has for tools that know no variants (PEP 751, F-117)."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from locking.shelf import Shelf, cuda
from packaging.pylock import Pylock

from wheelfit.core.requirements import parse_requirement
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.environments import environments_for
from wheelfit.locking.locking import lock_everywhere
from wheelfit.locking.plain_entries import effective_entries
from wheelfit.locking.request import LockNeeds, Root
from wheelfit.locking.solving import Solver
from wheelfit_runtime.errors import InvalidLock


def lock(shelf: Shelf, *texts: str, extra: str | None = None) -> Lock:
    """Lock requirements for two platforms."""
    roots = tuple(
        Root(parse_requirement(text, allow_variant_markers=False), extra=extra)  # type: ignore[arg-type]
        for text in texts
    )
    environments = environments_for(["linux-x86_64", "windows-x86_64"], [(3, 12)])
    solver = Solver(LockNeeds(roots=roots), shelf, threads=0)
    return lock_everywhere(solver, environments).lock


def plain(lock: Lock) -> dict[str, dict[str, Any]]:
    """Return the entries of other tools, as packaging accepts them, by name."""
    table = tomllib.loads(write_lock(lock).decode())
    Pylock.from_dict(table)
    return {entry["name"]: entry for entry in table["packages"]}


def names_of(entry: dict[str, Any]) -> list[str]:
    """Return the names of the wheels of an entry."""
    return [wheel["name"] for wheel in entry["wheels"]]


def test_the_plain_wheel_and_what_it_needs(shelf: Shelf) -> None:
    """What only labels need is for wheelfit alone."""
    needs = {"cu12": ["gpu-lib"], "": ["cpu-lib"], "null": ["nothing"]}
    shelf.add_variants("torch 1", cuda("12"), requires=needs)
    shelf.add("gpu-lib 1", "cpu-lib 1", "nothing 1")
    made = lock(shelf, "torch")
    entries = plain(made)
    assert entries.keys() == {"torch", "cpu-lib"}
    assert names_of(entries["torch"]) == ["torch-1-py3-none-any.whl"]
    assert entries["torch"]["dependencies"] == [{"name": "cpu-lib"}]
    assert "tool" not in entries["torch"]
    assert {package.name for package in made.packages} == {"torch", "cpu-lib", "gpu-lib", "nothing"}
    assert read_lock(write_lock(made), where="") == made


def test_the_null_variant_under_a_plain_name(shelf: Shelf) -> None:
    """Without a plain wheel the null variant is listed, by the name without its label."""
    needs = {"cu12": ["gpu-lib"], "null": ["cpu-lib"]}
    shelf.add_variants("torch 1", cuda("12"), requires=needs, plain=False)
    shelf.add("gpu-lib 1", "cpu-lib 1")
    entries = plain(lock(shelf, "torch"))
    assert entries.keys() == {"torch", "cpu-lib"}
    (wheel,) = entries["torch"]["wheels"]
    assert wheel["name"] == "torch-1-py3-none-any.whl"
    assert wheel["url"].endswith("torch-1-py3-none-any-null.whl")


def test_a_stand_in_where_only_variants_are(shelf: Shelf) -> None:
    """No installer supports it, and what the variants need is not listed."""
    variants = {"cu12": cuda("12")["cu12"]}
    shelf.add_variants("torch 1", variants, requires={"cu12": ["gpu-lib"]}, plain=False)
    shelf.add("gpu-lib 1")
    entries = plain(lock(shelf, "torch"))
    assert entries.keys() == {"torch"}
    assert names_of(entries["torch"]) == ["torch-1-py3-none-needs_variants.whl"]


def test_markers_are_theirs(shelf: Shelf) -> None:
    """What plain wheels need on one system only has the marker of that system."""
    needs = {"cu12": ["lib"], "null": [], "": ['lib; sys_platform == "win32"']}
    shelf.add_variants("torch 1", cuda("12"), requires=needs)
    shelf.add("lib 1")
    made = lock(shelf, "torch")
    assert plain(made)["lib"]["marker"] == "sys_platform == 'win32'"
    assert {str(package.name): package.marker for package in made.packages} == {
        "lib": None,
        "torch": None,
    }


def test_extras(shelf: Shelf) -> None:
    """Extras ask for what plain wheels need, in markers that other tools evaluate."""
    shelf.add_variants("torch 1", cuda("12"), requires={"cu12": ["gpu-lib"], "": ["cpu-lib"]})
    shelf.add("gpu-lib 1", "cpu-lib 1")
    entries = plain(lock(shelf, "torch", extra="fast"))
    assert {entry["marker"] for entry in entries.values()} == {"'fast' in extras"}


def test_without_variants_nothing_is_said_twice(shelf: Shelf) -> None:
    """A lock without labels has no entries for wheelfit alone."""
    shelf.add("app 1", requires=["lib"])
    shelf.add("lib 1")
    table = lock(shelf, "app").to_mapping()
    assert table["tool"]["wheelfit"].keys() == {"roots"}
    assert effective_entries(table) == table["packages"]


def test_faults_of_our_entries() -> None:
    """They are checked as those of other tools are, and placed."""
    table: dict[str, Any] = {"lock-version": "1.0", "created-by": "x", "packages": []}
    own = [{"name": "a", "version": "1", "wheels": [{"name": "a.whl", "hashes": {"sha256": "0"}}]}]
    with pytest.raises(InvalidLock) as excinfo:
        Lock.of({**table, "tool": {"wheelfit": {"packages": own}}})
    assert [fault.path for fault in excinfo.value.faults] == ["tool.wheelfit.packages[0].wheels[0]"]
    with pytest.raises(InvalidLock):
        Lock.of({**table, "tool": {"wheelfit": {"packages": "all"}}})
