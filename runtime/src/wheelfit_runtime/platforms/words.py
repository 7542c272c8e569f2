"""Descriptions of missing properties in words, such as ``needs CUDA driver >= 12.8``.

A hardware family with descriptions of its own has a class ``Words`` in its module ``vocabulary``,
a subclass of a class in this module. `wheelfit.core.phrases` makes sentences of them.
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
"""The name in place of the machine where a package has a static list (P-11)."""


class Feature(Protocol):
    """A feature, as `wheelfit.core.properties.Feature`; its text is ``namespace :: name``."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name within the namespace."""


# The labels of a release repeat few values, and there may be a hundred thousand labels.
@lru_cache(maxsize=4096)
def natural_sort_key(text: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key by which ``90_real`` comes before ``100_real``."""
    parts = re.split(r"(\d+)", text)
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in parts)


def properties_text(feature: Feature, values: Iterable[str]) -> str:
    """Return properties of one feature as ``namespace :: feature :: value or value``."""
    return f"{feature} :: {listed(sorted(values, key=natural_sort_key), 'or')}"


class NamespaceWords:
    """Descriptions of missing properties of a namespace.

    :param detection: the support of a machine for the namespace.
    :param machine: the name of the machine, or of the file that describes it.
    :param required_device: for hardware: the required device, with its article.
    :param level_feature: for processors: the feature whose values include all lower ones.
    """

    def __init__(
        self,
        detection: Detection,
        machine: str = THIS_MACHINE,
        *,
        required_device: str = "",
        level_feature: str = "",
    ) -> None:
        self.detection = detection
        self.machine = machine
        self.required_device = required_device
        self.level_feature = level_feature

    def requirement(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the requirement of any of some values, such as ``needs …``."""
        return f"needs {properties_text(feature, values)}"

    def unsupported_namespace(self, properties: str) -> str:
        """Return the reason properties are missing if the whole namespace is unsupported."""
        return f"needs {properties}; {self.machine} supports nothing of {self.detection.namespace}"

    def unsupported_feature(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the reason a feature is missing if others of the namespace are supported."""
        supported = self.detection.values_of(feature.name)
        # Not `self.requirement`, which may be in other words than the supported values below.
        needs = NamespaceWords.requirement(self, feature, values)
        if supported:
            return f"{needs}; {self.machine} supports {listed(supported)}"
        other_features = [config.name for config in self.detection.features if config.values]
        return f"{needs}; {self.machine} has no {feature}, only {listed(other_features)}"


class AcceleratorWords(NamespaceWords):
    """Descriptions of missing properties of an accelerator."""

    def unsupported_namespace(self, properties: str) -> str:
        """Return the reason properties are missing if the whole namespace is unsupported."""
        if self.machine == PACKAGE_LIST:
            return super().unsupported_namespace(properties)
        needs = f"needs {self.required_device}"
        if self.detection.warnings:  # P-84, P-99, P-133: there is hardware that cannot be used
            return f"{needs}; no usable one was found: {'; '.join(self.detection.warnings)}"
        where = "" if self.machine == THIS_MACHINE else f" on {self.machine}"
        return f"{needs}; none was found{where}"


class ProcessorWords(NamespaceWords):
    """Descriptions of missing properties of a processor."""

    @staticmethod
    def value_name(value: str) -> str:
        """Return the usual name of a value of the level feature."""
        return value

    def full_value_name(self, value: str) -> str:
        """Return a name of a level that is clear without its architecture."""
        return self.value_name(value)

    @staticmethod
    def rank(value: str) -> tuple[int, ...]:
        """Return a sort key of a value of the level feature: the numbers in it."""
        return tuple(map(int, re.findall(r"\d+", value)))

    @property
    def cpu(self) -> str:
        """The processor in words."""
        return "this CPU" if self.machine == THIS_MACHINE else f"the CPU of {self.machine}"

    def requirement(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the requirement of any of some values; for the level feature, of the lowest."""
        if feature.name == self.level_feature:
            return f"needs {self.full_value_name(min(values, key=self.rank))}"
        if values == ("on",):
            return f"needs a CPU with {feature.name}"
        return super().requirement(feature, values)

    def unsupported_namespace(self, properties: str) -> str:
        """Return the reason properties are missing if the whole namespace is unsupported."""
        if self.machine == PACKAGE_LIST:
            return super().unsupported_namespace(properties)
        return f"needs {self.required_device}; {self.machine} has none"

    def unsupported_feature(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the reason a feature is missing if others of the namespace are supported."""
        if self.machine == PACKAGE_LIST:
            return super().unsupported_feature(feature, values)
        if feature.name == self.level_feature:
            best = max(self.detection.values_of(feature.name), key=self.rank, default=None)
            lowest = min(values, key=self.rank)
            # The supported values may have gaps: `lowest` can be missing although `best` is higher.
            if best is not None and self.rank(best) < self.rank(lowest):
                return (
                    f"needs {self.full_value_name(lowest)}, {self.cpu} is {self.value_name(best)}"
                )
        if values == ("on",):
            return f"needs a CPU with {feature.name}, which {self.cpu} lacks"
        return super().unsupported_feature(feature, values)
