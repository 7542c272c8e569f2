"""P-120 to P-126: what follows from AMD GPUs and ROCm."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from platforms.detecting import (
    MACHINES,
    FakeProcesses,
    add_device,
    detect,
    detect_captured,
    detection_of,
    touch,
    values_of,
    view_of,
    write_program,
)

from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, Status
from wheelfit_runtime.platforms.providers.amd import provider as amd
from wheelfit_runtime.platforms.providers.amd.probes import AmdDriver, AmdGpu
from wheelfit_runtime.platforms.system_view import SystemView

FORCE_GFX = "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"
FORCE_ROCM = "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION"
BOOTSTRAP_GFX = "ROCM_BOOTSTRAP_FORCE_GFX_ARCH"
BOOTSTRAP_OFF = "ROCM_BOOTSTRAP_DISABLE_DETECTION"

DISCRETE = AmdGpu(2, "gfx1100")
INTEGRATED = AmdGpu(1, "gfx1036", integrated=True)
HIDDEN = AmdGpu(1, "gfx942", problem="/dev/kfd does not exist")


_detect = partial(detect, "amd")
_captured = partial(detect_captured, "amd")


def test_features_have_the_order_of_the_reference() -> None:
    """P-120: gfx_arch, rocm_version; only the first may be listed several times."""
    found = amd.supported(AmdDriver((DISCRETE,), (6, 4)))
    assert found.features == (
        FeatureConfig("gfx_arch", ("gfx1100",), multi_value=True),
        FeatureConfig("rocm_version", ("6.4",)),
    )


def test_the_vocabulary() -> None:
    """P-120, P-121: what amd-variant-provider knows, then the other names of rocm-bootstrap."""
    gfx, rocm = amd.PROVIDER.get_all_configs()
    published = "900 906 908 90a 942 1030 1100 1101 1102 1200 1201"
    appended = (
        "902 904 909 90c 950 1010 1011 1012 1013 1031 1032 1033 1034 1035 1036 1103 1150 1151 1152 "
        "1153 1250 1251"
    )
    assert " ".join(gfx.values).replace("gfx", "") == f"{published} {appended}"
    known = "7.10 7.9 7.8 7.7 7.6 7.5 7.4 7.3 7.2 7.1 7.0 6.4 6.3"
    assert " ".join(rocm.values).startswith(f"{known} 10.1 10.0 7.14 ")
    assert [gfx.multi_value, rocm.multi_value] == [True, False]


def test_an_unknown_gpu_is_kept() -> None:
    """P-121: the reference drops all GPUs when it does not know one; its mode does."""
    driver = AmdDriver((AmdGpu(1, "gfx942"), AmdGpu(2, "gfx1399")), (7, 0))
    assert values_of(amd.supported(driver))["gfx_arch"] == ("gfx942", "gfx1399")
    assert values_of(amd.supported(driver, reference=True)) == {"rocm_version": ("7.0",)}


def test_the_reference_sorts_names_as_text() -> None:
    """P-43, P-120: its mode has neither our order nor what is known of single devices."""
    driver = AmdDriver((AmdGpu(1, "gfx942"), AmdGpu(2, "gfx1100"), AmdGpu(3, "gfx942")), (6, 4))
    found = amd.supported(driver, reference=True, same_major=True)
    assert values_of(found) == {"gfx_arch": ("gfx1100", "gfx942"), "rocm_version": ("6.4",)}
    assert found.devices == ()


def test_discrete_gpus_come_first() -> None:
    """P-122: then node numbers count, and like GPUs are one value."""
    gpus = (INTEGRATED, AmdGpu(3, "gfx906"), DISCRETE, AmdGpu(4, "gfx906"))
    found = amd.supported(AmdDriver(gpus))
    assert values_of(found) == {"gfx_arch": ("gfx1100", "gfx906", "gfx1036")}
    assert [device.device for device in found.devices] == [
        "GPU at node 2 (gfx1100)",
        "GPU at node 3 (gfx906)",
        "GPU at node 4 (gfx906)",
        "GPU at node 1 (gfx1036, integrated)",
    ]
    assert [device.values for device in found.devices[::3]] == [{"gfx1100"}, {"gfx1036"}]


def test_an_integrated_gpu_beside_a_discrete_one_is_told() -> None:
    """P-88, P-122: the policy rejects most wheels then, so the way out is named."""
    (warning,) = amd.supported(AmdDriver((INTEGRATED, DISCRETE), (7, 1))).warnings
    assert "--devices highest" in warning
    assert str(INTEGRATED) in warning
    assert str(DISCRETE) in warning


@pytest.mark.parametrize(
    "gpus",
    [
        (DISCRETE, AmdGpu(3, "gfx1100")),
        (DISCRETE, AmdGpu(3, "gfx906")),
        (INTEGRATED,),
        (DISCRETE, AmdGpu(3, "gfx1100", integrated=True)),
    ],
)
def test_other_sets_of_gpus_need_no_warning(gpus: tuple[AmdGpu, ...]) -> None:
    """P-122: who put two kinds of card into a machine knows it."""
    assert amd.supported(AmdDriver(gpus, (7, 1))).warnings == ()


def test_like_gpus_need_no_narrowing() -> None:
    """P-122: what runs on one runs on all."""
    gpus = tuple(AmdGpu(node, "gfx942") for node in range(2, 10))
    assert amd.supported(AmdDriver(gpus)).devices == ()


@pytest.mark.parametrize(
    ("version", "same_major", "values"),
    [
        ((6, 4), False, ("6.4",)),
        ((6, 4), True, ("6.4", "6.3", "6.2", "6.1", "6.0")),
        ((7, 0), True, ("7.0",)),
        ((7, 11), False, ("7.11",)),
    ],
)
def test_exactly_the_installed_rocm_counts_unless_wished(
    version: tuple[int, int],
    same_major: bool,  # noqa: FBT001
    values: tuple[str, ...],
) -> None:
    """P-123: older minors are appended, newer ones and other majors never."""
    found = amd.supported(AmdDriver(rocm_version=version), same_major=same_major)
    assert values_of(found) == {"rocm_version": values}


def test_the_wish_reaches_the_provider() -> None:
    """P-123: a parameter of the machine; the reference's mode ignores it."""
    given = recording.view_arguments(MACHINES / "linux-x86-amd-mi300x") | {"rocm_same_major": True}
    wished = detection_of("amd", Machine(SystemView(**given)))
    assert values_of(wished)["rocm_version"] == ("6.4", "6.3", "6.2", "6.1", "6.0")
    reference = detection_of("amd", Machine(SystemView(**given, reference=True)))
    assert values_of(reference)["rocm_version"] == ("6.4",)


