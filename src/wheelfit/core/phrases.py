"""The words for properties that are missing, and for those that decided.

As of November 2026 the namespaces of hardware have words of their own. All others get the generic
words; the properties themselves are named in every case.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from wheelfit.core.wording import listed
from wheelfit.patterns import pattern
from wheelfit.platforms.features import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wheelfit.core.properties import Feature
    from wheelfit.platforms.features import Detection

__all__ = [
    "PACKAGE_LIST",
    "THIS_MACHINE",
    "missing",
    "missing_on_device",
    "named",
    "natural",
    "short",
    "wish",
]


def __dir__() -> list[str]:
    return __all__


THIS_MACHINE = "this machine"
"""Whose support it is when nothing else is said."""
PACKAGE_LIST = "the package's own list"
"""Whose support it is when the package brings a static list (P-11)."""


# The labels of a release repeat few values, and there may be a hundred thousand labels.
@lru_cache(maxsize=4096)
def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key by which ``90_real`` comes before ``100_real``."""
    parts = re.split(r"(\d+)", text)
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in parts)


def named(feature: Feature, values: Iterable[str]) -> str:
    """Write properties of one feature as ``ns :: feature :: value or value``."""
    return f"{feature} :: {listed(sorted(values, key=natural), 'or')}"


def short(features: Iterable[tuple[Feature, Iterable[str]]]) -> str:
    """Write features with values in the order given, a namespace only where it changes.

    As ``nvidia :: cuda_version_lower_bound :: 12.9, sm_arch :: 80_real or 90_real``.
    """
    parts: list[str] = []
    namespace = ""
    for feature, values in features:
        text = named(feature, values)
        repeated = feature.namespace == namespace
        parts.append(text.removeprefix(f"{namespace} :: ") if repeated else text)
        namespace = feature.namespace
    return ", ".join(parts)


def missing(
    wanted: Sequence[tuple[Feature, tuple[str, ...]]],
    detection: Detection,
    *,
    holder: str = THIS_MACHINE,
) -> str:
    """Say why features of one namespace are missing, without a final full stop.

    >>> from wheelfit.core.properties import Feature
    >>> from wheelfit.platforms.features import Detection, FeatureConfig, Status
    >>> found = Detection("x86_64", (FeatureConfig("level", ("v3", "v2", "v1")),), Status.SUPPORTED)
    >>> missing([(Feature("x86_64", "level"), ("v4",))], found)
    'needs x86-64-v4, this CPU is v3 (x86_64 :: level :: v4)'

    :param wanted: what is missing, each with the values of which one would do.
    :param detection: the answer for the namespace.
    :param holder: whose answer it is, as ``this machine``.
    """
    namespace = detection.namespace
    match detection.status:
        case Status.DISABLED:
            reason = detection.warnings[0] if detection.warnings else detection.source
            return f"needs {short(wanted)}; {namespace} is disabled: {reason}"
        case Status.FAILED:
            return f"needs {short(wanted)}; {_failure(detection, holder)}"
        case Status.UNKNOWN:
            return f"needs {short(wanted)}; {detection.source or 'nobody was asked'}"
        case _:
            words = _WORDS.get(namespace, _Words)(detection, holder)
            if not any(config.values for config in detection.features):
                properties = short(wanted)
                return _with(words.nothing(properties), properties)
            return "; ".join(
                _with(words.feature(feature, values), named(feature, values))
                for feature, values in wanted
            )


def missing_on_device(feature: Feature, wanted: tuple[str, ...], device: str) -> str:
    """Say that one of several devices lacks what the others have (P-88).

    :param feature: what is missing there.
    :param wanted: values of which one would do.
    :param device: the device in words.
    """
    words = _WORDS.get(feature.namespace, _Words)
    needs = words.wish(feature, wanted)
    return _with(f"{needs}, which {device} does not meet", named(feature, wanted))


def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
    """Say what a feature asks for, whatever machine it is, as ``needs CUDA driver >= 12.8``.

    :param feature: the feature.
    :param wanted: values of which one would do.
    """
    return _WORDS.get(feature.namespace, _Words).wish(feature, wanted)


def _with(words: str, properties: str) -> str:
    return words if properties in words else f"{words} ({properties})"


def _failure(detection: Detection, holder: str) -> str:
    """Say how asking about a namespace failed (P-17)."""
    if detection.warnings:
        return "; ".join(detection.warnings)
    seen = "; ".join(f"{item.source}: {item.value}" for item in detection.evidence[-2:])
    return f"asking {holder} about {detection.namespace} failed: {seen or detection.source}"


