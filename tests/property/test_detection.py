"""Laws of detection: probes understand any bytes, lists are what they promise."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.probes import proc_cpuinfo
from wheelfit_runtime.platforms.providers.aarch64 import probes as arm_probes
from wheelfit_runtime.platforms.providers.nvidia import cuda_values, tables
from wheelfit_runtime.platforms.providers.nvidia import files as nvidia_files
from wheelfit_runtime.platforms.providers.nvidia import library as nvidia_library
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia.facts import (
    Capability,
    NvidiaDriver,
    NvidiaFiles,
    NvidiaGpu,
)
from wheelfit_runtime.platforms.providers.x86_64 import probes as x86_probes

CAPABILITIES = st.builds(Capability, st.integers(3, 14), st.integers(0, 9))
VERSIONS = st.builds(Capability, st.integers(9, 18), st.integers(0, 30))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
REPORTS = st.fixed_dictionaries(
    {
        "calls": st.lists(st.tuples(st.text(), st.text())) | JSON,
        "nvml": st.fixed_dictionaries({"loaded": JSON, "init": JSON}) | JSON,
        "cuda": st.fixed_dictionaries({"loaded": JSON, "init": JSON}) | JSON,
        "driver_version": JSON,
        "cuda_version": JSON,
        "devices": JSON,
    }
)


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    """P-74: whatever a file holds, no probe raises."""
    proc_cpuinfo.parse(text, "flags")
    arm_probes.parse_midr([text])
    nvidia_library.parse_smi(text, text)
    nvidia_files.parse({"/proc/driver/nvidia/version": text, "/sys/module/nvidia/version": text})


@given(st.binary())
def test_any_bytes_can_be_parsed(data: bytes) -> None:
    """P-74: whatever the kernel or a child hands over, no probe raises."""
    arm_probes.parse_auxv(data)
    answers = dict.fromkeys((*x86_probes.MACOS_NAMES, *arm_probes.MACOS_NAMES), data)
    x86_probes.parse_macos(answers)
    arm_probes.parse_macos(answers)
    nvidia_library.parse(Answer(Ending.EXITED, 0, data, data), NvidiaFiles())


@given(REPORTS)
def test_any_report_is_an_answer(report: Any) -> None:
    """P-71: a child that lies is believed or told about, never an exception."""
    answer = Answer(Ending.EXITED, 0, json.dumps(report).encode())
    nvidia.supported(nvidia_library.parse(answer, NvidiaFiles()))


@given(VERSIONS)
def test_the_bounds_are_a_partition_in_order(version: Capability) -> None:
    """P-80, P-81, P-84: a bound is met or stayed below; each list falls or rises steadily."""
    if version.major < tables.OLDEST_CUDA:
        return
    lower, upper = cuda_values.lower_bounds(version), cuda_values.upper_bounds(version)
    assert len({*lower, *upper}) == len(lower) + len(upper) == cuda_values.bound_count(version)

    def number(text: str) -> tuple[int, int]:
        major, _, minor = text.partition(".")
        return int(major), int(minor or -1)  # the bare major comes after its .0

    assert list(lower) == sorted(lower, key=number, reverse=True)
    assert list(upper) == sorted(upper, key=number, reverse=True)
    assert all(number(text) <= version for text in lower)
    assert all(number(text) > version for text in upper)


@given(VERSIONS, st.lists(CAPABILITIES, max_size=4))
def test_every_device_can_use_what_it_lists(
    version: Capability, capabilities: list[Capability]
) -> None:
    """P-88: the list is the union of the devices' lists, the highest device's first."""
    gpus = tuple(NvidiaGpu(i, "", capability) for i, capability in enumerate(capabilities))
    detection = nvidia.supported(NvidiaDriver(cuda_version=version, gpus=gpus))
    listed = [feature for feature in detection.features if feature.name == "sm_arch"]
    values = listed[0].values if listed else ()
    assert len(set(values)) == len(values)
    if detection.devices:
        assert len(detection.devices) == len(gpus)
        assert set(values) == set().union(*(device.values for device in detection.devices))
        assert set(values[: len(detection.devices[0].values)]) == detection.devices[0].values
