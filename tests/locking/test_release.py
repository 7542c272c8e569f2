"""A release is locked with every wheel that somebody could want, and nothing is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from locking.entries import (
    DOCUMENT,
    LABELS,
    TARGET,
    lock_table,
    lock_world,
    locked,
    needed_names,
    release_for,
    wheel_name,
    world,
)
from msgspec import structs
from packaging.version import Version

from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.filename import parse_index_file_name
from wheelfit.core.labels import Label
from wheelfit.core.markers import VariantContext
from wheelfit.core.metadata import check_document, read_document
from wheelfit.core.properties import PropertySet
from wheelfit.core.target import Target
from wheelfit.errors import BadMetadata
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.locking import new_lock
from wheelfit.locking.pruning import prune
from wheelfit.locking.release import lock_release
from wheelfit.locking.selection import LockCandidates
from wheelfit.resolution.candidates import Candidates
from wheelfit.resolution.release_choice import ReleaseChoice
from wheelfit.resolution.release_metadata import read_release_metadata
from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.errors import InvalidDocument, NoCompatibleWheel
from wheelfit_runtime.platforms.recording import open_recorded

MACHINES = Path(__file__).parents[1] / "machines"
NEXT_PYTHON = linux_target("3.12.1")


def mac() -> Target:
    """Return a target of which no wheel of the world is."""
    from packaging.tags import Tag

    environment = {**TARGET.environment, "sys_platform": "darwin", "platform_system": "Darwin"}
    return Target.of("a Mac", environment, [Tag("cp311", "cp311", "macosx_14_0_arm64")])


def names(table: dict[str, Any]) -> list[str]:
    """Return the names of the wheels of an entry."""
    return [wheel["name"] for wheel in table["wheels"]]


class TestMachines:
    """The machine that locks does not matter (F-120)."""

    SCRIPT = """
