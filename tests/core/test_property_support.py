from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.abi_dependency import KnownVersion, KnownVersions
from wheelfit.core.document import VariantDocument
from wheelfit.core.host_file import HostDetector, HostFile, HostProvider
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document
from wheelfit.core.properties import EMPTY, Property, PropertySet
from wheelfit.core.property_support import Support, namespaces_used, support_for
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.core.providers import (
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    Provider,
    StaticProvider,
)
from wheelfit.testing.detectors import FixedDetector, supported
from wheelfit.testing.wheels import release_document
from wheelfit_runtime.platforms.features import Detection, DeviceValues, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.provider_lookup import Detector
    from wheelfit.core.providers import PluginQuestion

NVIDIA = PluginProvider(
    ("nvidia-variant-provider>=0.0.1,<1",), "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
)
X86 = PluginProvider(("x86-64-variant-provider<1",))
STRANGER = PluginProvider(("nvidia-plugin-by-a-stranger",))
BLAS = StaticProvider((FeatureConfig("library", ("openblas", "mkl")),))
NO_POLICY = ProviderPolicy()
LINUX = {"platform_system": "Linux", "platform_machine": "x86_64"}
LEVELS: dict[str, list[str]] = {"level": ["v3", "v2", "v1"]}


def ask(
    provider: Provider | None,
    machine: Detector | None,
    namespace: str = "nvidia",
    policy: ProviderPolicy = NO_POLICY,
    **settings: Any,
) -> Support:
    """Ask about the one namespace of a document."""
    providers = {} if provider is None else {namespace: provider}
    document = VariantDocument((namespace,), providers)
    return support_for(
        document,
        machine,
        environment=LINUX,
        policy=policy,
        namespaces=[namespace],
        **settings,
    )


def host(namespace: str, features: Mapping[str, list[str]], **filters: Any) -> HostFile:
    """Write a host file with one entry."""
    configs = tuple(FeatureConfig(name, tuple(values)) for name, values in features.items())
    return HostFile((HostProvider(namespace, configs, **filters),))


class TestStep1:
    """P-10: disabled, so that nobody is asked."""

    @pytest.mark.parametrize(
        ("provider", "policy", "reason"),
        [
            (NVIDIA, ProviderPolicy(disabled=frozenset({"nvidia"})), "switched off by the user"),
            (
                PluginProvider(NVIDIA.requires, NVIDIA.plugin_api, optional=True),
                ProviderPolicy(),
                "an optional provider that is not enabled",
            ),
            (
                StaticProvider(BLAS.features, optional=True),
                ProviderPolicy(enabled=frozenset({"other"})),
                "an optional provider that is not enabled",
            ),
            (
                PluginProvider(
                    NVIDIA.requires, NVIDIA.plugin_api, enabled_by='platform_system == "Windows"'
                ),
                ProviderPolicy(),
                'not for this platform: platform_system == "Windows"',
            ),
            (
                PluginProvider(NVIDIA.requires, NVIDIA.plugin_api, enabled_by="what = this"),
                ProviderPolicy(),
                "its marker cannot be used: what = this",
            ),
            (None, ProviderPolicy(disabled=frozenset({"nvidia"})), "switched off by the user"),
        ],
    )
    def test_disabled(self, provider: Provider | None, policy: ProviderPolicy, reason: str) -> None:
        """P-2, P-10, F-51: optional, switched off, not for this platform, unreadable marker."""
        detector = FixedDetector({"nvidia": {"sm_arch": ["90_real"]}})
        detection = ask(provider, detector, policy=policy).detections["nvidia"]
        assert (detection.status, detection.source) == (Status.DISABLED, reason)
        assert detection.features == ()
        assert detector.requests == []

    def test_an_unreadable_marker_is_told(self) -> None:
        """F-51: a marker that cannot be used disables the provider with a warning."""
        provider = PluginProvider(NVIDIA.requires, NVIDIA.plugin_api, enabled_by="what = this")
        assert ask(provider, FixedDetector()).warnings == (
            "nvidia: its marker cannot be used: what = this",
        )

    def test_enabled(self) -> None:
        """P-2, A-79: an optional provider answers once the user enables it by name."""
        provider = StaticProvider(BLAS.features, optional=True)
        policy = ProviderPolicy(enabled=frozenset({"blas"}))
        support = ask(provider, FixedDetector(), "blas", policy)
        assert support.detections["blas"].status is Status.SUPPORTED

    def test_a_true_marker_enables(self) -> None:
        """F-51: the marker is evaluated in the environment of the target."""
        provider = PluginProvider(X86.requires, enabled_by="platform_machine == 'x86_64'")
        support = ask(provider, FixedDetector({"x86_64": LEVELS}), "x86_64")
        assert support.supports(Property("x86_64", "level", "v2"))


