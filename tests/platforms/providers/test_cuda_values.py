"""P-80 to P-90: which values a driver version and a capability support."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from wheelfit_runtime.platforms.providers.nvidia import cuda_values, tables
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

EVERY_DRIVER = [Capability(major, minor) for major in range(11, 16) for minor in range(21)]


def test_lower_bounds_start_with_the_driver_and_go_back_to_11() -> None:
    """P-80: own minors, own major, then every older major from .20 down."""
    values = cuda_values.lower_bounds(Capability(12, 2))
    assert values[:6] == ("12.2", "12.1", "12.0", "12", "11.20", "11.19")
    assert values[-3:] == ("11.1", "11.0", "11")
    assert len(values) == 4 + 22


def test_upper_bounds_start_far_away_and_end_just_above_the_driver() -> None:
    """P-81: farthest first; the driver's own major is absent."""
    values = cuda_values.upper_bounds(Capability(14, 18))
    assert values[:2] == ("15.20", "15.19")
    assert values[-5:] == ("15.1", "15.0", "15", "14.20", "14.19")
    assert "14" not in values


def test_every_bound_is_either_met_or_stayed_below() -> None:
    """P-80, P-81: the two lists share nothing and make up the whole vocabulary."""
    for version in EVERY_DRIVER:
        lower, upper = cuda_values.lower_bounds(version), cuda_values.upper_bounds(version)
        assert len(set(lower) | set(upper)) == len(lower) + len(upper), version
        assert set(lower) | set(upper) == set(cuda_values.every_bound()), version
        assert cuda_values.bound_count(version) == len(lower) + len(upper), version


def test_the_vocabulary_has_the_size_of_the_reference() -> None:
    """P-80 ff.: 110 bounds; 160 values of sm_arch without a and f."""
    assert len(cuda_values.every_bound()) == 110
    plain = [value for value in cuda_values.every_sm_value() if "a_" not in value]
    assert len([value for value in plain if "f_" not in value]) == 160


@pytest.mark.parametrize(
    ("version", "first", "last_upper", "size"),
    [
        (Capability(15, 20), "15.20", None, 110),
        (Capability(16, 0), "16.0", "16.1", 6 * 22),
        (Capability(12, 25), "12.25", "13", 5 * 27),
    ],
    ids=str,
)
def test_the_range_grows_with_the_driver(
    version: Capability, first: str, last_upper: str | None, size: int
) -> None:
    """P-84: majors up to max(15, D), minors up to max(20, d); the reference switches off."""
    upper = cuda_values.upper_bounds(version)
    assert cuda_values.lower_bounds(version)[0] == first
    assert (upper[-1] if upper else None) == last_upper
    assert cuda_values.bound_count(version) == size
    assert len(cuda_values.lower_bounds(version)) + len(upper) == size


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("9.0", "90_real 90_virtual"),
        ("8.7", "87_real 86_real 85_real 84_real 83_real 82_real 81_real 80_real 80_virtual"),
        ("12.0", "120_real 120_virtual"),
        ("12.1", "121_real 120_real 120_virtual"),
        ("5.0", "50_real 50_virtual"),
        ("3.7", ""),
    ],
)  # fmt: skip
def test_the_reference_lists_code_of_the_same_major(capability: str, expected: str) -> None:
    """P-82: machine code down to .0, then the PTX of .0; nothing below 5.0."""
    device = Capability(*map(int, capability.split(".")))
    assert " ".join(cuda_values.reference_sm_values(device)) == expected


@pytest.mark.parametrize(
    ("capability", "start", "end"),
    [
        (Capability(5, 2), "52_virtual 51_virtual", "52_virtual 51_virtual"),
        (Capability(8, 6), "86_virtual 85_virtual 84_virtual", "51_virtual 50_virtual"),
        (Capability(9, 0), "90a_real 89_virtual 88_virtual", "50_virtual 90a_virtual"),
        (Capability(10, 7), "107a_real 107f_real 103f_real 100f_real 107_virtual",
         "50_virtual 107a_virtual"),
        (Capability(10, 3), "103a_real 103f_real 100f_real 103_virtual 102_virtual",
         "50_virtual 103a_virtual"),
        (Capability(12, 1), "121a_real 121f_real 120f_real 121_virtual 119_virtual",
         "50_virtual 121a_virtual"),
        (Capability(12, 2), "122a_real 122_virtual 121_virtual 119_virtual",
         "50_virtual 122a_virtual"),
    ],
    ids=str,
)  # fmt: skip
def test_what_runs_too_is_appended_in_order(capability: Capability, start: str, end: str) -> None:
    """P-83, P-90: specific code, families nearest first, own PTX, older PTX, specific PTX."""
    values = " ".join(cuda_values.appended_sm_values(capability))
    assert values.startswith(start)
    assert values.endswith(end)


