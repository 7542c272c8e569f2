"""Host files: whatever a mapping holds, reading succeeds or is an error of ours."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.host_file import HostFile, HostProvider
from wheelfit.core.host_file_mapping import read_host_file, to_mapping
from wheelfit.errors import InvalidHostFile
from wheelfit.platforms.features import DeviceValues, Evidence, FeatureConfig

NAMES = st.from_regex(r"[a-z0-9_]{1,4}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9_.]{1,4}", fullmatch=True)
TEXTS = st.text(min_size=1, max_size=8)
FEATURES = st.lists(
    st.builds(
        FeatureConfig,
        NAMES,
        st.lists(VALUES, max_size=4, unique=True).map(tuple),
        multi_value=st.booleans(),
    ),
    max_size=4,
    unique_by=lambda feature: feature.name,
).map(tuple)
PROVIDERS = st.builds(
    HostProvider,
    NAMES,
    FEATURES,
    plugin_api=st.none() | TEXTS,
    resolved=st.sampled_from([(), ("a==1", "b")]),
    evidence=st.lists(st.builds(Evidence, TEXTS, st.text(max_size=8)), max_size=2).map(tuple),
    devices=st.lists(
        st.builds(DeviceValues, NAMES, TEXTS, st.frozensets(VALUES, max_size=3)), max_size=2
    ).map(tuple),
)


@settings(max_examples=150)
@given(st.lists(PROVIDERS, max_size=3).map(tuple), st.text(max_size=8))
def test_round_trip(providers: tuple[HostProvider, ...], created_by: str) -> None:
    """P-44: what is written reads back equal, without notes."""
    file = HostFile(providers, created_by)
    again = read_host_file(to_mapping(file), "f")
    assert again == file
    assert again.notes == ()


KEYS = st.sampled_from(
    ["metadata", "version", "created-by", "provider", "namespace", "properties", "resolved",
     "plugin-api", "feature-order", "multi-value", "evidence", "devices", "source", "values",
     "interpreter", "abi", "tags", "platform", "machine", "glibc", "musl", "environment",
     "os_name", "f", ""]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["0.1", "n", "2.39", "", "x-y-z"]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, TREES, max_size=5))
def test_any_mapping(mapping: dict[str, Any]) -> None:
    """A file that makes no sense is refused in our words."""
    with suppress(InvalidHostFile):
        read_host_file({"metadata": {"version": "0.1"}} | mapping, "f")
