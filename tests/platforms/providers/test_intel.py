"""P-130 to P-135: what follows from devices."""
# ruff: noqa: SIM905  # a long list of words is easier to compare with the rule as text

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from platforms.detecting import add_intel_gpu, detect, detection_of, touch, view_of

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.providers.intel import provider as intel
from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.providers.intel.files import IntelDriver, IntelGpu
from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp
from wheelfit_runtime.platforms.recording import RecordedProcesses

FORCE = "INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP"

KNOWN = (
    "35.11.0 35.10.4 30.5.4 30.4.4 30.3.1 30.1.0 30.0.4 20.4.4 20.2.0 20.1.0 12.74.4 12.71.4 "
    "12.70.4 12.60.7 12.57.0 12.56.5 12.55.8 12.10.0 12.4.0 12.3.0 12.2.0 12.1.0 12.0.0"
).split()
DERIVED = {
    "30.0.4": ["30.5.4", "30.4.4", "30.3.1", "30.1.0"],
    "20.1.0": ["20.4.4", "20.2.0"],
    "12.70.4": ["12.71.4"],
    "12.55.8": ["12.57.0", "12.56.5"],
}


def _ip(text: str) -> DeviceIp:
    return DeviceIp(*map(int, text.split(".")))


def _driver(*texts: str, integrated: int = -1) -> IntelDriver:
    return IntelDriver(
        tuple(
            IntelGpu(index, f"card {index}", _ip(text), integrated=index == integrated)
            for index, text in enumerate(texts)
        )
    )


def _values(detection: Detection) -> tuple[str, ...]:
    return tuple(value for feature in detection.features for value in feature.values)


_detect = partial(detect, "intel")


def test_the_vocabulary_is_the_reference_s() -> None:
    """P-28, P-130: every known value, newest first; a wheel may list several."""
    (feature,) = intel.PROVIDER.get_all_configs()
    assert (feature.name, feature.multi_value) == ("device_ip", True)
    assert feature.values == KNOWN


@pytest.mark.parametrize("base", DERIVED)
def test_code_for_the_base_runs_on_what_is_derived_from_it(base: str) -> None:
    """P-131: the device's own value comes first; the base does not run what is derived."""
    for value in DERIVED[base]:
        assert _values(intel.supported(_driver(value))) == (value, base)
    assert _values(intel.supported(_driver(base))) == (base,)


def test_all_others_stand_alone() -> None:
    """P-131: no other device runs anything but its own."""
    derived = {value for values in DERIVED.values() for value in values}
    for value in KNOWN:
        assert len(_values(intel.supported(_driver(value)))) == (2 if value in derived else 1)


def test_devices_keep_their_order_and_no_value_is_there_twice() -> None:
    """P-131: the order of the drivers, duplicates removed."""
    values = _values(intel.supported(_driver("20.4.4", "12.55.8", "20.2.0", "12.56.5")))
    assert values == ("20.4.4", "20.1.0", "12.55.8", "20.2.0", "12.56.5")


def test_an_unknown_device_is_kept() -> None:
    """P-41, P-43, P-132: the reference drops it, so it comes last; its mode drops it too."""
    driver = _driver("40.1.2", "12.60.7")
    assert _values(intel.supported(driver)) == ("12.60.7", "40.1.2")
    assert _values(intel.supported(driver, reference=True)) == ("12.60.7",)
    assert intel.supported(_driver("40.1.2"), reference=True).status is Status.NOTHING


def test_unlike_devices_say_what_runs_on_each() -> None:
    """P-88, P-131: own value and base; a card comes before what is part of the processor."""
    detection = intel.supported(_driver("20.4.4", "12.55.8", integrated=0))
    assert [(device.device, device.values) for device in detection.devices] == [
        ("GPU 1 (card 1, 12.55.8)", frozenset({"12.55.8"})),
        ("GPU 0 (card 0, 20.4.4)", frozenset({"20.4.4", "20.1.0"})),
    ]
    assert intel.supported(_driver("20.4.4", "12.55.8"), reference=True).devices == ()


def test_a_card_beside_the_processor_s_graphics_is_warned_of() -> None:
    """P-88: what the weaker one forbids can be allowed; two cards need no such words."""
    (warning,) = intel.supported(_driver("12.70.4", "12.55.8", integrated=0)).warnings
    assert "the machine has GPU 0 (card 0, 12.70.4) and GPU 1 (card 1, 12.55.8)" in warning
    assert "--devices highest chooses for 12.55.8 alone" in warning
    assert intel.supported(_driver("12.55.8", "20.1.0")).warnings == ()
    assert intel.supported(_driver("20.4.4", integrated=0)).warnings == ()


def test_graphics_older_than_arc_limit_no_card() -> None:
    """P-88: no build is made for them, so none has to run there; what they can do stays listed."""
    detection = intel.supported(_driver("12.2.0", "12.55.8", integrated=0))
    assert _values(detection) == ("12.2.0", "12.55.8")
    assert (detection.devices, detection.warnings) == ((), ())
    alone = intel.supported(_driver("12.2.0", "12.3.0", integrated=0))
    assert len(alone.devices) == 2


def test_like_devices_need_no_narrowing() -> None:
    """P-88: what runs on one runs on all."""
    assert intel.supported(_driver("12.60.7", "12.60.7")).devices == ()


