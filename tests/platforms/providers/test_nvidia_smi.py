"""P-98: the command-line tool is the last resort."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.providers.nvidia import library
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path

LISTING = """
==============NVSMI LOG==============

Timestamp                                 : Tue Nov  3 10:00:00 2026
Driver Version                            : 566.36
CUDA Version                              : 12.7

Attached GPUs                             : 1
"""
TABLE = "0, 8.9, GPU-1234, NVIDIA GeForce RTX 4090\n"


@pytest.mark.parametrize("words", ["CUDA Version", "CUDA UMD Version"])
def test_version_and_gpus_are_read(words: str) -> None:
    """P-98: both spellings of the version are known."""
    driver = library.parse_smi(LISTING.replace("CUDA Version", words), TABLE)
    assert driver is not None
    assert driver.cuda_version == Capability(12, 7)
    assert driver.driver_version == "566.36"
    assert [str(gpu) for gpu in driver.gpus] == ["GPU 0 (NVIDIA GeForce RTX 4090, 8.9)"]


def test_a_tool_too_old_for_the_query_gives_the_version_only() -> None:
    """P-98: an error text in place of the table is not a device."""
    driver = library.parse_smi(LISTING, 'Field "compute_cap" is not a valid field to query.\n')
    assert driver is not None
    assert driver.gpus == ()


@pytest.mark.parametrize("listing", ["", "NVIDIA-SMI has failed because it couldn't communicate"])
def test_no_version_is_no_answer(listing: str) -> None:
    """P-74: nothing usable is no exception."""
    assert library.parse_smi(listing, "") is None


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_the_tool_is_asked_where_no_library_is_found(tmp_path: Path) -> None:
    """P-98, P-89: found on the machine's PATH, run without the mask."""
    script = tmp_path / "opt" / "bin" / "nvidia-smi"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        '[ -z "${CUDA_VISIBLE_DEVICES+set}" ] || exit 1\n'
        f"if [ \"$1\" = -q ]; then cat <<'END'\n{LISTING}END\n"
        f"else cat <<'END'\n{TABLE}END\nfi\n"
    )
    script.chmod(0o755)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    environ = {"PATH": "/usr/bin:/opt/bin", "CUDA_VISIBLE_DEVICES": "0"}
    machine = Machine(SystemView(tmp_path, environ, system="Linux", architecture="x86_64"))
    detection = machine.detect("nvidia")
    assert detection is not None
    assert detection.features[0].values[0] == "12.7"
    assert detection.features[2].values[0] == "89_real"
