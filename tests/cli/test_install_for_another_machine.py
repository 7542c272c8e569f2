"""Installation for another machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sampled_cases import sampled

from wheelfit.cli.main import main
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

HOST = """
[metadata]
created-by = "a test"
version = "0.1"

[interpreter]
implementation = "cpython"
version = "3.13.1"

[platform]
machine = "aarch64"
glibc = "2.39"
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write wheels for two Pythons, and return their folder."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    major, minor = sys.version_info[:2]
    folder = tmp_path / "wheels"
    build_wheel(folder, "some", "1.0", tag="cp313-cp313-manylinux_2_28_aarch64")
    build_wheel(folder, "some", "1.0", tag=f"cp{major}{minor}-none-any")
    return str(folder)


def run(index: str, *words: str | Path) -> int:
    """Install from the served folder."""
    with RecordingIndex(Path(index)) as server:
        return main(["install", "--no-cache-dir", "-i", server.url, *map(str, words)])


def test_target_folder(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--target`` the other machine's wheel is installed into a folder."""
    host = tmp_path / "host.toml"
    host.write_text(HOST)
    assert run(index, "--for", host, "--target", tmp_path / "there", "some") == 0
    assert f"choosing for the machine in {host}" in capsys.readouterr().err
    record = json.loads(next((tmp_path / "there").glob("*.dist-info/wheelfit.json")).read_bytes())
    assert "cp313-cp313-manylinux_2_28_aarch64" in json.dumps(record)


def test_environment_of_this_machine(
    index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An environment of this machine gets no wheels for another one."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    before = sorted(environment.rglob("*"))
    host = tmp_path / "host.toml"
    host.write_text(HOST)
    for words in ((), ("--dry-run",)):
        assert run(index, "--for", host, *words, "--python", environment, "some") == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "but not this environment" in captured.err
        assert "--target" in captured.err
    assert run(index, "--for", host, "--dry-run", "--target", tmp_path / "there", "some") == 0
    assert sorted(environment.rglob("*")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a glibc")
def test_not_for_a_newer_glibc_into_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Conda's variable chooses wheels as for another machine, so they go into a folder only."""
    machine = os.uname().machine
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.99")
    build_wheel(tmp_path / "wheels", "some", "1.0", tag=f"py3-none-manylinux_2_98_{machine}")
    index = str(tmp_path / "wheels")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    assert run(index, "--python", environment, "some") == 2
    assert "but not this environment" in capsys.readouterr().err
    assert run(index, "--target", tmp_path / "there", "some") == 0
    assert "CONDA_OVERRIDE_GLIBC=2.99" in capsys.readouterr().err
    (record,) = (tmp_path / "there").glob("*.dist-info/wheelfit.json")
    assert json.loads(record.read_text())["overrides"] == ["CONDA_OVERRIDE_GLIBC=2.99"]


WINDOWS = HOST.replace('machine = "aarch64"', 'tags = ["win_amd64"]').replace('glibc = "2.39"', "")
MACOS = HOST.replace("aarch64", "arm64").replace('glibc = "2.39"', 'macos = "14.0"')


class TestForbiddenFileNames:
    """B-34: file names that only some systems forbid, which depend on the target."""

    @pytest.mark.parametrize(
        "name", sampled(["license./MIT", "odd/aux.py", "odd/a:b.py", "odd/X.py"], fast={2})
    )
    def test_names_on_linux(
        self, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        """On Linux a wheel with such names is installed completely, without a warning."""
        environment = tmp_path / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        build_wheel(Path(index), "odd", "1.0")
        build_wheel(Path(index), "odd", "2.0", files={name: "1", "odd/x.py": "2"})
        assert run(index, "--python", environment, "odd") == 0
        (library,) = environment.glob("lib/python*/site-packages")
        assert (library / "odd-2.0.dist-info").is_dir()
        assert (library / name).read_text() == "1"
        assert (library / "odd/x.py").read_text() == "2"
        assert name not in capsys.readouterr().err
        assert main(["uninstall", "--yes", "--python", str(environment), "odd"]) == 0
        assert not (library / name).exists()

    @pytest.mark.parametrize(
        ("host", "name", "reason"),
        [
            (WINDOWS, "license./MIT", "ends with a dot"),
            (WINDOWS, "odd/aux.py", "name of a device on Windows"),
            (WINDOWS, "odd/a:b.py", "contains a colon"),
            (WINDOWS, "odd/X.py", "one file on systems that ignore case"),
            (MACOS, "odd/X.py", "one file on systems that ignore case"),
        ],
    )
    def test_forbidden_names_of_the_target(
        self,
        index: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        host: str,
        name: str,
        reason: str,
    ) -> None:
        """For a target that forbids the name nothing is installed."""
        (tmp_path / "host.toml").write_text(host)
        build_wheel(Path(index), "odd", "1.0", files={name: "", "odd/x.py": ""})
        target = tmp_path / "there"
        assert run(index, "--for", tmp_path / "host.toml", "--target", target, "odd") == 4
        assert reason in capsys.readouterr().err
        assert not target.exists()

    def test_device_names_on_macos(self, index: str, tmp_path: Path) -> None:
        """Only Windows forbids device names."""
        (tmp_path / "host.toml").write_text(MACOS)
        build_wheel(Path(index), "odd", "1.0", files={"odd/aux.py": ""})
        target = tmp_path / "there"
        assert run(index, "--for", tmp_path / "host.toml", "--target", target, "odd") == 0
        assert (target / "odd" / "aux.py").is_file()