def test_a_gpu_that_cannot_be_used_is_no_value() -> None:
    """P-74, P-124: where it is the only one, the reason is a warning; ROCm counts all the same."""
    found = amd.supported(AmdDriver((HIDDEN, HIDDEN), (6, 4)))
    assert values_of(found) == {"rocm_version": ("6.4",)}
    assert found.warnings == (
        "GPU at node 1 (gfx942) cannot be used: /dev/kfd does not exist; likewise 1 more",
    )
    beside = amd.supported(AmdDriver((HIDDEN, DISCRETE), (6, 4)))
    assert (values_of(beside)["gfx_arch"], beside.warnings) == (("gfx1100",), ())


def test_nothing_is_there(tmp_path: Path) -> None:
    """P-74, P-124: zero devices are no error."""
    found = _detect(tmp_path)
    assert (found.status, found.features, found.warnings) == (Status.NOTHING, (), ())
    assert found.evidence == (Evidence("files", "no sign of an AMD GPU or ROCm"),)


def test_a_gpu_without_rocm_is_told(tmp_path: Path) -> None:
    """P-123, P-124: most wheels name a version; the variable that helps is named, then obeyed."""
    found = _captured("linux-x86-amd-without-rocm")
    assert values_of(found) == {"gfx_arch": ("gfx1201",)}
    assert "WHEELFIT_OVERRIDE_AMD_ROCM_VERSION" in found.warnings[0]
    own = {"WHEELFIT_OVERRIDE_AMD_ROCM_VERSION": "7.1,7.0", "HSA_OVERRIDE_GFX_VERSION": ""}
    helped = _captured("linux-x86-amd-without-rocm", **own)
    assert values_of(helped) == {"gfx_arch": ("gfx1201",), "rocm_version": ("7.1", "7.0")}
    assert helped.warnings == ()
    assert _detect(tmp_path).warnings == ()


