"""Locks reduced to what a bundle has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from locking.entries import DOCUMENT, lock_table, plain_entry, wheel_name, world
from locking.entries import lock_world as locked_world
from msgspec.structs import replace

from wheelfit.core.markers import parse_marker
from wheelfit.core.metadata import read_document
from wheelfit.errors import InconsistentDocuments
from wheelfit.locking.bundles.manifest import BundledFile
from wheelfit.locking.bundles.reduction import KeptEntry, index_files, marker_of, reduce_lock
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.testing.resolution_setup import linux_target


def files_of(lock: Lock) -> dict[str, BundledFile]:
    """Return a hash and a size for every wheel of a lock."""
    return {
        wheel.filename.text: BundledFile(wheel.hashes.get("sha256", "ab" * 32), 7)
        for package in lock.packages
        for wheel in package.wheels
    }


def everything(lock: Lock) -> dict[int, KeptEntry]:
    """Keep all wheels."""
    return {
        index: KeptEntry(
            package, frozenset(w.filename.text for w in package.wheels), package.document
        )
        for index, package in enumerate(lock.packages)
    }


def only(lock: Lock, name: str, *labels: str | None) -> dict[int, KeptEntry]:
    """Keep the wheels of some labels of one package."""
    for index, package in enumerate(lock.packages):
        if package.name == name:
            names = [w.filename.text for w in package.wheels if w.filename.label in labels]
            return {index: KeptEntry(package, frozenset(names), package.document)}
    raise KeyError(name)


def entry_of(lock: Lock, name: str) -> dict[str, Any]:
    """Return an entry as plain data."""
    return dict(next(entry for entry in lock.entries if entry["name"] == name))


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (("cu12.8",), {"cu12.8"}),
        (("cu12.8", "v3", None), {"cu12.8", "v3"}),
        (("null",), {"null"}),
        ((None,), set()),
    ],
)
def test_variants_are_pruned(labels: tuple[str | None, ...], kept: set[str]) -> None:
    """F-116: the table has the labels that stay, and is gone when none does."""
    lock = locked_world(world())
    less = reduce_lock(lock, only(lock, "fastfft", *labels), files_of(lock))
    entry = entry_of(less, "fastfft")
    assert set(entry.get("variants-json", {}).get("variants", ())) == kept
    assert ("variants-json" in entry) == bool(kept)
    needs = entry["tool"]["wheelfit"]["variant-dependencies"]
    assert needs.keys() == {label or "" for label in labels}
    assert "dependencies" not in entry  # what it needs is not in the bundle
    found = index_files(only(lock, "fastfft", *labels).values())
    if not kept:
        assert found == {}
        return
    ((filename, data),) = found[lock.packages[1].name].items()
    assert filename == "fastfft-2.1-variants.json"
    assert read_document(data, where=filename) == less.packages[0].document


def test_dependencies_are_those_of_the_wheels_that_stay() -> None:
    """F-121: for auditors the names that any of the wheels needs, and nothing that is not there."""
    lock = locked_world(world())
    kept = everything(lock) | only(lock, "fastfft", "v3")
    entry = entry_of(reduce_lock(lock, kept, files_of(lock)), "fastfft")
    assert entry["dependencies"] == [{"name": "numbers"}]


def test_all_of_it_stays_as_it_was_but_for_the_places() -> None:
    """Nothing else changes, known or not, and writing and reading it gives the same."""
    table = lock_table(
        plain_entry("some", extra_key={"a": 1}, sdist={
            "url": "https://fake.invalid/some-1.tar.gz", "hashes": {"sha256": "00"},
        }),
        tool={"other": {"key": 1}},
    )  # fmt: skip
    lock = Lock.of(table)
    less = reduce_lock(lock, everything(lock), files_of(lock))
    expected = lock.to_mapping()
    del expected["packages"][0]["sdist"]
    expected["packages"][0]["wheels"] = [
        {"path": "wheels/some-1-py3-none-any.whl", "size": 7, "hashes": {"sha256": "00"}}
    ]
    assert less.to_mapping() == expected
    assert read_lock(write_lock(less), where="") == less


def two_entries(*documents: dict[str, Any]) -> Lock:
    """Return a lock with an entry for each of two systems, each with the wheels it describes."""
    entries = []
    systems = (("linux", "py3-none-manylinux_2_28_x86_64"), ("win32", "py3-none-win_amd64"))
    for (platform, tags), document in zip(systems, documents, strict=True):
        names = [wheel_name("fastfft", "2.1", label, tags) for label in document["variants"]]
        entries.append(
            {
                "name": "fastfft",
                "version": "2.1",
                "marker": f"sys_platform == '{platform}'",
                "wheels": [
                    {"url": f"https://fake.invalid/{name}", "hashes": {"sha256": "00"}}
                    for name in names
                ],
                "variants-json": document,
            }
        )
    return Lock.of(lock_table(*entries))


def described(variants: dict[str, Any], *namespaces: str) -> dict[str, Any]:
    """Return a document with some labels."""
    namespaces = namespaces or tuple(DOCUMENT["providers"])
    priorities = {"namespace": list(namespaces)}
    return {**DOCUMENT, "default-priorities": priorities, "variants": variants}


CUDA = {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}
LEVEL = {"x86_64": {"level": ["v3"]}}


def test_two_entries_of_one_release() -> None:
    """Each keeps its own wheels; the index has one document with the labels of both."""
    lock = two_entries(described({"cu12.8": CUDA}), described({"v3": LEVEL}))
    less = reduce_lock(lock, everything(lock), files_of(lock))
    labels = [set(package.document.variants) for package in less.packages if package.document]
    assert labels == [{"cu12.8"}, {"v3"}]
    for kept in (everything(lock), everything(less)):  # the latter lack each other's namespaces
        ((_, data),) = index_files(kept.values())[lock.packages[0].name].items()
        document = read_document(data, where="")
        assert set(document.variants) == {"cu12.8", "v3"}
        assert set(document.priorities) == set(document.providers) == {"nvidia", "x86_64"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (described({"a": CUDA}), described({"a": LEVEL})),
        (
            described({"a": {**CUDA, **LEVEL}}),
            described({"b": {**CUDA, **LEVEL}}, "x86_64", "nvidia", "amd"),
        ),
    ],
)
def test_two_entries_that_contradict_each_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    """What two entries of one release say differently cannot stand in one index file."""
    lock = two_entries(one, other)
    with pytest.raises(InconsistentDocuments, match="entries of one release"):
        index_files(everything(lock).values())


def test_an_archive() -> None:
    """F-124: a wheel that is the whole package is a file of the bundle too."""
    name = wheel_name("some", "1", tags="py3-none-any")
    archive = {"url": f"https://fake.invalid/{name}", "hashes": {"SHA512": "0A"}}
    lock = Lock.of(lock_table({"name": "some", "version": "1", "archive": archive}))
    less = reduce_lock(lock, everything(lock), files_of(lock))
    assert entry_of(less, "some")["archive"] == {
        "path": f"wheels/{name}", "size": 7, "hashes": {"sha256": "ab" * 32, "sha512": "0A"},
    }  # fmt: skip
    assert less.packages[0].kind == "archive"


def test_groups_that_were_default() -> None:
    """Groups that it was made with count by default, and no others can be asked for."""
    table = lock_table(plain_entry("some"), extras=["x", "y"])
    table |= {"dependency-groups": ["dev", "docs"], "default-groups": ["dev"]}
    lock = Lock.of(table)
    less = reduce_lock(lock, everything(lock), files_of(lock), extras=["y"], groups=["docs"])
    found = less.to_mapping()
    assert found["extras"] == ["y"]
    assert found["dependency-groups"] == found["default-groups"] == ["docs"]


def test_the_marker_of_a_target_holds_there() -> None:
    """And on no other system, processor or Python."""
    marker = parse_marker(marker_of(linux_target("3.11.7")))
    assert marker.evaluate({**linux_target("3.11.2").environment})
    assert not marker.evaluate({**linux_target("3.12.1").environment})


@settings(max_examples=settings().max_examples // 3)
@given(st.dictionaries(
    st.sampled_from(["implementation_name", "platform_machine", "sys_platform"]),
    st.text(max_size=8),
))  # fmt: skip
def test_any_value_gives_a_marker(values: dict[str, str]) -> None:
    """Whatever a host file says, the marker can be read, and is true of it."""
    target = linux_target()
    target = replace(target, environment={**target.environment, **values})
    marker = marker_of(target)
    assert not marker or parse_marker(marker).evaluate({**target.environment})
