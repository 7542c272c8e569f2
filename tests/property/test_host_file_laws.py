"""Host files: whatever a mapping holds, reading succeeds or is an error of ours."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.host_file import HostDetector, HostFile, HostProvider
from wheelfit.core.host_file_mapping import read_host_file, to_mapping
from wheelfit.core.toml_lines import line_of
from wheelfit.operations.hosts import host_text
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms.features import (
    Detection,
    DeviceValues,
    Evidence,
    FeatureConfig,
    Status,
)

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
    version=st.text(max_size=4),
    warnings=st.lists(TEXTS, max_size=2, unique=True).map(tuple),
)
DETECTIONS = st.builds(
    Detection,
    NAMES,
    FEATURES,
    st.sampled_from(Status),
    source=TEXTS,
    evidence=st.lists(st.builds(Evidence, TEXTS, st.text(max_size=8)), max_size=2).map(tuple),
    warnings=st.lists(TEXTS, max_size=2, unique=True).map(tuple),
    devices=st.lists(
        st.builds(DeviceValues, NAMES, TEXTS, st.frozensets(VALUES, max_size=3)), max_size=2
    ).map(tuple),
    version=st.text(max_size=4),
    # A host file has none of these.
    step=st.just(""),
    seconds=st.just(0.0),
    plugin=st.none(),
)


@settings(max_examples=150)
@given(
    st.lists(PROVIDERS, max_size=3).map(tuple),
    st.text(max_size=8).filter(lambda text: not text.lower().startswith("uv")),
    st.text(max_size=8),
    st.lists(TEXTS, max_size=2, unique=True).map(tuple),
)
def test_round_trip(
    providers: tuple[HostProvider, ...],
    created_by: str,
    origin: str,
    overrides: tuple[str, ...],
) -> None:
    """P-44: what is written reads back equal, without notes, through TOML too."""
    file = HostFile(providers, created_by, origin=origin, overrides=overrides)
    again = read_host_file(tomllib.loads(host_text(file)), "f")
    assert again == file
    assert again.notes == ()


@settings(max_examples=150)
@given(st.lists(DETECTIONS, max_size=3, unique_by=lambda found: found.namespace))
def test_detections_come_back(detections: list[Detection]) -> None:
    """P-12, P-44: what was answered is answered again; what was not is unknown."""
    file = HostFile.from_detections(detections)
    again = HostDetector(read_host_file(to_mapping(file), "f"), "f")
    for found in detections:
        told = again.detect(found.namespace)
        if found.status in (Status.UNKNOWN, Status.FAILED):
            assert told.status is Status.UNKNOWN
            continue
        some = any(feature.values for feature in found.features)
        assert told == found._replace(
            status=Status.SUPPORTED if some else Status.NOTHING,
            source="host file f",
        )


@settings(max_examples=150)
@given(st.lists(PROVIDERS, min_size=1, max_size=3).map(tuple))
def test_lines_of_places(providers: tuple[HostProvider, ...]) -> None:
    """P-44: the line of each entry is found, whatever texts stand around it."""
    text = host_text(HostFile(providers))
    lines = text.split("\n")
    if lines.count("[[provider]]") < len(providers):  # short ones are written on one line
        line = line_of(text, "provider[0].namespace")
        assert line is not None
        assert line > lines.index("provider = [") + 1
        assert f'namespace = "{providers[0].namespace}"' in lines[line - 1]
        return
    for index, provider in enumerate(providers):
        line = line_of(text, f"provider[{index}].namespace")
        assert line is not None
        assert lines[line - 1] == f'namespace = "{provider.namespace}"'
        assert lines[(line_of(text, f"provider[{index}].missing") or 0) - 1] == "[[provider]]"


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
    with suppress(UserError):
        read_host_file({"metadata": {"version": "0.1"}} | mapping, "f")
