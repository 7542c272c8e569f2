"""Files of conda and pixi: whatever they hold, there is a machine or an error of ours."""

from __future__ import annotations

import json

import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.virtual_package_files import read_platforms
from wheelfit.core.virtual_packages import (
    PIXI_KEYS,
    SUBDIRS,
    CondaPlatform,
    VirtualPackage,
    as_pixi,
    as_text,
    conda_platform,
)
from wheelfit.resolution.virtual_package_hosts import host_of_virtual_packages
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.errors import UserError

NAMES = st.sampled_from([*PIXI_KEYS, "__cuda", "__cuda_arch", "__musl", "__unix", "__odd"])
TEXTS = st.sampled_from(
    ["12.8", "2.28", "0", "8.6", "x86_64_v3", "m1", "", "1=zen4", "ü", "9" * 90]
)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans(), st.text(max_size=5))
KEYS = st.sampled_from(
    ["name", "platform", "cuda", "driver", "arch", "osx", "libc", "family", "version", "__cuda",
     *PIXI_KEYS.values()]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
PLATFORMS = st.one_of(st.sampled_from([*SUBDIRS, "linux-ppc64le"]), VALUES)


def opened(data: bytes) -> None:
    """Read a file and describe each of its machines, or be refused as what it is."""
    error = None
    try:
        for platform in read_platforms(data, "f") or ():
            host_of_virtual_packages(platform, "f")
    except UserError as caught:
        error = caught
    assert error is None or error.reference == "invalid-host-file"


@settings(max_examples=100)
@given(st.lists(st.one_of(PLATFORMS, st.fixed_dictionaries({"platform": PLATFORMS})), max_size=3))
def test_manifests(platforms: list[object]) -> None:
    """A workspace of pixi, however odd."""
    document = {"workspace": {"platforms": platforms}}
    opened(tomli_w.dumps(document).encode())


@settings(max_examples=100)
@given(PLATFORMS, st.lists(st.one_of(VALUES, st.lists(TEXTS, max_size=4)), max_size=4))
def test_info(platform: object, packages: list[object]) -> None:
    """What ``info --json`` might print."""
    opened(json.dumps({"platform": platform, "virtual_pkgs": packages}).encode())


@settings(max_examples=100)
@given(
    st.lists(st.one_of(st.text(max_size=12), st.builds("{}={}".format, NAMES, TEXTS)), max_size=5)
)
def test_lists(lines: list[str]) -> None:
    """A list of virtual packages, with anything between them."""
    opened("\n".join(["# platform: linux-64", *lines]).encode("utf-8", "surrogatepass"))


@settings(max_examples=100)
@given(
    st.sampled_from([*SUBDIRS]),
    st.dictionaries(NAMES, st.sampled_from(["2.28", "12.8", "8.6", "14.0", "1.2"]), max_size=5),
)
def test_what_is_printed_is_read_again(subdir: str, versions: dict[str, str]) -> None:
    """Both forms mean the same machine, and a machine that is described again is the same one."""
    packages = tuple(sorted(VirtualPackage(name, text) for name, text in versions.items()))
    platform = CondaPlatform(subdir, packages)
    assert read_platforms(as_text(platform).encode(), "f") == (platform,)
    try:
        file = host_of_virtual_packages(platform, "f")
    except UserError:
        return
    again, _ = conda_platform(file, file.target(linux_target(), "f"))
    assert host_of_virtual_packages(again, "f").platforms == file.platforms
    (pixi,) = read_platforms(as_pixi(again, "host").encode(), "f") or ()
    assert host_of_virtual_packages(pixi, "f").platforms == file.platforms
