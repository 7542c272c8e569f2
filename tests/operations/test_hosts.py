"""What a user calls a machine: files, own host files by name, presets."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from error_codes import raises_code

from wheelfit.core import strict_toml
from wheelfit.core.host_file import HostFile, HostProvider
from wheelfit.core.host_file_mapping import read_host_file
from wheelfit.operations.hosts import host_text, hosts_folder, open_host, own_hosts
from wheelfit_runtime.errors import FileProblem, UnknownHost
from wheelfit_runtime.platforms.features import Evidence, FeatureConfig

FILE = "[metadata]\nversion = '0.1'\norigin = 'a test'\n"
PRESET = "cuda-12.8-sm90"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose configuration lies in a folder of the test."""
    (tmp_path / "config" / "hosts").mkdir(parents=True)
    return {"WHEELFIT_CONFIG_FILE": str(tmp_path / "config" / "wheelfit.toml")}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class TestNames:
    """Which of several things is meant."""

    @pytest.mark.parametrize("name", ["node.toml", "./node", "../here/node"])
    def test_a_path(self, name: str, environ: dict[str, str], here: Path) -> None:
        """What has a slash or ends in .toml is a file, and nothing else."""
        (here / Path(name).name).write_text(FILE)
        assert open_host(name, environ).file.origin == "a test"
        assert open_host(name, environ).kind == "file"

    @pytest.mark.parametrize("name", [f"./{PRESET}", f"{PRESET}.toml"])
    def test_a_path_that_is_not_there(self, name: str, environ: dict[str, str], here: Path) -> None:
        """A path is never taken for a preset."""
        assert list(here.iterdir()) == []
        with pytest.raises(FileProblem):
            open_host(name, environ)

    def test_a_host_file_of_ones_own(self, environ: dict[str, str], here: Path) -> None:
        """A name means the file in the user's folder, not one that happens to lie around."""
        (here / "node7").write_text(FILE.replace("a test", "a trap"))
        (hosts_folder(environ) / "node7.toml").write_text(FILE)
        assert open_host("node7", environ).file.origin == "a test"
        assert list(own_hosts(environ)) == ["node7"]

    def test_ones_own_before_the_preset(self, environ: dict[str, str]) -> None:
        """Who keeps a file under the name of a preset means it, and is told."""
        (hosts_folder(environ) / f"{PRESET}.toml").write_text(FILE)
        host = open_host(PRESET, environ)
        assert host.file.origin == "a test"
        assert host.notes == (f"{PRESET} is your own host file, not the preset",)

    def test_the_preset_before_a_file_here(self, environ: dict[str, str], here: Path) -> None:
        """A file that lies in the folder does not change what a preset means; a note says so."""
        (here / PRESET).write_text(FILE)
        host = open_host(PRESET, environ)
        assert host.kind == "preset"
        assert host.notes == (
            f"{PRESET} is the preset; for the file of that name write ./{PRESET}",
        )

    def test_a_file_without_ending(self, environ: dict[str, str], here: Path) -> None:
        """Any other name is that of a file, if there is one."""
        (here / "node").write_text(FILE)
        assert open_host("node", environ).file.origin == "a test"

    @pytest.mark.parametrize(
        ("name", "close"), [("noed7", "node7"), ("macosarm64", "macos-arm64"), ("x" * 5000, "")]
    )
    def test_nothing_of_that_name(
        self, name: str, close: str, environ: dict[str, str], here: Path
    ) -> None:
        """The error offers what is close, and says where to look."""
        (hosts_folder(environ) / "node7.toml").write_text(FILE)
        assert here.is_dir()
        with pytest.raises(UnknownHost) as excinfo:
            open_host(name, environ)
        assert close in (excinfo.value.hint or "")
        assert "wheelfit host list" in (excinfo.value.hint or "")
        assert len(excinfo.value.message) < 200

    def test_a_slip_of_a_preset(self, environ: dict[str, str]) -> None:
        """What is made like a preset is judged as one."""
        with pytest.raises(UnknownHost, match="not a preset"):
            open_host("cuda-12.8-sm91", environ)
        with raises_code("invalid-preset"):
            open_host("cuda-12.8-sm90+macos-arm64", environ)

    def test_without_a_folder(self, tmp_path: Path) -> None:
        """Who has no host files of their own has none."""
        assert own_hosts({"WHEELFIT_CONFIG_FILE": str(tmp_path / "no" / "wheelfit.toml")}) == {}
        assert own_hosts({"WHEELFIT_CONFIG_FILE": "/dev/null"}) == {}


class TestReading:
    """What is wrong with a file is said with its place."""

    def test_the_line(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """The error leads to the line."""
        path = tmp_path / "node.toml"
        path.write_text(FILE + "\n[[provider]]\nnamespace = 'n'\nproperties = {f = ['A']}\n")
        with raises_code("invalid-host-file") as excinfo:
            open_host(str(path), environ)
        assert excinfo.value.where == f"{path}, line 7"
        assert excinfo.value.message.startswith("provider[0].properties.f lists 'A'")

    def test_the_size(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """F-30: what is too large is called so, whatever it holds."""
        path = tmp_path / "node.toml"
        path.write_text("#" * (strict_toml.DEFAULT_LIMITS.size + 1))
        with raises_code("invalid-host-file") as excinfo:
            open_host(str(path), environ)
        assert excinfo.value.message == "the host file has more than 4194304 bytes"


class TestWriting:
    """Files are for people too."""

    def test_lists_are_on_few_lines(self) -> None:
        """A short list is one line, a long one is filled, and it reads back the same."""
        values = tuple(f"{number}_real" for number in range(100))
        file = HostFile(
            (
                HostProvider("n", (FeatureConfig("a", values), FeatureConfig("b", ("1", "2")))),
                HostProvider("m", evidence=(Evidence("a\n[\n", 'x = [\n    "1",\n]\n"'),)),
            ),
            overrides=("A=1,2", '--label "x=y"', "\x85\u2028"),
        )
        text = host_text(file)
        assert 'b = ["1", "2"]' in text
        assert 'feature-order = ["a", "b"]' in text
        assert len(text.splitlines()) < 45
        assert max(map(len, text.splitlines())) <= 100
        assert read_host_file(tomllib.loads(text), "f") == file

    @pytest.mark.parametrize("name", [PRESET, "macos-arm64", "windows-arm64", "musllinux-aarch64"])
    def test_a_preset_reads_back(self, name: str) -> None:
        """What a preset is, its file is too; and the file is the same each time."""
        file = open_host(name, {}).file
        assert read_host_file(tomllib.loads(host_text(file)), "f") == file
        assert host_text(open_host(name, {}).file) == host_text(file)
