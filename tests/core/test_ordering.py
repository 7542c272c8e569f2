from __future__ import annotations

from time import process_time

import pytest
from error_codes import raises_code
from msgspec.structs import replace

from wheelfit.core.document import VariantDocument
from wheelfit.core.labels import NULL, Label
from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import Choice, Preferences, Ranking, order_labels, parse_preference
from wheelfit.core.properties import EMPTY, Feature, Property, PropertySet
from wheelfit.core.property_support import Support, support_for
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.testing.detectors import supported
from wheelfit_runtime.platforms.features import Detection, DeviceValues, FeatureConfig, Status

NO_PREFERENCES = Preferences()

# The worked example of section 8 of the format rules.

SUPPORT = Support(
    {
        "nvidia": supported(
            "nvidia",
            {
                "cuda_version_lower_bound": [*(f"12.{minor}" for minor in range(8, -1, -1)), "12"],
                "sm_arch": [*(f"8{minor}_real" for minor in range(9, -1, -1)), "80_virtual"],
            },
        ),
        "x86_64": supported("x86_64", {"level": ["v3", "v2", "v1"]}),
        "blas": supported("blas", {"library": ["openblas", "mkl"]}),
    }
)


def properties(**namespaces: dict[str, list[str]]) -> PropertySet:
    """Write a property set with namespaces as keywords."""
    return PropertySet.from_mapping(namespaces)


def cuda(bound: str, *architectures: str) -> dict[str, list[str]]:
    """Write the properties of a CUDA build."""
    return {"cuda_version_lower_bound": [bound], "sm_arch": list(architectures)}


VARIANTS = {
    Label("avx2"): properties(x86_64={"level": ["v1", "v3"]}),
    Label("cu126_mkl"): properties(
        nvidia=cuda("12.6", "86_real", "89_real"), blas={"library": ["mkl"]}
    ),
    Label("cu128"): properties(nvidia=cuda("12.8", "80_real", "90_real")),
    Label("cu128_v3"): properties(
        nvidia=cuda("12.8", "80_real", "90_real"), x86_64={"level": ["v3"]}
    ),
    Label("hopper"): properties(nvidia=cuda("12.0", "90_real")),
    NULL: EMPTY,
    Label("v3"): properties(x86_64={"level": ["v3"]}),
    Label("v3_blas"): properties(
        x86_64={"level": ["v2", "v3"]}, blas={"library": ["mkl", "openblas"]}
    ),
    Label("v4"): properties(x86_64={"level": ["v4"]}),
}
DOCUMENT = VariantDocument(("nvidia", "x86_64", "blas"), variants=VARIANTS)


def labels(
    document: VariantDocument = DOCUMENT,
    support: Support = SUPPORT,
    preferences: Preferences = NO_PREFERENCES,
) -> list[str]:
    """Return the labels that may be chosen, best first."""
    return [ranked.label for ranked in order_labels(document, support, preferences)]


def prefer(*texts: str) -> Preferences:
    """Prefer what the texts say."""
    return Preferences(prefer=tuple(parse_preference(text) for text in texts))


class TestWorkedExample:
    """Section 8: the release fastfft 2.1."""

    def test_order(self) -> None:
        """F-66, F-67: the order of the worked example; two labels are incompatible."""
        assert labels() == ["cu128_v3", "cu128", "cu126_mkl", "v3_blas", "avx2", "v3", "null"]

    @pytest.mark.parametrize(
        ("label", "key"),
        [
            ("cu128_v3", ((0, 0, 0), (0, 1, 9), (1, 0, 0))),
            ("cu128", ((0, 0, 0), (0, 1, 9))),
            ("cu126_mkl", ((0, 0, 2), (0, 1, 0), (2, 0, 1))),
            ("v3_blas", ((1, 0, 0), (2, 0, 0))),
            ("v3", ((1, 0, 0),)),
            ("avx2", ((1, 0, 0),)),
            ("null", ()),
            ("hopper", None),
            ("v4", None),
        ],
    )
    def test_keys(self, label: str, key: tuple[tuple[int, int, int], ...] | None) -> None:
        """F-66: each feature counts with its best supported value; F-28: or not at all."""
        ranking = Ranking(DOCUMENT, SUPPORT, Preferences())
        assert ranking.key(VARIANTS[Label(label)]) == key

    def test_best_values(self) -> None:
        """F-66: the best value of each feature can be asked for, most important first."""
        ranking = Ranking(DOCUMENT, SUPPORT, Preferences())
        key = ranking.key(VARIANTS[Label("cu126_mkl")])
        assert key is not None
        assert [str(item) for item in ranking.best_properties(key)] == [
            "nvidia :: cuda_version_lower_bound :: 12.6",
            "nvidia :: sm_arch :: 89_real",
            "blas :: library :: mkl",
        ]

    def test_user_prefers_blas(self) -> None:
        """F-69: with blas first, v3_blas moves to the front, then cu126_mkl."""
        assert labels(preferences=prefer("blas")) == [
            "v3_blas",
            "cu126_mkl",
            "cu128_v3",
            "cu128",
            "avx2",
            "v3",
            "null",
        ]


