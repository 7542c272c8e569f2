"""The decisions of the acceptance scenarios, without index, machine or wheels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from wheelfit.core.compatible_tags import tags_for
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.host_file import HostDetector, HostFile, HostProvider
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document, write_document
from wheelfit.core.ordering import order_labels
from wheelfit.core.properties import parse_property
from wheelfit.core.property_support import support_for
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.core.selection import Selection, select
from wheelfit.core.target import TagPreference
from wheelfit.testing.detectors import FixedDetector, supported
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support
    from wheelfit.core.provider_lookup import Detector

NO_POLICY = ProviderPolicy()
LINUX = {"platform_system": "Linux", "platform_machine": "x86_64", "sys_platform": "linux"}
ARM = {**LINUX, "platform_machine": "aarch64"}

NVIDIA = {
    "requires": ["nvidia-variant-provider>=0.0.1,<1.0.0"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}


def version(text: str) -> Capability:
    """Read ``12.8``."""
    major, minor = text.split(".")
    return Capability(int(major), int(minor))


def gpu(driver: str | None, *capabilities: str, reference: bool = False) -> Detection:
    """Return what a driver with GPUs supports (P-80 to P-84)."""
    if driver is None:
        return nvidia.supported(NvidiaDriver())
    gpus = tuple(
        NvidiaGpu(index, "", version(capability)) for index, capability in enumerate(capabilities)
    )
    return nvidia.supported(
        NvidiaDriver(cuda_version=version(driver), gpus=gpus), reference=reference
    )


def sm(codes: str) -> list[str]:
    """Expand ``50 60 120_virtual`` to values of ``sm_arch``."""
    return [code if "_" in code else f"{code}_real" for code in codes.split()]


def cuda(bound: str, codes: str) -> dict[str, list[str]]:
    """Write the nvidia properties of a CUDA build."""
    return {"cuda_version_lower_bound": [bound], "sm_arch": sm(codes)}


def both_readings(data: Mapping[str, Any]) -> list[VariantDocument]:
    """Read a document as it is, and after conversion to the current layout (F-56)."""
    document = read_document(data, where="test")
    converted = write_document(document, accept_losses=True)
    return [document, read_document(converted, where="converted")]


def support(
    document: VariantDocument,
    machine: Detector,
    environment: Mapping[str, str] = LINUX,
    policy: ProviderPolicy = NO_POLICY,
) -> Support:
    """Apply the six steps to a machine."""
    return support_for(document, machine, environment=environment, policy=policy)


def support_by(document: VariantDocument, *entries: HostProvider) -> Support:
    """Apply the six steps to a host file (P-12)."""
    lists = HostDetector(HostFile(entries), "node.toml")
    return support_for(document, None, environment=LINUX, host_detector=lists)


def labels(
    data: Mapping[str, Any],
    answers: Mapping[str, Detection | Mapping[str, list[str]]],
    environment: Mapping[str, str] = LINUX,
    policy: ProviderPolicy = NO_POLICY,
) -> list[str]:
    """Return the compatible labels, best first; the same for both readings."""
    found: list[list[str]] = []
    for document in both_readings(data):
        known = support(document, FixedDetector(answers), environment, policy)
        found.append([ranked.label for ranked in order_labels(document, known)])
    assert found[0] == found[1]
    return found[0]


def linux_tags() -> TagPreference:
    """Return the tags of CPython 3.13 on a common Linux."""
    return TagPreference(tags_for("cpython", Version("3.13"), [], ["manylinux_2_28_x86_64"]))


def wheels(
    release: str, names: Iterable[str | None], document: VariantDocument, known: Support
) -> Selection:
    """Select among pure wheels with these labels; None is the plain wheel."""
    return select(
        [
            parse_wheel_filename(f"{release}-py3-none-any{'-' + name if name else ''}.whl")
            for name in names
        ],
        document=document,
        support=known,
        tags=linux_tags(),
    )


def host_entry(namespace: str, features: Mapping[str, list[str]]) -> HostProvider:
    """Write an entry of a host file."""
    configs = tuple(FeatureConfig(name, tuple(values)) for name, values in features.items())
    return HostProvider(namespace, configs)


# --- PyTorch ---------------------------------------------------------------------------

T1: dict[str, Any] = {
    "$schema": "https://variants-schema.wheelnext.dev/",
    "default-priorities": {"namespace": ["nvidia"]},
    "providers": {"nvidia": NVIDIA},
    "variants": {
        "00000000": {},
        "cu126": {"nvidia": cuda("12.6", "50 60 70 75 80 86 90")},
        "cu128": {"nvidia": cuda("12.8", "75 80 86 90 100 120")},
        "cu129": {"nvidia": cuda("12.9", "75 80 86 90 100 120 120_virtual")},
    },
}
CAPABILITIES = ["4.0", "5.0", "7.0", "7.5", "9.0", "10.0", "12.0"]
NULL, OLD, MIDDLE, NEW = "00000000", "cu126", "cu128", "cu129"
SWEEP_1 = {
    "12.5": [NULL] * 7,
    "12.6": [NULL, OLD, OLD, OLD, OLD, NULL, NULL],
    "12.8": [NULL, OLD, OLD, MIDDLE, MIDDLE, MIDDLE, MIDDLE],
    "12.9": [NULL, OLD, OLD, NEW, NEW, NEW, NEW],
    "13.0": [NULL, OLD, OLD, NEW, NEW, NEW, NEW],
}
SWEEP_2 = {
    "12.5": [NULL, OLD, OLD, OLD, OLD, NULL, NULL],
    "12.6": [NULL, OLD, OLD, OLD, OLD, NULL, NULL],
    "12.8": [NULL, OLD, MIDDLE, MIDDLE, MIDDLE, MIDDLE, MIDDLE],
    "12.9": [NULL, OLD, NEW, NEW, NEW, NEW, NEW],
    "13.0": [NULL, OLD, NEW, NEW, NEW, NEW, NEW],
}


def published_document(index: Path, release: str) -> dict[str, Any]:
    """Return the variant metadata of a release of torch."""
    data: dict[str, Any] = json.loads((index / f"torch/torch-{release}-variants.json").read_bytes())
    return data


def sweep(table: Mapping[str, list[str]]) -> list[tuple[str, str, str]]:
    """Return driver, capability and expected label for every cell of a table."""
    return [
        (driver, capability, label)
        for driver, row in table.items()
        for capability, label in zip(CAPABILITIES, row, strict=True)
    ]


class TestPyTorch:
    """A-10 to A-14: torch 2.8."""

    def test_chosen_with_its_properties(self) -> None:
        """A-10: driver 12.9, GPU 7.5: cu129, with its eight properties."""
        document = read_document(T1, where="T1")
        selection = select(
            [
                parse_wheel_filename(f"torch-2.8.0-cp313-cp313-manylinux_2_28_x86_64-{label}.whl")
                for label in document.variants
            ],
            document=document,
            support=support(document, FixedDetector({"nvidia": gpu("12.9", "7.5")})),
            tags=linux_tags(),
        )
        assert selection.chosen is not None
        assert selection.chosen.label == "cu129"
        assert selection.verdicts[0].properties is not None
        assert len(selection.verdicts[0].properties) == 8
        assert selection.verdicts[0].reason == (
            "best fit: nvidia :: cuda_version_lower_bound :: 12.9, sm_arch :: 75_real"
        )

    @pytest.mark.parametrize(("driver", "capability", "label"), sweep(SWEEP_1))
    def test_tutorial(self, driver: str, capability: str, label: str) -> None:
        """A-11: drivers against compute capabilities, document T1."""
        assert labels(T1, {"nvidia": gpu(driver, capability)})[0] == label

    @pytest.mark.parametrize(("driver", "capability", "label"), sweep(SWEEP_2))
    def test_published(
        self, published_index: Path, driver: str, capability: str, label: str
    ) -> None:
        """A-12: the same with the published document T2."""
        published = published_document(published_index, "2.8.0")
        assert labels(published, {"nvidia": gpu(driver, capability)})[0] == label

    def test_no_driver(self) -> None:
        """A-13: without a driver the null variant, even beside a plain wheel."""
        document = read_document(T1, where="T1")
        known = support(document, FixedDetector({"nvidia": gpu(None)}))
        selection = wheels("torch-2.8.0", [*document.variants, None], document, known)
        assert selection.chosen is not None
        assert selection.chosen.label == "00000000"
        assert all(
            "needs an NVIDIA GPU driver; none was found" in verdict.reason
            for verdict in selection.verdicts
            if verdict.verdict == "rejected"
        )

    def test_bad_override(self) -> None:
        """A-14: an invalid override disables the provider visibly: null."""
        disabled = Detection(
            "nvidia", status=Status.DISABLED, warnings=("NV_FORCE=abc cannot be read",)
        )
        document = read_document(T1, where="T1")
        known = support(document, FixedDetector({"nvidia": disabled}))
        assert known.warnings == ("nvidia: NV_FORCE=abc cannot be read",)
        assert [ranked.label for ranked in order_labels(document, known)] == ["00000000"]


def rocm(rocm_version: str, gfx: str) -> Detection:
    """Return what an AMD machine supports (P-120)."""
    return supported("amd", {"gfx_arch": [gfx], "rocm_version": [rocm_version]})


def intel(*device_ips: str) -> Detection:
    """Return what an Intel GPU supports: its own value, then its base (P-131)."""
    return supported("intel", {"device_ip": list(device_ips)})


@pytest.fixture(name="torch_2_10")
def published_torch_2_10(published_index: Path) -> dict[str, Any]:
    """Return the published document T3."""
    return published_document(published_index, "2.10.0")


class TestPyTorchFamilies:
    """A-15 to A-23: torch 2.10 for three vendors."""

    @pytest.mark.parametrize(
        ("answers", "expected"),
        [
            ({"nvidia": gpu("12.8", "9.0")}, ["cuda12.8", "cuda12.6", "null"]),
            ({"nvidia": gpu("12.0", "9.0")}, ["cuda12.8", "cuda12.6", "null"]),
            ({"nvidia": gpu("12.6", "6.1")}, ["cuda12.6", "null"]),
            ({"nvidia": gpu("12.8", "6.0")}, ["cuda12.6", "null"]),
            ({"nvidia": gpu("13.0", "7.0")}, ["cuda12.8", "cuda12.6", "null"]),
            ({"nvidia": gpu("13.0", "7.5")}, ["cuda13.0", "cuda12.8", "cuda12.6", "null"]),
            ({"nvidia": gpu("13.0", "12.1")}, ["cuda13.0", "cuda12.8", "null"]),
            ({"nvidia": gpu("13.0", "13.0")}, ["cuda13.0", "null"]),  # A-19, P-83
            ({"nvidia": gpu("13.0", "13.0", reference=True)}, ["null"]),  # A-19, P-43
            ({"amd": rocm("7.0", "gfx942")}, ["rocm7.0", "null"]),
            ({"amd": rocm("7.1", "gfx950")}, ["rocm7.1", "null"]),
            ({"amd": rocm("6.4", "gfx942")}, ["null"]),
            ({"amd": rocm("7.0", "gfx1103")}, ["null"]),
            ({"intel": intel("20.1.0")}, ["xpu", "null"]),
            ({"intel": intel("20.4.4", "20.1.0")}, ["xpu", "null"]),
            ({"intel": intel("30.5.4", "30.0.4")}, ["xpu", "null"]),
            ({"intel": intel("12.10.0")}, ["null"]),
            (
                {
                    "nvidia": gpu("12.8", "9.0"),
                    "amd": rocm("7.0", "gfx942"),
                    "intel": intel("20.1.0"),
                },
                ["cuda12.8", "cuda12.6", "xpu", "rocm7.0", "null"],
            ),
        ],
    )
    def test_order(
        self, torch_2_10: dict[str, Any], answers: dict[str, Detection], expected: list[str]
    ) -> None:
        """A-15 to A-22: best first."""
        assert labels(torch_2_10, answers) == expected

    @pytest.mark.parametrize(
        ("policy", "best"), [("all", "cuda12.8"), ("highest", "cuda13.0"), ("any", "cuda13.0")]
    )
    def test_unlike_gpus(self, torch_2_10: dict[str, Any], policy: Any, best: str) -> None:
        """A-23, P-88: GPUs 7.0 and 9.0; cuda13.0 has no code for 7.0."""
        answers = {"nvidia": gpu("13.0", "7.0", "9.0")}
        provider_policy = ProviderPolicy(device_policy=policy)
        assert labels(torch_2_10, answers, policy=provider_policy)[0] == best

    def test_device_in_the_reason(self, torch_2_10: dict[str, Any]) -> None:
        """A-23: the reason names the device that caused the rejection."""
        document = read_document(torch_2_10, where="T3")
        known = support(document, FixedDetector({"nvidia": gpu("13.0", "7.0", "9.0")}))
        refusal = known.refusal(document.variants[parse_label("cuda13.0")])
        assert refusal is not None
        assert "which GPU 0 (7.0) does not meet" in refusal


# --- NumPy -------------------------------------------------------------------------------

X86_LABELS = {"v1": "3b930df5", "v2": "40aba78e", "v3": "fa7c1393", "v4": "cfdbe307"}
ARM_LABELS = {
    "8a": "ab33065c",
    "8.1a": "802e12ea",
    "8.2a": "e9a738cd",
    "8.3a": "522ebbc7",
    "8.4a": "09300f2f",
    "8.5a": "c87a4099",
}
NUMPY: dict[str, Any] = {
    "$schema": "https://variants-schema.wheelnext.dev/v0.0.2.json",
    "default-priorities": {"namespace": ["x86_64", "aarch64"]},
    "providers": {
        "x86_64": {
            "requires": ["provider-variant-x86-64 >=0.0.1,<1"],
            "enable-if": "platform_machine == 'x86_64' or platform_machine == 'AMD64'",
            "plugin-api": "provider_variant_x86_64.plugin:X8664Plugin",
        },
        "aarch64": {
            "requires": ["provider-variant-aarch64 >=0.0.1,<1"],
            "enable-if": "platform_machine == 'aarch64' or 'arm' in platform_machine",
            "plugin-api": "provider_variant_aarch64.plugin:AArch64Plugin",
        },
    },
    "variants": {
        **{label: {"x86_64": {"level": [level]}} for level, label in X86_LABELS.items()},
        **{label: {"aarch64": {"version": [release]}} for release, label in ARM_LABELS.items()},
    },
}
LEVELS = ["v4", "v3", "v2", "v1"]
RELEASES = ["9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a"]


def from_level(level: str) -> Detection:
    """Return what a CPU of an x86-64 level supports."""
    return supported("x86_64", {"level": LEVELS[LEVELS.index(level) :]})


def from_release(release: str) -> Detection:
    """Return what a CPU of an Armv8 version supports."""
    return supported("aarch64", {"version": RELEASES[RELEASES.index(release) :]})


class TestNumPy:
    """A-25 to A-28: processors."""

    @pytest.mark.parametrize("level", LEVELS)
    def test_x86(self, level: str) -> None:
        """A-25: each level gets its wheel; Arm labels name their property; one provider asked."""
        document = read_document(NUMPY, where="NUMPY")
        detector = FixedDetector({"x86_64": from_level(level), "aarch64": from_release("9.0a")})
        known = support(document, detector)
        selection = wheels("numpy-2.2.5", [*document.variants, None], document, known)
        assert selection.chosen is not None
        assert selection.chosen.label == X86_LABELS[level]
        assert detector.requests == ["x86_64"]
        rejected = {
            verdict.filename.label: verdict.reason
            for verdict in selection.verdicts
            if verdict.verdict == "rejected"
        }
        for release, label in ARM_LABELS.items():
            assert f"aarch64 :: version :: {release}" in rejected[parse_label(label)]
        for above in LEVELS[: LEVELS.index(level)]:
            assert rejected[parse_label(X86_LABELS[above])] == (
                f"needs x86-64-{above}, this CPU is {level} (x86_64 :: level :: {above})"
            )

    @pytest.mark.parametrize("release", ["8.4a", "8.5a", "8a"])
    def test_arm(self, release: str) -> None:
        """A-26: aarch64 likewise."""
        assert labels(NUMPY, {"aarch64": from_release(release)}, ARM)[0] == ARM_LABELS[release]

    def test_switched_off(self) -> None:
        """A-27: with both providers disabled the plain wheel, with the reason."""
        document = read_document(NUMPY, where="NUMPY")
        policy = ProviderPolicy(disabled=frozenset({"x86_64", "aarch64"}))
        known = support(document, FixedDetector({"x86_64": from_level("v4")}), policy=policy)
        selection = wheels("numpy-2.2.5", [*document.variants, None], document, known)
        assert selection.chosen is not None
        assert selection.chosen.label is None
        assert selection.verdicts[0].reason == "the plain wheel: no variant fits"
        assert selection.verdicts[1].reason.endswith("is disabled: switched off by the user")

    @pytest.mark.parametrize(
        ("platform", "answer", "expected"),
        [
            ("linux_x86_64", from_level("v4"), "x8664v4_mkl"),
            ("linux_x86_64", from_level("v3"), "openblas"),
            ("macosx_14_0_arm64", from_level("v1"), "accelerate"),
        ],
    )
    def test_static_list(
        self, releases: Path, platform: str, answer: Detection, expected: str
    ) -> None:
        """A-28: numpy 2.3.4: the hardware decides before the static list of BLAS."""
        file = releases / "numpy/numpy-2.3.4-variants.json"
        document = read_document(file.read_bytes(), where=file.name)
        machine = platform.rpartition("_")[2] if platform.endswith("arm64") else "x86_64"
        known = support(
            document, FixedDetector({"x86_64": answer}), {**LINUX, "platform_machine": machine}
        )
        names = [
            f"numpy-2.3.4-cp312-cp312-{built}-{label}.whl"
            for built, label in [
                ("linux_x86_64", "openblas"),
                ("linux_x86_64", "x8664v4_mkl"),
                ("macosx_14_0_arm64", "accelerate"),
                ("macosx_14_0_arm64", "openblas"),
            ]
        ]
        selection = select(
            [parse_wheel_filename(name) for name in names],
            document=document,
            support=known,
            tags=TagPreference(tags_for("cpython", Version("3.12"), [], [platform])),
        )
        assert selection.chosen is not None
        assert selection.chosen.label == expected


# --- XGBoost -------------------------------------------------------------------------------

XGBOOST = {
    "$schema": "https://variants-schema.wheelnext.dev/v0.0.2.json",
    "default-priorities": {"namespace": ["nvidia"]},
    "providers": {"nvidia": NVIDIA},
}


class TestXGBoost:
    """A-29 to A-32."""

    @pytest.mark.parametrize(
        ("values", "label"), [(["12"], "3f631cc2"), (["11"], None), ([], None)]
    )
    def test_old_feature_name(self, values: list[str], label: str | None) -> None:
        """A-29: nvidia :: cuda :: 12 given by a host file; otherwise plain, with the reason."""
        document = read_document(
            {**XGBOOST, "variants": {"3f631cc2": {"nvidia": {"cuda": ["12"]}}}}, where="xgboost"
        )
        features = (FeatureConfig("cuda", tuple(values)),) if values else ()
        known = support_by(document, HostProvider("nvidia", features))
        selection = wheels("xgboost-3.1.0", ["3f631cc2", None], document, known)
        assert selection.chosen is not None
        assert selection.chosen.label == label
        if label is None:
            assert "nvidia :: cuda :: 12" in selection.verdicts[1].reason

    def test_old_feature_name_in_a_static_list(self) -> None:
        """A-29, P-20: the same from a static list of the package, and whose word it is."""
        data = {
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["nvidia"]},
            "providers": {"nvidia": {"static-properties": {"cuda": ["12"]}}},
            "variants": {"3f631cc2": {"nvidia": {"cuda": ["12"]}}},
        }
        known = support(read_document(data, where="xgboost"), FixedDetector())
        assert known.examined == {"nvidia": "the package's own list"}
        assert labels(data, {}) == ["3f631cc2"]

    def test_several_projects(self) -> None:
        """A-30: driver 12 supported: xgboost and nccl for 12; numpy without provider plain."""
        answers = {"nvidia": supported("nvidia", {"driver": ["12"]})}
        driver_12 = {"aa00cb06": {"nvidia": {"driver": ["12"]}}}
        assert labels({**XGBOOST, "variants": driver_12}, answers) == ["aa00cb06"]
        nccl = {**driver_12, "73be618d": {"nvidia": {"driver": ["11"]}}}
        assert labels({**XGBOOST, "variants": nccl}, answers) == ["aa00cb06"]
        numpy = {
            "$schema": "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json",
            "default-priorities": {"namespace": ["x86_64"]},
            "variants": {
                label: {"x86_64": {"level": [level]}} for level, label in X86_LABELS.items()
            },
        }
        document = read_document(numpy, where="numpy")
        known = support(document, FixedDetector({**answers, "x86_64": from_level("v4")}))
        assert order_labels(document, known) == ()

    def test_no_provider(self) -> None:
        """A-31: without providers the plain wheel; each rejected label has one reason."""
        document = read_document(
            {**XGBOOST, "variants": {"aa00cb06": {"nvidia": {"driver": ["12"]}}}}, where="xgboost"
        )
        known = support(document, FixedDetector())
        selection = wheels("xgboost-3.1.0", ["aa00cb06", None], document, known)
        assert [verdict.filename.label for verdict in selection.verdicts] == [None, "aa00cb06"]
        assert selection.verdicts[1].reason == (
            "needs nvidia :: driver :: 12; wheelfit does not stand in for "
            "nvidia-variant-provider yet, and no plugin is asked here"
        )

    @pytest.mark.parametrize(
        ("driver", "capability", "label"),
        [
            ("11.8", "7.0", None),
            ("12.8", "8.6", "cu12"),
            ("13.0", "7.0", "cu12"),
            ("13.0", "6.1", "cu12"),
            ("13.0", "8.6", "cu13"),
            ("13.0", "9.0", "cu13"),
        ],
    )
    def test_release_candidate(self, driver: str, capability: str, label: str | None) -> None:
        """A-32: xgboost 3.1.0rc1: cu12, cu13 and plain."""
        document = read_document(
            {
                **XGBOOST,
                "variants": {
                    "cu12": {"nvidia": cuda("12.0", "50 60 70 80 90 100 120 120_virtual")},
                    "cu13": {"nvidia": cuda("13.0", "75 80 90 100 120 120_virtual")},
                },
            },
            where="xgboost",
        )
        known = support(document, FixedDetector({"nvidia": gpu(driver, capability)}))
        selection = wheels("xgboost-3.1.0rc1", ["cu12", "cu13", None], document, known)
        assert selection.chosen is not None
        assert selection.chosen.label == label


# --- the rest ------------------------------------------------------------------------------


class TestOthers:
    """Scenarios that need no index and no plugin."""

    def test_unselectable_static_list(self, torch_2_10: dict[str, Any]) -> None:
        """A-39: variants with a feature outside the static list are rejected, with the reason."""
        data = {
            **torch_2_10,
            "variants": {
                f"cuda{toolkit}": {"nvidia": cuda("12.0", "90"), "priority": {"cuda": [rank]}}
                for toolkit, rank in [("12.6", "3"), ("12.8", "2")]
            },
        }
        document = read_document(data, where="torch")
        known = support(document, FixedDetector({"nvidia": gpu("12.8", "9.0")}))
        assert order_labels(document, known) == ()
        for label, rank in [("cuda12.6", "3"), ("cuda12.8", "2")]:
            refusal = known.refusal(document.variants[parse_label(label)])
            assert refusal is not None
            assert refusal == (
                f"needs priority :: cuda :: {rank}; the package's own list has no "
                "priority :: cuda, only order"
            )

    @pytest.mark.parametrize(
        ("humor", "expected"),
        [
            (False, ["autochef_r25_sup", "null"]),
            (True, ["dthought_c10_fm", "hal9k_c0_6_nfun", "autochef_r25_sup", "null"]),
        ],
    )
    def test_demo_providers(self, releases: Path, humor: bool, expected: list[str]) -> None:  # noqa: FBT001
        """A-40, A-40b: the fictional providers, with values of a host file."""
        file = releases / "dummy-project-flit" / "dummy_project_flit-0.0.1-variants.json"
        document = read_document(file.read_bytes(), where=file.name)
        hardware = {
            "architecture": ["deepthought", "hal9000"],
            "compute_capability": ["10", "6", "2"],
            **({"humor": ["0", "2"]} if humor else {}),
            "compute_accuracy": ["1000", "0", "10"],
        }
        technology = {
            "technology": ["auto_chef"],
            "quantum": ["foam", "superposition"],
            "risk_exposure": ["25"],
        }
        known = support_by(
            document,
            host_entry("fictional_hw", hardware),
            host_entry("fictional_tech", technology),
        )
        assert [ranked.label for ranked in order_labels(document, known)] == expected

    def test_document_priorities_before_the_file(self) -> None:
        """A-64, F-49, F-59: priorities of the document precede the order in the host file."""
        levels = ["v4", "v3", "v2", "v1"]
        data = {
            "default-priorities": {
                "namespace": ["cpu_level"],
                "property": {"cpu_level": {"x86_64_level": levels}},
            },
            "providers": {
                "cpu_level": {"requires": ["cpu-level-provider"], "plugin-api": "cpu:Level"},
                "mathlib": {"install-time": False},
            },
            "static-properties": {"mathlib": {"kind": ["very_fast_lib"]}},
            "variants": {
                f"cpu{number}": {
                    "cpu_level": {"x86_64_level": [f"v{number}"]},
                    "mathlib": {"kind": ["very_fast_lib"]},
                }
                for number in range(1, 5)
            },
        }
        entry = host_entry("cpu_level", {"x86_64_level": ["v1", "v2"]})
        document, converted = both_readings(data)
        for read, expected in [(document, ["cpu2", "cpu1"]), (converted, ["cpu1", "cpu2"])]:
            known = support_by(read, entry)
            assert [ranked.label for ranked in order_labels(read, known)] == expected

    def test_optional_static_provider(self) -> None:
        """A-79: an optional static provider is disabled until enabled by name."""
        data = {
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["blas"]},
            "providers": {
                "blas": {"static-properties": {"library": ["mkl"]}, "optional": True},
            },
            "variants": {"mkl": {"blas": {"library": ["mkl"]}}, "null": {}},
        }
        assert labels(data, {}) == ["null"]
        enabled = ProviderPolicy(enabled=frozenset({"blas"}))
        assert labels(data, {}, policy=enabled) == ["mkl", "null"]

    def test_abi_dependency(self) -> None:
        """A-49, P-50: with ABI dependencies disabled those labels are rejected, with a note."""
        off = ProviderPolicy(abi_dependency=False)
        data = {
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["abi"]},
            "providers": {"abi": {"builtin": "abi_dependency"}},
            "variants": {"pyt2.8": {"abi": {"torch": ["2.8"]}}, "null": {}},
        }
        assert labels(data, {}, policy=off) == ["null"]
        known = support(read_document(data, where="flash"), FixedDetector(), policy=off)
        assert known.warnings == ("abi: builds for a version of another package are switched off",)
        refusal = known.refusal(read_document(data, where="flash").variants[parse_label("pyt2.8")])
        assert refusal is not None
        assert str(parse_property("abi :: torch :: 2.8")) in refusal
