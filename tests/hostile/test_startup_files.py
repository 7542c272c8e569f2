"""Files that run code whenever Python starts (the `.pth` of LiteLLM, 2026-03)."""

from __future__ import annotations

import sys

import pytest
from hostile.archives import rebuilt
from hostile.conftest import Site

from wheelfit.testing.wheels import build_wheel

NAME = "demo-2-py3-none-any.whl"
LIBRARY = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
WAYS = [
    "demo.pth",
    "DEMO.PTH",
    "demo.start",
    "sitecustomize.py",
    "usercustomize.py",
    "usercustomize.pyc",
    "sitecustomize.cpython-311-x86_64-linux-gnu.so",
    "sitecustomize/__init__.py",
]
BY_DATA = [
    "demo-2.data/purelib/demo.pth",
    "demo-2.data/purelib/usercustomize.py",
    "demo-2.data/platlib/sitecustomize.py",
    "demo-2.data/platlib/DEMO.PTH",
    f"demo-2.data/data/{LIBRARY}/demo.pth",
    f"demo-2.data/data/{LIBRARY}/demo.start",
    f"demo-2.data/data/{LIBRARY}/usercustomize/__init__.py",
]
HARMLESS = [
    "demo/demo.pth",
    "demo/sitecustomize.py",
    "sitecustomize_demo.py",
    "demo.pth.txt",
    "demo-2.data/data/share/demo.pth",
    "demo-2.data/scripts/sitecustomize.py",
]


def offer(site: Site, member: str) -> None:
    """Put a wheel with one more file on the index."""
    wheel = build_wheel(site.wheels, "demo", "2")
    site.shelf.put(rebuilt(wheel, {member: b"import demo\n"}), NAME)


@pytest.mark.parametrize("member", WAYS)
def test_every_way_is_seen(site: Site, member: str) -> None:
    """Where a wheel has such a file put does not matter: it is told, or refused (exit code 7)."""
    offer(site, member)
    said = site.refused("demo", "--startup-files", "deny", code=7)
    assert said.error["code"] == "startup-file"
    assert said.error["where"] == NAME
    assert member in said.error["message"]
    assert not (site.library / "demo").exists()
    said = site.run("install", "demo")
    assert "runs code whenever Python starts: " in said.err


@pytest.mark.parametrize("how", ["warn", "allow", "deny"])
def test_by_the_data_folder_they_are_refused(site: Site, how: str) -> None:
    """There is no reason to bring such a file by a ``.data`` folder, and nothing allows it."""
    for number, member in enumerate(BY_DATA):
        folder = site.wheels / str(number)
        folder.mkdir()
        wheel = build_wheel(folder, "demo", "2")
        wheel.write_bytes(rebuilt(wheel, {member: b"import demo\n"}))
        said = site.refused(wheel, "--startup-files", how, code=4)
        assert said.error["code"] == "invalid-wheel"
        assert "it runs code whenever Python starts" in said.error["message"]


@pytest.mark.parametrize("name", ["demo.pth", "sitecustomize.py"])
def test_by_the_data_folder_into_a_target(site: Site, name: str) -> None:
    """The root of a target is its library folder, and its prefix too."""
    site.flat = True
    offer(site, f"demo-2.data/data/{name}")
    site.refused("demo", code=4)


@pytest.mark.parametrize("member", HARMLESS)
def test_others_are_not_meant(site: Site, member: str) -> None:
    """The same names elsewhere do nothing when Python starts."""
    offer(site, member)
    result = site.run("install", "demo", "--startup-files", "deny")
    assert "whenever Python starts" not in result.err


def test_they_can_be_allowed(site: Site) -> None:
    """Who knows the package need not be told each time."""
    offer(site, "demo.pth")
    result = site.run("install", "demo", "--startup-files", "allow")
    assert "whenever Python starts" not in result.err
    assert (site.library / "demo.pth").exists()


def test_a_setting_will_do(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user denies them once for all, and the command line has the last word."""
    offer(site, "demo.pth")
    monkeypatch.setenv("WHEELFIT_STARTUP_FILES", "deny")
    site.refused("demo", code=7)
    site.run("install", "demo", "--startup-files", "warn")


def test_nothing_else_is_installed_either(site: Site) -> None:
    """What is refused stops the whole installation before anything is changed."""
    offer(site, "demo.pth")
    site.shelf.put(build_wheel(site.wheels, "other", "1"))
    site.refused("other", "demo", "--startup-files", "deny", code=7)
    assert not (site.library / "other").exists()
