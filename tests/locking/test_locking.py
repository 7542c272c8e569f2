"""A lock for every machine: which versions, wheels and markers stand in it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from locking.shelf import ANY, Shelf, cuda, document
from packaging.pylock import Pylock
from packaging.version import Version

from wheelfit.core.ordering import Preferences
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import NoConsistentSet
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.environments import LockEnvironment, environments_for
from wheelfit.locking.locking import LockResult, lock_everywhere
from wheelfit.locking.request import LockNeeds, Root
from wheelfit.locking.selection import LockCandidates
from wheelfit.locking.solving import Solver
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.request import RequestedRequirement
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository
from wheelfit_runtime.errors import NoFit

PLATFORMS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "windows-x86_64")


def roots(*texts: str, extra: str | None = None, group: str | None = None) -> tuple[Root, ...]:
    """Return requirements that are asked for by an extra or a group, or always."""
    return tuple(
        Root(parse_requirement(text, allow_variant_markers=False), "", extra, group)  # type: ignore[arg-type]
        for text in texts
    )


def lock(
    shelf: FakeRepository,
    *texts: str | Root,
    platforms: Sequence[str] = PLATFORMS,
    pythons: Sequence[tuple[int, int]] = ((3, 12),),
    policy: ChoicePolicy = ChoicePolicy(),
    request: LockNeeds | None = None,
    **options: Any,
) -> LockResult:
    """Lock requirements for every machine of some environments."""
    asked = [text if isinstance(text, Root) else roots(text)[0] for text in texts]
    request = request or LockNeeds(roots=tuple(asked))
    solver = Solver(request, shelf, policy, threads=0)
    locked = lock_everywhere(solver, environments_for(platforms, pythons), **options)
    data = write_lock(locked.lock)
    assert read_lock(data, where="pylock.toml") == locked.lock
    Pylock.from_dict(tomllib.loads(data.decode()))  # whatever is locked
    return locked


def entries(locked: LockResult | Lock) -> dict[str, str | None]:
    """Return the marker of each entry by ``name version``."""
    packages = locked.lock.packages if isinstance(locked, LockResult) else locked.packages
    return {
        f"{package.name} {package.version}": None if package.marker is None else str(package.marker)
        for package in packages
    }


def labels(locked: LockResult, name: str) -> set[str | None]:
    """Return the labels that are listed of a project."""
    return {
        wheel.filename.label
        for package in locked.lock.packages
        if package.name == name
        for wheel in package.wheels
    }


def chosen(
    locked: LockResult,
    environment: LockEnvironment,
    machine: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    **asked: Any,
) -> dict[str, str]:
    """Return what a machine takes from a lock: label or version by name."""
    detector = FixedDetector(machine or {})
    candidates = LockCandidates(locked.lock, environment.target, detector, **asked)
    pins = candidates.select().resolution().pins
    return {pin.name: pin.label or str(pin.version) for pin in pins}


LINUX_TAGS = "cp312-cp312-manylinux_2_17_x86_64"
LINUX, ARM, MAC, WINDOWS = environments_for(PLATFORMS, [(3, 12)])


class TestEnvironments:
    """One file for several platforms and Pythons."""

    def test_the_same_everywhere(self, shelf: Shelf) -> None:
        """What is the same everywhere needs no marker, and the newest versions are taken."""
        shelf.add("app 1", requires=["lib"])
        shelf.add("lib 1", "lib 2")
        assert entries(lock(shelf, "app")) == {"app 1": None, "lib 2": None}

    def test_what_only_some_need(self, shelf: Shelf) -> None:
        """A package has the marker of the environments that need it, as short as can be."""
        needs = [
            'colour; sys_platform == "win32"',
            'shell; sys_platform != "win32"',
            'old; python_version < "3.13"',
            'arm; platform_machine == "arm64"',
        ]
        shelf.add("app 1", requires=needs)
        shelf.add("colour 1", "shell 1", "old 1", "arm 1")
        locked = lock(shelf, "app", pythons=[(3, 12), (3, 13)])
        assert entries(locked) == {
            "app 1": None,
            "arm 1": 'sys_platform == "darwin"',
            "colour 1": 'sys_platform == "win32"',
            "old 1": 'python_version < "3.13"',
            "shell 1": 'sys_platform != "win32"',
        }
        assert str(locked.lock.requires_python) == "<3.14,>=3.12"

    def test_two_versions(self, shelf: Shelf) -> None:
        """Where environments need different versions, two entries exclude each other."""
        shelf.add("app 1", requires=['lib<2; sys_platform == "win32"', "lib"])
        shelf.add("lib 1", "lib 2")
        locked = lock(shelf, "app")
        assert entries(locked) == {
            "app 1": None,
            "lib 1": 'sys_platform == "win32"',
            "lib 2": 'sys_platform != "win32"',
        }
        (app,) = (
            package for package in locked.lock.to_mapping()["packages"] if package["name"] == "app"
        )
        assert app["dependencies"] == [
            {"name": "lib", "version": "1"},
            {"name": "lib", "version": "2"},
        ]
        assert chosen(locked, WINDOWS)["lib"] == "1"
        assert chosen(locked, LINUX)["lib"] == "2"

    def test_wheels_of_all(self, shelf: Shelf) -> None:
        """Every wheel that fits one of the environments is listed, and no other (F-120)."""
        for tags in (
            "cp312-cp312-manylinux_2_17_x86_64",
            "cp312-cp312-manylinux_2_34_aarch64",
            "cp312-abi3-macosx_11_0_arm64",
            "cp312-cp312-win_amd64",
            "cp313-cp313-win_amd64",
            "cp312-cp312-musllinux_1_2_x86_64",
            "cp312-cp312-macosx_11_0_x86_64",
        ):
            shelf.add("fast 1", tags=tags)
        (package,) = lock(shelf, "fast").lock.packages
        assert {str(wheel.filename).split("-")[4] for wheel in package.wheels} == {
            "manylinux_2_17_x86_64.whl",
            "manylinux_2_34_aarch64.whl",
            "macosx_11_0_arm64.whl",
            "win_amd64.whl",
        }
        assert len(package.wheels) == 4

    def test_a_platform_without_wheels_is_left_out(self, shelf: Shelf) -> None:
        """It is said, and the lock is not for it; whoever names it learns why."""
        shelf.add("fast 1", tags="cp312-cp312-manylinux_2_17_x86_64")
        locked = lock(shelf, "fast")
        assert len(locked.lock.environments) == 1
        (note,) = locked.notes
        assert note == (
            "linux-aarch64, macos-arm64 and windows-x86_64, Python 3.12 are left out: "
            "fast 1 has no wheel that fits them"
        )
        with pytest.raises(NoFit) as excinfo:
            lock(shelf, "fast", platforms=["windows-x86_64"], every_platform=True)
        assert excinfo.value.where == "windows-x86_64, Python 3.12"

    def test_a_reason_in_one_clause(self, shelf: Shelf) -> None:
        """Of what is left out for a longer reason the note has the essence: who lacks what."""
        shelf.add("app 1", requires=["fast"])
        shelf.add("fast 1", tags="cp312-cp312-manylinux_2_17_x86_64")
        (note,) = lock(shelf, "app", platforms=["linux-x86_64", "windows-x86_64"]).notes
        assert note == (
            "windows-x86_64, Python 3.12 is left out: app 1 needs fast and fast 1 has no wheel "
            "that fits"
        )

    def test_a_python_without_wheels_is_an_error(self, shelf: Shelf) -> None:
        """A Python that was asked for is not left out in silence."""
        shelf.add("fast 1", tags="cp312-cp312-manylinux_2_17_x86_64")
        with pytest.raises(NoFit) as excinfo:
            lock(shelf, "fast", pythons=[(3, 12), (3, 13)])
        assert "Python 3.13" in str(excinfo.value.where)

    def test_a_python_that_only_may_be(self, shelf: Shelf) -> None:
        """One that a project merely admits is left out like a platform, if another is left."""
        shelf.add("fast 1", tags="cp312-cp312-manylinux_2_17_x86_64")
        options: Any = {"platforms": ["linux-x86_64"], "every_python": False}
        locked = lock(shelf, "fast", pythons=[(3, 12), (3, 13)], **options)
        assert str(locked.lock.requires_python) == "<3.13,>=3.12"
        with pytest.raises(NoFit) as excinfo:
            lock(shelf, "fast", pythons=[(3, 13)], **options)
        assert excinfo.value.where == "linux-x86_64, Python 3.13"

    def test_environments_agree_as_far_as_they_can(self, shelf: Shelf) -> None:
        """What the first one takes the others take too, if they can."""
        shelf.add("app 1", requires=["lib"])
        shelf.add("lib 1")
        shelf.add("lib 2", tags="cp312-cp312-manylinux_2_17_x86_64")
        shelf.add("lib 2", tags="cp312-cp312-win_amd64")
        shelf.add("lib 3", tags="cp312-cp312-win_amd64")
        locked = lock(shelf, "app", platforms=["linux-x86_64", "windows-x86_64", "macos-arm64"])
        assert entries(locked) == {
            "app 1": None,
            "lib 1": 'sys_platform == "darwin"',
            "lib 2": 'sys_platform != "darwin"',
        }

    def test_each_python_has_its_newest(self, shelf: Shelf) -> None:
        """What only newer Pythons can have is locked for them on every platform, Macs included."""
        shelf.add("lib 1", requires_python=">=3.11")
        shelf.add("lib 2", requires_python=">=3.12")
        shelf.add("lib 3", requires_python=">=3.13")
        locked = lock(shelf, "lib", pythons=[(3, 11), (3, 12), (3, 13)])
        assert entries(locked) == {
            "lib 1": 'python_version < "3.12"',
            "lib 2": 'python_version == "3.12"',
            "lib 3": 'python_version >= "3.13"',
        }

    def test_needs_of_micro_versions(self, shelf: Shelf) -> None:
        """What not every Python of a series can have says so, for no marker of ours does."""
        shelf.add("old 1", metadata_requires_python=">=3.8")
        shelf.add("new 1", metadata_requires_python=">=3.12.3")
        locked = lock(shelf, "old", "new")
        told = {package.name: package.requires_python for package in locked.lock.packages}
        assert told == {"old": None, "new": ">=3.12.3"}

    def test_what_no_marker_tells_apart(self, shelf: Shelf) -> None:
        """Two C libraries of one system must do with one version."""
        shelf.add("lib 1", tags="cp312-cp312-musllinux_1_2_x86_64")
        shelf.add("lib 2", tags="cp312-cp312-manylinux_2_17_x86_64")
        with pytest.raises(NoFit) as excinfo:
            lock(shelf, "lib", platforms=["linux-x86_64", "musllinux-x86_64"])
        assert "no marker" in excinfo.value.message
        shelf.add("lib 2", tags="cp312-cp312-musllinux_1_2_x86_64")
        locked = lock(shelf, "lib", platforms=["linux-x86_64", "musllinux-x86_64"])
        assert entries(locked) == {"lib 2": None}
        assert len(locked.lock.environments) == 1


class TestVersions:
    """What stays and what changes."""

    def test_the_older_lock_counts(self, shelf: Shelf) -> None:
        """Versions stay as long as they will do; others follow what changed."""
        shelf.add("app 1", requires=["lib"])
        shelf.add("lib 1", "other 1")
        old = lock(shelf, "app").lock
        shelf.add("lib 2", "other 2")
        again = lock(shelf, "app", "other", old=old)
        assert entries(again) == {"app 1": None, "lib 1": None, "other 2": None}
        assert entries(lock(shelf, "app", "lib>=2", old=old)) == {"app 1": None, "lib 2": None}
        assert entries(lock(shelf, "app", old=old, upgrade=None))["lib 2"] is None
        assert "lib 2" in entries(lock(shelf, "app", old=old, upgrade=["lib"]))
        assert "lib 1" in entries(lock(shelf, "app", old=old, upgrade=["app"]))

    def test_locked_versions_give_way_to_what_is_new(self, shelf: Shelf) -> None:
        """What is added or upgraded is the newest, with what it needs; nothing else moves."""
        shelf.add("app 1", "other 1", requires=["lib"])
        shelf.add("lib 1", "more 1")
        old = lock(shelf, "app", "other", "lib").lock
        shelf.add("app 2", "new 2", requires=["lib>=2", "more>=2"])
        shelf.add("new 1", "other 2", requires=["lib"])
        shelf.add("lib 2", "lib 3", "more 2")
        upgraded = lock(shelf, "app", "other", "lib", old=old, upgrade=["app"])
        assert entries(upgraded).keys() == {"app 2", "lib 3", "more 2", "other 1"}
        added = lock(shelf, "app", "other", "lib", "new", old=old)
        assert entries(added).keys() == {"app 1", "lib 3", "more 2", "new 2", "other 1"}
        limited = lock(shelf, "app", "other", "lib<2", "new", old=old)
        assert entries(limited).keys() == {"app 1", "lib 1", "new 1", "other 1"}

    def test_nothing_becomes_older_for_what_is_new(self, shelf: Shelf) -> None:
        """A locked version is not lowered for it; of several new ones the possible are newest."""
        shelf.add("lib 2", "part 1")
        old = lock(shelf, "lib", "part").lock
        shelf.add("lib 1", "part 2")
        shelf.add("one 1", "two 1")
        shelf.add("one 2", requires=["lib<2"])
        shelf.add("two 2", requires=["part>=2"])
        again = lock(shelf, "lib", "part", "one", "two", old=old)
        assert entries(again).keys() == {"lib 2", "one 1", "part 2", "two 2"}

    def test_of_each_environment_its_own(self, shelf: Shelf) -> None:
        """Two versions in an older lock stay two."""
        shelf.add("app 1", requires=['lib<2; sys_platform == "win32"', "lib"])
        shelf.add("lib 1", "lib 2")
        old = lock(shelf, "app").lock
        shelf.add("lib 1.5", "lib 3")
        assert entries(lock(shelf, "app", old=old)) == entries(old)

    def test_what_was_taken_back_stays(self, shelf: Shelf) -> None:
        """A version that was yanked since is no reason to change it."""
        shelf.add("lib 1", "lib 2")
        old = lock(shelf, "lib").lock
        other = Shelf()
        other.add("lib 1")
        other.add("lib 2", yanked="a mistake")
        assert entries(lock(other, "lib", old=old)) == {"lib 2": None}
        assert entries(lock(other, "lib")) == {"lib 1": None}

    def test_nothing_changes(self, shelf: Shelf) -> None:
        """Locking again gives the same bytes."""
        shelf.add_variants("fast 1", cuda("12", "13"), {"cu12": ["lib"]})
        shelf.add("lib 1")
        old = lock(shelf, "fast").lock
        assert write_lock(lock(shelf, "fast", old=old).lock) == write_lock(old)

    def test_constraints_overrides_and_exclusions(self, shelf: Shelf) -> None:
        """They limit, replace and leave out, in the resolution and in what is recorded."""
        shelf.add("app 1", requires=["lib>=2", "big", "small"])
        shelf.add("lib 1", "lib 2", "big 1", "small 1", "small 2")

        def asked(text: str) -> tuple[RequestedRequirement, ...]:
            return (RequestedRequirement(parse_requirement(text, allow_variant_markers=False)),)

        request = LockNeeds(
            roots=roots("app"),
            constraints=asked("small<2"),
            overrides=asked("lib==1"),
            excluded=frozenset(["big"]),  # type: ignore[list-item]
        )
        locked = lock(shelf, request=request)
        assert entries(locked) == {"app 1": None, "lib 1": None, "small 1": None}
        assert chosen(locked, LINUX).keys() == {"app", "lib", "small"}

    def test_what_is_left_of_roots(self, shelf: Shelf) -> None:
        """What is excluded, or overridden by something that never holds, is recorded nowhere."""
        shelf.add("app 1", "lib 1", "more 1")
        never = parse_requirement("lib; sys_platform == 'never'", allow_variant_markers=False)
        request = LockNeeds(
            roots=roots("app", "lib", "more"),
            overrides=(RequestedRequirement(never),),
            excluded=frozenset(["more"]),  # type: ignore[list-item]
        )
        locked = lock(shelf, request=request)
        assert [str(root) for root in locked.lock.roots or ()] == ["app"]
        candidates = LockCandidates(locked.lock, LINUX.target, None)
        assert candidates.select().notes == ()

    def test_tables_of_others_stay(self, shelf: Shelf) -> None:
        """What another tool wrote about the whole lock is kept."""
        shelf.add("app 1")
        table = lock(shelf, "app").lock.to_mapping()
        table["tool"]["other"] = {"key": 1}
        again = lock(shelf, "app", old=Lock.of(table))
        assert again.lock.to_mapping()["tool"]["other"] == {"key": 1}


class TestExtrasAndGroups:
    """Entries count when an extra or group that needs them is asked for."""

    def test_each_has_its_marker(self, shelf: Shelf) -> None:
        """What two of them need has both; what is needed anyway has none."""
        shelf.add("base 1", "both 1")
        shelf.add("plot 1", requires=["both", "base"])
        shelf.add("test 1", requires=["both"])
        request = LockNeeds(
            roots=(
                *roots("base"),
                *roots("plot", extra="charts"),
                *roots("test; python_version >= '3.12'", group="dev"),
            ),
            groups=("docs",),  # type: ignore[arg-type]
            default_groups=("dev",),  # type: ignore[arg-type]
        )
        locked = lock(shelf, request=request)
        assert entries(locked) == {
            "base 1": None,
            "both 1": '"charts" in extras or "dev" in dependency_groups',
            "plot 1": '"charts" in extras',
            "test 1": '"dev" in dependency_groups',
        }
        assert locked.lock.extras == ("charts",)
        assert locked.lock.dependency_groups == ("dev", "docs")
        assert locked.lock.default_groups == ("dev",)
        assert chosen(locked, LINUX).keys() == {"base", "test", "both"}
        assert chosen(locked, LINUX, groups=[]).keys() == {"base"}
        assert chosen(locked, LINUX, groups=[], extras=["charts"]).keys() == {
            "base",
            "plot",
            "both",
        }

    def test_extras_of_packages(self, shelf: Shelf) -> None:
        """What only an extra of a package needs follows who asks for that extra."""
        shelf.add("web 1", requires=["base", 'socks; extra == "socks"'], extras=["socks"])
        shelf.add("base 1", "socks 1")
        locked = lock(shelf, "web", *roots("web[socks]", extra="proxy"))
        assert entries(locked) == {
            "base 1": None,
            "socks 1": '"proxy" in extras',
            "web 1": None,
        }
        assert chosen(locked, LINUX).keys() == {"web", "base"}
        assert chosen(locked, LINUX, extras=["proxy"]).keys() == {"web", "base", "socks"}

    def test_platform_and_extra(self, shelf: Shelf) -> None:
        """Both conditions hold together."""
        shelf.add("plot 1", requires=['colour; sys_platform == "win32"'])
        shelf.add("colour 1")
        locked = lock(shelf, *roots("plot", extra="charts"))
        assert entries(locked)["colour 1"] == 'sys_platform == "win32" and "charts" in extras'


class TestVariants:
    """All labels stay, with what they need, as far as that goes together."""

    def test_all_labels(self, shelf: Shelf) -> None:
        """Each machine takes its own, and only what that needs (F-120, F-121)."""
        shelf.add_variants(
            "fast 1", cuda("12", "13"), {"cu12": ["lib12"], "cu13": ["lib13"], "": ["slow"]}
        )
        shelf.add("lib12 1", "lib13 1", "slow 1")
        locked = lock(shelf, "fast")
        assert labels(locked, "fast") == {"cu12", "cu13", "null", None}
        assert entries(locked) == {"fast 1": None, "lib12 1": None, "lib13 1": None, "slow 1": None}
        new = {"nvidia": {"cuda_version_lower_bound": ["13.0", "12.0"]}}
        old = {"nvidia": {"cuda_version_lower_bound": ["12.0"]}}
        assert chosen(locked, LINUX, new) == {"fast": "cu13", "lib13": "1"}
        assert chosen(locked, LINUX, old) == {"fast": "cu12", "lib12": "1"}
        assert chosen(locked, LINUX) == {"fast": "null"}

    def test_nothing_is_said_of_hardware(self, shelf: Shelf) -> None:
        """There is none: a lock is for any machine, whatever its best label uses."""
        fast = {"v3": {"x86_64": {"level": ["v3"]}}, "gfx": {"amd": {"gfx_arch": ["gfx942"]}}}
        shelf.add_variants("fast 1", fast)
        locked = lock(shelf, "fast")
        assert labels(locked, "fast") == {"v3", "gfx", None}
        assert not [note for note in locked.notes if "hardware" in note]

    def test_a_label_that_contradicts_is_left_out(self, shelf: Shelf) -> None:
        """Its needs do not go with the versions of the best label, which is told (F-116)."""
        shelf.add_variants("fast 1", cuda("12", "13"), {"cu12": ["lib<2"], "cu13": ["lib"]})
        shelf.add("lib 1", "lib 2")
        locked = lock(shelf, "fast")
        assert entries(locked) == {"fast 1": None, "lib 2": None}
        assert labels(locked, "fast") == {"cu13", "null", None}
        assert "fast 1: cu12 not locked: it needs lib<2, but 2 is locked" in locked.notes
        (package,) = (package for package in locked.lock.packages if package.name == "fast")
        assert package.document is not None
        assert set(package.document.variants) == {"cu13", "null"}

    def test_labels_that_contradict_each_other(self, shelf: Shelf) -> None:
        """Of what is new to the lock the better labels decide; the rest goes with it, or out."""
        needs = {"cu11": ["lib"], "cu12": ["lib<2"], "cu13": ["lib>=2"], "cu14": ["other"]}
        shelf.add_variants("fast 1", cuda("11", "12", "13", "14", "15"), needs)
        shelf.add("lib 1", "lib 2", "other 1")
        locked = lock(shelf, "fast")
        assert entries(locked).keys() == {"fast 1", "lib 2", "other 1"}
        assert labels(locked, "fast") == {"cu11", "cu13", "cu14", "cu15", "null", None}
        (note,) = locked.notes
        assert note.startswith("fast 1: cu12 not locked: it needs lib<2")

    def test_a_newer_armv8_is_the_better_build(self, shelf: Shelf) -> None:
        """F-120: versions of Armv8 are ordered as versions, so the needs of 8.1 decide."""
        versions = {"old": "8a", "new": "8.1a"}
        variants = {
            label: {"aarch64": {"version": [version]}} for label, version in versions.items()
        }
        needs = {"old": ["lib<2"], "new": ["lib>=2"]}
        arm = {"requires": ["aarch64-variant-provider"]}
        shelf.add_variants("fast 1", variants, needs, aarch64=arm)
        shelf.add("lib 1", "lib 2")
        assert labels(lock(shelf, "fast"), "fast") == {"new", None}

    def test_no_fallback_is_left(self, shelf: Shelf) -> None:
        """Machines that no label fits cannot use such a lock, which is said before they try."""
        shelf.add_variants(
            "fast 1", cuda("12"), {"cu12": ["lib"], "null": ["lib<2"], "": ["lib<2"]}
        )
        shelf.add("lib 1", "lib 2")
        locked = lock(shelf, "fast", platforms=["linux-x86_64", "windows-x86_64"])
        assert labels(locked, "fast") == {"cu12"}
        assert locked.notes[-1] == (
            "fast 1: no wheel is locked for machines without a compatible label "
            "(linux-x86_64, Python 3.12; windows-x86_64, Python 3.12)"
        )

    def test_what_a_label_brings_may_have_variants_too(self, shelf: Shelf) -> None:
        """Their labels are looked at like any other."""
        shelf.add_variants("fast 1", cuda("12"), {"null": ["maths"]}, plain=False)
        levels = {f"v{n}": {"x86_64": {"level": [f"v{n}"]}} for n in (2, 3)}
        shelf.add_variants("maths 1", levels, {"v2": ["deep"]})
        shelf.add("deep 1")
        locked = lock(shelf, "fast")
        assert entries(locked).keys() == {"fast 1", "maths 1", "deep 1"}
        assert labels(locked, "maths") == {"v2", "v3", None}
        machine = {"x86_64": {"level": ["v2"]}}
        assert chosen(locked, LINUX, machine) == {"fast": "null", "maths": "v2", "deep": "1"}

    def test_what_cannot_be_had_costs_the_label(self, shelf: Shelf) -> None:
        """A label whose own needs have no wheel is left out, with the reason."""
        shelf.add_variants("fast 1", cuda("12", "13"), {"cu12": ["gone"]})
        locked = lock(shelf, "fast")
        assert labels(locked, "fast") == {"cu13", "null", None}
        assert any("it needs gone, which is incompatible" in note for note in locked.notes)

    def test_markers_that_machines_decide(self, shelf: Shelf) -> None:
        """F-103: what one of several values asks for is locked, whoever has it."""
        properties = {"nvidia": {"sm_arch": ["80_real", "90_real"]}}
        needs = ['hopper; "nvidia :: sm_arch :: 90_real" in variant_properties']
        shelf.add_variants("fast 1", {"gpu": properties}, {"gpu": needs})
        shelf.add("hopper 1")
        assert entries(lock(shelf, "fast")).keys() == {"fast 1", "hopper 1"}

    def test_builds_for_other_versions(self, shelf: Shelf) -> None:
        """A build for a version that is not locked is left out, the others stay (P-51)."""
        variants = {f"torch{number}": {"abi": {"torch": [f"2.{number}"]}} for number in (7, 8)}
        abi = {"builtin": "abi_dependency"}
        shelf.add_variants("attention 1", variants, plain=False, abi=abi)
        shelf.add("torch 2.7", "torch 2.8")
        locked = lock(shelf, "torch", "attention")
        assert labels(locked, "attention") == {"torch8"}
        assert any(note.startswith("attention 1: torch7 not locked: ") for note in locked.notes)
        locked = lock(shelf, "torch<2.8", "attention")
        assert labels(locked, "attention") == {"torch7"}

    def test_labels_that_do_not_mix_stand_side_by_side(self, shelf: Shelf) -> None:
        """A machine agrees with itself when it installs; the lock has them all."""
        shelf.add_variants("one 1", cuda("12", "13"))
        shelf.add_variants("two 1", cuda("12", "13"))
        locked = lock(shelf, "one", "two")
        for name in ("one", "two"):
            assert labels(locked, name) == {"cu12", "cu13", "null", None}

    def test_needs_of_a_label_that_gives_way(self, shelf: Shelf) -> None:
        """What it needs stays, though another label is best once more needs are added."""
        shelf.add_variants("tied 1", cuda("12"), {"cu12": [], "null": ["more"]})
        shelf.add_variants("fast 1", cuda("12", "13"), {"cu12": ["lib12"]})
        shelf.add("lib12 1", "more 1")
        locked = lock(shelf, "tied", "fast")
        machine = {"nvidia": {"cuda_version_lower_bound": ["12.0"]}}
        found = {"tied": "cu12", "fast": "cu12", "lib12": "1"}
        assert chosen(locked, LINUX, machine) == found

    def test_what_can_never_agree_is_refused(self, shelf: Shelf) -> None:
        """Where no machine could have all of it, there is no lock, unless mixing is allowed."""
        shelf.add_variants("one 1", {"cu13": cuda("13")["cu13"]}, plain=False, tags=LINUX_TAGS)
        shelf.add_variants("two 1", {"cu12": cuda("12")["cu12"]}, plain=False, tags=LINUX_TAGS)
        for name in ("one", "two"):
            shelf.add(f"{name} 1", tags="cp312-cp312-win_amd64")
        with pytest.raises(NoConsistentSet) as excinfo:
            lock(shelf, "one", "two")
        assert excinfo.value.where == "linux-x86_64, Python 3.12"
        policy = ChoicePolicy(mixed=frozenset(["cuda"]))
        assert labels(lock(shelf, "one", "two", policy=policy), "one") == {"cu13", None}

    def test_a_namespace_that_nobody_answers_for(self, shelf: Shelf) -> None:
        """Such a label could never be chosen: it decides nothing, and is not listed."""
        shelf.add("lib 1", "lib 2")
        variants = {"odd": {"odd": {"kind": ["x"]}}, "null": {}}
        whole = document({"null": {}})
        whole["variants"] = variants
        whole["default-priorities"]["namespace"].append("odd")
        for label, requires in (("odd", ["lib<2"]), ("null", ["lib"])):
            own = {**whole, "variants": {label: variants[label]}}
            shelf.add_wheel(f"fast-1-{ANY}-{label}.whl", requires=requires, document=own)
        shelf.add_file("fast-1-variants.json", whole)
        locked = lock(shelf, "fast")
        assert labels(locked, "fast") == {"null"}
        assert "lib 2" in entries(locked)


def test_the_order_of_a_page_does_not_matter() -> None:
    """F-120: the bytes are the same, in whatever order an index lists its files."""

    def filled(names: Sequence[str]) -> bytes:
        other = Shelf()
        other.add("app 1", requires=["fast"])
        for tags in names:
            other.add("fast 1", tags=tags)
        return write_lock(lock(other, "app").lock)

    tags = [f"cp312-cp312-manylinux_2_{minor}_x86_64" for minor in (17, 24, 28)]
    assert filled([ANY, *tags]) == filled([*reversed(tags), ANY])


def test_versions_are_versions(shelf: Shelf) -> None:
    """A locked version is the one of the wheel."""
    shelf.add("app 1.0")
    (package,) = lock(shelf, "app").lock.packages
    assert package.version == Version("1.0")


def test_without_variants(shelf: Shelf) -> None:
    """Whoever wants plain wheels gets an ordinary lock, and is told nothing of the others."""
    shelf.add_variants("fast 1", cuda("12"), {"cu12": ["lib"]})
    policy = ChoicePolicy(preferences=Preferences(variants=False))
    locked = lock(shelf, "fast", policy=policy)
    assert labels(locked, "fast") == {None}
    assert entries(locked) == {"fast 1": None}
    assert locked.notes == ()
    assert locked.lock.packages[0].table is None


def test_what_the_user_forbids(shelf: Shelf) -> None:
    """Is not listed, and does not decide about versions."""
    shelf.add_variants("fast 1", cuda("12"), {"cu12": ["lib<2"], "null": ["lib"]})
    shelf.add("lib 1", "lib 2")
    policy = ChoicePolicy(preferences=Preferences(forbid=("nvidia",)))
    locked = lock(shelf, "fast", policy=policy)
    assert labels(locked, "fast") == {"null", None}
    assert "lib 2" in entries(locked)
    assert locked.notes == ("fast 1: cu12 not locked: nvidia is forbidden",)
