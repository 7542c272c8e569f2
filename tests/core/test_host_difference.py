"""Differences between two described machines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from wheelfit.core.compatible_tags import linux_platforms
from wheelfit.core.host_difference import Difference, host_differences
from wheelfit.core.host_file import HostFile, HostInterpreter, HostProvider
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.platforms.features import DeviceValues, Evidence, FeatureConfig

BASE = linux_target()
LEVEL = FeatureConfig("level", ("v2", "v1"))
HOST = HostFile(
    (HostProvider("x86_64", (LEVEL, FeatureConfig("sse", ("on",)))),),
    interpreter=HostInterpreter(Version("3.12")),
    platforms=linux_platforms("x86_64", glibc=28),
)


def found(left: HostFile, right: HostFile) -> dict[str, Difference]:
    """Return the differences by path."""
    return {difference.path: difference for difference in host_differences(left, right, BASE)}


def entry(*features: FeatureConfig) -> HostFile:
    """Return the host with other features of its processor."""
    return replace(HOST, providers=(HostProvider("x86_64", features),))


def test_no_difference() -> None:
    """What cannot affect a choice is not a difference."""
    other = replace(
        HOST,
        created_by="me",
        origin="elsewhere",
        overrides=("A=1",),
        providers=(
            replace(
                HOST.providers[0], evidence=(Evidence("x", "y"),), warnings=("w",), version="2"
            ),
        ),
    )
    assert host_differences(HOST, other, BASE) == ()


def test_many_values() -> None:
    """Files with many values are compared in linear time."""
    values = tuple(map(str, range(50_000)))
    assert not Difference("tags", values, tuple(f"x{value}" for value in values)).is_reordered
    assert Difference("tags", values, values[::-1]).is_reordered


def test_default_interpreter() -> None:
    """A file without an interpreter is compared with the default one."""
    silent = replace(HOST, interpreter=None)
    assert found(HOST, silent)["interpreter"].right == (f"cpython {BASE.python_full_version}",)
    said = replace(HOST, interpreter=HostInterpreter(BASE.python_full_version))
    assert host_differences(silent, said, BASE) == ()


def test_values_and_order() -> None:
    """Values of only one machine are distinguished from another order."""
    more = found(
        HOST, entry(FeatureConfig("level", ("v3", "v2", "v1")), FeatureConfig("sse", ("on",)))
    )
    (one,) = more.values()
    assert (one.path, one.only_left, one.only_right, one.is_reordered) == (
        "x86_64 :: level", (), ("v3",), False
    )  # fmt: skip
    swapped = found(
        HOST, entry(FeatureConfig("level", ("v1", "v2")), FeatureConfig("sse", ("on",)))
    )
    (one,) = swapped.values()
    assert (one.only_left, one.only_right, one.is_reordered) == ((), (), True)


def test_flags() -> None:
    """A missing flag is reported as a missing feature only."""
    assert list(found(HOST, entry(LEVEL))) == ["x86_64 :: features"]
    assert found(HOST, entry(LEVEL))["x86_64 :: features"].only_left == ("sse",)


def test_order_of_features() -> None:
    """The order of features affects the ranking, so it is a difference."""
    other = entry(FeatureConfig("sse", ("on",)), LEVEL)
    assert found(HOST, other)["x86_64 :: features"].is_reordered


def test_missing_namespace() -> None:
    """P-44: an unsupported namespace differs from a missing one."""
    nothing = replace(HOST, providers=(*HOST.providers, HostProvider("nvidia")))
    assert found(HOST, nothing)["nvidia"].to_mapping() == {
        "path": "nvidia",
        "left": ["not in the file"],
        "right": ["nothing"],
        "only_left": ["not in the file"],
        "only_right": ["nothing"],
        "reordered": False,
    }


def test_filters_and_devices() -> None:
    """Provider filters and values by device can affect a choice."""
    plain = HOST.providers[0]
    filtered = replace(HOST, providers=(replace(plain, plugin_api="m:C", resolved=("p==1",)),))
    assert found(HOST, filtered)["x86_64 :: for plugins"].right == ("m:C", "p==1")
    device = DeviceValues("level", "core 1", frozenset(["v1"]))
    unlike = replace(HOST, providers=(replace(plain, devices=(device,)),))
    assert found(HOST, unlike)["x86_64 :: devices"].right == ("core 1: level v1",)


def test_several_entries_of_a_namespace() -> None:
    """Entries for the same plugin are compared; of several the first counts."""
    plain = HOST.providers[0]
    other = replace(plain, plugin_api="m:C", features=(FeatureConfig("level", ("v4",)),))
    two = replace(HOST, providers=(plain, other, replace(other, features=())))
    assert list(found(HOST, two)) == ["x86_64 for m:C", "x86_64 for m:C :: features",
                                      "x86_64 for m:C :: level"]  # fmt: skip
    assert host_differences(two, replace(two, providers=two.providers[:2]), BASE) == ()


@pytest.mark.parametrize(
    ("other", "paths"),
    [
        (replace(HOST, interpreter=HostInterpreter(Version("3.12"), abis=("cp312t",))), ["abi"]),
        (replace(HOST, interpreter=HostInterpreter(Version("3.13"))), ["interpreter", "abi"]),
        (replace(HOST, platforms=linux_platforms("x86_64", glibc=27)), ["platform"]),
        (
            replace(HOST, platforms=linux_platforms("aarch64", glibc=28)),
            ["platform", "environment.platform_machine"],
        ),
        (replace(HOST, environment={"platform_release": "6"}), ["environment.platform_release"]),
    ],
)
def test_interpreter_and_platform(other: HostFile, paths: list[str]) -> None:
    """Values that follow from interpreter and platform are not repeated."""
    assert list(found(HOST, other)) == paths


NAMES = st.sampled_from(["a", "b", "c"])
FEATURES = st.lists(
    st.builds(
        FeatureConfig, NAMES, st.lists(st.sampled_from(["1", "2", "on"]), unique=True).map(tuple)
    ),
    max_size=3,
    unique_by=lambda one: one.name,
).map(tuple)
HOSTS = st.builds(
    HostFile,
    st.lists(
        st.builds(HostProvider, NAMES, FEATURES, plugin_api=st.sampled_from([None, "m:C"])),
        max_size=3,
    ).map(tuple),
    interpreter=st.sampled_from([None, HostInterpreter(Version("3.12"))]),
    platforms=st.sampled_from([(), linux_platforms("x86_64", glibc=28), ("win_amd64",)]),
)


@given(HOSTS, HOSTS)
def test_exchanged(left: HostFile, right: HostFile) -> None:
    """Exchanging the machines exchanges every difference."""
    there, back = host_differences(left, right, BASE), host_differences(right, left, BASE)
    assert [Difference(one.path, one.right, one.left) for one in there] == list(back)
    for one in there:
        assert one.only_left or one.only_right or one.is_reordered


@settings(max_examples=50)
@given(HOSTS)
def test_equal_machines(host: HostFile) -> None:
    """A machine does not differ from itself."""
    assert host_differences(host, host, BASE) == ()