class TestStep2:
    """P-11: a static list is the whole answer."""

    def test_static(self) -> None:
        """P-11: the list is used exclusively and the detector is not asked."""
        detector = FixedDetector({"blas": {"library": ["netlib"]}})
        support = ask(BLAS, detector, "blas")
        assert support.detections["blas"].features == BLAS.features
        assert support.detections["blas"].source == "static list of the package"
        assert detector.requests == []

    def test_empty(self) -> None:
        """P-3: an empty list means that nothing is supported."""
        assert ask(StaticProvider(()), FixedDetector(), "blas").detections["blas"].status is (
            Status.NOTHING
        )

    def test_vendor_list(self) -> None:
        """P-20: the package is obeyed even for a vendor's namespace; whose word it is is kept."""
        provider = StaticProvider((FeatureConfig("cuda", ("12",)),))
        support = ask(provider, FixedDetector({"nvidia": {}}))
        assert support.supports(Property("nvidia", "cuda", "12"))
        assert support.examined == {"nvidia": "the package's own list"}

    def test_policy_ignores_the_list(self) -> None:
        """P-20: where the user wants it, what the detector knows wins over the list."""
        provider = StaticProvider((FeatureConfig("sm_arch", ("90_real",)),))
        policy = ProviderPolicy(ignore_static=frozenset({"nvidia", "blas"}))
        support = ask(provider, FixedDetector({"nvidia": {"sm_arch": ["75_real"]}}), policy=policy)
        assert not support.supports(Property("nvidia", "sm_arch", "90_real"))
        assert support.examined == {}

    def test_policy_needs_somebody_who_knows(self) -> None:
        """P-20: a list that nobody can replace stays, and nothing is said to be missing."""
        policy = ProviderPolicy(ignore_static=frozenset({"blas"}))
        silent = HostDetector(HostFile(), "node.toml")
        for machine, lists in ((FixedDetector(), None), (FixedDetector(), silent), (None, silent)):
            support = ask(BLAS, machine, "blas", policy, host_detector=lists)
            assert support.supports(Property("blas", "library", "mkl"))
            assert support.notes == ()

    def test_the_list_beats_the_users(self) -> None:
        """P-11 before P-12; with the policy of P-20 the user's list comes first."""
        lists = HostDetector(host("blas", {"library": ["netlib"]}), "node.toml")
        support = ask(BLAS, None, "blas", host_detector=lists)
        assert support.supports(Property("blas", "library", "mkl"))
        policy = ProviderPolicy(ignore_static=frozenset({"blas"}))
        support = ask(BLAS, None, "blas", policy, host_detector=lists)
        assert support.values("blas", "library") == {"netlib"}


