"""User-Agent headers of pip and uv."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import Tag
from server.proxy.behind import target_of, user_agent

from wheelfit.core.compatible_tags import linux_platforms, macos_platforms
from wheelfit.server.proxy.user_agents import UNKNOWN, read_user_agent

pytestmark = pytest.mark.integration


def test_pip_and_uv() -> None:
    """Tool, command, Python and platform are read, with the libc version."""
    asker = read_user_agent(user_agent("uv", "pip install", python="3.12.4"))
    assert (asker.tool, asker.command, asker.python) == ("uv", "pip", "3.12.4")
    assert asker.platforms == linux_platforms("x86_64", glibc=36)
    assert not asker.writes_uv_lock
    assert read_user_agent(user_agent("uv", "lock")).writes_uv_lock
    assert not read_user_agent(user_agent("pip", "lock")).writes_uv_lock


@pytest.mark.parametrize(
    ("said", "platform"),
    [
        ({"distro": {"libc": {"lib": "musl", "version": "1.2"}}}, "musllinux_1_2_x86_64"),
        (
            {"cpu": "arm64", "system": {"name": "Darwin"}, "distro": {"version": "14.5"}},
            "macosx_14_0_arm64",
        ),
        ({"cpu": "AMD64", "system": {"name": "Windows"}}, "win_amd64"),
    ],
)
def test_other_platforms(said: dict[str, object], platform: str) -> None:
    """musl, macOS and Windows are recognised."""
    assert platform in read_user_agent(user_agent("pip", **said)).platforms  # type: ignore[arg-type]


def test_tags_of_the_client() -> None:
    """The tags are those of the client's Python."""
    target = read_user_agent(user_agent("pip", python="3.12.4")).target(target_of())
    assert target is not None
    assert target.tags.best(frozenset([Tag("cp312", "cp312", "manylinux_2_36_x86_64")])) is not None
    assert target.tags.best(frozenset([Tag("cp313", "cp313", "manylinux_2_36_x86_64")])) is None
    assert target.environment["python_version"] == "3.12"


def test_client_on_another_system() -> None:
    """A client on another system gets the machine's platform tags."""
    base = target_of(macos_platforms("arm64", 14))
    target = read_user_agent(user_agent("pip", python="3.12.4")).target(base)
    assert target is not None
    assert {tag.platform for tag in target.tags} == {tag.platform for tag in base.tags}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pip/1",
        "pip/1 {",
        "pip/1 []",
        'pip/1 {"cpu": 1, "distro": [], "python": {}, "system": "Linux", "installer": 3}',
        "poetry/2 CPython/3.11",
        "Mozilla/5.0",
        "uv/1 " + "[" * 3000,
        "pip/1 " + json.dumps({"python": "9" * 100}),
        "pip/1 " + json.dumps({"python": "4.0", "implementation": {"name": "CPython"}}),
        "pip/1 " + json.dumps({"python": "3." + "9" * 9, "implementation": {"name": "../x"}}),
        user_agent("pip", cpu="../../etc"),
        user_agent("pip", distro={"libc": {"lib": "glibc", "version": "2.999999999"}}),
        "pip/1 " + " " * 9000,
    ],
)
def test_invalid_values(text: str) -> None:
    """Invalid values count as missing."""
    asker = read_user_agent(text)
    assert asker.python in ("", "3.13.1")
    if asker.python:
        assert asker.platforms == ()


@given(st.text(max_size=300))
def test_arbitrary_text(text: str) -> None:
    """Any text can be read."""
    read_user_agent(f"pip/1 {text}").target(target_of())
    assert read_user_agent(text) is not None
    assert UNKNOWN.target(target_of()) is None
