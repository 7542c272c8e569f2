"""The output of a project's build backend."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from error_codes import raises_code
from projects.writing import write_project

from wheelfit.projects.backend import Backend, BackendProcesses

_HOOKS = """

def get_requires_for_build_wheel(config_settings=None):
    sys.stdout.write("one\\n\\ntwo")
    return []


def build_wheel(*args, **kwargs):
    sys.stdout.write("last words")
    sys.exit(3)
"""


def test_last_line_without_an_end(tmp_path: Path) -> None:
    """What a backend printed last is echoed, also if it has failed."""
    project = write_project(tmp_path / "p", "demo", backend=_HOOKS)
    lines: list[str] = []
    backend = Backend(
        project,
        "demo",
        Path(sys.executable),
        os.environ,
        settings={},
        log=tmp_path / "log",
        children=BackendProcesses(),
        echo=lines.append,
    )
    assert backend.requires_for_build("wheel") == ()
    assert lines == ["one", "", "two"]
    with raises_code("build-failed") as caught:
        backend.build("wheel", tmp_path / "wheels")
    Path(caught.value.where or "").unlink()
    assert lines[3:] == ["last words"]