class TestStep3:
    """P-12, P-44: lists of the user, as in a host file."""

    def test_the_list_is_used(self) -> None:
        """P-12: the host file answers, and says so, even for a plugin nobody knows."""
        lists = HostDetector(host("nvidia", {"sm_arch": ["90_real"]}), "node.toml")
        machine = FixedDetector({"nvidia": {"sm_arch": ["75_real"]}})
        for provider in (NVIDIA, STRANGER, None):
            for other in (None, machine):
                support = ask(provider, other, host_detector=lists)
                assert support.values("nvidia", "sm_arch") == {"90_real"}
                assert support.detections["nvidia"].source == "host file node.toml"
                assert support.notes == ()
        assert machine.requests == []

    @pytest.mark.parametrize("provider", [X86, STRANGER, None])
    def test_silence_is_final(self, provider: Provider | None) -> None:
        """P-44: where only the host file may be asked, what it omits is unsupported."""
        lists = HostDetector(host("nvidia", {}), "node.toml")
        support = ask(provider, None, "x86_64", host_detector=lists)
        assert support.detections["x86_64"] == Detection(
            "x86_64", status=Status.UNKNOWN, source="not in host file node.toml"
        )

    def test_silence_is_told_once(self) -> None:
        """P-44, F-136: one note names every namespace that the host file omits."""
        document = VariantDocument(
            ("x86_64", "nvidia", "amd", "blas"),
            {"x86_64": X86, "nvidia": NVIDIA, "amd": STRANGER, "blas": BLAS},
        )
        lists = HostDetector(host("nvidia", {}), "node.toml")
        support = support_for(
            document,
            None,
            environment=LINUX,
            namespaces=document.priorities,
            host_detector=lists,
        )
        assert support.notes == ("x86_64, amd: not in host file node.toml, so unsupported",)

    def test_nobody_may_be_asked(self) -> None:
        """P-17: without lists and without a machine nothing is supported, and that is said."""
        support = ask(NVIDIA, None)
        assert support.detections["nvidia"].source == "no provider answered"
        assert support.notes == ("nvidia: no provider answered, so unsupported",)

    def test_the_machine_completes_the_lists(self) -> None:
        """P-44: with "incomplete allowed" the machine answers what the file omits."""
        machine = FixedDetector({"x86_64": LEVELS})
        lists = HostDetector(host("nvidia", {}), "node.toml")
        support = ask(X86, machine, "x86_64", host_detector=lists)
        assert support.supports(Property("x86_64", "level", "v3"))
        assert support.notes == ()
        support = ask(NVIDIA, machine, host_detector=lists)
        assert support.detections["nvidia"].status is Status.NOTHING
        assert machine.requests == ["x86_64"]

    def test_the_machine_does_not_answer_for_strangers(self) -> None:
        """P-63: lists may answer for any plugin, the machine only for those it knows."""
        machine = FixedDetector({"nvidia": {"sm_arch": ["90_real"]}})
        lists = HostDetector(host("x86_64", LEVELS), "node.toml")
        support = ask(STRANGER, machine, host_detector=lists)
        assert support.detections["nvidia"].status is Status.UNKNOWN
        assert machine.requests == []

    @pytest.mark.parametrize(
        ("provider", "source"),
        [
            (NVIDIA, "host file node.toml"),
            (STRANGER, "host file node.toml has nvidia for another provider only"),
            (
                PluginProvider(("nvidia-variant-provider", "nvidia-ml-py"), NVIDIA.plugin_api),
                "host file node.toml",
            ),
            (
                PluginProvider(("nvidia-ml-py", "nvidia-variant-provider"), NVIDIA.plugin_api),
                "host file node.toml has nvidia for another provider only",
            ),
        ],
    )
    def test_filters(self, provider: Provider, source: str) -> None:
        """P-44: the name in the provider's first requirement reaches the filters of the entry."""
        file = host(
            "nvidia", {"sm_arch": ["90_real"]}, resolved=("nvidia-variant-provider==0.0.1",)
        )
        support = ask(provider, None, host_detector=HostDetector(file, "node.toml"))
        assert support.detections["nvidia"].source == source

    def test_the_file_is_named_in_refusals(self) -> None:
        """P-44: the file in use is visible where it decides."""
        lists = HostDetector(
            host("nvidia", {"cuda_version_lower_bound": ["12.4", "12"]}), "node.toml"
        )
        refusal = ask(NVIDIA, None, host_detector=lists).refusal(
            PropertySet.of(Property("nvidia", "cuda_version_lower_bound", "12.9"))
        )
        assert refusal == (
            "needs CUDA driver >= 12.9, host file node.toml has 12.4 "
            "(nvidia :: cuda_version_lower_bound :: 12.9)"
        )


class TestStep4:
    """P-13: a provider of our own stands in for the plugin."""

    def test_recognised(self) -> None:
        """P-13, P-19, P-60: the detector answers for a plugin in the table, which is not run."""
        detector = FixedDetector({"x86_64": LEVELS})
        support = ask(X86, detector, "x86_64")
        assert support.supports(Property("x86_64", "level", "v3"))
        assert support.detections["x86_64"].source == "set by a test"
        assert detector.requests == ["x86_64"]

    def test_not_there_yet(self) -> None:
        """P-22: a plugin of the table that this detector cannot answer for says so."""
        provider = PluginProvider(
            ("intel-variant-provider>=0.0.3,<1",),
            "intel_variant_provider.plugin:IntelVariantPlugin",
        )
        detection = ask(provider, FixedDetector(), "intel").detections["intel"]
        assert detection == Detection(
            "intel",
            source="wheelfit does not stand in for intel-variant-provider yet, "
            "and no plugin is asked here",
            step="not-trusted",
        )

    def test_a_failing_detector(self) -> None:
        """P-17: whatever happens in one namespace is its own reason and no other's."""

        class Failing(FixedDetector):
            def detect(
                self, namespace: str, *, package: str | None = None, plugin_api: str | None = None
            ) -> Detection | None:
                """Fail about nvidia."""
                if namespace == "nvidia":
                    raise RuntimeError("the probe fell over")
                return super().detect(namespace, package=package, plugin_api=plugin_api)

        document = VariantDocument(("nvidia", "x86_64"), {"nvidia": NVIDIA, "x86_64": X86})
        support = support_for(
            document,
            Failing({"x86_64": LEVELS}),
            environment=LINUX,
            namespaces=["nvidia", "x86_64"],
        )
        assert support.detections["nvidia"].status is Status.FAILED
        assert support.detections["x86_64"].status is Status.SUPPORTED
        refusal = support.refusal(PropertySet.of(Property("nvidia", "sm_arch", "90_real")))
        assert refusal == (
            "needs nvidia :: sm_arch :: 90_real; detection of nvidia on this machine failed: "
            "RuntimeError: the probe fell over"
        )


