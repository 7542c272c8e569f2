"""P-140 to P-144: what follows from Ascend NPUs, driver and CANN."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from platforms.detecting import (
    FakeProcesses,
    add_device,
    detect,
    detect_captured,
    detection_of,
    values_of,
    view_of,
    write_files,
    write_program,
)

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, Status
from wheelfit_runtime.platforms.providers.ascend import provider as ascend
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, AscendDriver

FORCE = "ASCEND_VARIANT_PROVIDER_FORCE_"
TABLE = b"""| npu-smi 24.1.rc3.7   Version: 24.1.rc3.7   |
| 0     910B3    | OK            | 94.3        40 |
| 0              | 0000:C1:00.0  | 0            0 |
"""


_detect = partial(detect, "ascend", architecture="aarch64")


def _cards(*chips: str) -> tuple[AscendCard, ...]:
    return tuple(AscendCard(index, chip) for index, chip in enumerate(chips))


@pytest.mark.parametrize(
    ("chip", "name"),
    [
        ("910", "a3"), ("910b", "910b"), ("910b3", "910b"), ("910b4-1", "910b"),
        ("310p", "310p"), ("310p3", "310p"), ("310", "310"), ("310b4", "310b4"),
        ("910proa", "910proa"), ("910_9392", "910_9392"), ("950pr", "950pr"), ("a3", "a3"),
        ("910-x", None), ("", None), ("x" * 40, None),
    ],
)  # fmt: skip
def test_types(chip: str, name: str | None) -> None:
    """P-140: exactly 910 is an A3, families count as one, others are as they are."""
    assert ascend.type_of(chip) == name


def test_features_have_the_order_of_the_reference() -> None:
    """P-140, P-142: type, driver, CANN; a wheel lists one value of each."""
    found = ascend.supported(AscendDriver(_cards("910b3"), "24.1.rc3", "8.2.RC1"))
    assert found.features == (
        FeatureConfig("npu_type", ("910b",)),
        FeatureConfig("driver_version", ("24.1.rc3",)),
        FeatureConfig("cann_version", ("8.2.rc1",)),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("24.1.rc3", "24.1.rc3"), ("24.1.rc3.7", "24.1.rc3"), ("24.1.0.3", "24.1.0"),
        ("25.3.rc1.b061", "25.3.rc1"), ("8.2.RC1", "8.2.rc1"), ("8.1.RC1.alpha001", "8.1.rc1"),
        ("8.0.0.alpha003", "8.0.0"), ("9.2.0-beta.2", "9.2.0"), ("8.0.T6", "8.0"),
    ],
)  # fmt: skip
def test_versions_are_written_as_the_reference_does(text: str, value: str) -> None:
    """P-142: patch and rc if they are there, in lower case, and nothing behind them."""
    found = ascend.supported(AscendDriver(driver_version=text, cann_version=text))
    assert values_of(found) == {"driver_version": (value,), "cann_version": (value,)}


def test_what_is_no_version_is_none() -> None:
    """P-74, P-142: the feature is unsupported, and nothing else is harmed."""
    driver = AscendDriver(_cards("310p3"), "unknown", "V100R001")
    assert values_of(ascend.supported(driver)) == {"npu_type": ("310p",)}


def test_all_cards_count_the_first_one_first() -> None:
    """P-141, P-43: unlike ones narrow; the reference's mode knows the first card only."""
    driver = AscendDriver(_cards("310p3", "910b3", "310p3"))
    found = ascend.supported(driver)
    assert values_of(found) == {"npu_type": ("310p", "910b")}
    assert {device.device: set(device.values) for device in found.devices} == {
        "NPU 0 (310p3)": {"310p"},
        "NPU 1 (910b3)": {"910b"},
        "NPU 2 (310p3)": {"310p"},
    }
    reference = ascend.supported(driver, reference=True)
    assert (values_of(reference), reference.devices) == ({"npu_type": ("310p",)}, ())


def test_cards_of_one_family_need_no_narrowing() -> None:
    """P-141: what runs on one runs on all."""
    assert ascend.supported(AscendDriver(_cards("910b3", "910b4"))).devices == ()


def test_two_names_of_one_type() -> None:
    """P-141: published wheels say 910c for a3; the reference's mode does not."""
    driver = AscendDriver(_cards("910", "910", "910b3"))
    found = ascend.supported(driver)
    assert values_of(found) == {"npu_type": ("a3", "910c", "910b")}
    assert found.devices[0].values == {"a3", "910c"}
    assert values_of(ascend.supported(driver, reference=True)) == {"npu_type": ("a3",)}


