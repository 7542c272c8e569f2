"""P-150 to P-153: whether there is a TPU, and which."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from platforms.detecting import (
    add_device,
    detect,
    detection_of,
    touch,
    values_of,
    view_of,
    write_files,
)

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Evidence, Status
from wheelfit_runtime.platforms.providers.tpu import provider as tpu
from wheelfit_runtime.platforms.providers.tpu.probes import TpuChip, TpuFiles

FORCE = "TPU_VARIANT_PROVIDER_FORCE_PRESENT"


@pytest.fixture
def v5e(tmp_path: Path) -> Path:
    """Return a machine with a TPU."""
    add_device(tmp_path, "0000:00:05.0", vendor="0x1ae0", device="0x0063", kind="0x120000")
    touch(tmp_path, "dev/vfio/0")
    return tmp_path


_detect = partial(detect, "tpu")


def test_the_vocabulary_is_the_reference_s() -> None:
    """P-28, P-150, P-153: one feature; the generation is no part of it."""
    (feature,) = tpu.PROVIDER.get_all_configs()
    assert (feature.name, feature.values, feature.multi_value) == (
        "present",
        ["true", "false"],
        False,
    )


def test_a_machine_with_a_tpu_has_one(v5e: Path) -> None:
    """P-150, P-151: exactly one value is supported."""
    detection = _detect(v5e)
    assert values_of(detection) == {"present": ("true",)}
    assert detection.warnings == ()


@pytest.mark.parametrize("system", ["Linux", "Windows", "Darwin"])
def test_every_other_machine_has_none(tmp_path: Path, system: str) -> None:
    """P-150: that is an answer, so that builds for machines without one can be chosen."""
    detection = _detect(tmp_path, system=system)
    assert (detection.status, detection.warnings) == (Status.SUPPORTED, ())
    assert values_of(detection) == {"present": ("false",)}
    assert detection.evidence


@pytest.mark.parametrize("system", ["Windows", "Darwin"])
def test_other_systems_are_not_looked_at(v5e: Path, system: str) -> None:
    """P-151: only Linux has TPUs."""
    assert values_of(_detect(v5e, system=system)) == {"present": ("false",)}


@pytest.mark.parametrize("word", ["1", "true", "True", "YES", " yes "])
def test_it_can_be_forced(tmp_path: Path, word: str) -> None:
    """P-152: in any case; the bus is not looked at."""
    detection = _detect(tmp_path, {FORCE: word})
    assert values_of(detection) == {"present": ("true",)}
    assert detection.evidence == (Evidence(FORCE, word.strip()),)


@pytest.mark.parametrize(
    ("word", "warned"), [("0", False), ("no", False), ("FALSE", False), ("on", True), ("2", True)]
)
def test_everything_else_means_no(v5e: Path, word: str, warned: bool) -> None:  # noqa: FBT001
    """P-152: a word that looks like yes is warned of."""
    detection = _detect(v5e, {FORCE: word})
    assert values_of(detection) == {"present": ("false",)}
    assert bool(detection.warnings) is warned
    assert all(FORCE in warning and word in warning for warning in detection.warnings)


def test_an_empty_variable_is_an_unset_one(v5e: Path) -> None:
    """P-73: it forces nothing."""
    assert values_of(_detect(v5e, {FORCE: " "})) == {"present": ("true",)}


def test_our_own_variable_counts_more(tmp_path: Path) -> None:
    """P-73, P-153: it may hold both values, and name a generation."""
    environ = {
        FORCE: "0",
        "WHEELFIT_OVERRIDE_TPU_GENERATION": "v6e",
        "WHEELFIT_OVERRIDE_TPU_PRESENT": "true,false",
    }
    machine = Machine(view_of(tmp_path, environ))
    detection = detection_of("tpu", machine)
    assert values_of(detection) == {"present": ("true", "false"), "generation": ("v6e",)}
    assert machine.overrides_in_effect()[0] == f"{FORCE}=0"


def test_the_generation_is_told_on_request(v5e: Path) -> None:
    """P-43, P-153: after what the reference lists, and never in its mode."""
    assert list(values_of(_detect(v5e, tpu_generation=True)).items()) == [
        ("present", ("true",)),
        ("generation", ("v5e",)),
    ]
    as_reference = _detect(v5e, tpu_generation=True, reference=True)
    assert values_of(as_reference) == {"present": ("true",)}


def test_no_generation_without_a_tpu(tmp_path: Path) -> None:
    """P-153: the option changes nothing where there is none."""
    assert _detect(tmp_path, tpu_generation=True) == _detect(tmp_path)


@pytest.mark.parametrize(
    "chips",
    [
        (TpuChip("0000:00:05.0", 0x0056, ""),),
        (TpuChip("0000:00:05.0", 0x0063, "v5e"), TpuChip("0000:00:06.0", 0x006F, "v6e")),
    ],
)
def test_an_unclear_generation_is_told_about(chips: tuple[TpuChip, ...]) -> None:
    """P-153: no public name, or two of them: then no generation, and a warning."""
    detection = tpu.supported(TpuFiles(chips, ("/dev/vfio/0",)), with_generation=True)
    assert values_of(detection) == {"present": ("true",)}
    assert "generation" in detection.warnings[0]


def test_a_tpu_that_programs_cannot_reach_is_told_about(v5e: Path) -> None:
    """P-74, P-151: a container sees the bus and not the device; the answer stays."""
    (v5e / "dev/vfio/0").unlink()
    detection = _detect(v5e)
    assert values_of(detection) == {"present": ("true",)}
    assert "a container needs" in detection.warnings[0]


_TEXTS = st.sampled_from(
    [
        b"0x1ae0",
        b"0x0063\n",
        b"0x0027",
        b"0x8086",
        b"0x030000",
        b"DRIVER=xe\n",
        b"",
        b"\xff\n",
        b"0x",
    ]
) | st.binary(max_size=8)
_FILES = ("vendor", "device", "class", "uevent", "subsystem_device")
_BUS = st.lists(st.dictionaries(st.sampled_from(_FILES), _TEXTS), max_size=4)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bus=_BUS)
def test_no_bus_is_an_exception(
    tmp_path_factory: pytest.TempPathFactory, bus: list[dict[str, bytes]]
) -> None:
    """P-74, P-133, P-151: whatever is on the bus, both providers have an answer."""
    root = tmp_path_factory.mktemp("machine")
    for number, files in enumerate(bus):
        folder = root / f"sys/bus/pci/devices/0000_00_{number:02x}.0"
        folder.mkdir(parents=True)
        write_files(folder, files)
    machine = Machine(view_of(root))
    found, other = detection_of("tpu", machine), detection_of("intel", machine)
    assert found.status is Status.SUPPORTED
    assert found.features[0].values in (("true",), ("false",))
    assert (other.status, other.features) == (Status.NOTHING, ())
    tpu_there = any(
        files.get("vendor") == b"0x1ae0" and files.get("device") in (b"0x0063\n", b"0x0027")
        for files in bus
    )
    assert found.features[0].values == ("true",) or not tpu_there


def test_the_bus_is_walked_once_for_both(v5e: Path) -> None:
    """P-22: the second provider gets what the first one saw."""
    machine = Machine(view_of(v5e))
    detection_of("intel", machine)
    (v5e / "sys/bus/pci/devices/0000_00_05.0/vendor").unlink()
    assert values_of(detection_of("tpu", machine)) == {"present": ("true",)}
