"""Conda's variables for system versions, applied to wheel tags and markers (CEP 30)."""

from __future__ import annotations

import pytest

from wheelfit.core.compatible_tags import (
    interpreter_values,
    linux_platforms,
    macos_platforms,
    platform_values,
    tags_for,
)
from wheelfit.core.conda_overrides import overridden_target
from wheelfit.core.target import Target
from wheelfit.core.versions import parse_version

PYTHON = parse_version("3.13.1")


def target(*platforms: str) -> Target:
    """Return CPython 3.13 on a platform."""
    environment = platform_values(platforms[0]) | interpreter_values("cpython", PYTHON)
    environment |= {"platform_release": "6.8.0-45-generic", "platform_version": "#45"}
    return Target.of("here", environment, tags_for("cpython", PYTHON, (), platforms))


LINUX = target(*linux_platforms("x86_64", glibc=39))
MUSL = target(*linux_platforms("aarch64", musl=2))
MAC = target(*macos_platforms("arm64", 15))
WINDOWS = target("win_amd64")


def platforms(found: Target) -> list[str]:
    """Return the platforms of a target's tags, best first."""
    return list(dict.fromkeys(tag.platform for tag in found.tags if tag.platform != "any"))


def test_other_glibc() -> None:
    """Tags are those of the stated version, and everything else is unchanged."""
    found, in_effect, problems = overridden_target(LINUX, {"CONDA_OVERRIDE_GLIBC": " 2.17 "})
    assert platforms(found) == list(linux_platforms("x86_64", glibc=17))
    assert found.environment == LINUX.environment
    assert found.name == LINUX.name
    assert (in_effect, problems) == (("CONDA_OVERRIDE_GLIBC=2.17",), ())


def test_no_glibc() -> None:
    """An empty variable means no glibc; musl tags are unchanged."""
    found, in_effect, _ = overridden_target(LINUX, {"CONDA_OVERRIDE_GLIBC": ""})
    assert platforms(found) == ["linux_x86_64"]
    assert in_effect == ("CONDA_OVERRIDE_GLIBC=",)
    alpine, _, _ = overridden_target(MUSL, {"CONDA_OVERRIDE_GLIBC": "2.28"})
    assert platforms(alpine) == [
        *linux_platforms("aarch64", glibc=28),
        "musllinux_1_2_aarch64",
        "musllinux_1_1_aarch64",
        "musllinux_1_0_aarch64",
    ]


@pytest.mark.parametrize("text", ["13", "13.0", "13.5.1"])
def test_other_macos(text: str) -> None:
    """Tags are those of the stated version."""
    found, in_effect, _ = overridden_target(MAC, {"CONDA_OVERRIDE_OSX": text})
    assert platforms(found) == list(macos_platforms("arm64", 13))
    assert in_effect == (f"CONDA_OVERRIDE_OSX={text}",)


def test_markers() -> None:
    """Versions of kernels and Windows affect markers, not tags."""
    found, _, _ = overridden_target(LINUX, {"CONDA_OVERRIDE_LINUX": "4.18.0"})
    assert found.environment["platform_release"] == "4.18.0"
    assert found.environment["platform_version"] == "#45"
    assert found.tags == LINUX.tags
    found, _, _ = overridden_target(WINDOWS, {"CONDA_OVERRIDE_WIN": "10.0.19045"})
    assert found.environment["platform_version"] == "10.0.19045"
    assert found.tags == WINDOWS.tags


@pytest.mark.parametrize(
    ("here", "variable"),
    [
        (MAC, "CONDA_OVERRIDE_GLIBC"),
        (MAC, "CONDA_OVERRIDE_LINUX"),
        (LINUX, "CONDA_OVERRIDE_OSX"),
        (LINUX, "CONDA_OVERRIDE_WIN"),
        (WINDOWS, "CONDA_OVERRIDE_GLIBC"),
    ],
)
@pytest.mark.parametrize("text", ["14.0", "nonsense", ""])
def test_other_systems(here: Target, variable: str, text: str) -> None:
    """CEP 30: a variable for another system has no effect, whatever its value."""
    assert overridden_target(here, {variable: text}) == (here, (), ())


@pytest.mark.parametrize(
    ("here", "variable"),
    [
        (LINUX, "CONDA_OVERRIDE_LINUX"),
        (MAC, "CONDA_OVERRIDE_OSX"),
        (WINDOWS, "CONDA_OVERRIDE_WIN"),
    ],
)
def test_empty_value(here: Target, variable: str) -> None:
    """CEP 30: only a non-empty value replaces the version of the system."""
    assert overridden_target(here, {variable: ""}) == (here, (), ())


@pytest.mark.parametrize(
    ("here", "variable", "text"),
    [
        (LINUX, "CONDA_OVERRIDE_GLIBC", "glibc"),
        (LINUX, "CONDA_OVERRIDE_GLIBC", "3.0"),
        (LINUX, "CONDA_OVERRIDE_GLIBC", "2"),
        (LINUX, "CONDA_OVERRIDE_GLIBC", "2.99999"),
        (LINUX, "CONDA_OVERRIDE_LINUX", "5"),
        (LINUX, "CONDA_OVERRIDE_LINUX", "5.10-generic"),
        (MAC, "CONDA_OVERRIDE_OSX", "sonoma"),
        (MAC, "CONDA_OVERRIDE_OSX", "9.2"),
        (WINDOWS, "CONDA_OVERRIDE_WIN", "eleven"),
    ],
)
def test_invalid_values(here: Target, variable: str, text: str) -> None:
    """P-73: a warning has variable, value and expected form; other variables count."""
    found, in_effect, problems = overridden_target(here, {variable: text})
    assert (found, in_effect) == (here, ())
    assert problems[0].startswith(f"{variable}={text!r} is ignored: it must be a version such as ")


def test_no_variables() -> None:
    """Without the variables the target is the same."""
    assert overridden_target(LINUX, {"PATH": "/bin"}) == (LINUX, (), ())
