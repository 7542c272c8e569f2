"""Acceptance scenarios of variant selection, with the real command line and a real index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import tomli_w
from core.test_acceptance_choices import NUMPY, T1
from end_to_end.decisions import Decisions
from server.static_site import StaticSite

from wheelfit.core.host_file import HostFile
from wheelfit.core.host_file_mapping import to_mapping
from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView

pytestmark = pytest.mark.usefixtures("bare_environment")

FORCED_DRIVER = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"
FORCED_CAPABILITY = "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"

LINUX_X86_64: dict[str, Any] = {
    "interpreter": {"implementation": "cpython", "version": "3.12.1"},
    "platform": {"machine": "x86_64", "glibc": "2.39"},
}
LINUX_AARCH64: dict[str, Any] = {
    "interpreter": {"implementation": "cpython", "version": "3.12.1"},
    "platform": {"machine": "aarch64", "glibc": "2.39"},
}
LEVELS = ["v4", "v3", "v2", "v1"]
ARM_VERSIONS = ["8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a"]


@pytest.fixture(scope="module")
def published(releases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the published releases with generated wheels."""
    site = StaticSite(releases, stubs=tmp_path_factory.mktemp("stubs"))
    with RecordingIndex(site) as index:
        yield index.url


@pytest.fixture
def published_choice(
    published: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Decisions:
    """Decide among the published releases."""
    return Decisions(published, tmp_path, capsys)


Release = Callable[..., Decisions]


@pytest.fixture
def release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Release]:
    """Return a function that serves one release of stub wheels, and decides among them."""
    servers = []

    def serve(
        name: str,
        version: str,
        document: Mapping[str, Any],
        tags: Mapping[str | None, str] | Sequence[str | None],
    ) -> Decisions:
        folder = tmp_path / "index"
        by_label = tags if isinstance(tags, Mapping) else dict.fromkeys(tags, "py3-none-any")
        for label, tag in by_label.items():
            build_wheel(
                folder, name, version, tag=tag, label=label, document=document if label else None
            )
        text = json.dumps(document)
        (folder / f"{name.replace('-', '_')}-{version}-variants.json").write_text(text)
        server = RecordingIndex(folder)
        server.start()
        servers.append(server)
        return Decisions(server.url, tmp_path, capsys)

    yield serve
    for server in servers:
        server.close()


