"""Which published builds for AMD, Intel and Ascend captured machines get."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import order_labels
from wheelfit.core.property_support import support_for
from wheelfit.core.provider_lookup import DevicePolicy, ProviderPolicy
from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView

MACHINES = Path(__file__).parents[1] / "machines"
LINUX = {"platform_system": "Linux", "platform_machine": "x86_64", "sys_platform": "linux"}

TORCH_2_9 = "torch/torch-2.9.0-variants.json"  # ROCm 6.3, 6.4
TORCH_2_10 = "torch/torch-2.10.0-variants.json"  # ROCm 7.0, 7.1
ASCEND = "vllm-ascend/vllm_ascend-0.13.0rc1-variants.json"  # a2 is 910b, a3 is 910c


def best(
    releases: Path,
    release: str,
    machine: str,
    policy: DevicePolicy = "all",
    environ: dict[str, str] | None = None,
    *,
    same_major: bool = False,
) -> str:
    """Return the label that a captured machine gets, ``null`` if no other fits."""
    document = read_document((releases / release).read_bytes(), where=release)
    given = recording.view_arguments(MACHINES / machine) | {"rocm_same_major": same_major}
    given["environ"] |= environ or {}
    support = support_for(
        document,
        Machine(SystemView(**given)),
        environment=LINUX,
        policy=ProviderPolicy(device_policy=policy),
    )
    ordered = order_labels(document, support)
    return str(ordered[0].label) if ordered else "null"


@pytest.mark.parametrize(
    ("release", "machine", "label"),
    [
        (TORCH_2_9, "linux-x86-amd-mi300x", "rocm6.4"),
        (TORCH_2_10, "linux-x86-amd-mi300x", "null"),
        (TORCH_2_10, "linux-x86-amd-strix-halo", "rocm7.0"),
        (TORCH_2_9, "linux-x86-amd-strix-halo", "null"),
        (TORCH_2_9, "wsl-x86-amd-rocm", "rocm6.4"),
        (TORCH_2_9, "linux-x86-amd-rocminfo", "rocm6.4"),
        (TORCH_2_10, "linux-x86-amd-agent-enumerator", "rocm7.0"),
        (TORCH_2_9, "linux-x86-amd-container-one-gpu", "rocm6.4"),
        (TORCH_2_9, "linux-x86-amd-container-without-devices", "null"),
        (TORCH_2_9, "linux-x86-amd-cpu-node-only", "null"),
        (TORCH_2_10, "linux-x86-amd-without-rocm", "null"),
        (ASCEND, "linux-aarch64-ascend-910b", "a2"),
        (ASCEND, "linux-aarch64-ascend-container-two-of-eight", "a2"),
        (ASCEND, "linux-aarch64-ascend-a3", "a3"),
        (ASCEND, "linux-aarch64-ascend-npu-smi", "a3"),
        (ASCEND, "linux-x86-ascend-unlike-cards", "a2"),
        (ASCEND, "linux-x86-ascend-310p", "null"),
        (ASCEND, "linux-aarch64-ascend-container-without-devices", "null"),
    ],
)
def test_published_builds(releases: Path, release: str, machine: str, label: str) -> None:
    """P-13, P-121, P-123, P-124, P-140, P-141: what fits is taken, and nothing else."""
    assert best(releases, release, machine) == label


@pytest.mark.parametrize(
    ("machine", "label"),
    [
        ("linux-x86-intel-arc-a770", "xpu"),
        ("linux-x86-intel-battlemage", "xpu"),
        ("linux-x86-intel-lunar-lake", "xpu"),
        ("linux-x86-intel-meteor-lake", "xpu"),
        ("linux-x86-intel-data-center-max", "xpu"),
        ("linux-x86-intel-older-loader", "xpu"),
        ("windows-x86-intel-arc", "xpu"),
        ("linux-x86-intel-unknown-gpu", "null"),
        ("linux-x86-intel-igpu-without-level-zero", "null"),
        ("linux-x86-intel-container-without-node", "null"),
        ("linux-x86-intel-crashing-driver", "null"),
        ("linux-x86-intel-hanging-driver", "null"),
        ("linux-x86-v4-zen5", "null"),
    ],
)
def test_published_builds_for_intel(releases: Path, machine: str, label: str) -> None:
    """P-13, P-131, P-132, P-133: where a GPU can be used, and runs some of the code."""
    for release in (TORCH_2_9, TORCH_2_10):
        assert best(releases, release, machine) == label


def test_a_card_beside_the_graphics_of_the_processor(releases: Path) -> None:
    """P-88: the build has code for the card only, which is enough on request."""
    machine = "linux-x86-intel-arc-beside-igpu"
    assert best(releases, TORCH_2_10, machine, "all") == "null"
    assert best(releases, TORCH_2_10, machine, "highest") == "xpu"
    assert best(releases, TORCH_2_10, machine, "any") == "xpu"


def test_unlike_gpus(releases: Path) -> None:
    """P-88, P-122: on every GPU by default; the first one, or any, on request."""
    machine = "linux-x86-amd-igpu-beside-dgpu"
    assert best(releases, TORCH_2_10, machine, "all") == "null"
    assert best(releases, TORCH_2_10, machine, "highest") == "rocm7.1"
    assert best(releases, TORCH_2_10, machine, "any") == "rocm7.1"


def test_older_minors_on_request(releases: Path) -> None:
    """P-123: of the builds for 7.0 and 7.1 the newer one, on 7.2."""
    machine = "linux-x86-amd-mi300x"
    environ = {"AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION": "7.2.0"}
    assert best(releases, TORCH_2_10, machine, environ=environ) == "null"
    found = best(releases, TORCH_2_10, machine, environ=environ, same_major=True)
    assert found == "rocm7.1"
