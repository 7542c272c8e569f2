"""``wheelfit host``."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner, tree

UV_FILE = """
[metadata]
created-by = "uv 0.9"
version = "0.1"

[[provider]]
resolved = ["nvidia-variant-provider==0.0.1"]
plugin-api = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
namespace = "nvidia"

[provider.properties]
cuda_version_lower_bound = ["12.8", "12.7"]
sm_arch = ["90_real"]
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a separate folder for the user's host files."""
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(tmp_path / "config" / "wheelfit.toml"))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "wheelfit.toml").write_text("")
    return tmp_path / "config" / "hosts"


@pytest.fixture
def uv_file(tmp_path: Path) -> Path:
    """Write a variant-lock file of uv."""
    path = tmp_path / "variant-lock.toml"
    path.write_text(UV_FILE)
    return path


class TestList:
    """``host list``."""

    def test_presets(self, run: Runner) -> None:
        """Each preset part has a line; list is the default action."""
        result = run("host", "list")
        assert "  linux-x86_64" in result.out
        assert "  cuda-M.m-sm90" in result.out
        assert "H100, H200, GH200" in result.out
        assert run("host", "list").out == result.out

    def test_filter_words(self, run: Runner) -> None:
        """Words narrow the list, in any order."""
        _, heading, row, machines, *rows = run("host", "list", "h100").out.splitlines()
        assert heading.startswith("NVIDIA GPUs; M.m is the driver's CUDA version")
        assert row.split()[0] == "cuda-M.m-sm90"
        assert machines == "whole machines:"
        assert [row.split()[0] for row in rows] == ["h100-580"]
        assert run("host", "list", "no-such-thing").out == "no host is named no-such-thing\n"

    def test_aliases_share_a_row(self, run: Runner) -> None:
        """Names of the same GPU design share a row, and none is missing."""
        out = run("host", "list").out
        assert "Intel GPU 12.55.8; also arc-a750, flex-170, acm-g10, dg2-g10, ats-m150\n" in out
        presets = run("host", "list", "--json").object["presets"]
        names = set(out.replace(",", " ").split())
        for preset in presets:
            pattern = preset["pattern"]
            short = pattern.partition("-")[2].removeprefix("M.m-")
            assert pattern in names or short in names
        assert len(out.splitlines()) < len(presets)

    def test_own_hosts(self, run: Runner, own_folder: Path) -> None:
        """The user's host files are listed first; a broken one with its fault."""
        run("host", "new", "--save", "node7", "rocm-6.4-gfx942")
        (own_folder / "broken.toml").write_text("[metadata]\nversion = '9'\n")
        found = run("host", "list", "--json").object
        assert found["folder"] == str(own_folder)
        assert [one["name"] for one in found["own"]] == ["broken", "node7"]
        assert "cannot be used" in found["own"][0]["about"]
        assert found["own"][1]["about"].startswith("preset rocm-6.4-gfx942, x86_64, amd")
        assert run("host", "list").out.startswith(f"your own, in {own_folder}\n  broken ")