def test_a_chip_whose_name_can_be_no_value_is_left_out() -> None:
    """P-74, P-140: the others stay."""
    assert values_of(ascend.supported(AscendDriver(_cards("910-x", "310p3")))) == {
        "npu_type": ("310p",)
    }


# --- looking -----------------------------------------------------------------------------


def _npu(root: Path, address: str, device: str) -> None:
    add_device(root, address, vendor="0x19e5", device=device, kind="0x120000")


def _files(root: Path, *names: str) -> None:
    write_files(root, dict.fromkeys(names, "Version=24.1.0\n"))


DRIVER = "usr/local/Ascend/driver/version.info"
TOOL = "usr/bin/npu-smi"


def _look(root: Path, answer: Answer) -> tuple[Detection, int]:
    tool = FakeProcesses({"npu-smi": answer})
    return _detect(root, {"PATH": "/usr/bin"}, processes=tool), len(tool.asked)


GOOD = Answer(Ending.EXITED, 0, TABLE)


def test_files_are_enough_for_known_devices(tmp_path: Path) -> None:
    """P-143: nothing is started where the bus and the driver's file tell all."""
    _npu(tmp_path, "0000_01_00.0", "0xd500")
    _files(tmp_path, "dev/davinci0", DRIVER, TOOL)
    found, asked = _look(tmp_path, GOOD)
    assert (values_of(found), asked) == (
        {"npu_type": ("310p",), "driver_version": ("24.1.0",)},
        0,
    )


@pytest.mark.parametrize(
    ("devices", "nodes", "files"),
    [
        (["0xd801"], 1, [DRIVER]),  # several types have this number
        (["0xd802", "0xd500"], 1, [DRIVER]),  # one of the two, but which?
        ([], 1, [DRIVER]),  # on no bus
        ([], 0, []),  # the tool alone
        (["0xd802"], 1, []),  # no version
    ],
)
def test_the_tool_is_asked_for_what_files_do_not_tell(
    tmp_path: Path, devices: list[str], nodes: int, files: list[str]
) -> None:
    """P-143: once, and what files tell counts more than what the tool says."""
    for number, device in enumerate(devices):
        _npu(tmp_path, f"0000_0{number}_00.0", device)
    _files(tmp_path, *(f"dev/davinci{number}" for number in range(nodes)), *files, TOOL)
    found, asked = _look(tmp_path, GOOD)
    version = "24.1.0" if files else "24.1.rc3"
    assert values_of(found) == {"npu_type": ("910b",), "driver_version": (version,)}
    assert (asked, found.warnings) == (1, ())


def test_devices_that_were_not_given_are_told(tmp_path: Path) -> None:
    """P-74, P-143: a container sees the bus; without device nodes nothing runs there."""
    _npu(tmp_path, "0000_01_00.0", "0xd802")
    _files(tmp_path, DRIVER, TOOL)
    found, asked = _look(tmp_path, GOOD)
    assert (values_of(found), asked) == ({"driver_version": ("24.1.0",)}, 0)
    assert "/dev/davinci0" in found.warnings[0]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (Answer(Ending.LATE), Status.FAILED, "did not answer in time"),
        (Answer(Ending.KILLED, 6), Status.FAILED, "crashed (signal 6)"),
        (Answer(Ending.FLOODED), Status.FAILED, "wrote too much"),
        (Answer(Ending.EXITED, 7), Status.NOTHING, "failed with exit status 7"),
        (Answer(Ending.NOT_STARTED), Status.NOTHING, "cannot be started"),
        (Answer(Ending.EXITED, 0, b"\xff\0garbage"), Status.NOTHING, "no NPU"),
    ],
)
def test_a_tool_that_fails_is_data(
    tmp_path: Path, answer: Answer, status: Status, words: str
) -> None:
    """P-37, P-74, P-143: its end is among the evidence, and a warning."""
    _files(tmp_path, TOOL)
    found, asked = _look(tmp_path, answer)
    assert (found.status, found.features, asked) == (status, (), 1)
    assert words in found.warnings[0]
    assert words in found.evidence[-1].value