def test_a_disguise_does_not_count() -> None:
    """P-89, P-124: the machine is described, and who wants another one is told how."""
    disguised = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    found = _captured("linux-x86-amd-mi300x", **disguised)
    assert values_of(found)["gfx_arch"] == ("gfx942",)
    (warning,) = found.warnings
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in warning
    assert "WHEELFIT_OVERRIDE_AMD_GFX_ARCH" in warning
    own = {**disguised, "WHEELFIT_OVERRIDE_AMD_GFX_ARCH": "gfx1030"}
    assert _captured("linux-x86-amd-mi300x", **own).warnings == ()


class _Forbidden(SystemView):
    """Deny the user every device."""

    __slots__ = ()

    def may_open(self, name: str) -> bool:
        return name != "/dev/kfd"


def test_a_device_that_the_user_may_not_open_is_told() -> None:
    """P-124: the GPU is there and counts, and programs will not see it."""
    root = str(MACHINES / "linux-x86-amd-mi300x" / "root")
    found = detection_of("amd", Machine(_Forbidden(root, {}, system="Linux")))
    assert values_of(found)["gfx_arch"] == ("gfx942",)
    (warning,) = found.warnings
    assert "/dev/kfd" in warning
    assert "group render" in warning
    elsewhere = _Forbidden(root, {FORCE_GFX: "gfx942"}, system="Linux")
    assert detection_of("amd", Machine(elsewhere)).warnings == ()


# --- tools -----------------------------------------------------------------------------


def _with_tools(root: Path, answer: Answer, *files: str) -> tuple[Detection, list[str]]:
    touch(root, "usr/bin/rocm_agent_enumerator", "usr/bin/rocminfo", *files)
    tools = FakeProcesses(answer)
    return _detect(root, {"PATH": "/usr/bin"}, processes=tools), tools.asked


NAMES = Answer(Ending.EXITED, 0, b"gfx000\ngfx1100\ngfx1036\n")


@pytest.mark.parametrize("sign", ["dev/kfd", "dev/dxg", "sys/module/amdgpu/uevent"])
def test_tools_are_asked_where_a_driver_is_and_no_list(tmp_path: Path, sign: str) -> None:
    """P-125: as in Windows' Linux, or where a sandbox hides the kernel's files."""
    found, asked = _with_tools(tmp_path, NAMES, sign)
    assert asked == ["rocm_agent_enumerator -name"]
    assert values_of(found) == {"gfx_arch": ("gfx1100", "gfx1036")}
    assert found.devices[1].device == "GPU at node 1 (gfx1036, integrated)"


def test_a_real_program_is_asked_and_given_up(tmp_path: Path) -> None:
    """P-37, P-125: a tool that hangs does not hold up detection."""
    write_program(tmp_path, "usr/bin/rocm_agent_enumerator", "echo gfx942\nexec sleep 60\n")
    touch(tmp_path, "dev/kfd")
    found = _detect(tmp_path, {"PATH": "/usr/bin:/bin"}, deadline=0.3)
    assert (found.status, found.features) == (Status.FAILED, ())
    assert found.warnings == ("rocm_agent_enumerator -name did not answer in time",)


def test_tools_are_not_asked_without_a_driver(tmp_path: Path) -> None:
    """P-125: an image with ROCm on a machine without AMD GPUs starts nothing."""
    found, asked = _with_tools(tmp_path, NAMES)
    assert (found.status, asked) == (Status.NOTHING, [])