class TestSteps5And6:
    """P-14, P-18: where nobody can ask plugins, none is trusted or run."""

    def test_unknown_plugin(self) -> None:
        """P-14, P-63: a stranger's package is not run, though the namespace is known."""
        detector = FixedDetector({"nvidia": {"sm_arch": ["90_real"]}})
        detection = ask(STRANGER, detector).detections["nvidia"]
        assert detection.status is Status.UNKNOWN
        assert detection.source == (
            "no built-in provider stands in for nvidia-plugin-by-a-stranger as nvidia, "
            "and no plugin is asked here"
        )
        assert detector.requests == []

    @pytest.mark.parametrize(
        ("namespace", "provider"),
        [
            ("x86_64", PluginProvider(("x86-64-variant-provider>=99",))),
            (
                "x86_64",
                PluginProvider(("x86-64-variant-provider",), "x86_64_variant_provider:Other"),
            ),
            ("aarch64", PluginProvider(("aarch64-variant-provider==6.6.6",))),
            ("tpu", PluginProvider(("tpu-variant-provider",), "evil:Plugin")),
            ("amd", PluginProvider(("amd-variant-provider @ https://example.org/amd.whl",))),
            ("gpu", PluginProvider(("amd-variant-provider",))),
        ],
    )
    def test_a_name_proves_nothing(self, namespace: str, provider: Provider) -> None:
        """P-14, P-18, P-19: names that anybody may take lead to nobody's code.

        What is not exactly the plugin that wheelfit stands in for is not asked, neither the
        package nor the provider of wheelfit in its name.
        """
        detector = FixedDetector({namespace: {"level": ["v3"]}})
        detection = ask(provider, detector, namespace).detections[namespace]
        assert detection.status is Status.UNKNOWN
        assert detection.features == ()
        assert detection.source.endswith("and no plugin is asked here")
        assert detector.requests == []

    def test_no_provider(self) -> None:
        """F-39: without a provider a namespace is unsupported unless the user lists it."""
        detector = FixedDetector({"nvidia": {"sm_arch": ["90_real"]}})
        detection = ask(None, detector).detections["nvidia"]
        assert detection.source == "the metadata names no provider for it"
        assert detector.requests == []

    def test_broken_provider(self) -> None:
        """F-130: a broken entry makes its namespace unsupported."""
        detection = ask(BrokenProvider("two kinds"), FixedDetector()).detections["nvidia"]
        assert detection.source == "its provider entry is broken: two kinds"


class FakePlugins:
    """Trust some packages and answer for them; remember every question.

    :param answers: by package name; an exception is raised.
    """

    def __init__(self, answers: Mapping[str, Detection | Exception]) -> None:
        self.answers = answers
        self.asked: list[PluginQuestion] = []

    def refusal(self, question: PluginQuestion) -> str | None:
        """Refuse what has no answer."""
        name = question.requirements[0].name
        return None if name in self.answers else f"{name} is not trusted"

    def ask(self, question: PluginQuestion) -> Detection:
        """Answer, or fail."""
        self.asked.append(question)
        answer = self.answers[question.requirements[0].name]
        if isinstance(answer, Exception):
            raise answer
        return answer


