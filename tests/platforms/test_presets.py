"""Presets: what their names mean, and that they say what the providers say."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from error_codes import raises_code
from platforms.detecting import MACHINES as CAPTURED
from platforms.detecting import detection_of, names_of, values_of

from wheelfit_runtime.errors import UnknownHost, WheelfitError
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status
from wheelfit_runtime.platforms.presets import MACHINES, compose, is_preset, preset_lines
from wheelfit_runtime.platforms.providers import namespaces
from wheelfit_runtime.platforms.providers.aarch64.tables import VERSIONS
from wheelfit_runtime.platforms.providers.amd import provider as amd
from wheelfit_runtime.platforms.providers.amd.probes import AmdDriver, AmdGpu
from wheelfit_runtime.platforms.providers.ascend import provider as ascend
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, AscendDriver
from wheelfit_runtime.platforms.providers.intel import provider as intel
from wheelfit_runtime.platforms.providers.intel.files import IntelDriver, IntelGpu
from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp
from wheelfit_runtime.platforms.providers.nvidia import presets as nvidia_presets
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia import tables as nvidia_tables
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu
from wheelfit_runtime.platforms.providers.tpu import provider as tpu
from wheelfit_runtime.platforms.providers.tpu.probes import TpuChip, TpuFiles
from wheelfit_runtime.platforms.providers.x86_64 import provider as x86_64
from wheelfit_runtime.platforms.recording import open_recorded
from wheelfit_runtime.platforms.system_view import SystemView


def detections(*names: str) -> dict[str, Detection]:
    """Return what a preset says, by namespace."""
    return {found.namespace: found for found in compose(names).detections()}


def features(*names: str, namespace: str) -> tuple[FeatureConfig, ...]:
    """Return what a preset supports of one namespace."""
    return detections(*names)[namespace].features


def values(*names: str, namespace: str) -> dict[str, tuple[str, ...]]:
    """Return the same, by the names of features."""
    return values_of(detections(*names)[namespace])


class TestAsOnARealMachine:
    """A preset has no lists of its own, so it cannot disagree with detection."""

    @pytest.mark.parametrize(
        ("cuda", "sm"),
        [((11, 8), (7, 0)), ((12, 4), (9, 0)), ((12, 9), (12, 1)), ((13, 0), (10, 3))],
    )
    def test_nvidia(self, cuda: tuple[int, int], sm: tuple[int, int]) -> None:
        """P-80, P-81, P-82, P-83: the provider says the same of that driver with that GPU."""
        facts = NvidiaDriver(Capability(*cuda), gpus=(NvidiaGpu(0, "", Capability(*sm)),))
        name = f"cuda-{cuda[0]}.{cuda[1]}-sm{sm[0]}{sm[1]}"
        assert features(name, namespace="nvidia") == nvidia.supported(facts).features

    def test_nvidia_without_a_known_gpu(self) -> None:
        """P-85: a driver alone has its bounds, and no code runs."""
        supported = nvidia.supported(NvidiaDriver(Capability(12, 8)))
        assert features("cuda-12.8", namespace="nvidia") == supported.features
        bounds = ["cuda_version_lower_bound", "cuda_version_upper_bound"]
        assert names_of(supported) == bounds

    def test_amd(self) -> None:
        """P-120, P-123: the GPU and the ROCm that are named, older minors on request only."""
        facts = AmdDriver((AmdGpu(1, "gfx942"),), (6, 4))
        assert features("rocm-6.4-gfx942", namespace="amd") == amd.supported(facts).features
        older = {
            detection.namespace: detection
            for detection in compose(["rocm-6.4"]).detections(rocm_same_major=True)
        }
        assert "6.3" in older["amd"].features[0].values
        assert values("rocm-6.4", namespace="amd") == {"rocm_version": ("6.4",)}

    @pytest.mark.parametrize("name", ["intel-arc-b580", "intel-bmg-g21", "intel-20.1.0"])
    def test_intel(self, name: str) -> None:
        """P-131: product, design and version mean the same."""
        facts = IntelDriver((IntelGpu(0, "", DeviceIp(20, 1, 0)),))
        assert features(name, namespace="intel") == intel.supported(facts).features

    def test_ascend(self) -> None:
        """P-140, P-142: an NPU, and the toolkit if it is named."""
        facts = AscendDriver((AscendCard(0, "910b"),), cann_version="8.2")
        found = features("ascend-910b-cann8.2", namespace="ascend")
        assert found == ascend.supported(facts).features
        assert set(values("ascend-a3", namespace="ascend")) == {"npu_type"}

    def test_tpu(self) -> None:
        """P-150: present; everywhere else it is known not to be."""
        facts = TpuFiles((TpuChip("0000:00:05.0", 0x63, "v5e"),), ("/dev/vfio/0",))
        assert features("tpu-v5e", namespace="tpu") == tpu.supported(facts).features
        assert values("cuda-12.8-sm90", namespace="tpu") == {"present": ("false",)}

    @pytest.mark.parametrize("level", [1, 2, 3, 4])
    def test_x86_64(self, level: int) -> None:
        """P-102: the level and every lower one, with its flags and no others."""
        found = values(f"cpu-x86_64-v{level}", namespace="x86_64")
        assert found["level"] == tuple(f"v{number}" for number in range(level, 0, -1))
        flags = frozenset(found) - {"level"}
        assert x86_64.supported(Cpu(flags)).features == features(
            f"cpu-x86_64-v{level}", namespace="x86_64"
        )
        assert ("avx2" in flags) == (level >= 3)

    @pytest.mark.parametrize("version", VERSIONS)
    def test_aarch64(self, version: str) -> None:
        """P-112, P-113: the version that is named is the highest one."""
        name = "cpu-aarch64" if version == "8a" else f"cpu-aarch64-{version}"
        assert values(name, namespace="aarch64")["version"][0] == version

    @pytest.mark.parametrize(
        ("machine", "name", "namespace"),
        [
            ("macos-m1", "macos-arm64", "aarch64"),
            ("macos-m2", "cpu-apple-m2", "aarch64"),
            ("macos-m3", "mac-m3", "aarch64"),
            ("linux-x86-amd-mi300x", "rocm-{rocm_version}-gfx942", "amd"),
            ("linux-x86-amd-strix-halo", "rocm-{rocm_version}-gfx1151", "amd"),
            ("linux-x86-intel-arc-a770", "intel-arc-a770", "intel"),
            ("linux-x86-intel-battlemage", "intel-arc-b580", "intel"),
            ("linux-x86-intel-data-center-max", "intel-max-1550", "intel"),
            ("linux-x86-tpu-v5e", "tpu-v5e", "tpu"),
            ("linux-aarch64-dgx-spark", "cuda-13.0-sm121", "nvidia"),
            ("linux-aarch64-gb200", "gb200-580", "nvidia"),
            ("linux-aarch64-grace", "gh200-580", "nvidia"),
            ("linux-aarch64-jetson-orin", "jetson-orin", "nvidia"),
            ("linux-x86-mig-a100", "cuda-12.8-sm80", "nvidia"),
            ("linux-x86-v100-new-driver", "v100-580", "nvidia"),
            ("linux-x86-v100-535", "v100-535", "nvidia"),
            ("linux-x86-h100-580", "h100-580", "nvidia"),
            ("linux-x86-mig-h100", "h100-580", "nvidia"),
            ("linux-x86-driver-without-gpu", "cuda-13.0", "nvidia"),
            ("windows-x86-rtx5090", "rtx5090-windows", "nvidia"),
            ("wsl-x86-rtx5090", "cuda-13.0-sm120", "nvidia"),
            ("linux-x86-amd-mi300x-rocm7", "mi300x-rocm7", "amd"),
            ("windows-x86-rtx", "cuda-12.8-sm120+windows-x86_64", "nvidia"),
            ("wsl-x86", "cuda-12.7-sm89", "nvidia"),
            ("linux-aarch64-raspberry-pi-4", "cpu-aarch64", "nvidia"),
        ],
    )
    def test_captured_machines(self, machine: str, name: str, namespace: str) -> None:
        """P-76: a machine of that kind that was looked at says the same."""
        captured = detection_of(namespace, open_recorded(CAPTURED / machine))
        known = {feature.name: feature.values[0] for feature in captured.features}
        assert features(name.format(**known), namespace=namespace) == captured.features


class TestEveryPreset:
    """What holds of all of them."""

    def test_it_answers_for_every_namespace(self) -> None:
        """P-44: nothing is left open, nothing fails, and nothing of this machine is seen."""
        for name in (line.example for line in preset_lines()):
            preset = compose([name])
            found = preset.detections()
            assert [one.namespace for one in found] == list(namespaces()), name
            assert {one.status for one in found} <= {Status.SUPPORTED, Status.NOTHING}, name
            assert not [one.warnings for one in found if one.warnings], name
            assert all(one.version and one.evidence for one in found), name
            assert {one.source for one in found} == {f"preset {preset.name}"}
            assert preset.notes == (), name
            assert preset.name == name

    def test_no_wrong_accelerator(self) -> None:
        """A part says something of its own namespace, and of no other."""
        namespaces = {"cuda": "nvidia", "rocm": "amd", "intel": "intel", "ascend": "ascend"}
        for line in preset_lines():
            whole = MACHINES[line.example].parts if line.example in MACHINES else line.example
            parts = {part.partition("-")[0] for part in whole.split("+")}
            found = detections(line.example)
            supported = {name for name in namespaces.values() if found[name].features}
            assert supported == {namespaces[part] for part in parts & namespaces.keys()}

    def test_what_people_ask_for(self) -> None:
        """Every combination of usual CUDA versions and GPUs that can exist, and of ROCm."""
        gpus = [70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121]
        made = 0
        for cuda in ("11.8", "12.1", "12.4", "12.6", "12.8", "12.9", "13.0"):
            for sm in gpus:
                first = nvidia_presets.GPUS[Capability(sm // 10, sm % 10)].first
                name = f"cuda-{cuda}-sm{sm}"
                if Capability(*map(int, cuda.split("."))) < first:
                    with raises_code("invalid-preset", match="does not support"):
                        compose([name])
                else:
                    made += bool(values(name, namespace="nvidia")["sm_arch"])
        assert made == 53
        for rocm in ("6.3", "6.4", "7.0", "7.1"):
            for gfx in ["90a", "942", "950", "1030", "1100", "1101", "1151", "1200", "1201"]:
                found = values(f"rocm-{rocm}-gfx{gfx}", namespace="amd")
                assert found == {"gfx_arch": (f"gfx{gfx}",), "rocm_version": (rocm,)}

    def test_the_tables_know_the_same(self) -> None:
        """P-91: every toolkit that is known is a preset; those between known ones are too."""
        for toolkit in nvidia_tables.PTX_OF_TOOLKIT:
            assert compose([f"cuda-{toolkit}"]).notes == ()
        assert nvidia_presets.CUDA_NEWEST.keys() == nvidia_tables.DRIVER_FLOOR.keys()
        assert set(nvidia_tables.TEGRA) <= set(nvidia_presets.GPUS)
        for capability, row in nvidia_presets.GPUS.items():
            name = f"cuda-{row.first}-sm{capability.major}{capability.minor}"
            if row.last is None or row.last >= row.first:
                assert (compose([name]).platform == "linux-aarch64") == row.is_arm_only

    def test_old_gpus_end_with_their_last_driver(self) -> None:
        """The list and the errors name the last driver that knows a GPU, as release 580 a V100."""
        lines = {line.pattern: line for line in preset_lines()}
        assert lines["cuda-M.m-sm70"].description == "V100; CUDA 11.0 to 13.0"
        assert lines["cuda-M.m-sm72"].example == "cuda-12.2-sm72"
        assert compose(["cuda-13.0-sm70"]).notes == ()
        assert not {"cuda-M.m-sm53", "cuda-M.m-sm62"} & lines.keys()
        for name, hint in (
            ("cuda-13.5-sm70", "the last that does is 13.0: cuda-13.0-sm70"),
            ("cuda-12.8-sm62", "the last that does is 10.2, and 11.0 is needed"),
        ):
            with raises_code("invalid-preset") as excinfo:
                compose([name])
            assert excinfo.value.hint == hint

    def test_the_machine_in_use_does_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-65: overrides of this machine say nothing of another one."""
        before = compose(["cuda-12.8-sm90"]).detections()
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "7.0")
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v4")
        monkeypatch.setenv("TPU_VARIANT_PROVIDER_FORCE_PRESENT", "1")
        assert compose(["cuda-12.8-sm90"]).detections() == before

    def test_nothing_lies_below_the_root_that_is_used(self) -> None:
        """What is looked at for a preset is not there on any machine."""
        view = Machine(SystemView(os.devnull)).view
        assert not view.exists("/proc/cpuinfo")
        assert view.children("/") == ()
        assert view.read_bytes("/etc/hostname") is None