def test_tools_are_not_asked_where_the_kernel_has_a_list(tmp_path: Path) -> None:
    """P-124, P-125: its answer counts, even if it lists processors only."""
    node = "sys/class/kfd/kfd/topology/nodes/0/properties"
    found, asked = _with_tools(tmp_path, NAMES, "dev/kfd", node)
    assert (found.status, asked) == (Status.NOTHING, [])


@pytest.mark.parametrize(
    ("answer", "status", "words", "asked"),
    [
        (Answer(Ending.LATE), Status.FAILED, "did not answer in time", 1),
        (Answer(Ending.KILLED, 11), Status.FAILED, "crashed (signal 11)", 2),
        (Answer(Ending.FLOODED), Status.FAILED, "wrote too much", 2),
        (Answer(Ending.EXITED, 1), Status.NOTHING, "failed with exit status 1", 2),
        (Answer(Ending.NOT_STARTED), Status.NOTHING, "cannot be started", 2),
    ],
)
def test_a_tool_that_fails_is_data(
    tmp_path: Path, answer: Answer, status: Status, words: str, asked: int
) -> None:
    """P-37, P-74, P-125: its end is among the evidence, and a warning."""
    found, questions = _with_tools(tmp_path, answer, "dev/kfd")
    assert (found.status, len(questions)) == (status, asked)
    assert words in found.warnings[0]
    assert words in found.evidence[-1].value


def test_tools_that_know_of_no_gpu_are_no_failure(tmp_path: Path) -> None:
    """P-74, P-125: no warning for a machine that merely has the tools."""
    found, asked = _with_tools(tmp_path, Answer(Ending.EXITED, 0, b"gfx000\n"), "dev/kfd")
    assert (found.status, found.warnings, len(asked)) == (Status.NOTHING, (), 2)


@pytest.mark.parametrize(
    ("kind", "driver", "words"),
    [
        ("0x030000", "", "at 0000:03:00.0, and its driver amdgpu is not loaded"),
        ("0x120000", "amdgpu", "its driver amdgpu does not support computing (KFD)"),
        ("0x030000", "vfio-pci", None),
        ("0x038000", "radeon", None),
    ],
)
def test_a_gpu_without_its_driver_is_told(
    tmp_path: Path, kind: str, driver: str, words: str | None
) -> None:
    """P-74, P-75, P-124: unless another driver has it, which has its reasons."""
    add_device(tmp_path, "0000:03:00.0", vendor="0x1002", device="0x744c", kind=kind, driver=driver)
    found = _detect(tmp_path)
    assert (found.status, found.features) == (Status.NOTHING, ())
    assert f"driver {driver or 'none'}" in found.evidence[0].value
    assert len(found.warnings) == (words is not None)
    assert all(words is not None and words in warning for warning in found.warnings)


def test_other_systems_have_neither_files_nor_tools(tmp_path: Path) -> None:
    """P-74: nothing is looked for on macOS."""
    found = _detect(tmp_path, system="Darwin", architecture="aarch64")
    assert found.status is Status.NOTHING


# --- variables ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "text", "names"),
    [
        (FORCE_GFX, "gfx942", ("gfx942",)),
        (FORCE_GFX, "gfx1100, gfx942;gfx90a  gfx1100", ("gfx1100", "gfx942", "gfx90a")),
        (FORCE_GFX, " ;gfx1399, ", ("gfx1399",)),
        (BOOTSTRAP_GFX, "gfx942,gfx942", ("gfx942",)),
        (BOOTSTRAP_GFX, "gfx1250-strict , gfx1151,", ("gfx1250", "gfx1151")),
    ],
)
def test_code_can_be_forced(
    tmp_path: Path, variable: str, text: str, names: tuple[str, ...]
) -> None:
    """P-120, P-126: in the given order, under the names that packages have; no device narrows."""
    found = _detect(tmp_path, {variable: text})
    assert values_of(found) == {"gfx_arch": names}
    assert found.evidence[0] == Evidence(variable, text.strip())
    assert found.devices == ()


@pytest.mark.parametrize(("text", "value"), [("7.0.0", "7.0"), ("6.4", "6.4"), ("7.10.2", "7.10")])
def test_rocm_can_be_forced(tmp_path: Path, text: str, value: str) -> None:
    """P-126: two numbers are enough here, three are what the reference wants."""
    assert values_of(_detect(tmp_path, {FORCE_ROCM: text})) == {"rocm_version": (value,)}


