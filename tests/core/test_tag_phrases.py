from __future__ import annotations

import pytest
from packaging.tags import parse_tag
from packaging.version import Version

from wheelfit.core.compatible_tags import linux_platforms, tags_for
from wheelfit.core.tag_phrases import TagPhrases
from wheelfit.core.target import TagPreference

LINUX = TagPreference(
    tags_for(
        "cpython",
        Version("3.11"),
        ["cp311"],
        ["manylinux_2_36_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64", "linux_x86_64"],
    )
)
MAC = TagPreference(
    tags_for("cpython", Version("3.13"), ["cp313"], ["macosx_13_0_arm64", "macosx_12_0_arm64"])
)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (
            "cp312-cp312-win_amd64",
            "built for cp312 on Windows x86_64, this is cp311 on Linux x86_64",
        ),
        ("cp312-cp312-manylinux_2_28_x86_64", "built for cp312, this is cp311"),
        ("cp312.cp313-none-any", "built for cp312 or cp313, this is cp311"),
        ("cp311-cp311t-manylinux_2_28_x86_64", "built for cp311t, this is cp311"),
        ("cp312-abi3-manylinux_2_28_x86_64", "built for cp312 and newer (abi3), this is cp311"),
        ("pp311-pypy311_pp73-manylinux_2_28_x86_64", "built for pp311 (pypy311_pp73), this is"),
        ("py2-none-any", "built for py2, this is cp311"),
        (
            "cp311-cp311-manylinux_2_28_aarch64.manylinux_2_17_aarch64",
            "built for Linux aarch64, this is Linux x86_64",
        ),
        (
            "cp311-cp311-musllinux_1_2_x86_64",
            "built for Linux x86_64 (musl), this is Linux x86_64",
        ),
        ("cp311-cp311-win32", "built for Windows x86, this is Linux x86_64"),
        ("cp311-cp311-win_arm64", "built for Windows arm64, this is Linux x86_64"),
        ("py3-none-emscripten_3_1_wasm32", "built for emscripten_3_1_wasm32, this is Linux"),
        (
            "cp311-cp311-manylinux_2_39_x86_64",
            "built for Linux x86_64 with glibc 2.39 or newer, this has glibc 2.36",
        ),
        ("cp311-cp311-any", "built for cp311 on any platform, this is cp311 on Linux x86_64"),
    ],
)
def test_on_linux(tags: str, words: str) -> None:
    """F-90 step 1: only what differs is said, as the user would say it."""
    reason = TagPhrases(LINUX).why_none_fits(parse_tag(tags))
    assert reason.startswith(f"no wheel tag fits: {words}")


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (
            "cp313-cp313-macosx_14_0_arm64",
            "built for macOS arm64 with macOS 14.0 or newer, this has macOS 13.0",
        ),
        ("cp313-cp313-macosx_11_0_x86_64", "built for macOS x86_64, this is macOS arm64"),
    ],
)
def test_on_macos(tags: str, words: str) -> None:
    """F-90 step 1: too new a system is told from another machine."""
    reason = TagPhrases(MAC).why_none_fits(parse_tag(tags))
    assert reason == f"no wheel tag fits: {words}"


def test_old_platform_names() -> None:
    """The three old names of manylinux stand for versions of glibc."""
    old = TagPreference(tags_for("cpython", Version("3.11"), [], ["linux_x86_64"]))
    reason = TagPhrases(old).why_none_fits(parse_tag("cp311-cp311-manylinux2014_x86_64"))
    assert reason == (
        "no wheel tag fits: built for Linux x86_64 with glibc 2.17 or newer, this has another"
    )


def test_a_target_without_tags() -> None:
    """A target of which no tag is known fits nothing, and says so."""
    reason = TagPhrases(TagPreference(())).why_none_fits(parse_tag("py3-none-any"))
    assert reason == "no wheel tag fits: the target has no known tags"


def test_real_lists_of_platforms() -> None:
    """The words hold for the full list of platforms of a real target too."""
    platforms = linux_platforms("x86_64", glibc=36)
    target = TagPreference(tags_for("cpython", Version("3.11"), [], platforms))
    reason = TagPhrases(target).why_none_fits(parse_tag("cp311-cp311-manylinux_2_39_x86_64"))
    assert reason.endswith("with glibc 2.39 or newer, this has glibc 2.36")