class _Words:
    """The generic words about one namespace.

    :param detection: the answer for it.
    :param holder: whose answer it is.
    """

    def __init__(self, detection: Detection, holder: str) -> None:
        self.detection = detection
        self.holder = holder

    def supported(self, name: str) -> tuple[str, ...]:
        """Return the supported values of a feature."""
        features = self.detection.features
        return next((config.values for config in features if config.name == name), ())

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        """Say what is needed."""
        return f"needs {named(feature, wanted)}"

    def nothing(self, properties: str) -> str:
        """Say it where nothing of the namespace is supported."""
        return f"needs {properties}; {self.holder} supports nothing of {self.detection.namespace}"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Say it where other things of the namespace are supported."""
        supported = self.supported(feature.name)
        needs = _Words.wish(feature, wanted)
        if supported:
            return f"{needs}; {self.holder} supports {listed(supported)}"
        others = [config.name for config in self.detection.features if config.values]
        return f"{needs}; {self.holder} has no {feature}, only {listed(others)}"


class _Accelerator(_Words):
    """The words about hardware that a machine has or has not."""

    kind: ClassVar[str]

    def nothing(self, properties: str) -> str:
        if self.holder == PACKAGE_LIST:
            return super().nothing(properties)
        if self.detection.warnings:  # P-84, P-99, P-133: there is something, and it will not do
            why = "; ".join(self.detection.warnings)
            return f"needs {self.kind}; no usable one was found: {why}"
        where = "" if self.holder == THIS_MACHINE else f" on {self.holder}"
        return f"needs {self.kind}; none was found{where}"


class _Nvidia(_Accelerator):
    kind = "an NVIDIA GPU driver"

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        match feature.name:
            case "cuda_version_lower_bound":
                return f"needs CUDA driver >= {min(wanted, key=_version)}"
            case "cuda_version_upper_bound":
                return f"needs CUDA driver < {max(wanted, key=_version)}"
            case "sm_arch":
                asked = sorted({_architecture(value) for value in wanted})
                words = listed([text for _, text in asked], "or")
                return f"needs a GPU of compute capability {words}"
            case _:
                return _Words.wish(feature, wanted)

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        driver = max(self.supported("cuda_version_lower_bound"), key=_version, default=None)
        if driver is None or self.holder == PACKAGE_LIST:
            return super().feature(feature, wanted)
        needs = self.wish(feature, wanted)
        # A list may have gaps; what it then refuses must not be said to be met.
        match feature.name:
            case "cuda_version_lower_bound" if _version(driver) < min(map(_version, wanted)):
                return f"{needs}, {self.holder} has {driver}"
            case "cuda_version_upper_bound" if _version(driver) >= max(map(_version, wanted)):
                return f"{needs}, {self.holder} has {driver}"
            case "sm_arch":
                capability = _capability(self.supported("sm_arch"))
                if capability is None:  # P-99
                    return f"{needs}; the driver shows no usable GPU"
                if not any(_reads_as_met(value, capability) for value in wanted):
                    return f"{needs}; {self.holder} has {'.'.join(map(str, capability))}"
        return super().feature(feature, wanted)


_ARCHITECTURE = pattern(r"(\d+)(\d)([af]?)_(real|virtual)")


@lru_cache(maxsize=4096)
def _architecture(value: str) -> tuple[tuple[int, int], str]:
    """Return a sort key and the words for an ``sm_arch`` value (P-90, P-91)."""
    found = _ARCHITECTURE.fullmatch(value)
    if found is None:
        return (0, 0), value
    major, minor, kind, code = found.groups()
    words = f"{major}.{minor}"
    if kind == "a":
        words = f"exactly {words}"
    elif kind == "f":
        words = f"{words} (family)"
    elif code == "virtual":
        words = f">= {words}"
    return (int(major), int(minor)), words


def _capability(values: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the capability that a list was made for: its newest machine code (P-82)."""
    found = [_ARCHITECTURE.fullmatch(value) for value in values]
    known = [(int(one[1]), int(one[2])) for one in found if one is not None and one[4] == "real"]
    return max(known, default=None)


def _reads_as_met(value: str, capability: tuple[int, int]) -> bool:
    """Say whether a reader would think that a GPU runs an ``sm_arch`` value (P-90)."""
    (major, minor), _ = _architecture(value)
    return (major, minor) <= capability and (value.endswith("_virtual") or major == capability[0])


class _Amd(_Accelerator):
    kind = "an AMD GPU or ROCm"

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        values = listed(sorted(wanted, key=natural), "or")
        match feature.name:
            case "gfx_arch":
                return f"needs an AMD GPU {values}"
            case "rocm_version":
                return f"needs ROCm {values}"
            case _:
                return _Words.wish(feature, wanted)


class _Ascend(_Accelerator):
    kind = "an Ascend NPU"


