"""P-80 to P-99: what follows from driver and devices."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from platforms.detecting import MACHINES, detect, names_of, touch, values_of

from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu

FORCE_DRIVER = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"
FORCE_SM = "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"


def _driver(cuda: str, *capabilities: str) -> NvidiaDriver:
    gpus = tuple(
        NvidiaGpu(index, f"card {index}", _capability(text))
        for index, text in enumerate(capabilities)
    )
    return NvidiaDriver(cuda_version=_capability(cuda), gpus=gpus)


def _capability(text: str) -> Capability:
    major, minor = text.split(".")
    return Capability(int(major), int(minor))


_detect = partial(detect, "nvidia")


def _sm(detection: Detection) -> tuple[str, ...]:
    return values_of(detection)["sm_arch"]


def test_features_have_the_order_of_the_reference() -> None:
    """Section 9: lower bound, upper bound, sm_arch; only the last may be listed several times."""
    features = nvidia.supported(_driver("12.8", "9.0")).features
    assert [(feature.name, feature.multi_value) for feature in features] == [
        ("cuda_version_lower_bound", False),
        ("cuda_version_upper_bound", False),
        ("sm_arch", True),
    ]


@pytest.mark.parametrize("capability", ["5.0", "7.5", "8.9", "9.0", "10.3", "12.1"])
@pytest.mark.parametrize("cuda", ["11.0", "12.9", "15.20"])
def test_wheels_of_the_reference_keep_their_rank(cuda: str, capability: str) -> None:
    """P-40, P-41: every list starts with the whole list of the reference."""
    ours = nvidia.supported(_driver(cuda, capability))
    reference = nvidia.supported(_driver(cuda, capability), reference=True)
    for mine, theirs in zip(ours.features, reference.features, strict=True):
        assert mine.values[: len(theirs.values)] == theirs.values


def _lower(cuda: str) -> tuple[str, ...]:
    return nvidia.supported(_driver(cuda, "9.0")).features[0].values


def test_which_lower_bound_says_what_a_wheel_needs() -> None:
    """P-92, P-93: 12 and 12.0 admit every driver of the major; PTX needs the exact minor."""
    assert {"12", "12.0"} <= set(_lower("12.0")) & set(_lower("12.4")) & set(_lower("13.0"))
    assert "12.9" not in _lower("12.8")
    assert "12.9" in _lower("12.9")
    assert {"13", "13.0"}.isdisjoint(_lower("12.9"))


@pytest.mark.parametrize("cuda", ["10.2", "9.1"])
def test_a_driver_before_11_supports_nothing(cuda: str) -> None:
    """P-84: below 11.0 unsupported, with the reason."""
    detection = nvidia.supported(_driver(cuda, "7.5"))
    assert (detection.status, detection.features) == (Status.NOTHING, ())
    assert cuda in detection.warnings[0]


@pytest.mark.parametrize("cuda", ["16.0", "12.21"])
def test_a_driver_beyond_the_reference_stays_on(cuda: str) -> None:
    """P-84: the reference switches everything off, and so does its mode here."""
    assert nvidia.supported(_driver(cuda, "9.0")).features[0].values[0] == cuda
    assert nvidia.supported(_driver(cuda, "9.0"), reference=True).features == ()


def test_a_version_that_cannot_be_true_is_refused() -> None:
    """P-86: more than 1,024 values are not written out."""
    for cuda in ("200.0", "12.203"):
        detection = nvidia.supported(_driver(cuda))
        assert (detection.status, detection.features) == (Status.FAILED, ())
    most = nvidia.supported(_driver("12.202"))
    assert sum(len(feature.values) for feature in most.features) == 1020


def test_a_device_below_5_has_no_sm_arch() -> None:
    """P-82: the feature is absent; the bounds stay."""
    assert "sm_arch" not in names_of(nvidia.supported(_driver("11.4", "3.7")))


def test_unlike_devices_are_all_listed_the_highest_first() -> None:
    """P-43, P-87, P-88: the reference would lose 75_real on 7.5 + 9.0, and its mode does."""
    values = _sm(nvidia.supported(_driver("12.8", "7.5", "9.0")))
    of_h100 = _sm(nvidia.supported(_driver("12.8", "9.0")))
    of_t4 = _sm(nvidia.supported(_driver("12.8", "7.5")))
    assert values[: len(of_h100)] == of_h100
    assert values[len(of_h100) :] == tuple(value for value in of_t4 if value not in of_h100)
    assert values[len(of_h100)] == "75_real"
    only_highest = nvidia.supported(_driver("12.8", "7.5", "9.0"), reference=True)
    assert _sm(only_highest) == ("90_real", "90_virtual")
    assert only_highest.devices == ()


def test_each_of_several_unlike_devices_says_what_runs_on_it() -> None:
    """P-88: the policy needs every device by name, the highest first."""
    devices = nvidia.supported(_driver("12.8", "8.0", "9.0", "8.0")).devices
    assert [device.device for device in devices] == [
        "GPU 1 (card 1, 9.0)",
        "GPU 0 (card 0, 8.0)",
        "GPU 2 (card 2, 8.0)",
    ]
    assert {"80_real", "80_virtual"} <= devices[1].values
    assert "90_real" not in devices[1].values
    assert {"80_virtual", "90_real"} <= devices[0].values
    assert "80_real" not in devices[0].values


def test_like_devices_need_no_narrowing() -> None:
    """P-88: what runs on one runs on all."""
    assert nvidia.supported(_driver("12.8", "9.0", "9.0")).devices == ()


@pytest.mark.parametrize(("text", "first"), [("12.8", "12.8"), ("12", "12.0"), ("12.8.1", "12.8")])
def test_the_driver_version_can_be_forced(tmp_path: Path, text: str, first: str) -> None:
    """P-85: without a capability, only the bounds."""
    detection = _detect(tmp_path, {FORCE_DRIVER: text})
    assert [feature.values[0] for feature in detection.features] == [first, "15.20"]
    assert Evidence(FORCE_DRIVER, text) in detection.evidence


def test_the_capability_can_be_forced(tmp_path: Path) -> None:
    """P-85: it replaces the devices by one, and means nothing without a driver."""
    assert _detect(tmp_path, {FORCE_SM: "9.0"}).status is Status.NOTHING
    both = _detect(tmp_path, {FORCE_SM: "8.6", FORCE_DRIVER: "12.4"})
    assert _sm(both)[:2] == ("86_real", "85_real")
    assert both.devices == ()


def test_the_obsolete_variable_is_ignored_with_a_hint(tmp_path: Path) -> None:
    """P-85: the hint names the variable to use."""
    detection = _detect(tmp_path, {"NV_PROVIDER_FORCE_DRIVER_VERSION": "12.8"})
    assert detection.status is Status.NOTHING
    assert FORCE_DRIVER in detection.warnings[0]


def test_forcing_everything_asks_nobody(tmp_path: Path) -> None:
    """P-70: overrides come before files and child processes."""
    touch(tmp_path, "dev/nvidiactl")
    environ = {FORCE_SM: "9.0", FORCE_DRIVER: "12.8"}
    nowhere = {"interpreter": "/no/such/python", "library_folders": ("/no/such/folder",)}
    detection = _detect(tmp_path, environ, **nowhere)
    assert [e.source for e in detection.evidence] == [FORCE_DRIVER, FORCE_SM]


def test_an_own_override_wins_over_nvidia_s(tmp_path: Path) -> None:
    """P-73: ours name the feature itself."""
    ours = {"WHEELFIT_OVERRIDE_NVIDIA_CUDA_VERSION_LOWER_BOUND": "12,11"}
    detection = _detect(tmp_path, {FORCE_DRIVER: "12.8", **ours})
    assert detection.features[0].values == ("12", "11")
    assert detection.features[1].values[0] == "15.20"


def test_an_own_override_of_sm_arch_speaks_for_all_devices() -> None:
    """P-73, P-88: what was known of single devices is dropped."""
    driver = _driver("12.8", "7.5", "9.0")
    assert nvidia.supported(driver).devices
    environ = {FORCE_DRIVER: "12.8", "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "90_real"}
    detection = _detect(MACHINES / "linux-x86-two-unlike-gpus" / "root", environ)
    assert _sm(detection) == ("90_real",)
    assert detection.devices == ()
