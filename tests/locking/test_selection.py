"""From one lock each machine gets its own wheels, and nothing that they do not need."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from locking.entries import (
    AMD,
    DOCUMENT,
    TARGET,
    lock_for,
    lock_table,
    lock_world,
    needing,
    plain_entry,
    wheel_name,
    world,
)
from packaging.tags import Tag
from packaging.version import Version

from wheelfit.core.host_file import HostDetector, HostFile
from wheelfit.core.labels import Label
from wheelfit.core.ordering import Preferences
from wheelfit.core.provider_lookup import Detector
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.target import Target
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.selection import LockCandidates, LockSelection, applicable_packages
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.explain import explain_choice, explain_release
from wheelfit.testing.detectors import FixedDetector, supported
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.errors import (
    FileProblem,
    InvalidLock,
    NoCompatibleWheel,
    NoFit,
    Unreachable,
    UserError,
)
from wheelfit_runtime.platforms.recording import open_recorded

MACHINES = Path(__file__).parents[1] / "machines"
CPU = FixedDetector({"x86_64": {"level": ["v3", "v2", "v1"]}})
GPU = FixedDetector({"nvidia": {"cuda_version_lower_bound": ["12.8", "12.7", "12.6", "12"]}})
NOTHING = FixedDetector()


def choose(
    lock: Lock, machine: Detector | None = NOTHING, *, target: Target = TARGET, **options: Any
) -> LockSelection:
    """Choose from a lock."""
    return LockCandidates(lock, target, machine, **options).select()


def labels(selection: LockSelection) -> dict[str, str | None]:
    """Return the label of each chosen wheel."""
    return {pin.name: pin.label for pin in selection.resolution().pins}


def without(lock: Lock, *keys: str) -> Lock:
    """Return a lock whose packages lack some keys."""
    table = lock.to_mapping()
    for package in table["packages"]:
        for key in keys:
            package.pop(key, None)
    return Lock.of(table, where=lock.where)


class TestMachines:
    """One lock, written once, for many machines (F-120, F-123)."""

    @pytest.mark.parametrize(
        ("machine", "label", "needed"),
        [
            ("linux-x86-v1-k10", "null", []),
            ("linux-x86-v2-ivybridge", "null", []),
            ("linux-x86-v3-zen3", "v3", []),
            ("linux-x86-v4-zen4", "v4", ["cpu-lib"]),
            ("linux-x86-container-masked-device", "cu12.8", ["gpu-lib"]),
            ("linux-x86-two-unlike-gpus", "v4", ["cpu-lib"]),
            ("wsl-x86", "cu12.6", ["gpu-lib"]),
            ("linux-x86-unreadable-cpuinfo", "null", []),
        ],
    )
    def test_each_gets_its_own(self, machine: str, label: str, needed: Sequence[str]) -> None:
        """The wheel that fits and the packages it needs, the others are left out (F-121)."""
        lock = read_lock(write_lock(lock_world()), where="pylock.toml")
        selection = choose(lock, open_recorded(MACHINES / machine))
        assert labels(selection) == {
            "fastfft": label,
            "numbers": None,
            **dict.fromkeys(needed),
        }
        assert set(selection.left_out) == {"gpu-lib", "cpu-lib"} - set(needed)
        assert {edge.needed for edge in selection.resolution().edges} == {"numbers", *needed}
        assert [pin.name for pin in selection.resolution().pins if pin.requested] == ["fastfft"]

    def test_nothing_is_asked_but_the_machine(self) -> None:
        """No page, no document and no wheel is read to choose (F-123)."""
        repository = world()
        lock = lock_world(repository)
        repository.requests.clear()
        detector = FixedDetector({"x86_64": {"level": ["v3"]}})
        assert labels(choose(lock, detector, files=repository))["fastfft"] == "v3"
        assert repository.requests == []
        assert set(detector.requests) == {"nvidia", "x86_64"}

    def test_another_machine_by_a_host_file(self) -> None:
        """A host file answers in the place of the machine (P-12, P-44)."""
        told = HostFile.from_detections([supported("x86_64", {"level": ["v4", "v3"]})])
        selection = choose(lock_world(), None, host_detector=HostDetector(told, "node.toml"))
        assert labels(selection)["fastfft"] == "v4"

    def test_the_reasons_are_those_of_explain(self) -> None:
        """A lock and the index that it is from explain every wheel in the same words."""
        repository = world()
        chooser = LockCandidates(lock_world(repository), TARGET, CPU)
        first = explain_choice(chooser.candidates, chooser.select().chosen[0].choice)
        index = explain_release(
            Candidates(repository, TARGET, CPU),
            first.name,
            Version("2.1"),
        )
        assert first.candidates == index.candidates
        assert len({verdict.reason for verdict in first.candidates}) > 3
        assert first.source == "pylock.toml"

    def test_preferences_count(self) -> None:
        """What the user forbids or pins is not taken from a lock either (F-91)."""
        policy = ChoicePolicy(preferences=Preferences(variants=False))
        assert labels(choose(lock_world(), CPU, policy=policy))["fastfft"] is None
        pinned = ChoicePolicy(preferences=Preferences(labels={"fastfft": Label("null")}))
        assert labels(choose(lock_world(), CPU, policy=pinned))["fastfft"] == "null"


class TestNeeds:
    """What the chosen wheels need is followed, and only that (F-121)."""

    def test_without_the_table_metadata_is_read(self) -> None:
        """Variant markers see the wheel that was chosen for their own entry (F-118)."""
        repository = world()
        lock = lock_world(repository, with_needs=False)
        repository.requests.clear()
        assert labels(choose(lock, GPU, files=repository)) == {
            "fastfft": "cu12.8",
            "gpu-lib": None,
            "numbers": None,
        }
        assert labels(choose(lock, NOTHING, files=repository)) == {
            "fastfft": "null",
            "numbers": None,
        }
        assert not [text for text in repository.requests if not text.startswith("metadata ")]

    def test_markers_see_what_the_target_supports(self) -> None:
        """Of several values of a label, the supported ones only (F-103, F-118)."""
        repository = FakeRepository()
        document = copy.deepcopy(DOCUMENT)
        document["variants"] = {"v": {"x86_64": {"level": ["v3", "v4"]}}}
        requires = [
            'small; "x86_64 :: level :: v3" in variant_properties',
            'large; "x86_64::level::v4" in variant_properties',
        ]
        repository.add_wheel(wheel_name("fastfft", "2.1", "v"), requires=requires)
        entry = plain_entry("fastfft", "2.1")
        entry["wheels"][0]["url"] = f"https://x.invalid/{wheel_name('fastfft', '2.1', 'v')}"
        entry["variants-json"] = document
        lock = lock_for("fastfft", entry, plain_entry("small"), plain_entry("large"))
        repository.add_wheel("small-1-py3-none-any.whl")
        selection = choose(lock, CPU, files=repository)
        assert labels(selection) == {"fastfft": "v", "small": None}
        assert [str(item) for item in selection.chosen[0].choice.context().properties] == [
            "x86_64 :: level :: v3"
        ]

    def test_offline_everything_is_taken(self) -> None:
        """Who cannot know takes the union, as other installers do, and says so."""
        selection = choose(lock_world(with_needs=False), GPU)
        assert set(labels(selection)) == {"fastfft", "gpu-lib", "cpu-lib", "numbers"}
        assert "the metadata of fastfft cannot be read" in selection.notes[0]

    def test_a_label_that_the_table_lacks(self) -> None:
        """Its metadata is read, as if there were no table."""
        repository = world()
        table = lock_world(repository).to_mapping()
        for package in table["packages"]:
            if package["name"] == "fastfft":
                del package["tool"]["wheelfit"]["variant-dependencies"]["cu12.8"]
        repository.requests.clear()
        selection = choose(Lock.of(table), GPU, files=repository)
        assert set(labels(selection)) == {"fastfft", "gpu-lib", "numbers"}
        assert [text for text in repository.requests if "cu12.8" in text]

    def test_a_lost_entry(self) -> None:
        """What the whole lock lacks is told: somebody lost it, as on solving a conflict."""
        table = lock_world().to_mapping()
        gone = table["packages"].pop()["name"]
        table["tool"]["wheelfit"]["roots"].append("asked")
        notes = choose(Lock.of(table), GPU).notes
        assert "the lock has no entry for asked, which it was made for" in notes
        assert f"the lock has no entry for {gone}, which fastfft needs" in notes

    def test_without_roots_everything_is_taken(self) -> None:
        """A lock of another tool does not say what was asked for."""
        assert len(labels(choose(lock_world(roots=None), GPU))) == 4

    def test_roots_of_the_caller(self) -> None:
        """Somebody who knows what is wanted says so."""
        root = parse_requirement("gpu-lib", allow_variant_markers=False)
        assert labels(choose(lock_world(), GPU, roots=[root])) == {"gpu-lib": None}

    def test_roots_of_extras_and_groups(self) -> None:
        """A root may count only for an extra or a group."""
        lock = lock_world(
            roots=["numbers", "fastfft ; 'fast' in extras", "gpu-lib; 'dev' in dependency_groups"],
            extras=["fast"],
            dependency_groups=["dev"],
        )
        assert set(labels(choose(lock))) == {"numbers"}
        assert set(labels(choose(lock, extras=["fast"]))) == {"numbers", "fastfft"}
        assert set(labels(choose(lock, groups=["dev"]))) == {"numbers", "gpu-lib"}

    def test_extras_of_what_is_needed(self) -> None:
        """Read from metadata, a need with an extra brings what the extra needs."""
        repository = FakeRepository()
        repository.add_wheel("a-1-py3-none-any.whl", requires=["b[x]", "c; extra == 'y'"])
        repository.add_wheel(
            "b-1-py3-none-any.whl", requires=["d; extra == 'x'", "e; extra == 'z'"], extras=["x"]
        )
        for name in "cde":
            repository.add_wheel(f"{name}-1-py3-none-any.whl")
        others = [plain_entry(name) for name in "bcde"]
        lock = lock_for("a", plain_entry("a"), *others)
        assert set(labels(choose(lock, files=repository))) == {"a", "b", "d"}
        for need, found in ("b", {"a", "b"}), ("b[x]", {"a", "b", "d"}):
            lock = lock_for("a", needing("a", need), *others)
            assert set(labels(choose(lock, files=repository))) == found

    def test_conditions_of_needs(self) -> None:
        """A need may be one of an extra, or of some environments only (F-121)."""
        lock = lock_for(
            "a",
            needing("a", "b[y]; sys_platform == 'linux'", "c; sys_platform == 'win32'"),
            needing("b", "d; extra == 'x'", "e; extra == 'y'"),
            *map(needing, "cde"),
        )
        assert set(labels(choose(lock))) == {"a", "b", "e"}

    def test_circles(self) -> None:
        """Packages that need each other are visited once."""
        lock = lock_for("a", needing("a", "b"), needing("b", "a"))
        assert set(labels(choose(lock))) == {"a", "b"}

    def test_what_is_needed_comes_first(self) -> None:
        """Pins are in the order in which they are installed, circles included."""
        needs = {"a": ["b", "c"], "b": ["d"], "c": ["a"], "d": ["b"]}
        lock = lock_for("a", *(needing(name, *needed) for name, needed in needs.items()))
        assert [pin.name for pin in choose(lock).resolution().pins] == ["d", "b", "c", "a"]

    def test_unsound_metadata_costs_the_wheel(self) -> None:
        """The next wheel takes its place (F-130)."""
        repository = world(("cu12.6", "null", None))
        repository.add_wheel(wheel_name("fastfft", "2.1", "cu12.8"), metadata=b"Name: fastfft\n\n")
        lock = lock_world(world(), with_needs=False)
        selection = choose(lock, GPU, files=repository)
        assert labels(selection)["fastfft"] == "cu12.6"

    def test_builds_for_another_package(self) -> None:
        """A build for a version of another package is judged by the lock (P-51, P-54)."""
        document = {
            "$schema": DOCUMENT["$schema"],
            "default-priorities": {"namespace": ["abi"]},
            "providers": {"abi": {"builtin": "abi_dependency"}},
            "variants": {"t27": {"abi": {"torch": ["2.7"]}}, "t28": {"abi": {"torch": ["2.8"]}}},
        }
        wheels = [
            {"url": f"https://x.invalid/{wheel_name('ext', '1', label)}", "hashes": {"md5": "0"}}
            for label in ("t27", "t28", None)
        ]
        needs = {"": [], "t27": ["torch"], "t28": ["torch"]}

        def lock(needs: dict[str, list[str]]) -> Lock:
            tool = {"wheelfit": {"variant-dependencies": needs}}
            entry = {"name": "ext", "wheels": wheels, "variants-json": document, "tool": tool}
            return lock_for("ext", entry, needing("torch", version="2.8.1"))

        assert labels(choose(lock(needs))) == {"ext": "t28", "torch": None}
        assert labels(choose(lock({"": [], "t28": []}))) == {"ext": None}


class TestWithoutTable:
    """Variant wheels that the lock does not describe (F-122)."""

    def test_wheels_elsewhere_are_not_read(self) -> None:
        """Only the plain wheel is used, and a note says why."""
        repository = world()
        lock = without(lock_world(repository), "variants-json")
        repository.requests.clear()
        selection = choose(lock, GPU, files=repository)
        assert labels(selection)["fastfft"] is None
        assert any("not on this machine" in note for note in selection.notes)
        assert repository.requests == []

    def test_wheels_here_are_read(self, tmp_path: Path) -> None:
        """What the wheels on this machine say of themselves decides."""
        repository = world()
        repository.base = f"{tmp_path.as_uri()}/"
        lock = without(lock_world(repository), "variants-json")
        table = lock.to_mapping()
        for package in table["packages"]:
            for wheel in package["wheels"]:
                wheel["path"] = f"wheels/{wheel['name']}"
                del wheel["url"]
        lock = Lock.of(table)
        selection = choose(lock, GPU, files=repository, folder=tmp_path)
        assert labels(selection)["fastfft"] == "cu12.8"
        (url,) = (pin.file.url for pin in selection.resolution().pins if pin.label)
        assert url == f"{tmp_path.as_uri()}/wheels/{wheel_name('fastfft', '2.1', 'cu12.8')}"

    def test_nothing_left_is_an_error(self) -> None:
        """Without plain wheels, the reasons are all that can be had."""
        lock = without(lock_world(world(("cu12.6", "v3"))), "variants-json")
        with pytest.raises(NoCompatibleWheel, match="fastfft has no wheel in the lock") as excinfo:
            choose(lock, GPU)
        assert "no variant metadata of this wheel" in (excinfo.value.note or "")

    def test_an_unusable_table_leaves_plain_wheels(self) -> None:
        """As if there were no table; the note names the fault (F-134)."""
        table = lock_world().to_mapping()
        for package in table["packages"]:
            if "variants-json" in package:
                package["variants-json"]["default-priorities"] = []
        selection = choose(Lock.of(table), GPU)
        assert labels(selection)["fastfft"] is None
        assert any("default-priorities" in note for note in selection.notes)

    @pytest.mark.parametrize("table", [{}, {"variants": []}])
    def test_an_invalid_table_of_a_bridge(self, table: dict[str, Any]) -> None:
        """A wheel whose label only the table has is not used either (F-134)."""
        hashes = {"sha256": "0"}
        url = f"https://fake.invalid/{wheel_name('fastfft', '2.1')}"
        labelled = {"name": wheel_name("fastfft", "2.1", "v3"), "url": url, "hashes": hashes}
        wheels = [labelled, {"url": url, "hashes": hashes}]
        entry = {"name": "fastfft", "version": "2.1", "wheels": wheels, "variants-json": table}
        assert labels(choose(lock_for("fastfft", entry), CPU)) == {"fastfft": None}

    def test_odd_types_of_toml_do_no_harm(self) -> None:
        """A date or an infinite number where a value belongs costs its label only (F-130)."""
        text = write_lock(lock_world()).decode()
        for value in ("2026-01-01", "inf", "nan", "07:00:00", "1.5", "true"):
            changed = text.replace('level = [\n  "v4"', f"level = [\n  {value}")
            assert changed != text
            selection = choose(read_lock(changed.encode(), where="pylock.toml"), CPU)
            assert labels(selection)["fastfft"] == "v3"


class TestArchives:
    """An archive that is a wheel is taken as if it were given by name (F-124, F-125)."""

    @staticmethod
    def lock(label: str | None, *, table: bool = True) -> Lock:
        """Return a lock with one archive."""
        name = wheel_name("fastfft", "2.1", label)
        entry: dict[str, Any] = {
            "name": "fastfft",
            "archive": {"url": f"https://fake.invalid/{name}", "hashes": {"sha256": "0"}},
        }
        if table:
            entry["variants-json"] = DOCUMENT
        return lock_for("fastfft", entry)

    def test_with_the_table(self) -> None:
        """The table says whether it fits, and the pin says that it was given."""
        (pin,) = choose(self.lock("cu12.6"), GPU, files=world()).resolution().pins
        assert (pin.label, pin.is_direct) == ("cu12.6", True)

    def test_without_the_table(self) -> None:
        """The wheel itself says whether it fits."""
        lock = self.lock("cu12.6", table=False)
        assert labels(choose(lock, GPU, files=world())) == {"fastfft": "cu12.6"}
        with pytest.raises(FileProblem, match="would have to be read"):
            choose(lock, GPU)

    @pytest.mark.parametrize("table", [True, False])
    def test_one_that_does_not_fit(self, *, table: bool) -> None:
        """There is no other: an error names what is missing (F-125)."""
        with pytest.raises(NoCompatibleWheel) as excinfo:
            choose(self.lock("cu12.6", table=table), CPU, files=world())
        assert "cuda_version_lower_bound" in (excinfo.value.note or "")

    def test_a_plain_one_is_ordinary(self) -> None:
        """Without a label nothing more is asked."""
        assert labels(choose(self.lock(None), CPU, files=world())) == {"fastfft": None}


class TestDisagreement:
    """A downloaded wheel is held against the lock (F-93, F-123)."""

    def test_the_next_one_is_taken(self) -> None:
        """A wheel that says something else of itself is rejected, and the next one chosen."""
        chooser = LockCandidates(lock_world(), TARGET, GPU)
        choice = chooser.select().chosen[0].choice
        assert choice.chosen is not None
        own = {**DOCUMENT, "variants": {"cu12.8": DOCUMENT["variants"]["cu12.8"]}}
        assert chooser.candidates.metadata_disagreement(choice, json.dumps(own).encode()) is None
        own["variants"] = {"cu12.8": {"nvidia": {"cuda_version_lower_bound": ["12.0"]}}}
        reason = chooser.candidates.metadata_disagreement(choice, json.dumps(own).encode())
        assert reason is not None
        chooser.candidates.reject(choice.chosen.filename, reason)
        assert labels(chooser.select())["fastfft"] == "cu12.6"


class TestEntries:
    """Which entries count on a target (PEP 751)."""

    @staticmethod
    def names(lock: Lock, target: Target = TARGET, **options: Any) -> list[str]:
        """Return the names of the entries that count."""
        return [package.name for package in applicable_packages(lock, target, **options)]

    def test_markers_extras_and_groups(self) -> None:
        """Each entry whose marker holds counts; default groups count unless others are asked."""
        lock = Lock.of(
            lock_table(
                plain_entry("a"),
                plain_entry("b", marker="sys_platform == 'win32'"),
                plain_entry("c", marker="'x' in extras"),
                plain_entry("d", marker="'dev' in dependency_groups"),
                plain_entry("e", marker="'all' in dependency_groups or 'x' in extras"),
                **{"extras": ["x"], "dependency-groups": ["dev"], "default-groups": ["all"]},
            )
        )
        assert self.names(lock, extras=["X"]) == ["a", "c", "e"]
        assert self.names(lock) == ["a", "e"]
        assert self.names(lock, extras=["x"], groups=[]) == ["a", "c", "e"]
        assert self.names(lock, groups=["dev"]) == ["a", "d"]

    @pytest.mark.parametrize("asked", [{"extras": ["y"]}, {"groups": ["y"]}])
    def test_what_the_lock_was_not_made_for(self, asked: dict[str, Any]) -> None:
        """An extra or a group that is not in the lock is not an empty one."""
        with pytest.raises(UserError, match="was not made for the"):
            self.names(Lock.of(lock_table(plain_entry("a"), extras=["x"])), **asked)

    @pytest.mark.parametrize(
        "more",
        [
            {"requires-python": ">=3.12"},
            {"environments": ["sys_platform == 'win32'", "python_version < '3'"]},
            {"packages": [plain_entry("a", **{"requires-python": "<3.11"})]},
        ],
    )
    def test_other_targets(self, more: dict[str, Any]) -> None:
        """A lock for something else is refused, with the reason."""
        with pytest.raises(NoFit):
            self.names(Lock.of({**lock_table(plain_entry("a")), **more}))

    def test_another_python(self) -> None:
        """Most often the interpreter in use is not the one that the lock is for."""
        with pytest.raises(NoFit) as excinfo:
            self.names(Lock.of({**lock_table(plain_entry("a")), "requires-python": ">=3.12"}))
        assert "--python" in (excinfo.value.hint or "")

    def test_one_of_the_environments_is_enough(self) -> None:
        """The first that holds decides."""
        texts = ["sys_platform == 'win32'", "'\"' not in os_name"]
        assert self.names(Lock.of(lock_table(plain_entry("a"), environments=texts))) == ["a"]

    def test_two_of_one_name(self) -> None:
        """Markers must tell them apart."""
        old = plain_entry("a", "1", marker="python_version < '3.12'")
        new = plain_entry("a", "2", marker="python_version >= '3.11'")
        lock = Lock.of(lock_table(old, new))
        assert applicable_packages(lock, linux_target("3.12.0"))[0].version == Version("2")
        with pytest.raises(InvalidLock, match=r"packages\[1\]: packages\[0\] has the same name"):
            self.names(lock)

    def test_a_marker_without_a_value(self) -> None:
        """What cannot be evaluated is an error of ours, with the file."""
        lock = Lock.of(
            lock_table(plain_entry("a", marker="os_name ~= 'posix'")), where="pylock.toml"
        )
        with pytest.raises(UserError) as excinfo:
            self.names(lock)
        assert excinfo.value.where == "pylock.toml"


class TestSources:
    """What is not a wheel cannot be installed, and says so only when it is needed."""

    SDIST: ClassVar[dict[str, Any]] = {
        "name": "src",
        "version": "1",
        "sdist": {"url": "https://x.invalid/src-1.tar.gz", "hashes": {"sha256": "0"}},
    }

    def test_needed(self) -> None:
        """All packages without a wheel are named at once."""
        directory = {"name": "here", "directory": {"path": "."}}
        win = plain_entry("win")
        win["wheels"][0]["url"] = "https://x.invalid/win-1-cp311-cp311-win_amd64.whl"
        with pytest.raises(NoCompatibleWheel) as excinfo:
            choose(Lock.of(lock_table(self.SDIST, directory, win)))
        assert excinfo.value.message.startswith("src, here, win have no wheel")
        note = excinfo.value.note or ""
        assert "only a source distribution is locked" in note
        assert "only a directory is locked" in note
        assert "Windows" in note

    def test_not_needed(self) -> None:
        """A package that no chosen wheel needs may be anything (F-121)."""
        selection = choose(lock_for("a", needing("a"), self.SDIST))
        assert labels(selection) == {"a": None}
        assert dict(selection.left_out) == {"src": "no chosen wheel needs it"}

    @pytest.mark.parametrize(
        "place",
        [
            {"path": "/etc/a-1-py3-none-any.whl"},
            {"path": "a\0/a-1-py3-none-any.whl"},
            {"url": "file:///etc/a-1-py3-none-any.whl"},
            {"url": "ftp://x.invalid/a-1-py3-none-any.whl"},
            {"url": "https://[/a-1-py3-none-any.whl"},
            {"url": "https://:secret@x.invalid:port/a-1-py3-none-any.whl"},
            {"url": "a-1-py3-none-any.whl"},
        ],
    )
    def test_places_that_a_lock_from_elsewhere_may_not_name(self, place: dict[str, str]) -> None:
        """No file of this machine, no unknown scheme; and no password in the message."""
        wheel = {"name": "a-1-py3-none-any.whl", **place, "hashes": {"sha256": "0"}}
        lock = Lock.of(lock_table({"name": "a", "wheels": [wheel]}))
        with pytest.raises(FileProblem, match="cannot be used") as excinfo:
            choose(lock)
        assert "secret" not in str(excinfo.value)

    def test_a_path_that_is_none(self, tmp_path: Path) -> None:
        """A lock of this machine may name its files, but no impossible ones."""
        wheel = {"path": "a\0b/a-1-py3-none-any.whl", "hashes": {"sha256": "0"}}
        lock = Lock.of(lock_table({"name": "a", "wheels": [wheel]}))
        with pytest.raises(FileProblem, match="cannot be used"):
            choose(lock, folder=tmp_path)

    def test_logins_in_a_lock_are_not_used(self) -> None:
        """Credentials come from where they always come from; a lock is read by many."""
        entry = plain_entry("a")
        entry["wheels"][0]["url"] = "https://me:secret@x.invalid/a-1-py3-none-any.whl#sha256=0"
        (pin,) = choose(Lock.of(lock_table(entry))).resolution().pins
        assert pin.file.url == "https://x.invalid/a-1-py3-none-any.whl"

    def test_what_is_downloaded_is_promised(self) -> None:
        """Hashes and size of the lock go with the file, for whoever downloads (F-123)."""
        entry = plain_entry("a")
        entry["wheels"][0] |= {"size": 5, "hashes": {"SHA256": "AB", "md5": "cd"}}
        (pin,) = choose(Lock.of(lock_table(entry))).resolution().pins
        assert pin.file.hashes == {"sha256": "ab", "md5": "cd"}
        assert pin.file.size == 5

    def test_a_reader_that_is_offline(self) -> None:
        """A wheel that cannot be reached leaves the union, not an error (F-121)."""
        repository = world()
        lock = lock_world(repository, with_needs=False)
        for file in repository.project("fastfft").files:  # type: ignore[arg-type,union-attr]
            repository.break_file(file, Unreachable("no network"))
        selection = choose(lock, CPU, files=repository)
        assert len(labels(selection)) == 4


def test_tags_come_first() -> None:
    """Of the wheels of a label the one with the best tags is taken, of the target (F-90)."""
    wheels = [
        {"url": f"https://x.invalid/{wheel_name('a', '1', label, tags)}", "hashes": {"md5": "0"}}
        for label in ("rocm", None)
        for tags in ("py3-none-any", "cp311-cp311-win_amd64", "cp311-cp311-macosx_11_0_arm64")
    ]
    document = {**DOCUMENT, "providers": {**DOCUMENT["providers"], "amd": AMD}}
    lock = Lock.of(lock_table({"name": "a", "wheels": wheels, "variants-json": document}))
    windows = Target.of(
        "Windows",
        {**TARGET.environment, "sys_platform": "win32"},
        [Tag("cp311", "cp311", "win_amd64"), Tag("py3", "none", "any")],
    )
    amd = FixedDetector({"amd": {"gfx_arch": ["gfx942"]}})
    (pin,) = choose(lock, amd, target=windows).resolution().pins
    assert pin.filename.text == wheel_name("a", "1", "rocm", "cp311-cp311-win_amd64")
    (pin,) = choose(lock, NOTHING).resolution().pins
    assert pin.filename.text == wheel_name("a", "1", None, "py3-none-any")
