"""Wheels of a few modules, written without a build backend."""

from __future__ import annotations

from pathlib import Path

from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.wheels.archive import WheelArchive

MODULES = {"some/__init__.py": "", "some/answer.py": "ANSWER = 42\n"}


def test_the_wheel_is_sound(tmp_path: Path) -> None:
    """What is written passes our own checks, RECORD hashes included."""
    path = write_plain_wheel(tmp_path, "Some.Thing", "1.0", MODULES)
    assert path.name == "some_thing-1.0-py3-none-any.whl"
    with WheelArchive(path) as wheel:
        wheel.verify()
        assert wheel.read("some/answer.py") == b"ANSWER = 42\n"
        assert b"Name: Some.Thing\n" in wheel.metadata()


def test_equal_arguments_give_equal_bytes(tmp_path: Path) -> None:
    """B-39: nothing of the time or the place gets into the wheel."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    assert (
        write_plain_wheel(first, "some", "1", MODULES).read_bytes()
        == write_plain_wheel(second, "some", "1", MODULES).read_bytes()
    )
