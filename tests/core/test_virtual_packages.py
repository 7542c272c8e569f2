"""Machines as conda and pixi know them, written and read (CEP 30, CEP 46)."""

from __future__ import annotations

import json
import tomllib

import pytest
from error_codes import raises_code

from wheelfit.core.compatible_tags import linux_platforms, macos_platforms
from wheelfit.core.host_file import HostFile, HostInterpreter, HostProvider
from wheelfit.core.target import Target
from wheelfit.core.versions import parse_version
from wheelfit.core.virtual_package_files import read_platforms
from wheelfit.core.virtual_packages import (
    CondaPlatform,
    VirtualPackage,
    as_pixi,
    as_text,
    conda_platform,
)
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.platforms.features import DeviceValues, FeatureConfig

PYTHON = HostInterpreter(parse_version("3.13.1"))
CUDA = FeatureConfig("cuda_version_lower_bound", ("13.0", "13", "12.20"))
SM = FeatureConfig("sm_arch", ("90_real", "90_virtual", "90a_real", "80_virtual"), True)
LEVEL = FeatureConfig("level", ("v3", "v2", "v1"))
LINUX = linux_platforms("x86_64", glibc=35)


def host(*providers: HostProvider, platforms: tuple[str, ...] = LINUX, **values: str) -> HostFile:
    """Return a machine with CPython 3.13."""
    return HostFile(providers, interpreter=PYTHON, platforms=platforms, environment=values)


def packages(file: HostFile) -> list[str]:
    """Return the virtual packages of a machine as conda lists them."""
    platform, _ = conda_platform(file, target(file))
    return [platform.subdir, *map(str, platform.packages)]


def target(file: HostFile) -> Target:
    """Return the target of a machine."""
    return file.target(linux_target(), "there")


class TestWriting:
    """What conda is told of a machine."""

    def test_a_machine_with_a_gpu(self) -> None:
        """Driver, GPU, processor, C library and kernel each have a virtual package."""
        file = host(
            HostProvider("nvidia", (CUDA, SM)),
            HostProvider("x86_64", (LEVEL,)),
            platform_release="6.8.0-45-generic",
        )
        assert packages(file) == [
            "linux-64",
            "__archspec=1=x86_64_v3",
            "__cuda=13.0=0",
            "__cuda_arch=9.0=0",
            "__glibc=2.35=0",
            "__linux=6.8.0=0",
            "__unix=0=0",
        ]

    def test_of_unlike_gpus_the_lowest_counts(self) -> None:
        """CEP 46: what is required must run on every GPU; ``90a`` is no capability."""
        both = FeatureConfig("sm_arch", ("90_real", "90a_real", "90_virtual", "70_real"), True)
        devices = (
            DeviceValues("sm_arch", "GPU 1", frozenset(["90_real", "90a_real", "90_virtual"])),
            DeviceValues("sm_arch", "GPU 0", frozenset(["70_real", "60_virtual"])),
        )
        file = host(HostProvider("nvidia", (CUDA, both), devices=devices))
        assert "__cuda_arch=7.0=0" in packages(file)

    @pytest.mark.parametrize(
        ("features", "expected"),
        [
            ((), []),
            ((CUDA,), ["__cuda=13.0=0"]),
            ((FeatureConfig("cuda_version_lower_bound", ("12",)),), ["__cuda=12.0=0"]),
            ((SM,), []),
            ((CUDA, FeatureConfig("sm_arch", ("70_virtual",), True)), ["__cuda=13.0=0"]),
            (
                (CUDA, FeatureConfig("sm_arch", ("120_real", "120f_real"), True)),
                ["__cuda=13.0=0", "__cuda_arch=12.0=0"],
            ),
        ],
    )
    def test_drivers(self, features: tuple[FeatureConfig, ...], expected: list[str]) -> None:
        """CEP 46: there is no GPU without a driver."""
        found = packages(host(HostProvider("nvidia", features)))
        assert [one for one in found if "cuda" in one] == expected

    @pytest.mark.parametrize(
        ("machine", "version", "expected"),
        [
            ("linux", "8a", "1=aarch64"),
            ("linux", "8.2a", "1=armv8.2a"),
            ("linux", "9.0a", "1=armv9.0a"),
            ("mac", "8.4a", "1=m1"),
            ("mac", "8.5a", "1=m2"),
        ],
    )
    def test_arm_processors(self, machine: str, version: str, expected: str) -> None:
        """A version has a name of its own; on a Mac the first chip of that version."""
        platforms = {
            "linux": linux_platforms("aarch64", glibc=28),
            "mac": macos_platforms("arm64", 14),
        }[machine]
        entry = HostProvider("aarch64", (FeatureConfig("version", (version,)),))
        assert f"__archspec={expected}" in packages(host(entry, platforms=platforms))

    @pytest.mark.parametrize(
        ("platforms", "expected"),
        [
            (LINUX, ["linux-64", "__glibc=2.35=0", "__linux=0=0", "__unix=0=0"]),
            (
                linux_platforms("aarch64", musl=2),
                ["linux-aarch64", "__linux=0=0", "__musl=1.2=0", "__unix=0=0"],
            ),
            (macos_platforms("x86_64", 13), ["osx-64", "__osx=13.0=0", "__unix=0=0"]),
            (macos_platforms("arm64", 14), ["osx-arm64", "__osx=14.0=0", "__unix=0=0"]),
            (("win_amd64",), ["win-64", "__win=0=0"]),
            (("win_arm64",), ["win-arm64", "__win=0=0"]),
        ],
    )
    def test_systems(self, platforms: tuple[str, ...], expected: list[str]) -> None:
        """CEP 30: each platform has its own; an unknown version is 0."""
        found = packages(host(platforms=platforms))
        assert [one for one in found if "archspec" not in one] == expected

    def test_a_windows_with_its_version(self) -> None:
        """CEP 30: the first three numbers."""
        file = host(platforms=("win_amd64",), platform_version="10.0.22631")
        assert "__win=10.0.22631=0" in packages(file)

    def test_what_conda_does_not_know_is_told(self) -> None:
        """An accelerator without a virtual package is left out, and named if it is there."""
        file = host(
            HostProvider("amd", (FeatureConfig("gfx_arch", ("gfx942",), True),)),
            HostProvider("tpu", (FeatureConfig("present", ("false",)),)),
            HostProvider("intel"),
        )
        _, unsaid = conda_platform(file, target(file))
        assert unsaid == ("conda has no virtual package for AMD GPUs: amd is left out",)

    def test_a_platform_that_conda_has_not(self) -> None:
        """A machine that cannot be named is refused."""
        file = host(platforms=linux_platforms("i686", glibc=28))
        with raises_code("invalid-host-file", match="no platform for Linux on i686"):
            conda_platform(file, target(file))