class TestPlugins:
    """Steps 5 and 6 with somebody who can carry them out."""

    ANSWER = Detection(
        "whatever",
        (FeatureConfig("kind", ("b", "a")),),
        Status.SUPPORTED,
        "plugin p 1",
        step="plugin",
    )

    def test_not_trusted(self) -> None:
        """P-14: a refusal is the reason, after why nothing of wheelfit stands in."""
        plugins = FakePlugins({})
        detection = ask(STRANGER, FixedDetector(), plugins=plugins).detections["nvidia"]
        assert detection.step == "not-trusted"
        assert detection.source == (
            "no built-in provider stands in for nvidia-plugin-by-a-stranger as nvidia, "
            "and nvidia-plugin-by-a-stranger is not trusted"
        )
        assert plugins.asked == []

    def test_trusted(self) -> None:
        """P-15, P-31: what the plugin says counts, for the namespace of the document."""
        plugins = FakePlugins({"nvidia-plugin-by-a-stranger": self.ANSWER})
        support = ask(STRANGER, FixedDetector(), plugins=plugins)
        assert support.detections["nvidia"] == self.ANSWER._replace(namespace="nvidia")
        assert support.supports(Property("nvidia", "kind", "a"))
        (question,) = plugins.asked
        assert question.namespace == "nvidia"

    def test_ours_comes_first(self) -> None:
        """P-13: a plugin that wheelfit stands in for is not asked, though it is trusted."""
        plugins = FakePlugins({"x86-64-variant-provider": self.ANSWER})
        support = ask(X86, FixedDetector({"x86_64": LEVELS}), "x86_64", plugins=plugins)
        assert support.supports(Property("x86_64", "level", "v3"))
        assert plugins.asked == []

    def test_the_plugin_of_another_version(self) -> None:
        """P-15, P-63: where wheelfit does not stand in, the trusted plugin of that name does."""
        provider = PluginProvider(("x86-64-variant-provider>=99",))
        plugins = FakePlugins({"x86-64-variant-provider": self.ANSWER})
        detection = ask(provider, FixedDetector(), "x86_64", plugins=plugins).detections["x86_64"]
        assert detection.step == "plugin"
        assert plugins.asked[0].endpoint == "x86_64_variant_provider"

    def test_a_failure(self) -> None:
        """P-17: whatever happens while it is asked is the reason of its namespace alone."""
        plugins = FakePlugins({"nvidia-plugin-by-a-stranger": RuntimeError("boom")})
        document = VariantDocument(("nvidia", "x86_64"), {"nvidia": STRANGER, "x86_64": X86})
        support = support_for(
            document,
            FixedDetector({"x86_64": LEVELS}),
            environment=LINUX,
            namespaces=["nvidia", "x86_64"],
            plugins=plugins,
        )
        assert support.detections["nvidia"].status is Status.FAILED
        assert support.detections["nvidia"].step == "plugin"
        assert support.detections["x86_64"].status is Status.SUPPORTED

    def test_not_asked_when_off(self) -> None:
        """P-10: a policy that switches a namespace off is named, and nobody is asked."""
        plugins = FakePlugins({"nvidia-plugin-by-a-stranger": self.ANSWER})
        policy = ProviderPolicy(
            enabled=frozenset({"nvidia"}), forbidden={"nvidia": "/etc/wheelfit/policy.toml"}
        )
        detection = ask(STRANGER, FixedDetector(), policy=policy, plugins=plugins).detections[
            "nvidia"
        ]
        assert detection.status is Status.DISABLED
        assert detection.source == "switched off by /etc/wheelfit/policy.toml"
        assert plugins.asked == []

    def test_no_endpoint(self) -> None:
        """P-7: an entry whose plugin-api is none cannot be asked."""
        provider = PluginProvider(("nvidia-plugin-by-a-stranger",), "no endpoint")
        plugins = FakePlugins({"nvidia-plugin-by-a-stranger": self.ANSWER})
        detection = ask(provider, FixedDetector(), plugins=plugins).detections["nvidia"]
        assert "not an object reference" in detection.source
        assert plugins.asked == []


