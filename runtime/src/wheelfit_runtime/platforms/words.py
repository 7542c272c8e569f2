"""The common words of hardware families for missing properties.

A family with better words for its features has a class `Words` in its module ``vocabulary``, a
subclass of one of those here. `wheelfit.core.phrases` puts the words together.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.features import Detection

THIS_MACHINE = "this machine"
"""The default name of the machine."""
PACKAGE_LIST = "the package's own list"
"""The name for support from a package's static list (P-11)."""


class Feature(Protocol):
    """A feature, as `wheelfit.core.properties.Feature`; as a text it is ``namespace :: name``."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name within the namespace."""


# The labels of a release repeat few values, and there may be a hundred thousand labels.
@lru_cache(maxsize=4096)
def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key by which ``90_real`` comes before ``100_real``."""
    parts = re.split(r"(\d+)", text)
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in parts)


def named(feature: Feature, values: Iterable[str]) -> str:
    """Write properties of one feature as ``ns :: feature :: value or value``."""
    return f"{feature} :: {listed(sorted(values, key=natural), 'or')}"


class Words:
    """The generic words about one namespace.

    :param holder: the machine or file of the detection.
    :param needed: of hardware: the required device, with its article.
    :param growing: of processors: the feature each value of which includes the lower ones.
    """

    def __init__(
        self,
        detection: Detection,
        holder: str = THIS_MACHINE,
        *,
        needed: str = "",
        growing: str = "",
    ) -> None:
        self.detection = detection
        self.holder = holder
        self.needed = needed
        self.growing = growing

    def supported(self, name: str) -> tuple[str, ...]:
        """Return the supported values of a feature."""
        features = self.detection.features
        return next((config.values for config in features if config.name == name), ())

    def wish(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return the condition of a feature in words, as ``needs …``."""
        return f"needs {named(feature, wanted)}"

    def nothing(self, properties: str) -> str:
        """Return the reason a feature is missing where its whole namespace is unsupported."""
        return f"needs {properties}; {self.holder} supports nothing of {self.detection.namespace}"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return the reason one feature is missing where others of the namespace are supported."""
        supported = self.supported(feature.name)
        needs = Words.wish(self, feature, wanted)
        if supported:
            return f"{needs}; {self.holder} supports {listed(supported)}"
        others = [config.name for config in self.detection.features if config.values]
        return f"{needs}; {self.holder} has no {feature}, only {listed(others)}"


class AcceleratorWords(Words):
    """The words about hardware that a machine has or has not."""

    def nothing(self, properties: str) -> str:
        """Return the reason a feature is missing where its whole namespace is unsupported."""
        if self.holder == PACKAGE_LIST:
            return super().nothing(properties)
        needs = f"needs {self.needed}"
        if self.detection.warnings:  # P-84, P-99, P-133: there is something, and it will not do
            return f"{needs}; no usable one was found: {'; '.join(self.detection.warnings)}"
        where = "" if self.holder == THIS_MACHINE else f" on {self.holder}"
        return f"{needs}; none was found{where}"


class ProcessorWords(Words):
    """The words about processors."""

    @staticmethod
    def called(value: str) -> str:
        """Return the usual name of a value of the growing feature."""
        return value

    def called_alone(self, value: str) -> str:
        """Return the same where it stands alone."""
        return self.called(value)

    @staticmethod
    def rank(value: str) -> tuple[int, ...]:
        """Return a sort key: the numbers in a value of the growing feature."""
        return tuple(map(int, re.findall(r"\d+", value)))

    @property
    def cpu(self) -> str:
        """The processor in words."""
        return "this CPU" if self.holder == THIS_MACHINE else f"the CPU of {self.holder}"

    def wish(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return the requirement: the lowest value of the growing feature includes others."""
        if feature.name == self.growing:
            return f"needs {self.called_alone(min(wanted, key=self.rank))}"
        if wanted == ("on",):
            return f"needs a CPU with {feature.name}"
        return super().wish(feature, wanted)

    def nothing(self, properties: str) -> str:
        """Return the reason a feature is missing where its whole namespace is unsupported."""
        if self.holder == PACKAGE_LIST:
            return super().nothing(properties)
        return f"needs {self.needed}; {self.holder} has none"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return the reason one feature is missing where others of the namespace are supported."""
        if self.holder == PACKAGE_LIST:
            return super().feature(feature, wanted)
        if feature.name == self.growing:
            best = max(self.supported(feature.name), key=self.rank, default=None)
            lowest = min(wanted, key=self.rank)
            # A list may have gaps; a value it then refuses must not be reported as met.
            if best is not None and self.rank(best) < self.rank(lowest):
                return f"needs {self.called_alone(lowest)}, {self.cpu} is {self.called(best)}"
        if wanted == ("on",):
            return f"needs a CPU with {feature.name}, which {self.cpu} lacks"
        return super().feature(feature, wanted)