def test_a_real_program_is_asked(tmp_path: Path) -> None:
    """P-37, P-143: its noise is not its answer, and its masks are kept from it."""
    script = (
        "echo noise >&2\n"
        'echo "| npu-smi 24.1.0  Version: 24.1.0 |"\n'
        'echo "| 0     910B${ASCEND_RT_VISIBLE_DEVICES:-3} | OK | $1 |"\n'
    )
    write_program(tmp_path, TOOL, script)
    environ = {"PATH": "/usr/bin", "ASCEND_RT_VISIBLE_DEVICES": "-masked"}
    found = _detect(tmp_path, environ)
    assert values_of(found) == {"npu_type": ("910b",), "driver_version": ("24.1.0",)}
    assert found.evidence[-1].value == "NPU 0 (910b3); driver 24.1.0"


def test_a_type_that_nobody_can_tell(tmp_path: Path) -> None:
    """P-143: the versions stay, and the missing tool is named."""
    _npu(tmp_path, "0000_01_00.0", "0xd801")
    _files(tmp_path, "dev/davinci0", DRIVER)
    found, _ = _look(tmp_path, GOOD)
    assert values_of(found) == {"driver_version": ("24.1.0",)}
    assert "npu-smi" in found.warnings[0]


def test_versions_do_not_need_an_npu() -> None:
    """P-142: as in the reference's source; packages are built where no NPU is, too."""
    found = detect_captured("ascend", "linux-aarch64-ascend-driver-files-only")
    assert values_of(found) == {"driver_version": ("24.1.0",), "cann_version": ("8.0.0",)}
    assert found.warnings == ()


@pytest.mark.parametrize("system", ["Linux", "Windows", "Darwin"])
def test_nothing_is_there(tmp_path: Path, system: str) -> None:
    """P-74: no error on any system; the reference fails where there is no uname."""
    found = _detect(tmp_path, system=system, architecture="x86_64")
    assert (found.status, found.features, found.warnings) == (Status.NOTHING, (), ())
    assert len(found.evidence) == 1


# --- variables ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feature", "text", "values"),
    [
        ("npu_type", "310p", ("310p",)),
        ("npu_type", "A3", ("a3", "910c")),
        ("npu_type", "910c", ("910c", "a3")),
        ("driver_version", "24.1.rc3", ("24.1.rc3",)),
        ("driver_version", "25.2", ("25.2",)),
        ("cann_version", "8.2.RC1", ("8.2.rc1",)),
    ],
)
def test_each_feature_can_be_forced(
    tmp_path: Path, feature: str, text: str, values: tuple[str, ...]
) -> None:
    """P-141, P-144: as given, in lower case; the other name of a type follows."""
    variable = f"{FORCE}{feature.upper()}"
    machine = Machine(view_of(tmp_path, {variable: text}))
    found = detection_of("ascend", machine)
    assert values_of(found) == {feature: values}
    assert found.evidence[0] == Evidence(variable, text)
    assert machine.overrides_in_effect() == (f"{variable}={text}",)


@pytest.mark.parametrize("variable", [f"{FORCE}NPU_TYPE", "WHEELFIT_OVERRIDE_ASCEND_NPU_TYPE"])
def test_a_forced_type_replaces_all_cards(variable: str) -> None:
    """P-73, P-144: and what was wrong with them."""
    name = "linux-aarch64-ascend-container-without-devices"
    found = detect_captured("ascend", name, **{variable: "910b"})
    assert (values_of(found)["npu_type"], found.warnings) == (("910b",), ())


def test_an_own_override_wins(tmp_path: Path) -> None:
    """P-73, P-144: and together they may leave nothing to be looked for."""
    _files(tmp_path, TOOL)
    tool = FakeProcesses(GOOD)
    environ = {
        "PATH": "/usr/bin",
        f"{FORCE}NPU_TYPE": "910b",
        f"{FORCE}DRIVER_VERSION": "24.1.rc3",
        "WHEELFIT_OVERRIDE_ASCEND_NPU_TYPE": "a3,910c",
        "WHEELFIT_OVERRIDE_ASCEND_CANN_VERSION": "8.2.rc1,8.1",
    }
    found = _detect(tmp_path, environ, processes=tool)
    assert list(values_of(found).items()) == [
        ("npu_type", ("a3", "910c")),
        ("driver_version", ("24.1.rc3",)),
        ("cann_version", ("8.2.rc1", "8.1")),
    ]
    assert tool.asked == []