def nvidia(
    monkeypatch: pytest.MonkeyPatch, driver: str | None, capability: str | None = None
) -> None:
    """Force a driver version and a compute capability with the vendor's variables."""
    for name, value in ((FORCED_DRIVER, driver), (FORCED_CAPABILITY, capability)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


@pytest.fixture
def torch_2_10(release: Release, releases: Path) -> Decisions:
    """Decide by the published document of torch 2.10, with a wheel for each of its labels.

    The page lists no cuda12.8 wheel for x86-64, hence the wheels of our own.
    """
    path = releases / "torch" / "torch-2.10.0-variants.json"
    document = json.loads(path.read_bytes())
    return release("torch", "2.10.0", document, list(document["variants"]))


def nvidia_features(driver: str, capability: str) -> dict[str, tuple[str, ...]]:
    """Return the built-in provider's answer for a driver and a GPU."""
    detection = Machine(
        SystemView(environ={FORCED_DRIVER: driver, FORCED_CAPABILITY: capability})
    ).detect("nvidia")
    assert detection is not None
    return {feature.name: feature.values for feature in detection.features}


class TestPyTorch:
    """Section 2: CUDA builds by driver and GPU."""

    def test_a10_best_build_with_its_properties(
        self, release: Release, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A-10: driver 12.9 and GPU 7.5 get cu129, and its 8 properties are listed."""
        nvidia(monkeypatch, "12.9", "7.5")
        chosen = release("torch", "2.8.0", T1, list(T1["variants"])).explain("torch")["chosen"]
        assert chosen["filename"] == "torch-2.8.0-py3-none-any-cu129.whl"
        assert len(chosen["properties"]) == 8

    def test_a12_published_release(
        self, published_choice: Decisions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A-12: the published torch 2.8 has code for 7.0, for CUDA 12.8 too."""
        nvidia(monkeypatch, "12.8", "7.0")
        assert published_choice.label("torch==2.8.0") == "cu128"

    def test_a13_no_driver(self, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
        """A-13: without a driver the null variant is chosen, even before the plain wheel."""
        nvidia(monkeypatch, None)
        decisions = release("torch", "2.8.0", T1, [*T1["variants"], None])
        host = decisions.host({"nvidia": {}})
        assert decisions.order("torch", "--for", host) == ["00000000", None]

    def test_a14_unreadable_override(
        self, release: Release, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A-14: an invalid forced capability disables the provider, with a message."""
        nvidia(monkeypatch, "12.9", "abc")
        decisions = release("torch", "2.8.0", T1, list(T1["variants"]))
        project = decisions.explain("torch")
        assert project["chosen"]["label"] == "00000000"
        assert any(f"{FORCED_CAPABILITY}='abc'" in note for note in project["notes"])

    @pytest.mark.parametrize(
        ("driver", "capability", "order"),
        [
            ("12.8", "9.0", ["cuda12.8", "cuda12.6", "null"]),
            ("13.0", "7.5", ["cuda13.0", "cuda12.8", "cuda12.6", "null"]),
            ("13.0", "13.0", ["cuda13.0", "null"]),
        ],
    )
    def test_published_release_with_three_vendors(
        self,
        driver: str,
        capability: str,
        order: list[str],
        torch_2_10: Decisions,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A-15, A-18, A-19: torch 2.10 on NVIDIA machines."""
        nvidia(monkeypatch, driver, capability)
        assert torch_2_10.order("torch") == order

    def test_a19_reference_mode(self, torch_2_10: Decisions, tmp_path: Path) -> None:
        """A-19: without the values that wheelfit adds, a future GPU gets the null variant."""
        machine = Machine(
            SystemView(environ={FORCED_DRIVER: "13.0", FORCED_CAPABILITY: "13.0"}, reference=True)
        )
        host = written(machine, tmp_path / "reference.toml")
        assert torch_2_10.order("torch", "--for", host) == ["null"]

    @pytest.mark.parametrize(
        ("rocm", "gfx", "label"),
        [
            ("7.0", "gfx942", "rocm7.0"),
            ("6.4", "gfx942", "null"),
            ("7.1", "gfx1150", "rocm7.1"),  # values the vendor's own check would refuse
        ],
    )
    def test_a20_and_a24_amd(self, rocm: str, gfx: str, label: str, torch_2_10: Decisions) -> None:
        """A-20, A-24: ROCm builds by version and architecture."""
        host = torch_2_10.host({"amd": {"gfx_arch": [gfx], "rocm_version": [rocm]}})
        assert torch_2_10.label("torch", "--for", host) == label

    @pytest.mark.parametrize(
        ("values", "label"),
        [
            (["30.5.4", "30.0.4"], "xpu"),
            (["12.10.0"], "null"),
        ],
    )
    def test_a21_intel(self, values: list[str], label: str, torch_2_10: Decisions) -> None:
        """A-21: intel builds by device, also by the base of a derived device."""
        host = torch_2_10.host({"intel": {"device_ip": values}})
        assert torch_2_10.label("torch", "--for", host) == label

    def test_a22_three_vendors(self, torch_2_10: Decisions) -> None:
        """A-22: with all three vendors in one machine the priorities of the release decide."""
        host = torch_2_10.host(
            {
                "nvidia": nvidia_features("12.8", "9.0"),
                "amd": {"gfx_arch": ["gfx942"], "rocm_version": ["7.0"]},
                "intel": {"device_ip": ["20.1.0"]},
            }
        )
        assert torch_2_10.order("torch", "--for", host) == [
            "cuda12.8", "cuda12.6", "xpu", "rocm7.0", "null",
        ]  # fmt: skip

    def test_a23_two_unlike_gpus(
        self, torch_2_10: Decisions, fake_driver: FakeDriver, tmp_path: Path
    ) -> None:
        """A-23: by default a build must run on both GPUs; the policy can be changed."""
        machine = Machine(
            SystemView(
                environ=fake_driver.environ(
                    cuda="13.0", devices=["7.0 Tesla V100", "9.0 NVIDIA H100"]
                ),
                library_folders=(fake_driver.folder,),
            )
        )
        host = written(machine, tmp_path / "two.toml")
        assert torch_2_10.label("torch", "--for", host) == "cuda12.8"
        assert torch_2_10.label("torch", "--for", host, "--devices", "highest") == "cuda13.0"
        reasons = torch_2_10.rejected("torch", "--for", host)
        assert "7.0" in reasons["cuda13.0"]

    def test_published_page(self, published_choice: Decisions) -> None:
        """A-15, A-18: the same choice among the wheels of the page for an Arm server."""
        for driver, capability, order in (
            ("12.8", "9.0", ["cuda12.8", "cuda12.6", "null"]),
            ("13.0", "12.1", ["cuda13.0", "cuda12.8", "null"]),
        ):
            host = published_choice.host(
                {"nvidia": nvidia_features(driver, capability)}, **LINUX_AARCH64
            )
            assert published_choice.order("torch==2.10.0", "--for", host) == order


def written(machine: Machine, path: Path) -> Path:
    """Write the NVIDIA properties of a machine into a host file."""
    detection = machine.detect("nvidia")
    assert detection is not None
    path.write_text(tomli_w.dumps(to_mapping(HostFile.from_detections([detection]))))
    return path


NUMPY_LABELS = [*NUMPY["variants"], None]


class TestNumPy:
    """Section 3: CPU levels."""

    @pytest.mark.parametrize(
        ("best", "label"),
        [("v4", "cfdbe307"), ("v1", "3b930df5")],
    )
    def test_a25_x86_64(self, best: str, label: str, release: Release) -> None:
        """A-25: each level gets its build; Arm builds are rejected by their property."""
        decisions = release("numpy", "2.2.5", NUMPY, NUMPY_LABELS)
        levels = LEVELS[LEVELS.index(best) :]
        host = decisions.host({"x86_64": {"level": levels}}, **LINUX_X86_64)
        assert decisions.label("numpy", "--for", host) == label
        reasons = decisions.rejected("numpy", "--for", host)
        for arm_label, properties in NUMPY["variants"].items():
            if "aarch64" in properties:
                (version,) = properties["aarch64"]["version"]
                assert f"aarch64 :: version :: {version}" in reasons[arm_label]

    @pytest.mark.parametrize(("best", "label"), [("8.4a", "09300f2f"), ("8a", "ab33065c")])
    def test_a26_aarch64(self, best: str, label: str, release: Release) -> None:
        """A-26: each Arm version gets its build."""
        decisions = release("numpy", "2.2.5", NUMPY, NUMPY_LABELS)
        versions = ARM_VERSIONS[ARM_VERSIONS.index(best) :]
        host = decisions.host({"aarch64": {"version": versions}}, **LINUX_AARCH64)
        assert decisions.label("numpy", "--for", host) == label

    def test_a27_both_providers_switched_off(self, release: Release) -> None:
        """A-27: without providers the plain wheel is chosen, with the reason."""
        decisions = release("numpy", "2.2.5", NUMPY, NUMPY_LABELS)
        off = ("--disable-provider", "x86_64", "--disable-provider", "aarch64")
        assert decisions.label("numpy", *off) is None
        assert "switched off" in decisions.rejected("numpy", *off)["fa7c1393"]

    def test_a28_published_release(self, published_choice: Decisions) -> None:
        """A-28: numpy 2.3.4: the CPU level comes before the BLAS library."""
        v4 = published_choice.host({"x86_64": {"level": LEVELS}}, **LINUX_X86_64)
        v3 = published_choice.host({"x86_64": {"level": LEVELS[1:]}}, **LINUX_X86_64)
        assert published_choice.label("numpy==2.3.4", "--for", v4) == "x8664v4_mkl"
        assert published_choice.label("numpy==2.3.4", "--for", v3) == "openblas"
        mac = published_choice.host(
            {"aarch64": {"version": ARM_VERSIONS}},
            interpreter={"implementation": "cpython", "version": "3.12.1"},
            platform={"tags": ["macosx_14_0_arm64", "macosx_11_0_arm64"]},
        )
        assert published_choice.label("numpy==2.3.4", "--for", mac) == "accelerate"


class TestXGBoost:
    """Section 4: CUDA majors, directly and through dependencies."""

    DOCUMENT: ClassVar[dict[str, Any]] = {
        "$schema": "https://variants-schema.wheelnext.dev/v0.0.2.json",
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {
            "nvidia": {
                "requires": ["nvidia-variant-provider"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            }
        },
    }

    @pytest.mark.parametrize(
        ("supported", "label"), [(["12"], "3f631cc2"), (["11"], None), ([], None)]
    )
    def test_a29_old_feature(
        self, supported: list[str], label: str | None, release: Release
    ) -> None:
        """A-29: A feature that only a host file has; otherwise the plain wheel, with the reason."""
        document = {**self.DOCUMENT, "variants": {"3f631cc2": {"nvidia": {"cuda": ["12"]}}}}
        decisions = release("xgboost", "3.1.0", document, ["3f631cc2", None])
        host = decisions.host({"nvidia": {"cuda": supported}})
        assert decisions.label("xgboost", "--for", host) == label
        if label is None:
            reason = decisions.rejected("xgboost", "--for", host)["3f631cc2"]
            assert "nvidia :: cuda :: 12" in reason

    @pytest.mark.parametrize(("driver", "labels"), [(["12"], True), (None, False)])
    def test_a30_and_a31_dependencies(
        self,
        driver: list[str] | None,
        labels: bool,  # noqa: FBT001
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A-30, A-31: variants are chosen for dependencies too, or all are plain."""
        folder = tmp_path / "index"
        old, new = {"driver": ["11"]}, {"driver": ["12"]}
        both = {
            **self.DOCUMENT,
            "variants": {"aa00cb06": {"nvidia": new}, "73be618d": {"nvidia": old}},
        }
        one = {**self.DOCUMENT, "variants": {"aa00cb06": {"nvidia": new}}}
        needs = ["nvidia-nccl", "numpy"]
        for label in ("aa00cb06", None):
            build_wheel(
                folder,
                "xgboost",
                "3.0",
                label=label,
                document=one if label else None,
                requires=needs,
            )
        for label in ("aa00cb06", "73be618d", None):
            build_wheel(folder, "nvidia-nccl", "2.0", label=label, document=both if label else None)
        for label in [*list(NUMPY["variants"])[:4], None]:
            build_wheel(folder, "numpy", "2.2.5", label=label, document=NUMPY if label else None)
        with RecordingIndex(folder) as index:
            decisions = Decisions(index.url, tmp_path, capsys)
            host = decisions.host({"nvidia": {"driver": driver}} if driver else {})
            arguments = ["install", "--dry-run", "--json", "--no-cache-dir", "-i", index.url]
            arguments += ["--target", str(tmp_path / "target")]
            from wheelfit.cli.main import main

            assert main([*arguments, "--for", str(host), "xgboost"]) == 0
            installs = json.loads(capsys.readouterr().out)["install"]
            chosen = {entry["name"]: entry["label"] for entry in installs}
            expected = "aa00cb06" if labels else None
            assert chosen == {"xgboost": expected, "nvidia-nccl": expected, "numpy": None}
            assert "73be618d" in decisions.rejected("nvidia-nccl", "--for", host)

    @pytest.mark.parametrize(
        ("driver", "capability", "label"),
        [
            ("12.8", "8.6", "cu12"),
            ("13.0", "9.0", "cu13"),
        ],
    )
    def test_a32_published_release(
        self,
        driver: str,
        capability: str,
        label: str | None,
        release: Release,
        releases: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A-32: the published document of xgboost 3.1.0rc1 by driver and GPU."""
        nvidia(monkeypatch, driver, capability)
        page = releases / "xgboost"
        document = json.loads((page / "xgboost-3.1.0rc1-variants.json").read_bytes())
        # The page has no plain wheel of this release; other indexes do.
        decisions = release("xgboost", "3.1.0rc1", document, ["cu12", "cu13", None])
        assert decisions.label("xgboost") == label


TECHNOLOGY = {
    "technology": ["auto_chef"],
    "quantum": ["foam", "superposition"],
    "risk_exposure": ["25"],
}
HARDWARE = {
    "architecture": ["deepthought", "hal9000"],
    "compute_capability": ["10", "6", "2"],
    "compute_accuracy": ["1000", "0", "10"],
}
HUMOROUS = {
    "architecture": HARDWARE["architecture"],
    "compute_capability": HARDWARE["compute_capability"],
    "humor": ["0", "2"],
    "compute_accuracy": HARDWARE["compute_accuracy"],
}


class TestDemoProviders:
    """Section 7: fictional hardware, described by a host file, without plugins."""

    @pytest.fixture
    def decisions(
        self, releases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> Iterator[Decisions]:
        """Serve the demo index."""
        with RecordingIndex(StaticSite(releases, stubs=tmp_path / "stubs")) as index:
            yield Decisions(index.url, tmp_path, capsys)

    @pytest.mark.parametrize(
        ("project", "hardware", "order"),
        [
            ("dummy-project-flit", HARDWARE, ["autochef_r25_sup", "null", None]),
            (
                "dummy-project-flit",
                HUMOROUS,
                ["dthought_c10_fm", "hal9k_c0_6_nfun", "autochef_r25_sup", "null", None],
            ),  # A-40b
            ("sandbox-project-flit", HARDWARE, ["null", None]),
            ("sandbox-project-flit", HUMOROUS, ["hal9k_c0_6_nfun", "null", None]),
            ("dummy-project-hatch", HARDWARE, [None]),
        ],
    )
    def test_choices(
        self,
        project: str,
        hardware: Mapping[str, Sequence[str]],
        order: list[str | None],
        decisions: Decisions,
    ) -> None:
        """A-40, A-40b, A-50, A-51: the order of the demo's labels."""
        host = decisions.host({"fictional_hw": hardware, "fictional_tech": TECHNOLOGY})
        assert decisions.order(project, "--for", host) == order

    def test_a52_no_plugin_runs(self, decisions: Decisions) -> None:
        """A-52: untrusted plugins are not run; the null variant is chosen, with the reason."""
        assert decisions.label("dummy-project-flit") == "null"
        reason = decisions.rejected("dummy-project-flit")["autochef_r25_sup"]
        assert "provider-fictional-tech" in reason