class TestShow:
    """``host show``."""

    def test_show_preset(self, run: Runner) -> None:
        """Interpreter, platform, tags, and each namespace with values and evidence are shown."""
        out = run("host", "show", "cuda-12.8-sm90+cpu-x86_64-v3").out
        for line in (
            "  describes   preset cuda-12.8-sm90+cpu-x86_64-v3",
            "nvidia: supported",
            "  cuda_version_lower_bound  12.8, 12.7, 12.6, 12.5, 12.4, 12.3, … 11 (32 in all)",
            "  level       v3, v2, v1",
            "  amd      nothing of this kind",
        ):
            assert line in out.splitlines()
        assert "the current one; the file has none" in out
        assert "linux_x86_64, manylinux_2_28_x86_64" in out

    def test_show_json(self, run: Runner) -> None:
        """The JSON object has everything that the text has."""
        found = run("host", "show", "macos-arm64", "--json").object
        assert found["host"]["kind"] == "preset"
        assert found["platforms"][0] == "macosx_14_0_arm64"
        assert found["environment"]["sys_platform"] == "darwin"
        assert found["interpreter"]["stated"] is False
        assert found["namespaces"]["aarch64"]["provider_version"] == "2026-11"
        assert found["namespaces"]["nvidia"]["status"] == "nothing"

    def test_show_this_machine(self, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-73: this machine is shown as other hosts are, including overrides."""
        monkeypatch.setenv("WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH", "75_real")
        result = run("host", "show", "this", "--json")
        assert result.object["host"]["kind"] == "machine"
        assert result.object["host"]["overrides"] == ["WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH=75_real"]
        assert "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH=75_real" in result.err
        assert run("host", "show", "this").out.startswith("this machine\n")

    def test_show_file_of_uv(self, run: Runner, uv_file: Path) -> None:
        """P-44: A file of uv is shown with its filters, and notes on its interpretation."""
        result = run("host", "show", uv_file)
        assert (
            "only for    nvidia: nvidia_variant_provider.plugin:NvidiaVariantPlugin" in result.out
        )
        assert "the current ones are used" in result.err
        assert "so that of the file is used" in result.err
        found = run("host", "show", uv_file, "--json").object
        assert found["filters"][0]["resolved"] == ["nvidia-variant-provider==0.0.1"]
        assert len(found["notes"]) == 2

    def test_recorded_overrides(self, run: Runner, tmp_path: Path) -> None:
        """P-73: A host file that was written with overrides causes a warning."""
        path = tmp_path / "forced.toml"
        path.write_text("[metadata]\nversion = '0.1'\noverrides = ['NV_X=1']\n")
        result = run("host", "show", path)
        assert "was written while detection was overridden: NV_X=1" in result.err
        assert "  overrides   NV_X=1" in result.out


class TestDiff:
    """``host diff``."""

    def test_equal_hosts(self, run: Runner) -> None:
        """Equal hosts give exit code 0, with --exit-code and without."""
        result = run("host", "diff", "linux-x86_64", "cpu-x86_64-v1", "--exit-code")
        assert result.out == "linux-x86_64 and cpu-x86_64-v1: alike\n"

    def test_different_hosts(self, run: Runner) -> None:
        """Differing values are listed; the exit code differs only with --exit-code."""
        words = ("host", "diff", "cuda-12.8-sm90", "cuda-12.8-sm90+cpu-x86_64-v3")
        out = run(*words).out
        assert "  x86_64 :: level\n    only cuda-12.8-sm90+cpu-x86_64-v3: v3, v2\n" in out
        assert "nvidia" not in out.partition("\n")[2]
        assert run(*words, "--exit-code", code=30).out == out

    def test_diff_json(self, run: Runner) -> None:
        """The JSON object has both hosts and their differences."""
        found = run("host", "diff", "macos-arm64", "this", "--json", "--exit-code", code=30).object
        assert found["equal"] is False
        assert "platform" in {difference["path"] for difference in found["differences"]}


class TestConda:
    """``host show --format``, and files of conda and pixi as hosts."""

    def test_conda_and_pixi_formats(self, run: Runner, tmp_path: Path) -> None:
        """Both formats can be read as hosts again, and a note lists omitted namespaces."""
        for form in ("conda", "pixi"):
            path = tmp_path / f"{form}.toml"
            path.write_text(run("host", "show", "v100-535", "--format", form).out)
            found = run("host", "show", path, "--json").object
            features = found["namespaces"]["nvidia"]["features"]
            values = [feature["values"][0] for feature in features]
            assert values == ["12.2", "15.20", "70_real"]
        result = run("host", "show", "mi300x-rocm7", "--format", "conda")
        assert result.out.startswith(
            "# platform: linux-64\n__archspec=1=x86_64_v4\n__glibc=2.28=0\n"
        )
        assert result.err == "note: conda has no virtual package for AMD GPUs: amd is left out\n"
        this = run("host", "show", "this", "--format", "pixi").out
        assert '{ name = "this-machine", platform = "linux-' in this
        run("host", "show", "this", "--format", "conda", "--json", code=2)

    def test_pixi_workspace(self, run: Runner, tmp_path: Path) -> None:
        """One of several platforms must be named; the hint lists the names."""
        path = tmp_path / "pixi.toml"
        path.write_text(
            '[workspace]\nplatforms = ["osx-arm64", { name = "gpu", platform = "linux-64", '
            'cuda = { driver = "12.8", arch = "8.6" }, glibc = "2.34" }]\n'
        )
        found = run("host", "show", f"{path}#gpu", "--json").object
        assert found["host"]["origin"] == "virtual packages of gpu"
        assert found["platforms"][1] == "manylinux_2_34_x86_64"
        several = run("host", "show", path, "--json", code=1).error
        assert several["hint"] == f"name one of {path}#osx-arm64, {path}#gpu"
        other = run("host", "show", f"{path}#cpu", "--json", code=1).error
        assert other["message"] == "the file has no platform 'cpu'"
        node = tmp_path / "node.toml"
        run("host", "new", "-o", node, f"{path}#gpu", "--python", "3.12")
        assert run("host", "diff", node, f"{path}#gpu").out.startswith(f"{node} and ")
        assert run("host", "show", f"{node}#gpu", "--json", code=1).error["hint"] == (
            "only manifests of pixi name platforms"
        )

    @pytest.mark.parametrize("name", ["pixi.toml", "info.json", "node.toml"])
    def test_empty_file(self, run: Runner, tmp_path: Path, name: str) -> None:
        """An empty host file of any kind is reported as empty."""
        path = tmp_path / name
        path.write_text("\n")
        error = run("host", "show", path, "--json", code=1).error
        assert (error["code"], error["message"]) == ("invalid-host-file", "the host file is empty")

    def test_file_name_with_a_number_sign(self, run: Runner, tmp_path: Path) -> None:
        """An existing file precedes the notation with a number sign."""
        path = tmp_path / "node#7.toml"
        run("host", "new", "-o", path, "v100-535")
        assert run("host", "show", path).out.startswith(f"{path}\n")


class TestNew:
    """``host new``."""

    def test_versions(self, run: Runner, tmp_path: Path) -> None:
        """Options add the versions of Python and of the C library to presets."""
        path = tmp_path / "node.toml"
        words = ("--glibc", "2.31", "--python", "3.12")
        run("host", "new", "-o", path, "cuda-12.8-sm90", "cpu-x86_64-v3", *words)
        found = run("host", "show", path, "--json").object
        assert found["host"]["origin"] == "preset cuda-12.8-sm90+cpu-x86_64-v3"
        assert found["interpreter"] == {
            "implementation": "cpython", "version": "3.12.0", "stated": True
        }  # fmt: skip
        assert found["platforms"][1] == "manylinux_2_31_x86_64"

    @pytest.mark.parametrize(
        "words", [["macos-arm64", "--macos", "15.0"], ["musllinux-x86_64", "--musl", "1.1"]]
    )
    def test_other_platforms(self, words: list[str], run: Runner, tmp_path: Path) -> None:
        """A platform can have another version of macOS or musl."""
        result = run("host", "new", "-o", tmp_path / "node.toml", "--json", *words)
        assert result.object["host"]["origin"] == f"preset {words[0]}"

    @pytest.mark.parametrize(
        ("words", "code", "reference"),
        [
            (["linux-x86_64", "linux-aarch64"], 1, "invalid-preset"),
            (["macos-arm64", "--glibc", "2.28"], 1, "invalid-preset"),
            (["cuda-12.8-sm91"], 1, "unknown-host"),
            (["nothing-of-that-name"], 1, "unknown-host"),
            ([], 2, "usage"),
            (["linux-x86_64", "--glibc", "new"], 2, "usage"),
            (["linux-x86_64", "--glibc", "3.1"], 2, "usage"),
            (["linux-x86_64", "--python", "2.7"], 2, "usage"),
            (["linux-x86_64", "--python", "new"], 2, "usage"),
            (["linux-x86_64", "--save", "x"], 2, "usage"),
            (["this"], 2, "usage"),
        ],
    )
    def test_invalid_descriptions(
        self, words: list[str], code: int, reference: str, run: Runner, tmp_path: Path
    ) -> None:
        """Contradictory and incomplete descriptions write no file."""
        path = tmp_path / "node.toml"
        result = run("host", "new", "-o", path, "--json", *words, code=code)
        assert result.error["code"] == reference
        assert not path.exists()

    def test_library_of_another_platform(self, run: Runner) -> None:
        """The hint lists the platforms that an option has an effect on."""
        error = run("host", "new", "-o", "-", "linux-x86_64", "--macos", "14.0", code=1).err
        assert "hint: leave it out, or name a platform with macos: macos-" in error

    def test_existing_file(self, run: Runner, tmp_path: Path) -> None:
        """An existing file is not overwritten without --force."""
        path = tmp_path / "node.toml"
        path.write_text("precious")
        before = tree(tmp_path)
        result = run("host", "new", "-o", path, "linux-x86_64", "--json", code=1)
        assert result.error["code"] == "file-problem"
        assert "--force" in result.error["hint"]
        assert tree(tmp_path) == before
        run("host", "new", "-o", path, "linux-x86_64", "--force")
        assert path.read_text().startswith("[metadata]")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "node.toml"]

    def test_standard_output(self, run: Runner, tmp_path: Path) -> None:
        """``-o -`` prints what ``-o FILE`` writes."""
        printed = run("host", "new", "-o", "-", "linux-x86_64").out
        run("host", "new", "-o", tmp_path / "node.toml", "linux-x86_64")
        assert printed == (tmp_path / "node.toml").read_text()
        assert run("host", "new", "-o", "-", "linux-x86_64", "--json", code=2).error["code"] == (
            "usage"
        )

    def test_save(self, run: Runner, own_folder: Path) -> None:
        """A host saved with --save can be used by its name; invalid names are refused."""
        run("host", "new", "--save", "node7", "cuda-12.8-sm90")
        assert (own_folder / "node7.toml").exists()
        assert "nvidia: supported" in run("probe", "--for", "node7", "nvidia").out
        for name in ("../x", "a/b", ".x", "this", "x.toml"):
            run("host", "new", "--save", name, "linux-x86_64", code=2)
        assert [path.name for path in own_folder.iterdir()] == ["node7.toml"]

    def test_free_threaded(self, run: Runner, tmp_path: Path) -> None:
        """3.13t has the tags of a free-threaded interpreter."""
        path = tmp_path / "node.toml"
        run("host", "new", "-o", path, "linux-x86_64", "--python", "3.13t")
        assert "the best is cp313-cp313t-linux_x86_64" in run("host", "show", path).out

    def test_new_from_a_file_of_uv(self, run: Runner, uv_file: Path, tmp_path: Path) -> None:
        """P-44: A file of uv is converted, with a Python of its own; notes record the rest."""
        path = tmp_path / "node.toml"
        result = run("host", "new", "-o", path, uv_file, "--python", "3.12")
        assert "so that of the file is used" in result.err
        found = run("host", "show", path, "--json").object
        assert found["interpreter"]["version"] == "3.12.0"
        assert found["host"]["created_by"] == "uv 0.9"
        assert found["host"]["origin"] == "file variant-lock.toml"
        assert found["filters"][0]["resolved"] == ["nvidia-variant-provider==0.0.1"]
        run("host", "new", "-o", path, "--force", uv_file, uv_file)  # named twice by mistake
        run("host", "new", "-o", path, "--force", uv_file, "linux-x86_64", code=2)
        run("host", "new", "-o", path, "--force", uv_file, "--glibc", "2.28", code=2)


class TestUsage:
    """Usage errors."""

    @pytest.mark.parametrize(
        "words",
        [
            ["lst"],
            ["show"],
            ["show", "this", "this"],
            ["diff", "this"],
            ["new", "linux-x86_64"],
            ["show", "this", "--glibc", "2.28"],
            ["list", "--force"],
            ["show", "this", "--exit-code"],
        ],
    )
    def test_usage_errors(self, words: list[str], run: Runner) -> None:
        """Options of other actions and wrong numbers of arguments are refused."""
        assert run("host", *words, "--json", code=2).error["code"] == "usage"

    def test_misspelt_action(self, run: Runner) -> None:
        """The error about a misspelt action suggests the right one."""
        assert "did you mean 'list'?" in run("host", "lst", code=2).err