def test_a_problem_is_a_warning() -> None:
    """P-17, P-74: nothing is supported, and the reason is told; a failure is one."""
    nothing = intel.supported(IntelDriver(problem="no loader"))
    assert (nothing.status, nothing.warnings) == (Status.NOTHING, ("no loader",))
    failed = intel.supported(IntelDriver(problem="crashed", broken=True))
    assert (failed.status, failed.features) == (Status.FAILED, ())


@pytest.mark.parametrize(
    ("value", "expanded"), [("20.4.4", ("20.4.4", "20.1.0")), ("40.0.1", ("40.0.1",))]
)
def test_intel_s_variable_replaces_the_devices(
    tmp_path: Path, value: str, expanded: tuple[str, ...]
) -> None:
    """P-132, P-134: one value; its base is appended, and nobody is asked."""
    add_intel_gpu(tmp_path)
    detection = _detect(tmp_path, {FORCE: value}, interpreter="/no/such/python")
    assert _values(detection) == expanded
    assert detection.evidence == (Evidence(FORCE, value),)
    assert detection.warnings == ()


def test_the_reference_expands_nothing(tmp_path: Path) -> None:
    """P-43, P-134: and knows no unknown value."""
    assert _values(_detect(tmp_path, {FORCE: "20.4.4"}, reference=True)) == ("20.4.4",)
    assert _detect(tmp_path, {FORCE: "40.0.1"}, reference=True).features == ()


def test_our_own_variable_counts_more(tmp_path: Path) -> None:
    """P-73: it holds the whole list, in order; nobody is asked."""
    environ = {FORCE: "20.4.4", "WHEELFIT_OVERRIDE_INTEL_DEVICE_IP": "12.60.7, 40.0.0"}
    machine = Machine(view_of(tmp_path, environ, interpreter="/no/such/python"))
    detection = detection_of("intel", machine)
    assert _values(detection) == ("12.60.7", "40.0.0")
    assert detection.features[0].multi_value
    assert machine.overrides_in_effect() == (
        f"{FORCE}=20.4.4",
        "WHEELFIT_OVERRIDE_INTEL_DEVICE_IP=12.60.7,40.0.0",
    )


@pytest.mark.parametrize("system", ["Darwin", "FreeBSD"])
def test_other_systems_have_nothing(tmp_path: Path, system: str) -> None:
    """P-135: neither looked for nor asked, and no warning."""
    add_intel_gpu(tmp_path)
    detection = _detect(tmp_path, system=system)
    assert (detection.status, detection.features, detection.warnings) == (Status.NOTHING, (), ())
    assert detection.evidence == (Evidence("system", system),)


_IPS = st.builds(DeviceIp, st.integers(0, 1023), st.integers(0, 255), st.integers(0, 63))


@given(st.lists(st.sampled_from(sorted(tables.DEVICES)) | _IPS, max_size=6), st.booleans())
def test_every_list_has_a_rule(ips: list[DeviceIp], reference: bool) -> None:  # noqa: FBT001
    """P-27, P-40, P-41, P-131, P-132: each value once, none lost, the reference's first."""
    driver = IntelDriver(tuple(IntelGpu(index, "", ip) for index, ip in enumerate(ips)))
    detection = intel.supported(driver, reference=reference)
    values = _values(detection)
    assert len(set(values)) == len(values)
    assert all(intel.PROVIDER.accepts("device_ip", value) for value in values)
    if reference:
        assert set(values) <= set(tables.VALUES)
        return
    known = _values(intel.supported(driver, reference=True))
    assert values[: len(known)] == known
    for ip in ips:
        assert str(ip) in values
        if ip in tables.BASES:
            assert str(tables.BASES[ip]) in values
    for device in detection.devices:
        assert device.values <= set(values)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
_NUMBERS = st.sampled_from([0, 1, 0x8086, 0x030DC008, 0x05010004, 0xFFFFFFFF]) | _SCALARS
_KEYS = ("index", "name", "type", "vendor", "device", "flags", "ip")
_DEVICE = st.fixed_dictionaries(dict.fromkeys(_KEYS, _NUMBERS))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    devices=st.lists(_DEVICE, max_size=4), ending=st.sampled_from(Ending), code=st.integers(0, 4)
)
def test_no_driver_is_an_exception(
    tmp_path: Path, devices: list[dict[str, Any]], ending: Ending, code: int
) -> None:
    """P-71, P-74: whatever a driver tells of devices, there is an answer with evidence."""
    if not (tmp_path / "sys").exists():
        add_intel_gpu(tmp_path)
        touch(tmp_path, "usr/lib64/libze_loader.so.1")
    told = {"calls": [], "loaded": "libze_loader.so.1", "init": 0, "devices": devices}
    answer = Answer(ending, code, json.dumps(told).encode())
    processes = RecordedProcesses({"level zero": answer})
    detection = intel.PROVIDER.detect(view_of(tmp_path, interpreter="python", processes=processes))
    assert detection.evidence
    assert all(intel.PROVIDER.accepts("device_ip", value) for value in _values(detection))
    assert (detection.status is Status.SUPPORTED) == bool(detection.features)
    assert detection.features or detection.warnings
