"""The features and values of NVIDIA's GPUs and driver, and the words for missing ones."""

from __future__ import annotations

import re
from functools import lru_cache

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.providers.nvidia.cuda_values import every_bound, every_sm_value
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary
from wheelfit_runtime.platforms.words import PACKAGE_LIST, AcceleratorWords, Feature
from wheelfit_runtime.wording import listed

_BOUND = OfferedValues(every_bound(), pattern=re.compile(r"(1[1-9]|[2-9]\d)(\.\d{1,2})?"))
_SM = every_sm_value()
# Values with a letter after the number are those of wheelfit (P-83).
_SM_PUBLISHED = tuple(value for value in _SM if value.partition("_")[0].isdecimal())

VOCABULARY = Vocabulary(
    {
        "cuda_version_lower_bound": _BOUND,
        "cuda_version_upper_bound": _BOUND,
        "sm_arch": OfferedValues(
            _SM_PUBLISHED,
            tuple(value for value in _SM if value not in _SM_PUBLISHED),
            # Future capabilities (P-83).
            re.compile(r"1[3-9]\d[af]?_(real|virtual)"),
            multi_value=True,
        ),
    }
)


class Words(AcceleratorWords):
    """The words for missing features of NVIDIA's GPUs and driver."""

    def requirement(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the condition of a feature in words, such as ``needs …``."""
        match feature.name:
            case "cuda_version_lower_bound":
                return f"needs CUDA driver >= {min(values, key=_version)}"
            case "cuda_version_upper_bound":
                return f"needs CUDA driver < {max(values, key=_version)}"
            case "sm_arch":
                architectures = sorted({_architecture(value) for value in values})
                text_list = listed([text for _, text in architectures], "or")
                return f"needs a GPU of compute capability {text_list}"
            case _:
                return super().requirement(feature, values)

    def unsupported_feature(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the reason one feature is missing where others of the namespace are supported."""
        driver = max(
            self.detection.values_of("cuda_version_lower_bound"), key=_version, default=None
        )
        if driver is None or self.machine == PACKAGE_LIST:
            return super().unsupported_feature(feature, values)
        needs = self.requirement(feature, values)
        # A list may have gaps; a value it then refuses must not be reported as met.
        match feature.name:
            case "cuda_version_lower_bound" if _version(driver) < min(map(_version, values)):
                return f"{needs}, {self.machine} has {driver}"
            case "cuda_version_upper_bound" if _version(driver) >= max(map(_version, values)):
                return f"{needs}, {self.machine} has {driver}"
            case "sm_arch":
                capability = _capability(self.detection.values_of("sm_arch"))
                if capability is None:  # P-99
                    return f"{needs}; the driver shows no usable GPU"
                if not any(_reads_as_met(value, capability) for value in values):
                    return f"{needs}; {self.machine} has {'.'.join(map(str, capability))}"
        return super().unsupported_feature(feature, values)


_ARCHITECTURE = pattern(r"(\d+)(\d)([af]?)_(real|virtual)")


@lru_cache(maxsize=4096)
def _architecture(value: str) -> tuple[tuple[int, int], str]:
    """Return a sort key and the words for an ``sm_arch`` value (P-90, P-91)."""
    match = _ARCHITECTURE.fullmatch(value)
    if match is None:
        return (0, 0), value
    major, minor, kind, code = match.groups()
    text = f"{major}.{minor}"
    if kind == "a":
        text = f"exactly {text}"
    elif kind == "f":
        text = f"{text} (family)"
    elif code == "virtual":
        text = f">= {text}"
    return (int(major), int(minor)), text


def _capability(values: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the capability of the newest machine code in a list (P-82)."""
    matches = [_ARCHITECTURE.fullmatch(value) for value in values]
    capabilities = [
        (int(match[1]), int(match[2]))
        for match in matches
        if match is not None and match[4] == "real"
    ]
    return max(capabilities, default=None)


def _reads_as_met(value: str, capability: tuple[int, int]) -> bool:
    """Return whether a GPU seems to run code of an ``sm_arch`` value, by its numbers (P-90)."""
    (major, minor), _ = _architecture(value)
    return (major, minor) <= capability and (value.endswith("_virtual") or major == capability[0])


@lru_cache(maxsize=4096)
def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split("."))
