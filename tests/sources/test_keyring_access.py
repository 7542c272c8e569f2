"""Passwords from keyring."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from wheelfit.sources.keyring_access import ImportedKeyring, KeyringProgram, open_keyring

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in program is a script")


def program(folder: Path, body: str) -> str:
    """Write a program named keyring and return the PATH with it."""
    path = folder / "keyring"
    path.write_text(f"#!{sys.executable}\nimport json, sys\n{body}\n")
    path.chmod(0o755)
    return str(folder)


GOOD = """
service, user = (sys.argv[4:] + [None])[:2]
assert sys.argv[1:4] == ["--mode=creds", "--output=json", "get"]
print(json.dumps({"username": user or "someone", "password": f"for {service}"}))
"""


def test_program(tmp_path: Path) -> None:
    """The program is asked as pip asks it."""
    keyring = open_keyring(
        "subprocess", environ={"PATH": program(tmp_path, GOOD)}, note=pytest.fail
    )
    assert keyring is not None
    assert keyring.find("h", None) == ("someone", "for h")
    assert keyring.find("h", "me") == ("me", "for h")


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ("sys.exit(1)", False),
        ("print('?')", True),
        ("print('[]')", True),
        ("sys.exit('error: unrecognized arguments: --mode=creds --output=json')", True),
    ],
)
def test_program_without_answer(tmp_path: Path, body: str, noted: bool) -> None:  # noqa: FBT001
    """No password is not a problem; an answer that is not understood is noted."""
    notes: list[str] = []
    path = program(tmp_path, body)
    keyring = KeyringProgram(f"{path}/keyring", {"PATH": path}, notes.append)
    assert keyring.find("h", None) is None
    assert bool(notes) is noted


def test_choices(tmp_path: Path) -> None:
    """Disabled is none; a program that is not there is none."""
    environ = {"PATH": str(tmp_path)}
    assert open_keyring("disabled", environ=environ, note=pytest.fail) is None
    assert open_keyring("subprocess", environ=environ, note=pytest.fail) is None
    assert isinstance(open_keyring("import", environ=environ, note=pytest.fail), ImportedKeyring)


def test_package_that_is_missing_or_fails() -> None:
    """Whether the package is missing or fails, there is no password and no traceback."""
    notes: list[str] = []
    keyring = ImportedKeyring(notes.append)
    # The back end of a machine without desktop finds nothing or fails.
    assert keyring.find("wheelfit-test.invalid", "nobody") is None
    assert keyring.find("wheelfit-test.invalid", "nobody") is None
    assert len(notes) <= 1
