"""The clock jumps, as it does after a reset battery or with a wrong date."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.scene import Scene

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

# A process whose clock goes wrong; nothing of wheelfit's is touched.
OTHER_CLOCK = """
import time
_now, _now_ns = time.time, time.time_ns
time.time = lambda: _now() + {0}
time.time_ns = lambda: _now_ns() + {0} * 10**9
"""


@pytest.mark.parametrize("years", [-10, 10])
def test_jumps(tmp_path: Path, years: int) -> None:
    """A cache from another decade, of the past or of the future, hides no new release."""
    wheels = tmp_path / "wheels"
    build_wheel(wheels, "demo", "1.0")
    wrong = tmp_path / "clock"
    wrong.mkdir()
    seconds = years * 365 * 24 * 3600
    (wrong / "sitecustomize.py").write_text(OTHER_CLOCK.format(seconds))
    with RecordingIndex(wheels) as index:
        scene = Scene(tmp_path / "scene", index.url)

        def install_at_a_wrong_time() -> None:
            process = scene.start("install", "demo", environ={"PYTHONPATH": str(wrong)})
            out, err = process.communicate()
            assert process.returncode == 0, out + err

        install_at_a_wrong_time()
        build_wheel(wheels, "demo", "2.0")
        assert "installed demo 2.0" in scene.must("install", "--upgrade", "demo").out
        install_at_a_wrong_time()