class TestComposing:
    """Parts make one machine, or contradict each other."""

    @pytest.mark.parametrize(
        ("name", "platform", "processor"),
        [
            ("cuda-12.8-sm90", "linux-x86_64", "x86_64-v1"),
            ("cuda-12.8-sm90+cpu-x86_64-v3", "linux-x86_64", "x86_64-v3"),
            ("cuda-12.8-sm90+linux-aarch64", "linux-aarch64", "aarch64"),
            ("cuda-12.8-sm90+cpu-aarch64-9.0a", "linux-aarch64", "aarch64-9.0a"),
            ("cuda-12.8-sm120+windows-x86_64", "windows-x86_64", "x86_64-v1"),
            ("cuda-13.0-sm110", "linux-aarch64", "aarch64"),
            ("cuda-12.9-sm121", "linux-aarch64", "aarch64"),
            ("ascend-910b", "linux-x86_64", "x86_64-v1"),
            ("ascend-910b+cpu-aarch64-8.2a", "linux-aarch64", "aarch64-8.2a"),
            ("macos-arm64", "macos-arm64", "apple-m1"),
            ("cpu-aarch64", "linux-aarch64", "aarch64"),
            ("cpu-apple-m2", "macos-arm64", "apple-m2"),
            ("mac-m3", "macos-arm64", "apple-m3"),
            ("h100-580", "linux-x86_64", "x86_64-v4"),
            ("musllinux-x86_64+cpu-x86_64-v2", "musllinux-x86_64", "x86_64-v2"),
            ("cuda-12.8-sm90+rocm-6.4-gfx942", "linux-x86_64", "x86_64-v1"),
            ("tpu-v5e", "linux-x86_64", "x86_64-v1"),
        ],
    )
    def test_what_follows(self, name: str, platform: str, processor: str) -> None:
        """What is not named follows from the rest; what does not follow is the least there is."""
        preset = compose([name])
        assert (preset.platform, preset.processor) == (platform, processor)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (
                "cuda-12.8-sm90+macos-arm64",
                "no machine has cuda-12.8-sm90 and macos-arm64 together",
            ),
            (
                "cuda-12.8-sm90+musllinux-x86_64",
                "no machine has cuda-12.8-sm90 and musllinux",
            ),
            ("cuda-12.8-sm90+cuda-12.8-sm80", "a preset has one cuda part"),
            ("linux-x86_64+linux-aarch64", "a machine is not linux-x86_64 and linux-aarch64"),
            ("cpu-x86_64-v2+cpu-x86_64-v3", "a machine is not cpu-x86_64-v2 and cpu-x86_64-v3"),
            ("cpu-x86_64-v3+linux-aarch64", "no machine has cpu-x86_64-v3 and linux-aarch64"),
            ("cpu-aarch64+macos-x86_64", "no machine has cpu-aarch64 and macos-x86_64"),
            ("cpu-aarch64-8.2a+macos-arm64", "no machine has cpu-aarch64-8.2a and macos-arm64"),
            ("cpu-apple-m3+linux-aarch64", "no machine has cpu-apple-m3 and linux-aarch64"),
            ("cpu-aarch64-8.2a+windows-arm64", "no machine has cpu-aarch64-8.2a and windows"),
            ("h100-580+cpu-x86_64-v3", "a machine is not cpu-x86_64-v4 and cpu-x86_64-v3 at once"),
            ("mac-m3+linux-aarch64", "a machine is not macos-arm64 and linux-aarch64 at once"),
            ("cuda-12.9-sm121+cpu-x86_64-v3", "no machine has cuda-12.9-sm121 and cpu-x86_64-v3"),
            ("cuda-13.0-sm110+windows-x86_64", "no machine has cuda-13.0-sm110 and windows-x86_64"),
            ("cuda-12.9-sm121+rocm-6.4-gfx942", "no machine has cuda-12.9-sm121 and rocm-6.4"),
            ("cuda-12.4-sm100", "a driver for CUDA 12.4 does not support sm100 (B200, GB200)"),
            ("cuda-13.3-sm107", "a driver for CUDA 13.3 does not support sm107 (Rubin)"),
            ("cuda-13.1-sm70", "drivers for CUDA 13.1 no longer support sm70 (V100)"),
            ("cuda-13.1-sm61", "drivers for CUDA 13.1 no longer support sm61 (GTX 1080, P4, P40)"),
            ("cuda-12.4-sm72", "drivers for CUDA 12.4 no longer support sm72 (Jetson Xavier)"),
            ("cuda-13.0-sm101", "drivers for CUDA 13.0 no longer support sm101 (Jetson Thor, as"),
            ("cuda-11.0-sm53", "drivers for CUDA 11.0 no longer support sm53 (Jetson Nano)"),
        ],
    )
    def test_contradictions(self, name: str, message: str) -> None:
        """What cannot be is refused, and says which parts are to blame."""
        with raises_code("invalid-preset") as excinfo:
            compose([name])
        assert excinfo.value.message.startswith(message)

    @pytest.mark.parametrize(
        "name",
        [
            "cuda-12.8-sm91",  # no such capability
            "cuda-12.10-sm90",  # CUDA 12 ended with 12.9
            "cuda-10.2-sm70",  # too old (P-84)
            "cuda-99.0-sm90",
            "cuda-012.8-sm90",
            "cuda-12-sm90",
            "cuda-12.8-90",
            "cuda-12.8-sm90a",
            "cuda",
            "cuda-",
            "rocm-6.9-gfx942",
            "rocm-8.0-gfx942",
            "rocm-6.4-gfx999",
            "rocm-6-gfx942",
            "intel-arc-a999",
            "ascend-911",
            "ascend-910b-cann",
            "ascend-910b-cannx",
            "tpu-v9",
            "tpu",
            "cpu-x86_64-v5",
            "cpu-apple-m9",
            "cpu-",
            "linux",
            "",
            "+",
            "cuda-12.8-sm90+",
        ],
    )
    def test_what_there_is_not(self, name: str) -> None:
        """An unknown part is an error that leads to the list."""
        with pytest.raises(UnknownHost) as excinfo:
            compose([name])
        assert "wheelfit host list" in (excinfo.value.hint or "")

    def test_close_names_are_offered(self) -> None:
        """A slip is corrected."""
        with pytest.raises(UnknownHost) as excinfo:
            compose(["cuda-12.8-sm91"])
        assert "cuda-12.8-sm90" in (excinfo.value.hint or "")
        assert excinfo.value.note == "no GPU has compute capability 9.1"

    @pytest.mark.parametrize(
        ("name", "note"),
        [
            ("cuda-13.9-sm90", "CUDA 13.9 is newer"),
            ("cuda-14.0-sm130", "compute capability 13.0 is newer"),
            ("rocm-11.0-gfx942", "ROCm 11.0 is newer"),
        ],
    )
    def test_newer_than_the_tables(self, name: str, note: str) -> None:
        """P-41: what is to come works on the day it comes, and it is said that it is not known."""
        preset = compose([name])
        assert any(one.startswith(note) for one in preset.notes)
        assert {detection.status for detection in preset.detections()} == {
            Status.SUPPORTED,
            Status.NOTHING,
        }

    def test_several_names_are_one(self) -> None:
        """Names compose as their parts do; the same part twice is once."""
        assert compose(["cpu-x86_64-v3", "cuda-12.8-sm90+cpu-x86_64-v3"]) == compose(
            ["cuda-12.8-sm90+cpu-x86_64-v3"]
        )

    @pytest.mark.parametrize("name", MACHINES)
    def test_whole_machines(self, name: str) -> None:
        """A machine with a name of its own has its parts, and is called by its name alone."""
        parts = compose([MACHINES[name].parts])
        assert compose([name]) == replace(parts, name=name)
        assert compose([name, parts.platform]) == parts
        assert parts.notes == ()

    def test_what_looks_like_a_preset(self) -> None:
        """A name that is a slip of a preset is told from the name of a file."""
        assert is_preset("cuda-12.8-sm91")
        assert is_preset("linux-x86_64+tpu-v9")
        assert not is_preset("node7")
        assert not is_preset("cudanode")
        assert not is_preset("")


def test_errors_are_of_the_family() -> None:
    """Whatever is wrong with a name, the command line can say it."""
    assert issubclass(UnknownHost, WheelfitError)
