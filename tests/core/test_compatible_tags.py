"""Computed tags equal those that packaging finds on the machine."""

from __future__ import annotations

import sys

import pytest
from packaging.markers import default_environment
from packaging.tags import Tag, compatible_tags, generic_tags, platform_tags, sys_tags
from packaging.version import Version

from wheelfit.core.compatible_tags import (
    ShortTags,
    interpreter_values,
    linux_platforms,
    platform_values,
    shorten,
    tags_for,
)

HERE = Version("{}.{}.{}".format(*sys.version_info[:3]))
IMPLEMENTATION = sys.implementation.name


class TestTagsFor:
    """The order of tags is packaging's."""

    def test_this_interpreter(self) -> None:
        """The tags of the running interpreter follow from a few facts."""
        tags = tuple(sys_tags())
        short = shorten(tags, IMPLEMENTATION, HERE)
        assert short is not None
        assert short.platforms == tuple(platform_tags())
        assert tags_for(IMPLEMENTATION, HERE, short.abis, short.platforms) == tags

    def test_free_threaded(self) -> None:
        """A free-threaded build has no ``abi3``."""
        tags = tags_for("cpython", Version("3.14"), ["cp314t"], ["win_amd64"])
        assert tags[0] == Tag("cp314", "cp314t", "win_amd64")
        assert not any(tag.abi == "abi3" for tag in tags)
        short = ShortTags(("cp314t",), ("win_amd64",))
        assert shorten(tags, "cpython", Version("3.14")) == short

    def test_default_abi(self) -> None:
        """Without an ABI, that of an ordinary CPython build is assumed."""
        tags = tags_for("cpython", Version("3.13"), [], ["win_amd64"])
        assert tags == tags_for("cpython", Version("3.13"), ["cp313"], ["win_amd64"])

    def test_pypy(self) -> None:
        """PyPy accepts its own ABI and ``pp3-none-any``."""
        platforms = ["linux_x86_64"]
        tags = tags_for("pypy", Version("3.11.9"), ["pypy311_pp73"], platforms)
        assert tags == (
            *generic_tags("pp311", ["pypy311_pp73"], platforms),
            *compatible_tags((3, 11), "pp3", platforms),
        )

    def test_other_order(self) -> None:
        """A list in another order is not shortened to a rule."""
        tags = tuple(sys_tags())
        assert shorten(tags[::-1], IMPLEMENTATION, HERE) is None
        assert shorten([Tag("py3", "none", "any")], IMPLEMENTATION, HERE) is None


class TestPlatforms:
    """Short descriptions of platforms."""

    def test_this_machine(self) -> None:
        """The tags of a Linux machine follow from machine and libc."""
        here = tuple(platform_tags())
        if not here[1:] or not here[1].startswith("manylinux_2_"):
            pytest.skip("this machine is not a Linux with glibc")
        machine = here[0].removeprefix("linux_")
        glibc = int(here[1].split("_")[2])
        assert linux_platforms(machine, glibc=glibc) == here

    def test_old_names(self) -> None:
        """PEP 600: ``manylinux2014`` follows glibc 2.17; on machines other than x86 it is last."""
        assert linux_platforms("aarch64", glibc=18) == (
            "linux_aarch64",
            "manylinux_2_18_aarch64",
            "manylinux_2_17_aarch64",
            "manylinux2014_aarch64",
        )
        assert linux_platforms("x86_64", glibc=18)[-1] == "manylinux1_x86_64"

    def test_musl(self) -> None:
        """PEP 656: musl tags go down to 1.0."""
        assert linux_platforms("x86_64", musl=1) == (
            "linux_x86_64",
            "musllinux_1_1_x86_64",
            "musllinux_1_0_x86_64",
        )

    @pytest.mark.parametrize(
        ("tag", "system", "sys_platform", "machine"),
        [
            ("manylinux_2_28_aarch64", "Linux", "linux", "aarch64"),
            ("manylinux2014_x86_64", "Linux", "linux", "x86_64"),
            ("musllinux_1_2_x86_64", "Linux", "linux", "x86_64"),
            ("linux_armv7l", "Linux", "linux", "armv7l"),
            ("macosx_14_0_arm64", "Darwin", "darwin", "arm64"),
            ("win_amd64", "Windows", "win32", "AMD64"),
            ("win32", "Windows", "win32", "x86"),
        ],
    )
    def test_marker_values(self, tag: str, system: str, sys_platform: str, machine: str) -> None:
        """The markers of another machine follow from its platform tag."""
        values = platform_values(tag)
        assert values["platform_system"] == system
        assert values["sys_platform"] == sys_platform
        assert values["platform_machine"] == machine
        assert values["os_name"] == ("nt" if system == "Windows" else "posix")

    def test_unknown_platform(self) -> None:
        """An unknown platform has no marker values."""
        assert platform_values("freebsd_14_0_release_amd64") == {}


def test_values_of_this_interpreter() -> None:
    """The markers of an interpreter follow from implementation and version."""
    here = default_environment()
    version = Version(here["python_full_version"])
    values = interpreter_values(IMPLEMENTATION, version)
    for name in ("implementation_name", "python_full_version", "python_version"):
        assert values[name] == here[name]
    assert values["platform_python_implementation"] == here["platform_python_implementation"]


def test_values_of_a_release_candidate() -> None:
    """A release candidate keeps its suffix, as Python itself says it."""
    values = interpreter_values("cpython", Version("3.14.0rc2"))
    assert values["python_full_version"] == "3.14.0rc2"
    assert values["python_version"] == "3.14"
