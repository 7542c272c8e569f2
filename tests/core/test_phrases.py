from __future__ import annotations

import pytest

from wheelfit.core import phrases
from wheelfit.core.properties import Feature, PropertySet, parse_property
from wheelfit.core.property_support import Support
from wheelfit.testing.detectors import supported
from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu
from wheelfit_runtime.platforms.words import PACKAGE_LIST, properties_text
from wheelfit_runtime.wording import listed

DRIVER_12_4 = nvidia.supported(
    NvidiaDriver(cuda_version=Capability(12, 4), gpus=(NvidiaGpu(0, "Tesla T4", Capability(7, 5)),))
)
NO_GPU = nvidia.supported(NvidiaDriver(cuda_version=Capability(12, 4)))
NO_DRIVER = Detection("nvidia", status=Status.NOTHING)
TOO_OLD = nvidia.supported(NvidiaDriver(cuda_version=Capability(10, 2)))
X86_V3 = supported("x86_64", {"level": ["v3", "v2", "v1"], "aes": ["on"]})
ARM_8_2 = supported("aarch64", {"version": ["8.2a", "8.1a", "8a"], "sve": ["on"]})
ARC = supported("intel", {"device_ip": ["20.4.4", "20.1.0", "40.0.1"]})
NO_LOADER = Detection("intel", status=Status.NOTHING, warnings=("no loader",))
A_TPU = supported("tpu", {"present": ["true"], "generation": ["v5e"]})
NO_TPU = supported("tpu", {"present": ["false"]})
ORDER = supported("priority", {"order": ["1", "2"]})