PLATFORM = CondaPlatform(
    "linux-64",
    (
        VirtualPackage("__archspec", "1", "x86_64_v3"),
        VirtualPackage("__cuda", "13.0"),
        VirtualPackage("__cuda_arch", "9.0"),
        VirtualPackage("__glibc", "2.35"),
        VirtualPackage("__linux", "6.8.0"),
        VirtualPackage("__unix", "0"),
    ),
)


class TestForms:
    """The forms that conda and pixi print and read."""

    def test_a_list_is_read_again(self) -> None:
        """What is printed for conda means the same when it is read."""
        assert read_platforms(as_text(PLATFORM).encode(), "f") == (PLATFORM,)

    def test_an_entry_of_pixi_is_read_again(self) -> None:
        """The entry is TOML, has a name that pixi allows, and means the same but for ``__unix``."""
        text = as_pixi(PLATFORM, "h100+580.toml")
        (entry,) = tomllib.loads(text)["workspace"]["platforms"]
        assert entry == {
            "name": "h100-580",
            "platform": "linux-64",
            "cuda": {"driver": "13.0", "arch": "9.0"},
            "archspec": "x86_64_v3",
            "glibc": "2.35",
            "linux": "6.8.0",
        }
        (found,) = read_platforms(text.encode(), "f") or ()
        assert found == CondaPlatform("linux-64", PLATFORM.packages[:-1], "h100-580")

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("linux-64", "host-linux-64"),
            ("osx", "host-osx"),
            ("7nodes", "host-7nodes"),
            ("ü", "host-linux-64"),
            ("this machine", "this-machine"),
            ("a" * 80, "a" * 50),
        ],
    )
    def test_names_for_pixi(self, name: str, expected: str) -> None:
        """A name has letters, digits and dashes, and is not that of a platform."""
        (entry,) = tomllib.loads(as_pixi(PLATFORM, name))["workspace"]["platforms"]
        assert entry["name"] == expected

    @pytest.mark.parametrize(
        ("key", "items"),
        [
            ("virtual_pkgs", [["__glibc", "2.35", "0"], ["__cuda", "12.4", "0"]]),
            ("virtual packages", ["__cuda=12.4=0", "__glibc=2.35=0"]),
            ("virtual_packages", ["__glibc=2.35=0", "__cuda=12.4"]),
        ],
    )
    def test_info(self, key: str, items: list[object]) -> None:
        """``info --json`` of conda, mamba and pixi."""
        data = json.dumps({"platform": "linux-64", key: items, "config_files": []}).encode()
        expected = (VirtualPackage("__cuda", "12.4"), VirtualPackage("__glibc", "2.35"))
        assert read_platforms(data, "f") == (CondaPlatform("linux-64", expected),)

    @pytest.mark.parametrize(
        "data", [b"", b"\n# a comment\n", b"[metadata]\nversion = '0.1'\n", b"\xff\xfe"]
    )
    def test_other_files(self, data: bytes) -> None:
        """A host file, or what is none, is left to its reader."""
        assert read_platforms(data, "f") is None


