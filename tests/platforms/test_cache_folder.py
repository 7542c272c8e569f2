"""Where things are kept between two runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wheelfit_runtime.libraries.settings import store_folder
from wheelfit_runtime.platforms.cache_folder import (
    cache_folder_of,
    default_cache_folder,
    default_state_folder,
    state_folder_of,
)


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "/home/me/.cache/wheelfit"),
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/wheelfit"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/wheelfit"),
        ("darwin", {"XDG_CACHE_HOME": "/c"}, "/home/me/Library/Caches/wheelfit"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/wheelfit/Cache"),
        ("win32", {}, "/home/me/AppData/Local/wheelfit/Cache"),
        ("win32", {"WHEELFIT_CACHE_DIR": "/mine"}, "/mine"),
    ],
)
def test_default_cache_folder(platform: str, environ: dict[str, str], expected: str) -> None:
    """Caches lie where the system wants them, or where the user says."""
    assert Path(default_cache_folder(environ, "/home/me", platform)).as_posix() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="names folders of Linux")
def test_where_this_user_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is absolute whatever the variable is, and without a home it is one nobody has."""
    monkeypatch.chdir(tmp_path)
    assert cache_folder_of({"WHEELFIT_CACHE_DIR": "here"}) == str(tmp_path / "here")
    assert cache_folder_of({"HOME": "/home/me"}) == "/home/me/.cache/wheelfit"
    assert cache_folder_of({"HOME": "nowhere"}) == "/nonexistent/.cache/wheelfit"


@pytest.mark.skipif(sys.platform != "linux", reason="names folders of Linux")
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "/home/me/.cache/wheelfit/libraries"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/wheelfit/libraries"),
        ({"WHEELFIT_CACHE_DIR": "/mine"}, "/mine/libraries"),
        ({"WHEELFIT_CACHE_DIR": "/mine", "WHEELFIT_LIBRARY_STORE": "/own"}, "/own"),
    ],
)
def test_library_store(environ: dict[str, str], expected: str) -> None:
    """The library store lies with all the rest, unless it has a place of its own."""
    assert store_folder({"HOME": "/home/me", **environ}) == expected


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "/home/me/.local/state/wheelfit"),
        ("linux", {"XDG_STATE_HOME": "/s"}, "/s/wheelfit"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "/home/me/.local/state/wheelfit"),
        ("darwin", {"XDG_STATE_HOME": "/s"}, "/home/me/Library/Application Support/wheelfit"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/wheelfit/State"),
    ],
)
def test_default_state_folder(platform: str, environ: dict[str, str], expected: str) -> None:
    """What cannot be made anew does not lie among caches, which people delete."""
    assert Path(default_state_folder(environ, "/home/me", platform)).as_posix() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="names folders of Linux")
def test_where_this_user_has_its_state() -> None:
    """Its path is absolute, too."""
    assert state_folder_of({"HOME": "/home/me"}) == "/home/me/.local/state/wheelfit"
    assert state_folder_of({"HOME": "nowhere"}) == "/nonexistent/.local/state/wheelfit"
