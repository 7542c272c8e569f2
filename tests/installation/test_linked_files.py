"""Claims about installed files that are links into the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from installation.bench import Install

from wheelfit.installation.environment import Environment
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.linking import Linker, LinkMode


@pytest.mark.parametrize("mode", list(LinkMode))
@pytest.mark.parametrize("written", ["x = 2\n", "x = 10\n"], ids=["same size", "longer"])
def test_an_edit(
    environment: Environment,
    home: Path,
    again: Install,
    mode: LinkMode,
    written: str,
) -> None:
    """What somebody edits in an environment never gets into another installation."""
    path = build_wheel(home, "demo", "1", files={"demo.py": "x = 1\n", "rest.py": ""})
    notes: list[str] = []

    def install() -> Path:
        again(environment, path, note=notes.append, linker=Linker(mode))
        return environment.schemes.purelib / "demo.py"

    module = install()
    before = module.stat()
    with module.open("r+") as file:
        file.write(written)
    assert module.stat().st_ino == before.st_ino
    is_linked = before.st_nlink > 1
    assert install().read_text() == "x = 1\n"
    assert len(notes) == is_linked
    assert module.stat().st_ino != before.st_ino
    assert install().read_text() == "x = 1\n"
    assert len(notes) == is_linked
