"""P-73: environment variables replace what would be detected, visibly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from platforms.detecting import MACHINES, detect, detection_of, names_of, view_of

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Evidence, Status
from wheelfit_runtime.platforms.override_names import override_variables, unknown_overrides
from wheelfit_runtime.platforms.providers import namespaces
from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64
from wheelfit_runtime.platforms.recording import open_recorded
from wheelfit_runtime.platforms.scrubbing import concerns_detection
from wheelfit_runtime.platforms.system_view import SystemView


def test_an_override_replaces_one_feature_and_is_in_evidence(tmp_path: Path) -> None:
    """P-73: the values are exactly the given ones, in the given order."""
    environ = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": " v3, v1 ,v3"}
    detection = detect("x86_64", tmp_path, environ)
    assert detection.features[0].values == ("v3", "v1")
    assert Evidence("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v3,v1") in detection.evidence


def test_overridden_features_keep_the_order_of_the_provider(tmp_path: Path) -> None:
    """P-73, P-100: an override adds a feature where the reference has it."""
    environ = {
        "WHEELFIT_OVERRIDE_X86_64_SSE3": "on",
        "WHEELFIT_OVERRIDE_X86_64_AVX512F": "on",
        "WHEELFIT_OVERRIDE_X86_64_AMX_TILE": "on",
    }
    detection = detect("x86_64", tmp_path, environ)
    assert names_of(detection) == ["level", "avx512f", "sse3", "amx_tile"]


def test_an_empty_override_is_an_unset_one(tmp_path: Path) -> None:
    """P-73: empty = unset."""
    environ = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": " "}
    assert detect("x86_64", tmp_path, environ) == detect("x86_64", tmp_path)


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
        ("nvidia", "CONDA_OVERRIDE_CUDA", "twelve"),
        ("nvidia", "CONDA_OVERRIDE_CUDA", "999999.0"),
        ("nvidia", "CONDA_OVERRIDE_CUDA_ARCH", "86"),
        ("x86_64", "CONDA_OVERRIDE_ARCHSPEC", "power9le"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "mi300"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "gfx9-generic"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "gfx942,gfx94z"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", ",;"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "GFX942"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", "7"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", "7.0.0.1"),
        ("amd", "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", "rocm-7.0"),
        ("amd", "ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "gfx942;gfx90a"),
        ("amd", "ROCM_BOOTSTRAP_DISABLE_DETECTION", "true"),
        ("amd", "WHEELFIT_OVERRIDE_AMD_GFX_ARCH", "gfx11-generic"),
        ("amd", "WHEELFIT_OVERRIDE_AMD_ROCM_VERSION", "7.0.0"),
        ("ascend", "ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE", "910b,310p"),
        ("ascend", "ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE", "Ascend 910B"),
        ("ascend", "ASCEND_VARIANT_PROVIDER_FORCE_DRIVER_VERSION", "24"),
        ("ascend", "ASCEND_VARIANT_PROVIDER_FORCE_DRIVER_VERSION", "24.1.0.3"),
        ("ascend", "ASCEND_VARIANT_PROVIDER_FORCE_CANN_VERSION", "8.2.RC1.alpha001"),
        ("ascend", "WHEELFIT_OVERRIDE_ASCEND_NPU_TYPE", "910-b"),
        ("ascend", "WHEELFIT_OVERRIDE_ASCEND_CANN_VERSION", "8"),
        ("ascend", "WHEELFIT_OVERRIDE_ASCEND_SOC", "910b"),
        *(
            ("intel", "INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP", value)
            for value in ("20.1", "20.1.0.0", "bmg", "20.1.0,12.55.8", "20.01.0")
        ),
        *(
            ("intel", "INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP", value)
            for value in ("1024.0.0", "20.256.0", "20.1.64")
        ),
        *(("tpu", "WHEELFIT_OVERRIDE_TPU_PRESENT", value) for value in ("yes", "TRUE", "true,1")),
    ],
)
def test_an_override_that_cannot_be_read_switches_its_provider_off(
    tmp_path: Path, namespace: str, variable: str, value: str
) -> None:
    """P-73, P-86, P-121, P-126, P-134, P-144: a warning names both; others are untouched."""
    environ = {variable: value}
    detection = detect(namespace, tmp_path, environ)
    assert (detection.status, detection.features) == (Status.DISABLED, ())
    (warning,) = detection.warnings
    assert variable in warning
    assert repr(value) in warning
    assert Machine(view_of(tmp_path, environ)).overrides_in_effect() == ()
    for other in set(namespaces()) - {namespace}:
        assert detect(other, tmp_path, environ) == detect(other, tmp_path)


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
    detection = detect("aarch64", tmp_path, environ)
    assert detection.status is Status.SUPPORTED
    assert [feature.values for feature in detection.features] == [("8.2a", "8.1a", "8a")]


class TestConda:
    """Conda's variables count where ours and the vendors' say nothing (CEP 30, CEP 46)."""

    def test_cuda_and_its_architecture(self, tmp_path: Path) -> None:
        """They stand for a driver and one GPU, as NVIDIA's own do."""
        environ = {"CONDA_OVERRIDE_CUDA": "12.8", "CONDA_OVERRIDE_CUDA_ARCH": "8.6"}
        forced = {
            "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "12.8",
            "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "8.6",
        }
        detection = detect("nvidia", tmp_path, environ)
        assert detection.features == detect("nvidia", tmp_path, forced).features
        assert detection.evidence == tuple(Evidence(*item) for item in environ.items())

    def test_a_driver_without_a_known_gpu(self, tmp_path: Path) -> None:
        """Without a GPU there are the bounds of the driver; a GPU without a driver is nothing."""
        bounds = ["cuda_version_lower_bound", "cuda_version_upper_bound"]
        for arch in ({}, {"CONDA_OVERRIDE_CUDA_ARCH": ""}):
            detection = detect("nvidia", tmp_path, {"CONDA_OVERRIDE_CUDA": "12"} | arch)
            assert names_of(detection) == bounds
        alone = detect("nvidia", tmp_path, {"CONDA_OVERRIDE_CUDA_ARCH": "8.6"})
        assert (alone.status, alone.features) == (Status.NOTHING, ())

    def test_an_empty_variable_says_that_there_is_none(self) -> None:
        """Of a machine with a driver and GPUs nothing is left, and that is an answer."""
        recorded = open_recorded(MACHINES / "linux-x86-two-unlike-gpus").view
        for environ, left in (
            ({}, 3),
            ({"CONDA_OVERRIDE_CUDA_ARCH": ""}, 2),
            ({"CONDA_OVERRIDE_CUDA": ""}, 0),
            ({"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_CUDA_ARCH": "8.6"}, 0),
        ):
            machine = Machine(replace(recorded, environ=environ))
            detection = detection_of("nvidia", machine)
            assert len(detection.features) == left
            assert detection.status is (Status.SUPPORTED if left else Status.NOTHING)
            assert bool(detection.devices) == (left == 3)
            assert machine.overrides_in_effect() == tuple(f"{k}={v}" for k, v in environ.items())
            if environ.get("CONDA_OVERRIDE_CUDA") == "":
                assert "empty: there is none" in [one.value for one in detection.evidence]

    def test_ours_and_the_vendors_win(self, tmp_path: Path) -> None:
        """A variable that was made for this is meant more than one that conda reads too."""
        environ = {
            "CONDA_OVERRIDE_CUDA": "",
            "CONDA_OVERRIDE_CUDA_ARCH": "12.0",
            "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "12.8",
            "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "90_real",
            "CONDA_OVERRIDE_ARCHSPEC": "zen4",
            "WHEELFIT_OVERRIDE_X86_64_LEVEL": "v2,v1",
        }
        lower, _, sm_arch = detect("nvidia", tmp_path, environ).features
        assert lower.values[0] == "12.8"
        assert sm_arch.values == ("90_real",)
        assert detect("x86_64", tmp_path, environ).features[0].values == ("v2", "v1")

    @pytest.mark.parametrize(
        ("name", "level"),
        [
            ("x86_64", "v1"),
            ("x86_64_v3", "v3"),
            ("x86-64-v3", "v3"),
            ("nehalem", "v2"),
            ("zen2", "v3"),
            ("skylake_avx512", "v4"),
            ("zen5", "v4"),
            ("0", "v1"),
            ("", "v1"),
        ],
    )
    def test_processors_by_name(self, name: str, level: str, tmp_path: Path) -> None:
        """A name of archspec stands for its level and the level's flags, and for no others."""
        environ = {"CONDA_OVERRIDE_ARCHSPEC": name}
        detection = detect("x86_64", tmp_path, environ)
        flags = set(names_of(detection)[1:])
        assert detection.features[0].values[0] == level
        assert ("avx2" in flags) == (level in ("v3", "v4"))
        assert not {"avx512_vnni", "gfni"} & flags
        machine = Machine(view_of(tmp_path, environ))
        assert machine.overrides_in_effect() == (f"CONDA_OVERRIDE_ARCHSPEC={name}",)

    @pytest.mark.parametrize(
        ("name", "version"),
        [
            ("aarch64", "8a"),
            ("armv8.2a", "8.2a"),
            ("neoverse_n1", "8.2a"),
            ("m1", "8.4a"),
            ("m4", "8.5a"),
            ("neoverse_v2", "9.0a"),
            ("0", "8a"),
        ],
    )
    @pytest.mark.parametrize("system", ["Linux", "Darwin", "Windows"])
    def test_arm_processors_by_name(
        self, name: str, version: str, system: str, tmp_path: Path
    ) -> None:
        """The same on Arm, on every system."""
        environ = {"CONDA_OVERRIDE_ARCHSPEC": name}
        detection = detect("aarch64", tmp_path, environ, system=system, architecture="aarch64")
        assert detection.features[0].values[0] == version

    def test_a_name_of_another_architecture(self, tmp_path: Path) -> None:
        """P-73: what no processor of this kind is called switches its provider off."""
        environ = {"CONDA_OVERRIDE_ARCHSPEC": "neoverse_v2", "WHEELFIT_OVERRIDE_X86_64_LEVEL": "v3"}
        detection = detect("x86_64", tmp_path, environ)
        assert detection.status is Status.DISABLED
        (warning,) = detection.warnings
        assert warning == (
            "CONDA_OVERRIDE_ARCHSPEC='neoverse_v2' cannot be used: it must be the name of such a "
            "processor in archspec, as zen6; the x86_64 provider is switched off"
        )
        assert detect("aarch64", tmp_path, environ).status is Status.NOTHING

    def test_no_name_means_two_processors(self) -> None:
        """The names of the two tables differ, and each stands for a value that there is."""
        assert not x86_64.ARCHSPEC.keys() & aarch64.ARCHSPEC.keys()
        assert set(x86_64.ARCHSPEC.values()) == {name for name, _ in x86_64.LEVELS}
        assert set(aarch64.ARCHSPEC.values()) == set(aarch64.VERSIONS)

    def test_they_leave_with_a_record(self) -> None:
        """P-75: a record without them would replay another machine."""
        assert concerns_detection("CONDA_OVERRIDE_CUDA")
        assert not concerns_detection("CONDA_PREFIX")


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
        "CONDA_OVERRIDE_CUDA": "",
        "CONDA_OVERRIDE_CUDA_ARCH": "9.0",
        "CONDA_OVERRIDE_ARCHSPEC": "zen4",
        "CONDA_OVERRIDE_GLIBC": "2.17",
        "CONDA_OVERRIDE_OSX": "13",
        "CONDA_OVERRIDE_LINUX": "5.10",
        "CONDA_OVERRIDE_WIN": "10",
    }
    others = {
        "CONDA_OVERRIDE_UNIX": "0",
        "CONDA_PREFIX": "/opt/conda",
        "WHEELFIT_CACHE_DIR": "/cache",
        "ROCM_BOOTSTRAP_CACHE": "/cache",
        "PATH": "/bin",
    }
    assert override_variables(environ | others) == tuple(sorted(environ))
    assert unknown_overrides(environ, ["nvidia", "x86_64"]) == (
        "WHEELFIT_OVERRIDE_NVIDA_SM_ARCH",
        "WHEELFIT_OVERRIDE_X86_64",
    )
