"""Host files as values: entries that apply, targets, and the detector (P-44)."""

from __future__ import annotations

import pytest
from packaging.markers import default_environment
from packaging.tags import Tag, sys_tags
from packaging.version import Version

from wheelfit.core.compatible_tags import linux_platforms
from wheelfit.core.host_file import HostDetector, HostFile, HostInterpreter, HostProvider
from wheelfit.core.target import Target
from wheelfit_runtime.platforms.features import (
    Detection,
    DeviceValues,
    Evidence,
    FeatureConfig,
    PluginOrigin,
    Status,
)

LEVEL = FeatureConfig("level", ("v3", "v2", "v1"))
ARCHITECTURE = FeatureConfig("sm_arch", ("90_real", "80_real"), multi_value=True)
HERE = Target.of("here", dict(default_environment()), sys_tags())  # type: ignore[arg-type]


class TestDetector:
    """P-12, P-44: what the file says of a namespace."""

    def test_entry(self) -> None:
        """An entry is the whole answer; the file is named."""
        evidence = (Evidence("/proc/cpuinfo", "flags"),)
        devices = (DeviceValues("level", "core 0", frozenset(["v1"])),)
        entry = HostProvider("x86_64", (LEVEL,), evidence=evidence, devices=devices)
        assert HostDetector(HostFile((entry,)), "node.toml").detect("x86_64") == Detection(
            "x86_64",
            features=(LEVEL,),
            status=Status.SUPPORTED,
            source="host file node.toml",
            evidence=evidence,
            devices=devices,
        )

    @pytest.mark.parametrize("features", [(), (FeatureConfig("level", ()),)])
    def test_empty_entry(self, features: tuple[FeatureConfig, ...]) -> None:
        """P-44: an entry without values says that nothing is supported."""
        detector = HostDetector(HostFile((HostProvider("x86_64", features),)), "node.toml")
        found = detector.detect("x86_64")
        assert found.status is Status.NOTHING

    def test_no_entry(self) -> None:
        """P-44: what the file leaves out is unknown."""
        found = HostDetector(HostFile(), "node.toml").detect("nvidia")
        assert found == Detection(
            "nvidia", status=Status.UNKNOWN, source="not in host file node.toml"
        )

    @pytest.mark.parametrize(
        ("package", "plugin_api", "applies"),
        [
            ("nvidia-variant-provider", "nvp.plugin:Plugin", True),
            ("NVIDIA_variant.provider", "nvp.plugin:Plugin", True),
            ("other", "nvp.plugin:Plugin", False),
            ("nvidia-variant-provider", "other", False),
            (None, None, True),
            ("nvidia-variant-provider", None, True),
        ],
    )
    def test_filters(self, package: str | None, plugin_api: str | None, *, applies: bool) -> None:
        """P-44: an entry with filters answers only for the provider it is meant for."""
        entry = HostProvider(
            "nvidia",
            (ARCHITECTURE,),
            plugin_api="nvp.plugin:Plugin",
            resolved=("nvidia-variant-provider==0.0.1", "nvidia-ml-py==1"),
        )
        detector = HostDetector(HostFile((entry,)), "node.toml")
        found = detector.detect("nvidia", package=package, plugin_api=plugin_api)
        assert (found.status is Status.SUPPORTED) is applies
        if not applies:
            assert found.source == "host file node.toml has nvidia for another provider only"

    def test_first_entry_that_applies(self) -> None:
        """Two providers of one namespace may stand in one file."""
        entries = (
            HostProvider("n", (LEVEL,), plugin_api="old"),
            HostProvider("n", (ARCHITECTURE,), plugin_api="new"),
        )
        found = HostDetector(HostFile(entries), "f").detect("n", plugin_api="new")
        assert found.features == (ARCHITECTURE,)