@pytest.mark.parametrize("major", range(5, 14))
def test_no_machine_code_of_another_major_is_ever_listed(major: int) -> None:
    """P-83, P-90: machine code runs within its major only; appended values repeat nothing."""
    for minor in range(10):
        device = Capability(major, minor)
        reference = cuda_values.reference_sm_values(device)
        appended = cuda_values.appended_sm_values(device)
        assert not set(reference) & set(appended)
        for value in (*reference, *appended):
            if value.endswith("_real"):
                assert value.removesuffix("_real").rstrip("af")[:-1] == str(major)


# --- knowledge is data ---------------------------------------------------------------------------

PLATFORMS = Path(cuda_values.__file__).parents[2]


def _numbers_in_code() -> list[str]:
    """Return where code outside of the tables writes out a capability or a version."""
    found: list[str] = []
    for path in sorted(PLATFORMS.rglob("*.py")):
        if path.parent.name == "tables" or path.name in {"tables.py", "presets.py"}:
            continue
        found += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "Capability"
            and all(isinstance(argument, ast.Constant) for argument in node.args)
        ]
    return found


def test_nothing_but_the_tables_names_a_capability() -> None:
    """P-90, P-91, P-92, P-95: a new GPU is a change of data."""
    assert _numbers_in_code() == []


def test_code_of_a_family_runs_on_its_devices_and_on_no_other() -> None:
    """P-90: the table is directional: 100f runs on 10.3, and 103f not on 10.0."""
    for family, devices in tables.SM_FAMILIES.items():
        value = f"{family.major}{family.minor}f_real"
        for device in tables.SM_FAMILIES:
            runs = value in cuda_values.appended_sm_values(device)
            assert runs is (device in devices), (family, device)


def test_code_for_one_capability_alone_runs_nowhere_else() -> None:
    """P-90: 90a runs on 9.0, 100a on 10.0 and not on 10.3."""
    for device in tables.SM_FAMILIES:
        own = [value for value in cuda_values.appended_sm_values(device) if "a_" in value]
        name = f"{device.major}{device.minor}a"
        assert own == [f"{name}_real", f"{name}_virtual"]


def test_a_gpu_that_no_table_knows_runs_what_is_certain() -> None:
    """P-83, P-90: code of its own major and all older PTX, but of no family."""
    capability = Capability(14, 2)
    values = (*cuda_values.reference_sm_values(capability),)
    assert values == ("142_real", "141_real", "140_real", "140_virtual")
    appended = cuda_values.appended_sm_values(capability)
    assert not [value for value in appended if "f_" in value]
    assert {"120_virtual", "90_virtual", "50_virtual"} <= set(appended)
    assert not [value for value in appended if value.endswith("_real") and value[:2] != "14"]


def test_each_toolkit_writes_the_ptx_of_its_time() -> None:
    """P-91: published ones are right, and newer toolkits never write older PTX."""
    table = tables.PTX_OF_TOOLKIT
    published = {
        (11, 0): (7, 0), (11, 8): (7, 8), (12, 0): (8, 0), (12, 4): (8, 4), (12, 5): (8, 5),
        (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0),
        (13, 1): (9, 1), (13, 2): (9, 2), (13, 3): (9, 3), (13, 4): (9, 4), (13, 5): (9, 5),
    }  # fmt: skip
    assert published.items() <= {(*k,): (*v,) for k, v in table.items()}.items()
    assert list(table) == sorted(table)
    assert list(table.values()) == sorted(table.values())


def test_drivers_bring_the_cuda_version_of_their_branch() -> None:
    """P-92, P-94: a major's oldest driver brings that major, a newer branch never an older one."""
    branches = tables.CUDA_OF_BRANCH
    published = {535: (12, 2), 580: (13, 0), 590: (13, 1), 595: (13, 2), 610: (13, 3), 615: (13, 4)}
    assert published.items() <= {number: (*cuda,) for number, cuda in branches.items()}.items()
    assert list(branches) == sorted(branches)
    assert list(branches.values()) == sorted(branches.values())
    for major, (linux, _) in tables.DRIVER_FLOOR.items():
        assert branches[int(linux.partition(".")[0])] == (major, 0)


def test_each_major_needs_a_driver() -> None:
    """P-92: the oldest release of the driver for each major, on Linux and on Windows."""
    assert tables.DRIVER_FLOOR == {
        11: ("450.80.02", "452.39"),
        12: ("525.60.13", "528.33"),
        13: ("580", "580"),
    }


def test_the_floor_of_toolkits_rises() -> None:
    """P-95: 11.8 builds for 3.5, 12 for 5.0, 13 for 7.5: a V100 needs builds of CUDA 12."""
    assert tables.CUDA_CODE_FLOOR == {11: (3, 5), 12: (5, 0), 13: (7, 5)}
    floors = tables.CUDA_CODE_FLOOR
    assert list(floors.values()) == sorted(floors.values())
    assert floors[13] > (7, 0) >= floors[12]
