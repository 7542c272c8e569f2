"""A lock for machines that are named: each gets what is resolved for it, in one file or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from locking.shelf import Shelf, cuda
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.requirements import parse_requirement
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.environments import LockEnvironment, environments_for
from wheelfit.locking.hosts import HostLock, NamedMachine, lock_for_hosts
from wheelfit.locking.request import LockNeeds, Root
from wheelfit.locking.selection import LockCandidates
from wheelfit.locking.solving import Solver
from wheelfit.resolution.candidates import Candidates
from wheelfit.sources.repository import Repository
from wheelfit.testing.detectors import FixedDetector
from wheelfit_runtime.errors import NoFit

Features = Mapping[str, Mapping[str, Sequence[str]]]
CUDA_12: Features = {"nvidia": {"cuda_version_lower_bound": ["12.0"]}}
CUDA_13: Features = {"nvidia": {"cuda_version_lower_bound": ["13.0", "12.0"]}}
SLOW: Features = {"nvidia": {}}


def machine(
    name: str,
    features: Features = SLOW,
    platform: str = "linux-x86_64",
    python: tuple[int, int] = (3, 12),
    old: Lock | None = None,
) -> NamedMachine:
    """Return a machine that supports some features."""
    (environment,) = environments_for([platform], [python])
    target = environment.target

    def candidates(repository: Repository) -> Candidates:
        return Candidates(repository, target, FixedDetector(features))

    def chooser(lock: Lock) -> LockCandidates:
        extras, groups = lock.extras, lock.dependency_groups or None
        detector = FixedDetector(features)
        return LockCandidates(lock, target, detector, extras=extras, groups=groups)

    return NamedMachine(LockEnvironment(name, target), candidates, chooser, old)


def lock(
    shelf: Shelf,
    machines: Sequence[NamedMachine],
    *texts: str,
    roots: Sequence[Root] = (),
    old: Lock | None = None,
) -> tuple[HostLock, ...]:
    """Lock requirements for some machines, and see that every lock is sound."""
    asked = [Root(parse_requirement(text, allow_variant_markers=False)) for text in texts]
    solver = Solver(LockNeeds(roots=(*asked, *roots)), shelf, threads=0)
    made = lock_for_hosts(solver, machines, old=old)
    for one in made:
        assert read_lock(write_lock(one.result.lock), where="pylock.toml") == one.result.lock
    return made


def chosen(one: HostLock) -> list[dict[str, str]]:
    """Return what each machine of a lock takes from it: label or version by name."""
    return [
        {
            pin.name: pin.label or str(pin.version)
            for pin in machine.chooser(one.result.lock).select().resolution().pins
        }
        for machine in one.machines
    ]


def wheels(one: HostLock) -> set[str]:
    """Return the names of all listed wheels."""
    packages = one.result.lock.packages
    return {wheel.filename.text for package in packages for wheel in package.wheels}


def test_only_what_they_take_is_listed(shelf: Shelf) -> None:
    """Three machines, three labels, one file; what nobody takes is not in it."""
    shelf.add_variants("fast 1", cuda("11", "12", "13"), {"cu12": ["lib12"], "cu13": ["lib13"]})
    shelf.add("lib12 1", "lib13 1")
    machines = [machine("old", CUDA_12), machine("new", CUDA_13), machine("none")]
    (made,) = lock(shelf, machines, "fast")
    assert wheels(made) == {
        "fast-1-py3-none-any-cu12.whl",
        "fast-1-py3-none-any-cu13.whl",
        "fast-1-py3-none-any-null.whl",
        "lib12-1-py3-none-any.whl",
        "lib13-1-py3-none-any.whl",
    }
    assert chosen(made) == [
        {"fast": "cu12", "lib12": "1"},
        {"fast": "cu13", "lib13": "1"},
        {"fast": "null"},
    ]
    assert made.split_reason is None


def test_platforms_that_markers_tell_apart(shelf: Shelf) -> None:
    """Different versions on different systems go into one file."""
    shelf.add("app 1", requires=["lib", 'lib<2; sys_platform == "win32"'])
    shelf.add("lib 1", "lib 2")
    machines = [machine("linux"), machine("windows", platform="windows-x86_64")]
    (made,) = lock(shelf, machines, "app")
    assert chosen(made) == [{"app": "1", "lib": "2"}, {"app": "1", "lib": "1"}]


def test_machines_agree_as_far_as_they_can(shelf: Shelf) -> None:
    """What the first one takes, the second takes too if it can."""
    shelf.add("lib 1", tags="cp312-cp312-manylinux_2_17_x86_64")
    shelf.add("lib 1", "lib 2", tags="cp312-cp312-win_amd64")
    machines = [machine("linux"), machine("windows", platform="windows-x86_64")]
    (made,) = lock(shelf, machines, "lib")
    assert chosen(made) == [{"lib": "1"}, {"lib": "1"}]


def test_versions_that_no_marker_tells_apart(shelf: Shelf) -> None:
    """Two machines of one kind that need different versions get a file each, with the reason."""
    shelf.add_variants("fast 1", cuda("12", "13"), {"cu12": ["lib<2"], "cu13": ["lib>=2"]})
    shelf.add("lib 1", "lib 2")
    one, other = lock(shelf, [machine("old", CUDA_12), machine("new", CUDA_13)], "fast")
    assert one.split_reason == other.split_reason
    assert one.split_reason is not None
    assert (
        "old needs lib 1, new needs 2, and no marker of a lock file distinguishes the two"
        in one.split_reason
    )
    assert chosen(one) == [{"fast": "cu12", "lib": "1"}]
    assert chosen(other) == [{"fast": "cu13", "lib": "2"}]
    assert [machine.environment.name for machine in one.machines] == ["old"]


def test_needs_that_the_label_does_not_tell(shelf: Shelf) -> None:
    """Of one label two machines need different things: one file would give both to both."""
    properties = {"gpu": {"nvidia": {"sm_arch": ["80_real", "90_real"]}}, "null": {}}
    needs = [
        f'lib{arch}; "nvidia :: sm_arch :: {arch}_real" in variant_properties' for arch in (80, 90)
    ]
    shelf.add_variants("fast 1", properties, {"gpu": needs})
    shelf.add("lib80 1", "lib90 1")
    machines = [
        machine(f"sm{arch}", {"nvidia": {"sm_arch": [f"{arch}_real"]}}) for arch in (80, 90)
    ]
    made = lock(shelf, machines, "fast")
    assert len(made) == 2
    assert made[0].split_reason == "sm80 would get lib90, which it does not need"
    assert [chosen(one) for one in made] == [
        [{"fast": "gpu", "lib80": "1"}],
        [{"fast": "gpu", "lib90": "1"}],
    ]


def test_older_locks_count(shelf: Shelf) -> None:
    """The versions of a lock for all of them stay, and of those that each had for itself."""
    shelf.add("lib 1")
    machines = [machine("linux"), machine("windows", platform="windows-x86_64")]
    (made,) = lock(shelf, machines, "lib")
    shelf.add("lib 2")
    (again,) = lock(shelf, machines, "lib", old=made.result.lock)
    assert chosen(again) == [{"lib": "1"}, {"lib": "1"}]
    own = machine("linux", old=made.result.lock)
    (alone,) = lock(shelf, [own], "lib")
    assert alone.result.lock.packages[0].version == Version("1")


def test_extras(shelf: Shelf) -> None:
    """What an extra needs is for whoever asks for it."""
    shelf.add("base 1", "plot 1")
    more = Root(parse_requirement("plot", allow_variant_markers=False), extra="charts")  # type: ignore[arg-type]
    (made,) = lock(shelf, [machine("linux")], "base", roots=[more])
    markers = {package.name: package.marker for package in made.result.lock.packages}
    assert str(markers[canonicalize_name("plot")]) == '"charts" in extras'
    assert chosen(made) == [{"base": "1", "plot": "1"}]


def test_no_solution_for_one(shelf: Shelf) -> None:
    """The error says for which machine there is none."""
    shelf.add("lib 1", tags="cp312-cp312-manylinux_2_17_x86_64")
    machines = [machine("linux"), machine("windows", platform="windows-x86_64")]
    with pytest.raises(NoFit) as excinfo:
        lock(shelf, machines, "lib")
    assert excinfo.value.where == "windows"
