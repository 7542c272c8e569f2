"""P-73: environment variables replace what would be detected, visibly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.override_names import names_in, strays_in
from wheelfit_runtime.platforms.providers import namespaces
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path


def _detect(namespace: str, root: Path, environ: dict[str, str]) -> Detection:
    machine = Machine(SystemView(root, environ, system="Linux", architecture="x86_64"))
    detection = machine.detect(namespace)
    assert detection is not None
    return detection


def test_an_override_replaces_one_feature_and_is_in_evidence(tmp_path: Path) -> None:
    """P-73: the values are exactly the given ones, in the given order."""
    environ = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": " v3, v1 ,v3"}
    detection = _detect("x86_64", tmp_path, environ)
    assert detection.features[0].values == ("v3", "v1")
    assert Evidence("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v3,v1") in detection.evidence


def test_overridden_features_keep_the_order_of_the_provider(tmp_path: Path) -> None:
    """P-73, P-100: an override adds a feature where the reference has it."""
    environ = {
        "WHEELFIT_OVERRIDE_X86_64_SSE3": "on",
        "WHEELFIT_OVERRIDE_X86_64_AVX512F": "on",
        "WHEELFIT_OVERRIDE_X86_64_AMX_TILE": "on",
    }
    detection = _detect("x86_64", tmp_path, environ)
    names = [feature.name for feature in detection.features]
    assert names == ["level", "avx512f", "sse3", "amx_tile"]


def test_an_empty_override_is_an_unset_one(tmp_path: Path) -> None:
    """P-73: empty = unset."""
    environ = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": " "}
    assert _detect("x86_64", tmp_path, environ) == _detect("x86_64", tmp_path, {})


@pytest.mark.parametrize(
    ("namespace", "variable", "value"),
    [
        ("x86_64", "WHEELFIT_OVERRIDE_X86_64_LEVEL", "v9"),
        ("x86_64", "WHEELFIT_OVERRIDE_X86_64_LEVEL", "v3,,v2"),
        ("x86_64", "WHEELFIT_OVERRIDE_X86_64_LEVELS", "v3"),
        ("x86_64", "WHEELFIT_OVERRIDE_X86_64_", "v3"),
        ("x86_64", "WHEELFIT_OVERRIDE_X86_64_AVX", "yes"),
        ("aarch64", "WHEELFIT_OVERRIDE_AARCH64_VERSION", "8.9a"),
        ("nvidia", "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH", "sm_90"),
        ("nvidia", "WHEELFIT_OVERRIDE_NVIDIA_CUDA_VERSION_LOWER_BOUND", "12.8.1"),
        ("nvidia", "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "twelve"),
        ("nvidia", "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8.1.2"),
        ("nvidia", "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "999999.0"),
        ("nvidia", "NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "90"),
        ("nvidia", "NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "9.0a"),
    ],
)
def test_an_override_that_cannot_be_read_switches_its_provider_off(
    tmp_path: Path, namespace: str, variable: str, value: str
) -> None:
    """P-73, P-86: the warning names variable and value; other namespaces are untouched."""
    environ = {variable: value}
    detection = _detect(namespace, tmp_path, environ)
    assert (detection.status, detection.features) == (Status.DISABLED, ())
    assert variable in detection.warnings[0]
    assert value in detection.warnings[0]
    for other in set(namespaces()) - {namespace}:
        assert _detect(other, tmp_path, environ) == _detect(other, tmp_path, {})


def test_overrides_in_effect_are_listed() -> None:
    """P-73: overrides in effect can be printed; unreadable, empty and foreign ones are not."""
    environ = {
        "WHEELFIT_OVERRIDE_X86_64_LEVEL": "v2",
        "WHEELFIT_OVERRIDE_AARCH64_VERSION": "nonsense",
        "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "90_real,90_virtual",
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "12.8",
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "",
        "PATH": "/usr/bin",
    }
    assert Machine(SystemView(environ=environ)).overrides_in_effect() == (
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=12.8",
        "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH=90_real,90_virtual",
        "WHEELFIT_OVERRIDE_X86_64_LEVEL=v2",
    )


def test_an_override_counts_on_a_machine_of_another_kind(tmp_path: Path) -> None:
    """P-73: one may ask what an Arm machine would get."""
    environ = {"WHEELFIT_OVERRIDE_AARCH64_VERSION": "8.2a,8.1a,8a"}
    detection = _detect("aarch64", tmp_path, environ)
    assert detection.status is Status.SUPPORTED
    assert [feature.values for feature in detection.features] == [("8.2a", "8.1a", "8a")]


def test_which_variables_override() -> None:
    """P-73: ours and the vendors' are known by their names; one of ours for nobody is found."""
    environ = {
        "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "90_real",
        "WHEELFIT_OVERRIDE_NVIDA_SM_ARCH": "90_real",
        "WHEELFIT_OVERRIDE_X86_64": "v3",
        "WHEELFIT_OVERRIDE_AMD_": "",
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0",
        "NV_PROVIDER_FORCE_DRIVER_VERSION": "12",
        "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH": "gfx942",
        "ROCM_BOOTSTRAP_FORCE_GFX_ARCH": "gfx942",
        "ROCM_BOOTSTRAP_DISABLE_DETECTION": "1",
        "ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE": "910b",
    }
    others = {"WHEELFIT_CACHE_DIR": "/cache", "ROCM_BOOTSTRAP_CACHE": "/cache", "PATH": "/bin"}
    assert names_in(environ | others) == tuple(sorted(environ))
    assert strays_in(environ, ["nvidia", "x86_64"]) == (
        "WHEELFIT_OVERRIDE_NVIDA_SM_ARCH",
        "WHEELFIT_OVERRIDE_X86_64",
    )