class TestBuiltin:
    """P-16: a built-in provider replaces steps 2 to 6."""

    def test_abi_dependency(self) -> None:
        """P-16, P-50, A-49: no list counts; switched off, it supports nothing and says so."""
        lists = HostDetector(host("abi", {"torch": ["2.8"]}), "node.toml")
        support = ask(BuiltinProvider("abi_dependency"), None, "abi", host_detector=lists)
        assert support.detections["abi"].status is Status.NOTHING
        policy = ProviderPolicy(abi_dependency=False)
        support = ask(BuiltinProvider("abi_dependency"), None, "abi", policy)
        assert support.detections["abi"].status is Status.DISABLED
        assert support.warnings == (
            "abi: builds for a version of another package are switched off",
        )

    @pytest.mark.parametrize("namespace", ["abi_dependency", "abi", "built_for"])
    def test_the_namespace_may_have_any_name(self, namespace: str) -> None:
        """P-45: a document declares and lists the provider like others; its key says nothing."""
        document = read_document(
            release_document(
                {"a": {namespace: {"torch": ["2.8"]}}, "b": {namespace: {"torch": ["2.7"]}}},
                providers={namespace: {"builtin": "abi_dependency"}},
                namespaces=[namespace],
            ),
            where="a test",
        )
        assert document.notes == ()
        installed = KnownVersions({canonicalize_name("torch"): KnownVersion(Version("2.8.1"))})
        support = support_for(document, None, environment=LINUX, known=installed)
        assert support.refusal(document.variants[Label("a")]) is None
        assert support.refusal(document.variants[Label("b")]) is not None

    def test_a_provider_that_is_not_declared(self) -> None:
        """P-45, F-21: in a current document the namespace must be listed like any other."""
        data = release_document(
            {"a": {"abi_dependency": {"torch": ["2.8"]}}},
            static={"blas": {"library": ["mkl"]}},
            namespaces=["blas"],
        )
        document = read_document(data, where="a test")
        assert "(F-21)" in document.unusable["a"]

    def test_unknown(self) -> None:
        """P-8: an unknown name makes the namespace unsupported, not the document."""
        detection = ask(BuiltinProvider("new"), FixedDetector(), "abi").detections["abi"]
        assert detection.source == "there is no built-in provider 'new'"


class TestAsking:
    """P-22: only what is needed is asked, in a stable order."""

    def test_namespaces_of_the_document(self) -> None:
        """P-22: namespaces that no label uses are not asked for; priority decides the order."""
        detector = FixedDetector()
        document = VariantDocument(
            ("x86_64", "nvidia", "aarch64"),
            {"x86_64": X86, "nvidia": NVIDIA},
            {
                Label("a"): PropertySet.of(Property("nvidia", "sm_arch", "90_real")),
                Label("b"): PropertySet.of(Property("x86_64", "level", "v1")),
                Label("null"): EMPTY,
            },
        )
        support = support_for(document, detector, environment=LINUX)
        assert detector.requests == ["x86_64", "nvidia"]
        assert list(support.detections) == ["x86_64", "nvidia"]

    def test_namespaces_used(self) -> None:
        """P-22: the namespaces of the labels that may still be chosen."""
        one = PropertySet.of(Property("a", "b", "c"), Property("d", "e", "f"))
        assert namespaces_used([one, EMPTY]) == {"a", "d"}


class TestRefusal:
    """F-28: OR over values, AND over features."""

    SUPPORT = Support({"x86_64": supported("x86_64", LEVELS), "blas": supported("blas", {})})

    def test_accepted(self) -> None:
        """F-28: one supported value per feature is enough; no properties always fit."""
        fitting = PropertySet.from_mapping({"x86_64": {"level": ["v3", "v4"]}})
        assert self.SUPPORT.refusal(fitting) is None
        assert self.SUPPORT.refusal(EMPTY) is None

    def test_missing(self) -> None:
        """F-28, A-25, A-39: every missing property is named."""
        wanted = PropertySet.from_mapping(
            {"x86_64": {"level": ["v4"]}, "tpu": {"kind": ["v5"]}, "blas": {"library": ["mkl"]}}
        )
        refusal = self.SUPPORT.refusal(wanted)
        assert refusal is not None
        for item in wanted:
            assert str(item) in refusal

    def test_device(self) -> None:
        """P-88: the device that caused a rejection is named."""
        detection = Detection(
            "nvidia",
            (FeatureConfig("sm_arch", ("90_real", "75_real")),),
            Status.SUPPORTED,
            devices=(
                DeviceValues("sm_arch", "GPU 0 (H100, 9.0)", frozenset(["90_real"])),
                DeviceValues("sm_arch", "GPU 1 (Tesla T4, 7.5)", frozenset(["75_real"])),
            ),
        )
        refusal = Support({"nvidia": detection}).refusal(
            PropertySet.of(Property("nvidia", "sm_arch", "90_real"))
        )
        assert refusal == (
            "needs a GPU of compute capability 9.0, which GPU 1 (Tesla T4, 7.5) does not meet "
            "(nvidia :: sm_arch :: 90_real)"
        )

    def test_filter(self) -> None:
        """F-103: expanded per value, filtered to what the target supports."""
        wanted = PropertySet.from_mapping({"x86_64": {"level": ["v3", "v4"]}})
        assert list(self.SUPPORT.filter(wanted)) == [Property("x86_64", "level", "v3")]