@pytest.mark.parametrize(
    ("detection", "wanted", "words"),
    [
        (
            DRIVER_12_4,
            ["nvidia :: cuda_version_lower_bound :: 12.9"],
            "needs CUDA driver >= 12.9, this machine has 12.4",
        ),
        (
            DRIVER_12_4,
            ["nvidia :: cuda_version_upper_bound :: 12.0"],
            "needs CUDA driver < 12.0, this machine has 12.4",
        ),
        (
            DRIVER_12_4,
            ["nvidia :: sm_arch :: 100_real", "nvidia :: sm_arch :: 90_real"],
            "needs a GPU of compute capability 9.0 or 10.0; this machine has 7.5",
        ),
        (
            DRIVER_12_4,
            ["nvidia :: sm_arch :: 120_virtual", "nvidia :: sm_arch :: 90a_real"],
            "needs a GPU of compute capability exactly 9.0 or >= 12.0; this machine has 7.5",
        ),
        (
            DRIVER_12_4,
            ["nvidia :: cuda :: 12"],
            (
                "needs nvidia :: cuda :: 12; this machine has no nvidia :: cuda, only "
                "cuda_version_lower_bound, cuda_version_upper_bound and sm_arch"
            ),
        ),
        (
            NO_GPU,
            ["nvidia :: sm_arch :: 90_real"],
            "needs a GPU of compute capability 9.0; the driver shows no usable GPU",
        ),
        (
            NO_DRIVER,
            ["nvidia :: cuda_version_lower_bound :: 12.9", "nvidia :: sm_arch :: 90_real"],
            (
                "needs an NVIDIA GPU driver; none was found (nvidia :: cuda_version_lower_bound :: "
                "12.9, sm_arch :: 90_real)"
            ),
        ),
        (
            TOO_OLD,
            ["nvidia :: sm_arch :: 90_real"],
            (
                "needs an NVIDIA GPU driver; no usable one was found: the NVIDIA driver's CUDA "
                "version 10.2 is too old; 11.0 is the oldest"
            ),
        ),
        (X86_V3, ["x86_64 :: level :: v4"], "needs x86-64-v4, this CPU is v3"),
        (X86_V3, ["x86_64 :: avx512f :: on"], "needs a CPU with avx512f, which this CPU lacks"),
        (
            Detection("x86_64", status=Status.NOTHING),
            ["x86_64 :: level :: v1"],
            "needs an x86-64 CPU; this machine has none",
        ),
        (
            ARM_8_2,
            ["aarch64 :: version :: 8.4a"],
            "needs Armv8.4-A, this CPU is Armv8.2-A",
        ),
        (ARM_8_2, ["aarch64 :: sve2 :: on"], "needs a CPU with sve2, which this CPU lacks"),
        (
            Detection("aarch64", status=Status.NOTHING),
            ["aarch64 :: version :: 8a"],
            "needs a 64-bit Arm CPU; this machine has none",
        ),
        (
            ARC,
            ["intel :: device_ip :: 30.0.4", "intel :: device_ip :: 12.55.8"],
            (
                "needs an Intel GPU that runs code for 12.55.8 (acm-g10) or 30.0.4 (ptl-h); this "
                "machine runs 20.4.4 (lnl-m), 20.1.0 (bmg-g21) and 40.0.1 (intel :: device_ip"
            ),
        ),
        (
            NO_LOADER,
            ["intel :: device_ip :: 20.1.0"],
            "needs an Intel GPU; no usable one was found: no loader (intel :: device_ip :: 20.1.0)",
        ),
        (
            Detection("intel", status=Status.NOTHING),
            ["intel :: device_ip :: 20.1.0"],
            "needs an Intel GPU; none was found (intel :: device_ip :: 20.1.0)",
        ),
        (
            ARC,
            ["intel :: level :: 1"],
            "needs intel :: level :: 1; this machine has no intel :: level, only device_ip",
        ),
        (
            NO_TPU,
            ["tpu :: present :: true"],
            "needs a TPU; this machine has none (tpu :: present :: true)",
        ),
        (
            A_TPU,
            ["tpu :: present :: false"],
            "is for machines without a TPU; this machine has one (tpu :: present :: false)",
        ),
        (
            NO_TPU,
            ["tpu :: generation :: v6e"],
            "needs a TPU v6e; this machine has none (tpu :: generation :: v6e)",
        ),
        (
            A_TPU,
            ["tpu :: generation :: v6e"],
            "needs tpu :: generation :: v6e; this machine supports v5e",
        ),
        (
            ORDER,
            ["priority :: order :: 3"],
            "needs priority :: order :: 3; this machine supports 1 and 2",
        ),
        (
            Detection("fictional_hw", status=Status.NOTHING),
            ["fictional_hw :: architecture :: hal9000"],
            (
                "needs fictional_hw :: architecture :: hal9000; this machine supports nothing of "
                "fictional_hw"
            ),
        ),
        (
            Detection("ascend", status=Status.NOTHING),
            ["ascend :: npu_type :: 910b"],
            "needs an Ascend NPU; none was found (ascend :: npu_type :: 910b)",
        ),
        (
            Detection("amd", status=Status.NOTHING, warnings=("no /dev/kfd",)),
            ["amd :: gfx_arch :: gfx942"],
            (
                "needs an AMD GPU or ROCm; no usable one was found: no /dev/kfd "
                "(amd :: gfx_arch :: gfx942)"
            ),
        ),
        (
            Detection("nvidia", status=Status.DISABLED, source="switched off by the user"),
            ["nvidia :: sm_arch :: 90_real"],
            "needs nvidia :: sm_arch :: 90_real; nvidia is disabled: switched off by the user",
        ),
        (
            Detection(
                "nvidia",
                status=Status.FAILED,
                evidence=(Evidence("libcuda.so.1", "killed after 10 s"),),
            ),
            ["nvidia :: sm_arch :: 90_real"],
            (
                "needs nvidia :: sm_arch :: 90_real; detection of nvidia on this machine failed: "
                "libcuda.so.1: killed after 10 s"
            ),
        ),
        (
            Detection("tpu", source="not in host file node.toml"),
            ["tpu :: kind :: v5"],
            "needs tpu :: kind :: v5; not in host file node.toml",
        ),
    ],
)
def test_refusals_in_words(detection: Detection, wanted: list[str], words: str) -> None:
    """A-25, A-39: what is missing is said in the user's words and the property is named."""
    properties = PropertySet(parse_property(text) for text in wanted)
    refusal = Support({detection.namespace: detection}).refusal(properties)
    assert refusal is not None
    assert refusal.startswith(words)
    for item in properties:
        assert item.value in refusal
        assert item.feature in refusal