class _Intel(_Accelerator):
    kind = "an Intel GPU"

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        if feature.name != "device_ip":
            return _Words.wish(feature, wanted)
        return f"needs an Intel GPU that runs code for {_designs(sorted(wanted, key=natural))}"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        supported = self.supported(feature.name)
        if feature.name != "device_ip" or not supported or self.holder == PACKAGE_LIST:
            return super().feature(feature, wanted)
        return f"{self.wish(feature, wanted)}; {self.holder} runs {_designs(supported, 'and')}"


def _designs(values: Sequence[str], word: str = "or") -> str:
    """Write versions of Intel's GPUs with the names that compilers know them by (P-130)."""
    # Only here: no other command should wait for tables of GPUs to load.
    from wheelfit.platforms.families.intel import tables as intel  # noqa: PLC0415

    designs = {str(ip): names[0] for ip, names in intel.DEVICES.items()}
    known = [f"{value} ({designs[value]})" if value in designs else value for value in values]
    return listed(known, word)


class _Tpu(_Accelerator):
    kind = "a TPU"

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        if feature.name != "present" or len(wanted) > 1:
            return _Words.wish(feature, wanted)
        return "needs a TPU" if wanted == ("true",) else "is for machines without a TPU"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        present = self.supported("present")
        if self.holder == PACKAGE_LIST or len(present) != 1:
            return super().feature(feature, wanted)
        if feature.name == "present":  # P-150: who has the one lacks the other
            has = "has one" if present == ("true",) else "has none"
            return f"{self.wish(feature, wanted)}; {self.holder} {has}"
        if feature.name == "generation" and present == ("false",):
            return f"needs a TPU {listed(wanted, 'or')}; {self.holder} has none"
        return super().feature(feature, wanted)


@lru_cache(maxsize=4096)
def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split("."))


class _Processor(_Words):
    """The words about processors.

    Subclasses say which feature grows with the processor, and how its values are called.
    """

    kind: ClassVar[str]
    growing: ClassVar[str]

    @staticmethod
    def called(value: str) -> str:
        """Return what people call a value of the growing feature."""
        return value

    @staticmethod
    def needed(value: str) -> str:
        """Return the same where it stands alone."""
        return value

    @staticmethod
    def rank(value: str) -> tuple[int, ...]:
        """Return a sort key: the numbers in a value of the growing feature."""
        return tuple(map(int, re.findall(r"\d+", value)))

    @property
    def cpu(self) -> str:
        """The processor in words."""
        return "this CPU" if self.holder == THIS_MACHINE else f"the CPU of {self.holder}"

    def nothing(self, properties: str) -> str:
        if self.holder == PACKAGE_LIST:
            return super().nothing(properties)
        return f"needs {self.kind}; {self.holder} has none"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        if self.holder == PACKAGE_LIST:
            return super().feature(feature, wanted)
        best = max(self.supported(self.growing), key=self.rank, default=None)
        lowest = min(wanted, key=self.rank)
        # A list may have gaps; what it then refuses must not be said to be met.
        if (
            feature.name == self.growing
            and best is not None
            and self.rank(best) < self.rank(lowest)
        ):
            return f"needs {self.needed(lowest)}, {self.cpu} is {self.called(best)}"
        if wanted == ("on",):
            return f"needs a CPU with {feature.name}, which {self.cpu} lacks"
        return super().feature(feature, wanted)


class _X86(_Processor):
    kind = "an x86-64 CPU"
    growing = "level"

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        return _needed(_X86, feature, wanted)

    @staticmethod
    def needed(value: str) -> str:
        return f"x86-64-{value}"


class _Arm(_Processor):
    kind = "a 64-bit Arm CPU"
    growing = "version"

    @staticmethod
    def wish(feature: Feature, wanted: tuple[str, ...]) -> str:
        return _needed(_Arm, feature, wanted)

    @staticmethod
    def called(value: str) -> str:
        return f"Armv{value.removesuffix('a')}-A"

    @staticmethod
    def needed(value: str) -> str:
        return _Arm.called(value)


def _needed(words: type[_Processor], feature: Feature, wanted: tuple[str, ...]) -> str:
    """Say what is needed of a processor: the lowest value, for each includes those below."""
    if feature.name == words.growing:
        return f"needs {words.needed(min(wanted, key=words.rank))}"
    if wanted == ("on",):
        return f"needs a CPU with {feature.name}"
    return _Words.wish(feature, wanted)


_WORDS: dict[str, type[_Words]] = {
    "aarch64": _Arm,
    "amd": _Amd,
    "ascend": _Ascend,
    "intel": _Intel,
    "nvidia": _Nvidia,
    "tpu": _Tpu,
    "x86_64": _X86,
}
