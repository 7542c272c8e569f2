"""How the supervisor finds what a plugin started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wheelfit_runtime.platforms.isolated import plugin_child


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_descendants() -> None:
    """P-37: children and their children are found, as the kernel lists them and without it."""
    script = "sleep 60 & (sleep 60 & echo; wait) & wait"
    with subprocess.Popen(
        ["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        found = plugin_child.descendants(os.getpid(), 1000)
        scanned = plugin_child._scanned_children()
        try:
            assert shell.pid in found
            below = plugin_child.descendants(shell.pid, 1000)
            assert len(below) >= 3
            assert set(below) < set(found)
            assert set(scanned(shell.pid)) == set(plugin_child._listed_children(shell.pid))
            assert len(plugin_child.descendants(shell.pid, 1)) < len(below)
        finally:
            os.killpg(shell.pid, 9)