import sys
from locking.entries import lock_world
from wheelfit.locking.document import write_lock
sys.stdout.buffer.write(write_lock(lock_world()))
assert not [n for n in sys.modules if "platforms.probes" in n or n.endswith(".provider")]
from wheelfit_runtime.platforms.discovery import Machine
print(Machine().detect("nvidia").status, file=sys.stderr)
"""

    @pytest.mark.integration
    def test_with_and_without_a_gpu(self, fake_driver: FakeDriver) -> None:
        """A driver that shows a GPU changes nothing, for no probe is even imported (F-120)."""
        tests = Path(__file__).parents[1]
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        bare = {**kept, "PYTHONPATH": str(tests), "NVIDIA_VISIBLE_DEVICES": "void"}
        driver = fake_driver.environ(devices=["9.0 NVIDIA H100"], cuda="12.8")
        gpu = {**bare, **driver, "LD_LIBRARY_PATH": str(fake_driver.folder)}
        locks, statuses = [], []
        for environment in (gpu, {**bare, "WHEELFIT_OVERRIDE_NVIDIA": ""}):
            completed = subprocess.run(
                [sys.executable, "-c", self.SCRIPT],
                env=environment,
                capture_output=True,
                check=True,
            )
            locks.append(completed.stdout)
            statuses.append(completed.stderr.decode().strip())
        assert statuses[0] == "supported"
        assert statuses[1] != "supported"
        assert locks[0] == locks[1]
        assert b"cu12.8" in locks[0]

    def test_the_order_of_a_page_does_not_matter(self) -> None:
        """Another server, another order, the same bytes (F-120)."""
        forwards = lock_world(world(LABELS))
        backwards = lock_world(world(reversed(LABELS)))
        assert write_lock(forwards) == write_lock(backwards)


class TestWheels:
    """Which wheels are listed, and what is said of each (F-120)."""

    def test_all_that_fit_an_environment(self) -> None:
        """Wheels for any of the environments are listed, all of their labels, no others."""
        repository = world()
        for python in ("cp312", "cp313"):
            tags = f"{python}-{python}-manylinux_2_28_x86_64"
            for label in ("v3", None):
                repository.add_wheel(wheel_name("fastfft", "2.1", label, tags), document=DOCUMENT)
        one = locked(repository, "fastfft", "2.1").table
        both = locked(repository, "fastfft", "2.1", targets=(TARGET, NEXT_PYTHON)).table
        assert {name.split("-")[2] for name in names(one)} == {"cp311"}
        assert len(names(one)) == len(LABELS)
        assert {name.split("-")[2] for name in names(both)} == {"cp311", "cp312"}
        assert names(both) == sorted(names(both))

    def test_what_the_index_says_of_a_wheel(self) -> None:
        """Name, time, place, size and hashes are kept; fragments and logins are not."""
        repository = FakeRepository()
        file = repository.add_wheel("a-1-py3-none-any.whl", hashes={"sha256": "ab", "odd": "00"})
        page = repository.project("a")  # type: ignore[arg-type]
        assert page is not None
        told = structs.replace(
            file,
            url="https://me:secret@x.invalid/a-1-py3-none-any.whl#sha256=ab",
            size=7,
            upload_time="2026-01-02T03:04:05.000006Z",
        )
        release = release_for(structs.replace(page, files=(told,)), Version("1"), [TARGET])
        assert release is not None
        table = lock_release(
            release,
            read_release_metadata(release, [], repository),
            index="https://me:secret@x.invalid/simple/",
        ).table
        assert table["index"] == "https://x.invalid/simple/"
        assert table["wheels"] == [
            {
                "name": "a-1-py3-none-any.whl",
                "upload-time": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
                "url": "https://x.invalid/a-1-py3-none-any.whl",
                "size": 7,
                "hashes": {"sha256": "ab"},
            }
        ]
        assert Lock.of(lock_table(table)).packages[0].wheels[0].size == 7

    def test_files_of_this_machine_get_paths(self, tmp_path: Path) -> None:
        """Relative to where the lock will lie, with slashes."""
        repository = FakeRepository(base=f"{(tmp_path / 'wheels').as_uri()}/")
        repository.add_wheel("a-1-py3-none-any.whl")
        entry = locked(repository, "a", "1", folder=tmp_path / "locks").table
        assert entry["wheels"][0]["path"] == "../wheels/a-1-py3-none-any.whl"
        assert "url" not in entry["wheels"][0]

    def test_without_a_hash_a_wheel_is_left_out(self) -> None:
        """Nobody could verify it later (F-123)."""
        repository = world(("v3", None))
        repository.add_wheel(
            wheel_name("fastfft", "2.1", "v4"), hashes={"unknown": "00"}, document=DOCUMENT
        )
        entry = locked(repository, "fastfft", "2.1")
        assert len(names(entry.table)) == 2
        assert "lists no hash" in entry.notes[0]
        assert "v4" not in entry.table["variants-json"]["variants"]
        with pytest.raises(BadMetadata, match="lists no hash"):
            locked(repository, "fastfft", "2.1", strict=True)

    def test_a_weak_hash_is_told(self) -> None:
        """Better than none, and worth a note (F-123)."""
        repository = FakeRepository()
        repository.add_wheel("a-1-py3-none-any.whl", hashes={"md5": "00"})
        (note,) = locked(repository, "a", "1").notes
        assert note == "a 1: only a weak hash verifies a-1-py3-none-any.whl"

    def test_yanked_wheels_are_left_out(self) -> None:
        """Unless the whole release was taken back, which then was asked for."""
        repository = world(("v3",))
        repository.add_wheel(wheel_name("fastfft", "2.1"), yanked="bad")
        assert len(names(locked(repository, "fastfft", "2.1").table)) == 1
        repository = FakeRepository()
        repository.add_wheel("a-1-py3-none-any.whl", yanked="bad")
        assert len(names(locked(repository, "a", "1").table)) == 1

    def test_nothing_that_fits(self) -> None:
        """A release without a wheel for any environment cannot be locked."""
        with pytest.raises(NoCompatibleWheel, match="can be locked"):
            locked(world(), "fastfft", "2.1", targets=[mac()], with_needs=False)


class TestPruning:
    """The table holds what the listed wheels need, and no more (F-116)."""

    def test_labels_and_namespaces_go_together(self) -> None:
        """``rocm`` has no wheel: its label, namespace and provider are not written."""
        table = locked(world(), "fastfft", "2.1").table["variants-json"]
        assert "rocm" not in table["variants"]
        assert table["default-priorities"]["namespace"] == ["nvidia", "x86_64"]
        assert set(table["providers"]) == {"nvidia", "x86_64"}
        assert table["variants"]["cu12.6"] == DOCUMENT["variants"]["cu12.6"]
        assert check_document(table) == ()
        assert table["$schema"] == DOCUMENT["$schema"]

    def test_feature_order_stays_complete(self) -> None:
        """A static provider is kept whole, though one of its features is used (P-5)."""
        static = {"b": ["1", "2"], "a": ["x"]}
        document = read_document(
            {
                **DOCUMENT,
                "default-priorities": {"namespace": ["mine", "other"]},
                "providers": {
                    "mine": {"static-properties": static, "feature-order": ["b", "a"]},
                    "other": {"static-properties": {"c": ["1"]}},
                },
                "variants": {"one": {"mine": {"a": ["x"]}}, "two": {"other": {"c": ["1"]}}},
            },
            where="test",
        )
        pruned = prune(document, [Label("one")])
        assert pruned.priorities == ("mine",)
        assert pruned.providers == {"mine": document.providers["mine"]}
        assert list(pruned.variants) == ["one"]

    def test_null_alone_keeps_a_namespace(self) -> None:
        """The priorities may not be empty (F-21), and ``null`` gets its entry (F-26)."""
        variants = {label: DOCUMENT["variants"][label] for label in ("v3", "cu12.6")}
        document = read_document({**DOCUMENT, "variants": variants}, where="test")
        pruned = prune(document, [Label("null")])
        assert pruned.priorities == ("nvidia",)
        assert set(pruned.providers) == {"nvidia"}
        assert pruned.variants == {"null": PropertySet()}


class TestBadMetadata:
    """What cannot be locked with variants is locked without, and said (F-133)."""

    def test_unreadable_documents(self) -> None:
        """Only the plain wheel is locked, with a note; strictness makes it an error."""
        repository = world()
        repository.add_file("other-1-variants.json", b"[")
        for label in ("v3", None):
            repository.add_wheel(wheel_name("other", "1", label))
        entry = locked(repository, "other", "1")
        assert names(entry.table) == [wheel_name("other", "1")]
        assert "variants-json" not in entry.table
        assert "other-1-variants.json" in entry.notes[0]
        with pytest.raises(BadMetadata, match="other-1-variants"):
            locked(repository, "other", "1", strict=True)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"variants": {**DOCUMENT["variants"], "v3": {"x86_64": 1}}}, "expected an object"),
            ({"variants": {"v4": {"x86_64": {"level": ["v4"]}}}}, "not in "),
            (
                {"providers": {**DOCUMENT["providers"], "x86_64": {"requires": [1]}}},
                "the namespace x86_64 has no usable provider",
            ),
            (
                {"variants": {**DOCUMENT["variants"], "v3": {}}},
                "a label other than null needs properties",
            ),
        ],
    )
    def test_one_bad_label(self, change: dict[str, Any], reason: str) -> None:
        """Its wheels are left out, the others stay, and what is written is valid."""
        repository = FakeRepository()
        for label in ("v3", "cu12.6", None):
            repository.add_wheel(wheel_name("fastfft", "2.1", label))
        document = {**DOCUMENT, **change}
        document["variants"] = {"cu12.6": DOCUMENT["variants"]["cu12.6"], **document["variants"]}
        repository.add_file("fastfft-2.1-variants.json", document)
        entry = locked(repository, "fastfft", "2.1")
        assert names(entry.table) == [
            wheel_name("fastfft", "2.1", label) for label in ("cu12.6", None)
        ]
        assert any(reason in note and "v3.whl" in note for note in entry.notes)
        assert check_document(entry.table["variants-json"]) == ()

    def test_documents_without_providers_stay_so(self) -> None:
        """PEP 825 is written as PEP 825: nobody can make up providers (F-39)."""
        document = {key: value for key, value in DOCUMENT.items() if key != "providers"}
        schema = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"
        repository = FakeRepository()
        repository.add_wheel(wheel_name("fastfft", "2.1", "v3"))
        repository.add_file("fastfft-2.1-variants.json", {**document, "$schema": schema})
        table = locked(repository, "fastfft", "2.1").table["variants-json"]
        assert table["$schema"] == schema
        assert "providers" not in table
        assert check_document(table) == ()

    def test_old_layouts_are_written_anew(self) -> None:
        """What is lost by it is said, and an error if one is strict (F-39, F-56)."""
        repository = FakeRepository()
        repository.add_wheel(wheel_name("fastfft", "2.1", "v3"))
        repository.add_file(
            "fastfft-2.1-variants.json",
            {
                "$schema": "https://variants-schema.wheelnext.dev/v0.0.2.json",
                "default-priorities": {"namespace": ["x86_64"], "feature": {"x86_64": ["level"]}},
                "providers": {
                    "x86_64": {
                        "requires": ["provider-variant-x86-64"],
                        "plugin-api": "provider_variant_x86_64.plugin:X8664Plugin",
                    }
                },
                "variants": {"v3": {"x86_64": {"level": ["v3"]}}},
            },
        )
        entry = locked(repository, "fastfft", "2.1")
        assert entry.table["variants-json"]["$schema"] == DOCUMENT["$schema"]
        assert any("the preferred features of x86_64 are lost" in note for note in entry.notes)
        with pytest.raises(InvalidDocument, match="F-56"):
            locked(repository, "fastfft", "2.1", strict=True)


class TestNeeds:
    """The names of what each label needs are recorded (F-120, F-121)."""

    def test_by_label(self) -> None:
        """Each label has its own, the plain wheel stands under the empty text."""
        table = locked(world(), "fastfft", "2.1").table
        assert table["tool"]["wheelfit"]["variant-dependencies"] == {
            "": ["numbers"],
            "cu12.6": ["gpu-lib", "numbers"],
            "cu12.8": ["gpu-lib", "numbers"],
            "null": ["numbers"],
            "v3": ["numbers"],
            "v4": ["cpu-lib", "numbers"],
        }
        assert table["dependencies"] == [{"name": n} for n in ("cpu-lib", "gpu-lib", "numbers")]

    def test_what_the_machine_decides_is_needed(self) -> None:
        """A value of several may or may not be supported: the lock has what both need (F-103)."""
        lines = [
            "Name: a",
            "Version: 1",
            'Requires-Dist: either; "n :: f :: 1" in variant_properties',
            'Requires-Dist: neither; "n :: f :: 1" not in variant_properties',
            'Requires-Dist: always; "n :: g :: 1" in variant_properties',
            'Requires-Dist: never; "n :: h" in variant_features',
            'Requires-Dist: elsewhere; sys_platform == "darwin"',
            'Requires-Dist: extra; extra == "x"',
            'Requires-Dist: other; extra == "y"',
        ]
        core = read_metadata("\n".join([*lines, "", ""]).encode(), "a")
        properties = PropertySet.from_mapping({"n": {"f": ["1", "2"], "g": ["1"]}})
        context = VariantContext("l", properties)
        assert needed_names(core, context, [TARGET], extras=["x"]) == (
            "always",
            "either",
            "extra",
            "neither",
        )
        assert "elsewhere" in needed_names(core, context, [TARGET, mac()])


def test_published_documents_choose_the_same_from_a_lock(published_index: Path) -> None:
    """Of every published release each machine gets what it gets from the index (F-116, F-120)."""
    machines = [
        open_recorded(MACHINES / name)
        for name in ("linux-x86-overrides", "linux-x86-v4-zen4", "linux-aarch64-graviton3")
    ]
    seen: set[bytes] = set()
    chosen = set()
    for path in sorted(published_index.rglob("*-variants.json")):
        data = path.read_bytes()
        if data in seen:
            continue
        seen.add(data)
        known = parse_index_file_name(path.name)
        assert known is not None
        document = read_document(data, where=path.name)
        repository = FakeRepository()
        stem = path.name.removesuffix("-variants.json")
        for label in document.variants:
            repository.add_wheel(f"{stem}-py3-none-any-{label}.whl")
        repository.add_file(path.name, data)
        entry = locked(repository, known[0], str(known[1]))
        assert not entry.notes
        assert check_document(entry.table["variants-json"]) == ()
        lock = read_lock(write_lock(new_lock([entry.table])), where="pylock.toml")
        for machine in machines:
            index = Candidates(repository, TARGET, machine).choice(*known)
            here = LockCandidates(lock, TARGET, machine).candidates.choice(*known)
            assert _order(here) == _order(index)
            chosen.add(here.chosen.filename.label if here.chosen else None)
    assert len(seen) >= 9
    assert len(chosen) > 5


def _order(choice: ReleaseChoice) -> list[tuple[str | None, str]]:
    return [(verdict.filename.label, verdict.verdict) for verdict in choice.selection.verdicts]