class TestFromDetections:
    """What ``probe -o`` writes down; its laws are in the property tests."""

    def test_what_a_plugin_said(self) -> None:
        """P-44: its answer is written with its package, and is none for another plugin."""
        plugin = PluginOrigin("acme-provider", "1.2", ())
        detection = Detection("acme", (LEVEL,), Status.SUPPORTED, plugin=plugin)
        file = HostFile.from_detections([detection], created_by="wheelfit 1")
        assert (file.created_by, file.interpreter) == ("wheelfit 1", None)
        assert file.providers[0].resolved == ("acme-provider==1.2",)
        assert file.providers[0].version == "1.2"
        detector = HostDetector(file, "f")
        assert detector.detect("acme", package="acme-provider").status is Status.SUPPORTED
        assert detector.detect("acme", package="other").status is Status.UNKNOWN

    def test_nobody_is_named(self) -> None:
        """P-75: whatever identifies is taken out of all texts, and nothing else is changed."""
        detection = Detection(
            "nvidia",
            (ARCHITECTURE,),
            Status.SUPPORTED,
            evidence=(Evidence("/home/me/lib", "me"),),
            warnings=("me again",),
            devices=(DeviceValues("sm_arch", "GPU of me", frozenset(["90_real"])),),
        )
        file = HostFile.from_detections(
            [detection], overrides=("A=me",), scrub=lambda text: text.replace("me", "<user>")
        )
        (entry,) = file.providers
        assert entry.evidence == (Evidence("/ho<user>/<user>/lib", "<user>"),)
        assert entry.warnings == ("<user> again",)
        assert entry.devices[0].device == "GPU of <user>"
        assert file.overrides == ("A=<user>",)
        assert entry.features == detection.features

    @pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
    def test_no_answer_is_no_entry(self, status: Status) -> None:
        """P-44: an entry would claim that nothing is supported."""
        assert HostFile.from_detections([Detection("nvidia", status=status)]).providers == ()


class TestTarget:
    """Interpreter and platform of a host file."""

    def test_without_sections(self) -> None:
        """The current target counts, under the name of the file."""
        target = HostFile().target(HERE, "node.toml")
        assert target.name == "node.toml"
        assert (target.tags, target.environment) == (HERE.tags, HERE.environment)

    def test_written_target_is_the_same(self) -> None:
        """What is written down of this machine describes this machine."""
        file = HostFile.from_detections([], HERE)
        assert file.target(ELSEWHERE, "here") == HERE

    def test_tags_of_no_known_rule_are_written_in_full(self) -> None:
        """An interpreter with tags of its own loses none of them."""
        odd = Target.of("odd", HERE.environment, [Tag("py3", "none", "any"), *HERE.tags])
        file = HostFile.from_detections([], odd)
        assert file.interpreter is not None
        assert file.interpreter.tags == odd.tags.tags
        assert file.target(ELSEWHERE, "odd") == odd

    def test_other_interpreter_on_this_platform(self) -> None:
        """The platform of the current target stays."""
        file = HostFile(interpreter=HostInterpreter(Version("3.12.1")))
        target = file.target(HERE, "f")
        assert target.environment["python_version"] == "3.12"
        assert target.environment["sys_platform"] == HERE.environment["sys_platform"]
        platform = next(iter(HERE.tags)).platform
        assert target.tags.tags[0] == Tag("cp312", "cp312", platform)
        assert target.python_full_version == Version("3.12.1")

    def test_this_interpreter_on_another_platform(self) -> None:
        """Marker values follow the platform; unknown ones are empty."""
        target = HostFile(platforms=("win_amd64",)).target(HERE, "f")
        assert target.environment["sys_platform"] == "win32"
        assert target.environment["platform_machine"] == "AMD64"
        assert target.environment["platform_release"] == ""
        assert target.environment["python_version"] == HERE.environment["python_version"]
        assert {tag.platform for tag in target.tags} == {"win_amd64", "any"}

    def test_stated_values_count_most(self) -> None:
        """``[environment]`` overrides what follows from the rest."""
        file = HostFile(platforms=("win_amd64",), environment={"platform_release": "11"})
        assert file.target(HERE, "f").environment["platform_release"] == "11"


ELSEWHERE = HostFile(
    interpreter=HostInterpreter(Version("3.12.9"), "pypy", ("pypy312_pp73",)),
    platforms=linux_platforms("riscv64", glibc=41),
).target(HERE, "elsewhere")
