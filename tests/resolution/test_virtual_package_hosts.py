"""Machines that conda or pixi describe support what the providers say of such machines."""

from __future__ import annotations

import pytest
from error_codes import raises_code

from wheelfit.core.compatible_tags import linux_platforms, macos_platforms
from wheelfit.core.host_file import HostFile
from wheelfit.core.virtual_packages import SUBDIRS, CondaPlatform, VirtualPackage, conda_platform
from wheelfit.resolution.preset_hosts import host_of_preset
from wheelfit.resolution.virtual_package_hosts import host_of_virtual_packages
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.platforms.known_platforms import PLATFORMS
from wheelfit_runtime.platforms.presets import MACHINES, compose


def machine(subdir: str, **packages: str) -> HostFile:
    """Return a machine with virtual packages, by their names without underscores before them."""
    listed = tuple(
        VirtualPackage("__archspec", "1", text)
        if name == "archspec"
        else VirtualPackage(f"__{name}", text)
        for name, text in sorted(packages.items())
    )
    return host_of_virtual_packages(CondaPlatform(subdir, listed), "info.json")


def first_values(file: HostFile) -> dict[str, list[str]]:
    """Return the best value of each feature by namespace; flags of processors are left out."""
    return {
        entry.namespace: [
            f"{feature.name} {feature.values[0]}"
            for feature in entry.features
            if feature.values != ("on",)
        ]
        for entry in file.providers
    }


def test_a_machine_with_a_gpu() -> None:
    """Everything that is stated, and nothing else."""
    file = machine(
        "linux-64", cuda="12.4.1", cuda_arch="8.6", archspec="zen4", glibc="2.35", linux="5.15.0"
    )
    assert first_values(file) == {
        "nvidia": [
            "cuda_version_lower_bound 12.4",
            "cuda_version_upper_bound 15.20",
            "sm_arch 86_real",
        ],
        "x86_64": ["level v4"],
        "aarch64": [],
    }
    assert file.platforms == linux_platforms("x86_64", glibc=35)
    assert file.environment == {"platform_release": "5.15.0"}
    assert file.notes == ("conda has no virtual packages for amd, intel, ascend, tpu",)
    assert all(entry.version for entry in file.providers)
    evidence = [f"{one.source}: {one.value}" for one in file.providers[0].evidence]
    assert evidence == ["virtual packages: __cuda=12.4.1=0", "virtual packages: __cuda_arch=8.6=0"]


def test_what_is_not_there() -> None:
    """Without ``__cuda`` there is no driver; without ``__cuda_arch`` nothing is known of GPUs."""
    assert first_values(machine("linux-64"))["nvidia"] == []
    file = machine("linux-64", cuda="13")
    assert [feature.name for feature in file.providers[0].features] == [
        "cuda_version_lower_bound",
        "cuda_version_upper_bound",
    ]
    assert file.notes[0].startswith("there is no __cuda_arch, so builds that name GPUs do not fit")
    assert first_values(machine("linux-64", cuda_arch="8.6"))["nvidia"] == []


@pytest.mark.parametrize(
    ("subdir", "archspec", "expected"),
    [
        ("linux-64", "", ["level v1"]),
        ("linux-64", "x86_64", ["level v1"]),
        ("linux-64", "skylake", ["level v3"]),
        ("linux-aarch64", "", ["version 8a"]),
        ("linux-aarch64", "neoverse_v2", ["version 9.0a"]),
        ("osx-arm64", "", ["version 8.4a"]),
        ("osx-arm64", "m3", ["version 8.5a"]),
        ("win-arm64", "", ["version 8a"]),
    ],
)
def test_processors(subdir: str, archspec: str, expected: list[str]) -> None:
    """A name of archspec is a level or version; without one the least of the platform counts."""
    file = machine(subdir, **({"archspec": archspec} if archspec else {}))
    architecture = PLATFORMS[SUBDIRS[subdir]].architecture
    assert first_values(file)[architecture] == expected


@pytest.mark.parametrize(
    ("subdir", "least"), [("linux-64", "level v1"), ("osx-arm64", "version 8.4a")]
)
def test_a_newer_processor_is_not_refused(subdir: str, least: str) -> None:
    """A name that the table does not have yet counts as the least, and that is said."""
    file = machine(subdir, archspec="zen99")
    assert [least] in first_values(file).values()
    assert file.notes[0].startswith("archspec's 'zen99' is unknown, so the baseline ")


def test_systems() -> None:
    """The versions of systems choose the platform tags; the usual ones where none is stated."""
    assert machine("linux-64").platforms == linux_platforms("x86_64", glibc=28)
    assert machine("linux-64", musl="1.2").platforms == linux_platforms("x86_64", musl=2)
    assert machine("osx-arm64", osx="14.5").platforms == macos_platforms("arm64", 14, 5)
    assert machine("osx-64", osx="13", glibc="2.31").platforms == macos_platforms("x86_64", 13)
    assert machine("win-64", win="10.0.22631").environment == {"platform_version": "10.0.22631"}
    assert machine("win-64", win="0", osx="1").environment == {}


@pytest.mark.parametrize(
    ("subdir", "packages", "problem"),
    [
        ("linux-ppc64le", {}, "'linux-ppc64le' is not a supported platform"),
        ("linux-64", {"cuda": "new"}, "__cuda is 'new'"),
        ("linux-64", {"cuda": "12", "cuda_arch": "86"}, "__cuda_arch is '86'"),
        ("linux-64", {"glibc": "9.9"}, "__glibc is '9.9'"),
        ("osx-arm64", {"osx": "sonoma"}, "__osx is 'sonoma'"),
    ],
)
def test_mistakes(subdir: str, packages: dict[str, str], problem: str) -> None:
    """What no machine has is an error that names the virtual package."""
    with raises_code("invalid-host-file", match=problem) as excinfo:
        machine(subdir, **packages)
    assert excinfo.value.where == "info.json"


@pytest.mark.parametrize(
    "name", [*MACHINES, *(platform for platform in PLATFORMS if "musl" not in platform)]
)
def test_there_and_back(name: str) -> None:
    """What conda is told of a machine describes the same machine, as far as conda can be told."""
    file, _ = host_of_preset(compose([name]))
    platform, _ = conda_platform(file, file.target(linux_target(), name))
    again = host_of_virtual_packages(platform, name)
    assert again.platforms == file.platforms
    for namespace in ("nvidia", "x86_64", "aarch64"):
        stated, found = (
            next(entry for entry in one.providers if entry.namespace == namespace).features
            for one in (file, again)
        )
        assert [one for one in found if one.values != ("on",)] == [
            one for one in stated if one.values != ("on",)
        ]
        # Of a chip of Apple's conda knows its name, and of others the level alone.
        assert {one.name for one in found} <= {one.name for one in stated} or "mac" in name