MANIFEST = """
[workspace]
name = "robots"
platforms = [
  "osx-arm64",
  { platform = "linux-64", cuda = "12.0", glibc = "2.28" },
  { name = "jetson", platform = "linux-aarch64", cuda = { driver = "12.6", arch = "8.7" } },
  { platform = "win-64", windows = "10.0.19045" },
  { name = "alpine", platform = "linux-64", __musl = "1.2" },
]

[dependencies]
python = "3.12.*"

[feature.test.dependencies]
pytest = "*"

[environments]
test = ["test"]
"""


class TestManifests:
    """Workspaces of pixi."""

    def found(self, text: str) -> dict[str, list[str]]:
        """Return the virtual packages of a manifest by the names of its platforms."""
        platforms = read_platforms(text.encode(), "pixi.toml")
        assert platforms is not None
        return {
            platform.name: [platform.subdir, *map(str, platform.packages)] for platform in platforms
        }

    def test_a_workspace(self) -> None:
        """Each entry with what it says, and what pixi assumes."""
        assert self.found(MANIFEST) == {
            "osx-arm64": ["osx-arm64", "__osx=13.0=0"],
            "linux-64-cuda-12-0": ["linux-64", "__cuda=12.0=0", "__glibc=2.28=0", "__linux=4.18=0"],
            "jetson": [
                "linux-aarch64",
                "__cuda=12.6=0",
                "__cuda_arch=8.7=0",
                "__glibc=2.28=0",
                "__linux=4.18=0",
            ],
            "win-64-windows-10-0-19045": ["win-64", "__win=10.0.19045=0"],
            "alpine": ["linux-64", "__linux=4.18=0", "__musl=1.2=0"],
        }

    @pytest.mark.parametrize("table", ["workspace", "project", "tool.pixi.workspace"])
    def test_where_they_stand(self, table: str) -> None:
        """In a manifest of pixi, an older one, or the ``pyproject.toml`` of a project."""
        text = f'[{table}]\nplatforms = ["linux-64"]\n'
        text = text.replace("[project", "[build-system]\nrequires = []\n[project").replace(
            "[tool", '[project]\nname = "robots"\n[tool', 1
        )
        assert self.found(text).keys() == {"linux-64"}

    @pytest.mark.parametrize("table", ["system-requirements", "feature.gpu.system-requirements"])
    def test_system_requirements(self, table: str) -> None:
        """The older tables would change the machines, so they are refused, not ignored."""
        text = f'[workspace]\nplatforms = ["linux-64"]\n[{table}]\ncuda = "12"\n'
        with raises_code("invalid-host-file", match="system-requirements, which are not read"):
            read_platforms(text.encode(), "pixi.toml")

    @pytest.mark.parametrize(
        ("entries", "problem"),
        [
            ("", "the manifest has no platforms"),
            ("5", "5 is not a platform"),
            ("{ cuda = '12' }", "neither name nor platform"),
            ("{ platform = 'linux-64', cuda = 12 }", "cuda of a platform must be a string"),
            (
                "{ platform = 'linux-64', cuda = { arch = '8.6' } }",
                "cuda of a platform has no driver",
            ),
            ("{ platform = 'linux-64', rocm = '7' }", "rocm is not a known key of a platform"),
            ("{ platform = 'linux-64', cuda = 'new' }", "'new' is not a version"),
        ],
    )
    def test_mistakes(self, entries: str, problem: str) -> None:
        """What pixi refuses is refused, with the place."""
        text = f"[workspace]\nplatforms = [{entries}]\n"
        with raises_code("invalid-host-file", match=problem) as excinfo:
            read_platforms(text.encode(), "pixi.toml")
        assert excinfo.value.where == "pixi.toml"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "the JSON cannot be read"),
        (b"{" * 100_000, "the JSON cannot be read"),
        (b"{}", "platform or virtual_pkgs is missing"),
        (b'{"platform": "linux-64", "virtual_pkgs": "x"}', "virtual_pkgs is missing"),
        (b'{"platform": "linux-64", "virtual_pkgs": [5]}', "'5' is not a virtual package"),
        (b'{"platform": "linux-64", "virtual_pkgs": [[]]}', "is not a virtual package"),
        (b'{"platform": "linux-64", "virtual_pkgs": [["cuda", "1"]]}', "'cuda' is not a name of a"),
        (b'{"platform": "linux-64", "virtual_pkgs": [["__a", "1 2"]]}', "'1 2' is not a version"),
        (b'{"platform": "linux-64", "virtual_pkgs": [["__a", "1", "="]]}', "is not a build string"),
        (b"__cuda=12.8\n", "names no platform"),
        (b"# platform: linux-64\n__cuda\n", "'__cuda' is not a virtual package"),
        (b"[workspace]\nplatforms = [\n", "the manifest is not TOML"),
    ],
)
def test_what_cannot_be_read(data: bytes, problem: str) -> None:
    """A file of one of these forms that says something else is an error that says what."""
    with raises_code("invalid-host-file", match=problem):
        read_platforms(data, "f")