class TestOrder:
    """F-66 where the worked example is silent."""

    def test_a_label_without_properties_sorts_like_null(self) -> None:
        """F-7, F-53: an odd empty label, or the old null label, sorts by name beside null."""
        document = VariantDocument(
            ("x86_64",),
            variants={
                NULL: EMPTY,
                Label("zero"): EMPTY,
                Label("00000000"): EMPTY,
                Label("v1"): properties(x86_64={"level": ["v1"]}),
            },
        )
        assert labels(document) == ["v1", "00000000", "null", "zero"]

    def test_equal_keys_are_decided_by_code_point(self) -> None:
        """F-66: the last resort is the label, by code point: '.' before digits before '_'."""
        same = properties(x86_64={"level": ["v1"]})
        names = ["a_", "a1", "a.", "ab", "b", "1"]
        document = VariantDocument(("x86_64",), variants={Label(name): same for name in names})
        assert labels(document) == ["1", "a.", "a1", "a_", "ab", "b"]

    def test_unused_namespaces_keep_their_index(self) -> None:
        """Section 8: namespaces nobody uses do not matter but keep their index."""
        document = replace(DOCUMENT, priorities=("rocm", "nvidia", "tpu", "x86_64", "blas"))
        assert labels(document) == labels()
        key = Ranking(document, SUPPORT, Preferences()).key(VARIANTS[Label("v3")])
        assert key == ((3, 0, 0),)

    def test_a_feature_with_no_values_is_unsupported(self) -> None:
        """P-27: an empty value list leaves the other features of the namespace alone."""
        support = Support({"x86_64": supported("x86_64", {"avx10": [], "level": ["v1"]})})
        document = VariantDocument(
            ("x86_64",),
            variants={
                Label("a"): properties(x86_64={"avx10": ["on"]}),
                Label("b"): properties(x86_64={"level": ["v1"]}),
            },
        )
        assert labels(document, support) == ["b"]

    def test_an_unsupported_namespace_rejects(self) -> None:
        """F-28: what nobody was asked about is unsupported."""
        assert labels(support=Support()) == ["null"]


