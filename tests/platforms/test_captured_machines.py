"""P-76: captured machines are replayed; to add one, add a folder to ``tests/machines``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wheelfit.platforms.discovery import Machine
from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.machines import capture, expectation, needs_driver, open_machine

MACHINES = Path(__file__).parents[1] / "machines"


@pytest.mark.parametrize("folder", sorted(MACHINES.iterdir()), ids=lambda folder: folder.name)
def test_a_captured_machine_is_described_as_expected(folder: Path, tmp_path: Path) -> None:
    """P-70, P-75, P-76: the same files and environment always give the same answer."""
    if needs_driver(folder) and find_compiler() is None:
        pytest.skip("needs a C compiler (cc, gcc or clang) for the fake NVIDIA driver")
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert expectation(open_machine(folder, tmp_path)) == expected


def test_a_capture_of_this_machine_answers_as_this_machine_does(tmp_path: Path) -> None:
    """P-75: what probes read is enough to replay the decision elsewhere."""
    here = Machine(environ={"WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "75_real", "HOME": "/secret"})
    capture(tmp_path / "machine", here)
    replayed = open_machine(tmp_path / "machine", tmp_path / "driver")
    for namespace in here.namespaces:
        live, replay = here.detect(namespace), replayed.detect(namespace)
        assert live is not None
        assert replay is not None
        assert (replay.features, replay.status) == (live.features, live.status)
    assert "HOME" not in (tmp_path / "machine" / "environ.json").read_text()


def test_a_capture_of_a_machine_with_gpus_has_a_driver_that_shows_them(tmp_path: Path) -> None:
    """P-75: a driver cannot be copied; what it said is."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler (cc, gcc or clang) for the fake NVIDIA driver")
    original = open_machine(MACHINES / "linux-x86-two-unlike-gpus", tmp_path / "driver")
    capture(tmp_path / "machine", original)
    replayed = open_machine(tmp_path / "machine", tmp_path / "driver again")
    assert expectation(replayed) == expectation(original)
