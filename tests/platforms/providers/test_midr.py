"""P-113: identification registers of Arm cores."""

from __future__ import annotations

from pathlib import Path

from wheelfit_runtime.platforms.facts import Core
from wheelfit_runtime.platforms.providers.aarch64 import probes
from wheelfit_runtime.platforms.system_view import SystemView


def test_implementer_and_part_are_taken_out() -> None:
    """P-113, P-115: variant and revision do not matter; what is not a number is left out."""
    texts = ["0x00000000413fd0c1", "0x410fd0c0", "0x00000000610f0320", "", "nonsense"]
    assert probes.parse_midr(texts) == (Core(0x41, 0xD0C), Core(0x61, 0x032))


def test_registers_of_every_processor_are_read(tmp_path: Path) -> None:
    """P-70, P-74: a processor without the file, and folders that are none, do not matter."""
    folder = tmp_path / "sys/devices/system/cpu"
    for name, text in {"cpu0": "0x410fd4f0\n", "cpu11": "0x410fd460\n", "cpufreq": "x"}.items():
        place = folder / name / "regs/identification"
        place.mkdir(parents=True)
        (place / "midr_el1").write_text(text)
    (folder / "cpu1").mkdir()
    assert probes.read_midr(SystemView(root=str(tmp_path))) == ("0x410fd4f0", "0x410fd460")
    assert probes.read_midr(SystemView(root=str(tmp_path / "empty"))) == ()