LAYOUTS: dict[str, dict[str, object]] = {
    "L1": {"providers": {"x": {"requires": ["x"]}}},
    "L2": {"$schema": "v0.0.2", "providers": {"x": {"requires": ["x"]}}},
    "L3": {"$schema": "v0.0.3", "providers": {"x": {"requires": ["x"], "install-time": True}}},
    "L4": {"$schema": "peps/825/v0.1.0"},
    "L5": {"$schema": "peps/825/v0.1.1"},
    "L6": {"$schema": "peps/826/v0.2.0", "providers": {"x": {"requires": ["x"]}}},
    "L7": {"$schema": "peps/850/v0.2.0", "providers": {"x": {"requires": ["x"]}}},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_the_layout(layout: str) -> None:
    """F-58: only the best value of each feature counts, also in documents of older drafts."""
    made: dict[str, object] = {
        **LAYOUTS[layout],
        "default-priorities": {"namespace": ["x"]},
        "variants": {
            "a_best": {"x": {"level": ["v3"]}},
            # The drafts of 2025 compared all values: more of them came first.
            "b_best_and_more": {"x": {"level": ["v1", "v2", "v3"]}},
            "c_more_features": {"x": {"level": ["v2"], "speed": ["1"]}},
            "d_many_values": {"x": {"level": ["v1", "v2"], "speed": ["1", "2"]}},
            "e_speed": {"x": {"speed": ["1", "2", "3"]}},
        },
    }
    if "$schema" in made:
        made["$schema"] = f"https://variants-schema.wheelnext.dev/{made['$schema']}.json"
    document = read_document(made, where="x")
    assert document.layout == layout
    support = Support(
        {"x": supported("x", {"level": ["v3", "v2", "v1"], "speed": ["3", "2", "1"]})}
    )
    assert labels(document, support) == [
        "a_best",
        "b_best_and_more",
        "d_many_values",
        "c_more_features",
        "e_speed",
    ]


class TestDocumentOverrides:
    """F-49: a legacy document's priorities for plugin namespaces."""

    def test_values_of_the_document_come_first(self) -> None:
        """F-49: listed values come before the provider's own, in the listed order."""
        document = replace(
            DOCUMENT, value_priorities={Feature("blas", "library"): ("netlib", "mkl")}
        )
        support = Support({"blas": SUPPORT.detections["blas"]})
        variants = {
            Label(name): properties(blas={"library": [name]}) for name in ("mkl", "openblas")
        }
        assert labels(replace(DOCUMENT, variants=variants), support) == ["openblas", "mkl"]
        assert labels(replace(document, variants=variants), support) == ["mkl", "openblas"]

    def test_features_of_the_document_come_first(self) -> None:
        """F-49: listed features come before the provider's own."""
        document = replace(DOCUMENT, feature_priorities={"nvidia": ("sm_arch",)})
        assert labels(document)[:3] == ["cu126_mkl", "cu128_v3", "cu128"]

    def test_the_user_comes_before_the_document(self) -> None:
        """F-69 before F-49."""
        document = replace(DOCUMENT, feature_priorities={"nvidia": ("sm_arch",)})
        wanted = prefer("nvidia :: cuda_version_lower_bound")
        assert labels(document, preferences=wanted) == labels()


class TestPrefer:
    """F-69: user priorities are prefixes and change only the indexes."""

    @pytest.mark.parametrize(
        ("texts", "first"),
        [
            (["x86_64"], "cu128_v3"),
            (["blas", "x86_64"], "v3_blas"),
            (["nvidia :: sm_arch"], "cu126_mkl"),
            (["nvidia::cuda_version_lower_bound::12.6"], "cu126_mkl"),
            (["blas :: library :: mkl"], "cu128_v3"),
            (["nothing", "x86_64 :: nothing", "nvidia :: sm_arch :: 75_real"], "cu128_v3"),
        ],
    )
    def test_first(self, texts: list[str], first: str) -> None:
        """F-69: the preferred comes first among its own kind; unknown entries are ignored."""
        assert labels(preferences=prefer(*texts))[0] == first


class TestForbidAndRequire:
    """F-91: the user narrows."""

    @pytest.mark.parametrize(
        ("text", "rest"),
        [
            ("nvidia", ["v3_blas", "avx2", "v3", "null"]),
            ("blas :: library", ["cu128_v3", "cu128", "avx2", "v3", "null"]),
            (
                "blas :: library :: mkl",
                ["cu128_v3", "cu128", "v3_blas", "avx2", "v3", "null"],
            ),
            ("x86_64 :: level :: v3", ["cu128", "cu126_mkl", "v3_blas", "avx2", "null"]),
            ("unknown", ["cu128_v3", "cu128", "cu126_mkl", "v3_blas", "avx2", "v3", "null"]),
        ],
    )
    def test_forbid(self, text: str, rest: list[str]) -> None:
        """F-91: a forbidden value counts as unsupported; another value of it may do."""
        wanted = Preferences(forbid=(parse_preference(text),))
        assert labels(preferences=wanted) == rest

    @pytest.mark.parametrize(
        ("texts", "rest"),
        [
            (["blas"], ["cu126_mkl", "v3_blas"]),
            (["nvidia", "blas"], ["cu126_mkl"]),
            (["x86_64 :: level"], ["cu128_v3", "v3_blas", "avx2", "v3"]),
            (["blas :: library :: openblas"], ["v3_blas"]),
            (["x86_64 :: level :: v4"], []),
        ],
    )
    def test_require(self, texts: list[str], rest: list[str]) -> None:
        """F-91: only variants that have all of it stay; nothing becomes compatible."""
        wanted = Preferences(require=tuple(parse_preference(text) for text in texts))
        assert labels(preferences=wanted) == rest

    def test_a_forbidden_value_is_not_the_best(self) -> None:
        """F-66, F-91: the value that counts is the best of those that are left."""
        wanted = Preferences(forbid=(Property("x86_64", "level", "v3"),))
        key = Ranking(DOCUMENT, SUPPORT, wanted).key(VARIANTS[Label("avx2")])
        assert key == ((1, 0, 2),)

    def test_filter_keeps_the_forbidden_value(self) -> None:
        """F-110: markers see what the system supports, whatever the user forbids."""
        kept = SUPPORT.filter(VARIANTS[Label("avx2")])
        assert [item.value for item in kept] == ["v1", "v3"]


UNLIKE_GPUS = Detection(
    "nvidia",
    (FeatureConfig("sm_arch", ("90_real", "70_real"), multi_value=True),),
    Status.SUPPORTED,
    devices=(
        DeviceValues("sm_arch", "GPU 1 (H100, 9.0)", frozenset(["90_real"])),
        DeviceValues("sm_arch", "GPU 0 (V100, 7.0)", frozenset(["70_real"])),
    ),
)
GPU_VARIANTS = {
    Label("both"): properties(nvidia={"sm_arch": ["70_real", "90_real"]}),
    Label("new"): properties(nvidia={"sm_arch": ["90_real"]}),
    Label("old"): properties(nvidia={"sm_arch": ["70_real"]}),
    NULL: EMPTY,
}


def test_a_wish_in_vain() -> None:
    """F-91: what is required and occurs in nothing that was chosen is named."""
    texts = ("nvidia", "blas :: library", "x86_64 :: level :: v3", "x86_64 :: level :: v4")
    wanted = Preferences(require=tuple(parse_preference(text) for text in texts))
    present = [properties(x86_64={"level": ["v3"]}), properties(blas={"library": ["mkl"]}), EMPTY]
    assert list(map(str, wanted.unmet(present))) == ["nvidia", "x86_64 :: level :: v4"]
    assert not list(NO_PREFERENCES.unmet([]))


class TestDevices:
    """P-88: several unlike devices."""

    @pytest.mark.parametrize(
        ("policy", "rest"),
        [
            ("all", ["both", "null"]),
            ("highest", ["both", "new", "null"]),
            ("lowest", ["both", "old", "null"]),
            ("any", ["both", "new", "old", "null"]),
        ],
    )
    def test_policy(self, policy: str, rest: list[str]) -> None:
        """P-42, P-88: all devices, highest, lowest, or any; wheels without the feature stay."""
        document = VariantDocument(("nvidia",), variants=GPU_VARIANTS)
        support = Support({"nvidia": UNLIKE_GPUS}, device_policy=policy)  # type: ignore[arg-type]
        assert labels(document, support) == rest

    def test_forbidding_counts_on_each_device(self) -> None:
        """F-91: a wheel whose only code for one device is forbidden does not run there."""
        document = VariantDocument(("nvidia",), variants=GPU_VARIANTS)
        support = Support({"nvidia": UNLIKE_GPUS})
        wanted = Preferences(forbid=(Property("nvidia", "sm_arch", "70_real"),))
        assert labels(document, support, wanted) == ["null"]
        objection = wanted.objection(GPU_VARIANTS[Label("both")], support)
        assert objection == "nvidia :: sm_arch :: 70_real is forbidden"

    def test_the_policy_reaches_the_support(self) -> None:
        """P-88: the device policy is part of what the user decided about providers."""
        support = support_for(
            VariantDocument(("nvidia",)),
            None,
            environment={},
            policy=ProviderPolicy(device_policy="any"),
        )
        assert support.device_policy == "any"


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("nvidia", "nvidia"),
        (" nvidia ::sm_arch ", Feature("nvidia", "sm_arch")),
        ("nvidia::sm_arch::90_real", Property("nvidia", "sm_arch", "90_real")),
    ],
)
def test_preferences_are_read(text: str, choice: Choice) -> None:
    """F-5, F-91: a namespace, a feature or a property."""
    assert parse_preference(text) == choice


@pytest.mark.parametrize("text", ["", "NVIDIA", "a :: b :: c :: d", "a :: :: b", "a b", "::"])
def test_preferences_are_refused(text: str) -> None:
    """F-5: anything else is an error, not a preference that never matches."""
    with raises_code("invalid-property"):
        parse_preference(text)


def test_many_labels() -> None:
    """F-30: an index may allow very many labels; 20,000 take a fraction of a second."""
    many = {
        Label(f"l{number}"): properties(
            nvidia=cuda(f"12.{number % 10}", "80_real", f"8{number % 7}_real"),
            x86_64={"level": [f"v{number % 4 + 1}"]},
        )
        for number in range(20_000)
    }
    document = replace(DOCUMENT, variants=many)
    start = process_time()
    ordered = labels(document)
    assert 0 < len(ordered) < len(many)
    assert process_time() - start < 5  # far above what it takes, far below quadratic