def test_the_variable_of_the_reference_counts_more(tmp_path: Path) -> None:
    """P-126: of two that say the same thing the first one, and only that is in effect."""
    environ = {FORCE_GFX: "gfx942", BOOTSTRAP_GFX: "gfx1100", FORCE_ROCM: "6.4.1"}
    machine = Machine(view_of(tmp_path, environ))
    assert values_of(detection_of("amd", machine)) == {
        "gfx_arch": ("gfx942",),
        "rocm_version": ("6.4",),
    }
    assert machine.overrides_in_effect() == (f"{FORCE_GFX}=gfx942", f"{FORCE_ROCM}=6.4.1")


def test_switching_detection_off_wins_over_forcing() -> None:
    """P-126: whatever is forced, and whatever there is; 0 is as good as nothing."""
    environ = {BOOTSTRAP_OFF: "1", FORCE_GFX: "gfx942", FORCE_ROCM: "6.4.1"}
    found = _captured("linux-x86-amd-mi300x", **environ)
    assert (found.status, found.features, found.warnings) == (Status.DISABLED, (), ())
    assert found.evidence == (Evidence(BOOTSTRAP_OFF, "1"),)
    machine = Machine(SystemView(environ=environ, system="Linux"))
    assert f"{BOOTSTRAP_OFF}=1" in machine.overrides_in_effect()
    assert _captured("linux-x86-amd-mi300x", **{BOOTSTRAP_OFF: "0"}).features


def test_an_own_override_wins_over_all_of_them(tmp_path: Path) -> None:
    """P-73, P-126: it names the feature itself; the order of features stays."""
    own = {"WHEELFIT_OVERRIDE_AMD_GFX_ARCH": "gfx1100,gfx1036"}
    off = _detect(tmp_path, {BOOTSTRAP_OFF: "1", **own})
    assert values_of(off) == {"gfx_arch": ("gfx1100", "gfx1036")}
    found = _detect(tmp_path, {FORCE_GFX: "gfx942", FORCE_ROCM: "6.4.1", **own})
    assert list(values_of(found).items()) == [
        ("gfx_arch", ("gfx1100", "gfx1036")),
        ("rocm_version", ("6.4",)),
    ]
    assert found.features[0].multi_value


@pytest.mark.parametrize(
    "machine",
    [
        "linux-x86-amd-igpu-beside-dgpu",
        "linux-x86-amd-container-without-devices",
        "linux-x86-amd-without-driver",
        "linux-x86-amd-hanging-tool",
    ],
)
@pytest.mark.parametrize("variable", ["WHEELFIT_OVERRIDE_AMD_GFX_ARCH", FORCE_GFX])
def test_who_says_which_gpus_count_is_not_warned_of_others(machine: str, variable: str) -> None:
    """P-73, P-126: neither of those that are there nor of those that are not."""
    found = _captured(machine, **{variable: "gfx1100,gfx942", FORCE_ROCM: "7.1"})
    assert _captured(machine).warnings
    assert (found.warnings, found.devices) == ((), ())
    assert values_of(found) == {"gfx_arch": ("gfx1100", "gfx942"), "rocm_version": ("7.1",)}
    alone = _captured(machine, **{variable: "gfx1100"})
    assert not any("GPU" in warning or "answer" in warning for warning in alone.warnings)


def test_forcing_everything_asks_nobody(tmp_path: Path) -> None:
    """P-70: overrides come before files and child processes."""
    touch(tmp_path, "usr/bin/rocminfo", "dev/kfd")
    tools = FakeProcesses(NAMES)
    environ = {FORCE_GFX: "gfx942", FORCE_ROCM: "7.0.0", "PATH": "/usr/bin"}
    found = _detect(tmp_path, environ, processes=tools)
    assert [seen.source for seen in found.evidence] == [FORCE_GFX, FORCE_ROCM]
    assert tools.asked == []
