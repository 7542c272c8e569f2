"""Targets and their order of tags."""

from __future__ import annotations

import pytest
from packaging.markers import default_environment
from packaging.tags import Tag, parse_tag, sys_tags
from packaging.version import Version

from wheelfit.core.target import TagPreference, Target
from wheelfit.errors import InvalidMarker

TAGS = TagPreference(
    (
        Tag("cp313", "cp313", "manylinux_2_28_x86_64"),
        Tag("cp313", "abi3", "manylinux_2_28_x86_64"),
        Tag("py3", "none", "any"),
    )
)


class TestTagPreference:
    """F-68, F-90: which of a wheel's tags counts."""

    @pytest.mark.parametrize(
        ("tags", "rank"),
        [
            ("cp313-cp313-manylinux_2_28_x86_64", 0),
            ("py3-none-any", 2),
            ("py2.py3-none-any", 2),
            ("cp39.cp313-abi3-manylinux_2_28_x86_64", 1),
            ("cp312-cp312-manylinux_2_28_x86_64", None),
        ],
    )
    def test_best(self, tags: str, rank: int | None) -> None:
        """The best tag of a compressed set counts; none fits: no rank."""
        assert TAGS.best(parse_tag(tags)) == rank

    def test_a_tag_given_twice_keeps_its_first_place(self) -> None:
        """The first mention is the preference."""
        first, second = TAGS.tags[:2]
        assert TagPreference((first, second, first)).best(frozenset([first])) == 0

    def test_is_a_value(self) -> None:
        """Equal tags make equal, hashable preferences; the length counts the tags."""
        again = TagPreference(tuple(TAGS))
        assert again == TAGS
        assert hash(again) == hash(TAGS)
        assert len(TAGS) == 3
        assert TAGS.tags[0] in TAGS
        assert Tag("py2", "none", "any") not in TAGS


class TestTarget:
    """A target is a value that nobody can change."""

    def test_of_the_running_interpreter(self) -> None:
        """The version is the one of the marker environment."""
        environment = default_environment()
        target = Target.of("here", dict(environment), sys_tags())  # type: ignore[arg-type]
        assert target.python_full_version == Version(environment["python_full_version"])
        assert target.tags.tags == tuple(sys_tags())

    def test_build_from_a_checkout(self) -> None:
        """``3.14.0+`` is a local version of 3.14.0."""
        target = Target.of("here", {"python_full_version": "3.14.0+"}, [])
        assert target.python_full_version == Version("3.14.0+local")

    def test_a_version_is_needed(self) -> None:
        """An environment without a usable version is refused with the target's name."""
        with pytest.raises(InvalidMarker, match="not a version: 'new'") as excinfo:
            Target.of("there", {"python_full_version": "new"}, [])
        assert excinfo.value.where == "there"

    def test_cannot_be_changed(self) -> None:
        """The environment is copied and read-only."""
        environment = {"python_full_version": "3.13"}
        target = Target.of("here", environment, TAGS)
        environment["python_full_version"] = "3.12"
        assert target.environment["python_full_version"] == "3.13"
        with pytest.raises(TypeError):
            target.environment["os_name"] = "nt"  # type: ignore[index]

    @pytest.mark.parametrize(
        ("platform", "architecture"),
        [
            ("manylinux_2_28_x86_64", "x86_64"),
            ("win_amd64", "x86_64"),
            ("linux_i686", "i686"),
            ("win32", "i686"),
            ("macosx_14_0_arm64", "aarch64"),
            ("musllinux_1_2_aarch64", "aarch64"),
            ("any", "mips"),
        ],
    )
    def test_architecture(self, platform: str, architecture: str) -> None:
        """P-104: the interpreter's architecture counts, not the kernel's."""
        values = {"python_full_version": "3.13.0", "platform_machine": "mips"}
        target = Target.of("here", values, [Tag("cp313", "cp313", platform)])
        assert target.architecture == architecture
