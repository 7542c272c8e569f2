"""Decisions of presets among published releases, through the real command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from end_to_end.decisions import Decisions
from server.static_site import StaticSite

from wheelfit.cli.main import main
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, release_document

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.fixture(scope="module")
def published(releases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the published releases with generated wheels."""
    site = StaticSite(releases, stubs=tmp_path_factory.mktemp("stubs"))
    with RecordingIndex(site) as index:
        yield index.url


@pytest.fixture
def choice(published: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Decisions:
    """Decide among the published releases."""
    return Decisions(published, tmp_path, capsys)


@pytest.mark.parametrize(
    ("preset", "requirement", "label"),
    [
        ("cuda-12.8-sm90", "torch==2.8.0", "cu128"),
        ("cuda-12.6-sm90", "torch==2.8.0", "cu126"),
        ("cuda-12.9-sm120", "torch==2.8.0", "cu129"),
        ("cuda-12.8-sm90+cpu-x86_64-v3", "torch==2.9.0", "cuda12.8"),
        ("cuda-13.0-sm100", "torch==2.9.0", "cuda13.0"),
        ("cuda-13.0-sm70", "torch==2.9.0", "cuda12.8"),  # P-95: CUDA 13 has no code for a V100
        ("cuda-12.4-sm75", "torch==2.9.0", "cuda12.8"),  # P-92: machine code needs its major only
        ("rocm-6.4-gfx942", "torch==2.9.0", "rocm6.4"),
        ("rocm-6.3-gfx1100", "torch==2.9.0", "rocm6.3"),
        ("rocm-7.1-gfx1151", "torch==2.10.0", "rocm7.1"),
        ("intel-arc-b580", "torch==2.9.0", "xpu"),
        ("cpu-x86_64-v3", "torch==2.9.0", "null"),
        ("tpu-v5e", "torch==2.9.0", "null"),
        ("ascend-910b", "vllm-ascend==0.13.0rc1", "a2"),
        ("ascend-910c", "vllm-ascend==0.13.0rc1", "a3"),
        ("ascend-a3", "vllm-ascend==0.13.0rc1", "a3"),
    ],
)
def test_choices(
    preset: str,
    requirement: str,
    label: str,
    choice: Decisions,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P-12, P-44: each preset chooses the build for its machine."""
    file = tmp_path / "host.toml"
    words = ["host", "new", "-o", str(file), "--python", "3.11", "--glibc", "2.35", preset]
    assert main(words) == 0
    capsys.readouterr()
    assert choice.label(requirement, "--for", file) == label


def test_name(choice: Decisions) -> None:
    """A preset needs no file, and the output names it."""
    project = choice.explain("torch==2.9.0", "--for", "cuda-12.8-sm90")
    assert project["chosen"]["label"] == "cuda12.8"
    (nvidia,) = [provider for provider in project["providers"] if provider["namespace"] == "nvidia"]
    assert (nvidia["step"], nvidia["source"]) == ("user-list", "preset cuda-12.8-sm90")
    assert "choosing for preset cuda-12.8-sm90: NVIDIA driver for CUDA 12.8" in choice.said


UV_FILE = """
[metadata]
created-by = "uv 0.9"
version = "0.1"

[[provider]]
resolved = ["PACKAGE==0.0.1"]
plugin-api = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
namespace = "nvidia"

[provider.properties]
cuda_version_lower_bound = ["12.8", "12.7", "12.6", "12.0", "12"]
sm_arch = ["90_real", "90_virtual"]
"""


@pytest.mark.parametrize(
    ("package", "label"), [("nvidia-variant-provider", "cu128"), ("other-provider", "00000000")]
)
def test_uv_file(
    package: str,
    label: str,
    choice: Decisions,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P-44: uv's file is used unchanged, for its plugin."""
    file = tmp_path / "variant-lock.toml"
    file.write_text(UV_FILE.replace("PACKAGE", package))
    assert main(["probe", "--for", str(file)]) == 0
    assert "written by uv 0.9" in capsys.readouterr().err
    linux = tmp_path / "linux.toml"
    words = ["host", "new", "-o", str(linux), "--python", "3.11"]
    assert main([*words, str(file)]) == 0
    capsys.readouterr()
    assert choice.label("torch==2.8.0", "--for", linux) == label


def test_platform(choice: Decisions) -> None:
    """Tags and markers are those of the preset, not of this machine."""
    project = choice.explain("torch==2.9.0", "--for", "macos-arm64", "-v")
    chosen = project["chosen"]["filename"]
    assert "macosx" in chosen
    assert "arm64" in chosen
    assert choice.explain("torch==2.9.0", "--for", "musllinux-x86_64", code=3)["chosen"] is None


def test_all_namespaces(choice: Decisions) -> None:
    """P-44: a preset has every namespace, so there is no note about a missing one."""
    choice.explain("torch==2.9.0", "--for", "cpu-x86_64-v3")
    assert "not in" not in choice.said


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Build a release for CUDA with a plain wheel."""
    folder = tmp_path / "wheels"
    document = release_document(
        {"null": {}, "gpu": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}},
        providers={
            "nvidia": {
                "requires": ["nvidia-variant-provider>=0.0.1,<1"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            }
        },
        namespaces=["nvidia"],
    )
    build_release(folder, "some", "1.0", document, (None, "null", "gpu"))
    return folder


def install(wheels: Path, target: Path, *words: str) -> None:
    """Install from one folder into another."""
    fixed = ["install", "--no-cache-dir", "--no-index", "-f", str(wheels), "--target", str(target)]
    assert main([*fixed, *words, "some"]) == 0


class TestRecords:
    """P-73: the basis of a choice in results and in installed metadata."""

    def record(self, target: Path) -> dict[str, object]:
        """Return the record of the installed distribution."""
        (path,) = target.glob("*.dist-info/wheelfit.json")
        content = json.loads(path.read_text())
        return {key: content[key] for key in ("label", "host", "overrides")}

    def test_preset(self, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The preset is named in the result and in the record."""
        install(wheels, tmp_path / "there", "--json", "--for", "cuda-12.8-sm90")
        answer = json.loads(capsys.readouterr().out)
        assert answer["host"]["name"] == "cuda-12.8-sm90"
        assert answer["overrides"] == []
        assert self.record(tmp_path / "there") == {
            "label": "gpu",
            "host": "cuda-12.8-sm90",
            "overrides": [],
        }

    def test_variables_and_options(
        self,
        wheels: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Everything that overrode detection or narrowed the choice is named."""
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.9")
        install(wheels, tmp_path / "there", "--json", "--label", "some=gpu", "--devices", "any")
        captured = capsys.readouterr()
        overrides = [
            "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=12.9",
            "--label some=gpu",
            "--devices any",
        ]
        answer = json.loads(captured.out)
        assert (answer["host"], answer["overrides"]) == (None, overrides)
        assert self.record(tmp_path / "there") == {
            "label": "gpu",
            "host": None,
            "overrides": overrides,
        }
        assert overrides[0] in captured.err
        assert "in effect: --label some=gpu, --devices any" in captured.err

    def test_overrides_in_a_host_file(
        self,
        wheels: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """P-44: overrides during the writing of a host file are named wherever it is used."""
        variable = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"
        monkeypatch.setenv(variable, "12.9")
        file = tmp_path / "folder" / "node.toml"
        file.parent.mkdir()
        assert main(["probe", "-o", str(file)]) == 0
        monkeypatch.delenv(variable)
        capsys.readouterr()
        install(wheels, tmp_path / "there", "--json", "--for", str(file))
        captured = capsys.readouterr()
        assert f"overridden: {variable}=12.9" in captured.err
        answer = json.loads(captured.out)
        assert answer["host"]["overrides"] == [f"{variable}=12.9"]
        assert answer["overrides"] == []
        assert self.record(tmp_path / "there") == {
            "label": "gpu",
            "host": "node.toml",
            "overrides": [f"{variable}=12.9"],
        }

    def test_no_overrides(
        self, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without overrides nothing is named."""
        install(wheels, tmp_path / "there", "--json")
        answer = json.loads(capsys.readouterr().out)
        assert (answer["host"], answer["overrides"]) == (None, [])
        found = self.record(tmp_path / "there")
        assert (found["host"], found["overrides"]) == (None, [])


def test_anonymous_host_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-75: a host file has nothing that identifies a machine or its user."""
    monkeypatch.setenv("HOSTNAME", "secretnode")
    monkeypatch.setenv("USER", "secretuser")
    monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "secretnode")
    assert main(["probe", "-o", str(tmp_path / "node.toml")]) == 0
    captured = capsys.readouterr()
    assert "secretnode" in captured.err  # the override cannot be read, and that is said here
    assert "secret" not in (tmp_path / "node.toml").read_text()
