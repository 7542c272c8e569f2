"""The order of labels, held against the rule written out in plain data (A-80)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hypothesis import given, settings
from oracles.order_by_rule import Values, first_then, order
from property.strategies import CHOICE_LISTS, rankings, supports

from wheelfit.core.document import VariantDocument
from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import Choice, Preferences, order_labels
from wheelfit.core.properties import Feature, Property
from wheelfit.core.property_support import Support, support_for
from wheelfit.core.provider_lookup import Detector
from wheelfit.testing.detectors import FixedDetector
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu
from wheelfit_runtime.platforms.recording import open_recorded

MACHINES = Path(__file__).parents[1] / "machines"


def labels(
    document: VariantDocument, support: Support, prefer: tuple[Choice, ...] = ()
) -> list[str]:
    """Return the labels that may be chosen, best first."""
    preferences = Preferences(prefer=prefer)
    return [ranked.label for ranked in order_labels(document, support, preferences)]


def by_rule(
    document: VariantDocument, support: Support, prefer: tuple[Choice, ...] = ()
) -> list[str]:
    """Order by the rule; what is preferred is put before the lists, and nothing else (F-69).

    Several devices are no matter of F-66: labels that not all of them run are left out first.
    """
    namespaces = dict.fromkeys(
        [one for one in prefer if isinstance(one, str)] + list(document.priorities)
    )
    variants = {
        str(label): wanted.to_mapping()
        for label, wanted in document.variants.items()
        if support.refusal(wanted) is None
    }
    return order(variants, list(namespaces), dict(_lists(document, support, prefer)))


def _lists(
    document: VariantDocument, support: Support, prefer: Sequence[Choice]
) -> Iterator[tuple[str, Mapping[str, Sequence[str]]]]:
    """Yield what is supported of each namespace, with the prefixes of F-49 and F-69."""
    for namespace, detection in support.detections.items():
        values = {config.name: list(config.values) for config in detection.features}
        names = first_then(document.feature_priorities.get(namespace, ()), list(values))
        wished = [
            one.name for one in prefer if isinstance(one, Feature) and one.namespace == namespace
        ]
        supported: dict[str, list[str]] = {}
        for name in first_then(list(dict.fromkeys(wished)), names):
            legacy = document.value_priorities.get(Feature(namespace, name), ())
            first = [
                one.value
                for one in prefer
                if isinstance(one, Property) and (one.namespace, one.feature) == (namespace, name)
            ]
            supported[name] = first_then(
                list(dict.fromkeys(first)), first_then(legacy, values[name])
            )
        yield namespace, supported


@settings(max_examples=400)
@given(rankings(), supports(), CHOICE_LISTS)
def test_random_documents(
    document: VariantDocument, support: Support, prefer: tuple[Choice, ...]
) -> None:
    """F-49, F-66, F-69, A-80: the order is the rule's; a wish changes indexes and nothing else."""
    assert labels(document, support) == by_rule(document, support)
    preferred = labels(document, support, prefer)
    assert preferred == by_rule(document, support, prefer)
    assert sorted(preferred) == sorted(labels(document, support))


SYSTEMS = [
    {"platform_system": "Linux", "platform_machine": "x86_64"},
    {"platform_system": "Linux", "platform_machine": "aarch64"},
    {"platform_system": "Windows", "platform_machine": "AMD64"},
]
GPUS = [
    (system, driver, capability)
    for system in SYSTEMS
    for driver in [(11, 8), (12, 0), (12, 6), (12, 8), (13, 0)]
    for capability in [(5, 0), (7, 0), (7, 5), (9, 0), (12, 0)]
][::2]


def platforms() -> Iterator[tuple[Detector, dict[str, str]]]:
    """Yield 38 machines with GPUs of every vendor, and every captured one without a driver."""
    for system, driver, capability in GPUS:
        gpu = NvidiaGpu(0, "", Capability(*capability))
        answer = nvidia.supported(NvidiaDriver(cuda_version=Capability(*driver), gpus=(gpu,)))
        yield (
            FixedDetector(
                {
                    "nvidia": answer,
                    "x86_64": {"level": ["v3", "v2", "v1"]},
                    "aarch64": {"version": ["8.2a", "8.1a", "8a"]},
                    "amd": {"gfx_arch": ["gfx942"], "rocm_version": ["7.0"]},
                    "intel": {"device_ip": ["20.4.4", "20.1.0"]},
                }
            ),
            system,
        )
    for folder in sorted(MACHINES.iterdir()):
        yield open_recorded(folder), SYSTEMS[0]


def test_published_documents(shared_data: Path) -> None:
    """F-66, A-80: every published document orders by the rule on 38 platforms and more.

    Files of the same text are one document.
    """
    texts = {file.read_bytes(): file.name for file in sorted(shared_data.rglob("*variant*.json"))}
    documents = [
        read_document(text, where=name)
        for text, name in texts.items()
        if b'"variants"' in text and b"json-schema.org" not in text
    ]
    machines = list(platforms())
    assert len(documents) > 60
    assert len(machines) >= 38
    chosen = 0
    for detector, environment in machines:
        for document in documents:
            support = support_for(document, detector, environment=environment)
            ordered = labels(document, support)
            assert ordered == by_rule(document, support)
            chosen += len(ordered) > 1
            for wanted in document.variants.values():
                assert support.refusal(wanted) != ""
    assert chosen > len(documents) * len(machines) / 20  # there was a choice


def test_the_rule_in_its_own_words() -> None:
    """F-66: the oracle gives the order of the worked example in the format rules."""
    supported: Values = {
        "nvidia": {
            "cuda_version_lower_bound": [f"12.{minor}" for minor in range(8, -1, -1)] + ["12"],
            "sm_arch": [f"{number}_real" for number in range(89, 79, -1)] + ["80_virtual"],
        },
        "x86_64": {"level": ["v3", "v2", "v1"]},
        "blas": {"library": ["openblas", "mkl"]},
    }
    bound, arch = "cuda_version_lower_bound", "sm_arch"
    variants: dict[str, Values] = {
        "cu128_v3": {
            "nvidia": {bound: ["12.8"], arch: ["80_real", "90_real"]},
            "x86_64": {"level": ["v3"]},
        },
        "cu128": {"nvidia": {bound: ["12.8"], arch: ["80_real", "90_real"]}},
        "cu126_mkl": {
            "nvidia": {bound: ["12.6"], arch: ["86_real", "89_real"]},
            "blas": {"library": ["mkl"]},
        },
        "v3_blas": {"x86_64": {"level": ["v2", "v3"]}, "blas": {"library": ["mkl", "openblas"]}},
        "v3": {"x86_64": {"level": ["v3"]}},
        "avx2": {"x86_64": {"level": ["v1", "v3"]}},
        "hopper": {"nvidia": {bound: ["12.0"], arch: ["90_real"]}},
        "v4": {"x86_64": {"level": ["v4"]}},
        "null": {},
    }
    assert order(variants, ["nvidia", "x86_64", "blas"], supported) == [
        "cu128_v3", "cu128", "cu126_mkl", "v3_blas", "avx2", "v3", "null",
    ]  # fmt: skip