@pytest.mark.parametrize(
    ("detection", "wanted", "words"),
    [
        (
            supported("nvidia", {"sm_arch": ["90_real"]}),
            "nvidia :: sm_arch :: 75_real",
            "needs nvidia :: sm_arch :: 75_real; the package's own list supports 90_real",
        ),
        (
            ORDER,
            "priority :: cuda :: 1",
            (
                "needs priority :: cuda :: 1; the package's own list has no priority :: cuda, "
                "only order"
            ),
        ),
        (
            supported("x86_64", {}),
            "x86_64 :: level :: v1",
            "needs x86_64 :: level :: v1; the package's own list supports nothing of x86_64",
        ),
    ],
)
def test_a_package_list_is_not_a_machine(detection: Detection, wanted: str, words: str) -> None:
    """P-11, A-39: what the package's own list lacks is not said of the machine."""
    support = Support(
        {detection.namespace: detection}, examined={detection.namespace: PACKAGE_LIST}
    )
    refusal = support.refusal(PropertySet.of(parse_property(wanted)))
    assert refusal == words


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("x86_64 :: level :: v4", "needs x86-64-v4, the CPU of node.toml is v3"),
        ("x86_64 :: sha512 :: on", "needs a CPU with sha512, which the CPU of node.toml lacks"),
    ],
)
def test_another_machine(wanted: str, words: str) -> None:
    """P-44: what a host file lacks is not said of this machine."""
    support = Support({"x86_64": X86_V3}, examined={"x86_64": "node.toml"})
    refusal = support.refusal(PropertySet.of(parse_property(wanted)))
    assert refusal == f"{words} ({wanted})"


@pytest.mark.parametrize(
    ("features", "wanted", "words"),
    [
        (
            {"cuda_version_lower_bound": ["12.8", "12"], "sm_arch": ["90_real"]},
            "nvidia :: cuda_version_lower_bound :: 12.0",
            "needs nvidia :: cuda_version_lower_bound :: 12.0; node.toml supports 12.8 and 12",
        ),
        (
            {"cuda_version_lower_bound": ["12.8"], "cuda_version_upper_bound": ["13.0"]},
            "nvidia :: cuda_version_upper_bound :: 13.1",
            "needs nvidia :: cuda_version_upper_bound :: 13.1; node.toml supports 13.0",
        ),
        (
            {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]},
            "nvidia :: sm_arch :: 90_virtual",
            "needs nvidia :: sm_arch :: 90_virtual; node.toml supports 90_real",
        ),
        (
            {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]},
            "nvidia :: sm_arch :: 80_real",
            (
                "needs a GPU of compute capability 8.0; node.toml has 9.0 "
                "(nvidia :: sm_arch :: 80_real)"
            ),
        ),
        (
            {"level": ["v3", "v1"]},
            "x86_64 :: level :: v2",
            "needs x86_64 :: level :: v2; node.toml supports v3 and v1",
        ),
    ],
)
def test_lists_with_gaps(features: dict[str, list[str]], wanted: str, words: str) -> None:
    """P-44: what a list leaves out although more is there is not said to be too little."""
    item = parse_property(wanted)
    support = Support(
        {item.namespace: supported(item.namespace, features)},
        examined={item.namespace: "node.toml"},
    )
    assert support.refusal(PropertySet.of(item)) == words


def test_long_lists_are_cut() -> None:
    """A hostile document with thousands of values cannot make endless messages."""
    words = listed([str(number) for number in range(1000)], "or")
    assert words == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 or 989 more"


def test_values_in_their_natural_order() -> None:
    """Numbers inside values are compared as numbers."""
    assert properties_text(Feature("nvidia", "sm_arch"), ["100_real", "90_real", "90_virtual"]) == (
        "nvidia :: sm_arch :: 90_real, 90_virtual or 100_real"
    )


def test_short() -> None:
    """A namespace is repeated only where it changes."""
    wanted = PropertySet.from_mapping(
        {"nvidia": {"a": ["1"], "b": ["2", "3"]}, "x86_64": {"level": ["v3"]}}
    )
    assert phrases.features_text(wanted.features()) == (
        "nvidia :: a :: 1, b :: 2 or 3, x86_64 :: level :: v3"
    )
