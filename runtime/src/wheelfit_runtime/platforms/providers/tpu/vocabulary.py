"""The features and values of TPUs (P-150, P-153), and the words for missing ones."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.tpu import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary
from wheelfit_runtime.platforms.words import PACKAGE_LIST, AcceleratorWords, Feature
from wheelfit_runtime.wording import listed

VOCABULARY = Vocabulary(
    {
        "present": OfferedValues(tables.PRESENT),
        "generation": OfferedValues(unpublished=tables.GENERATIONS, is_optional=True),
    }
)


class Words(AcceleratorWords):
    """The words for missing TPUs."""

    def requirement(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the condition of a feature in words, such as ``needs …``."""
        if feature.name != "present" or len(values) > 1:
            return super().requirement(feature, values)
        return "needs a TPU" if values == ("true",) else "is for machines without a TPU"

    def unsupported_feature(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the reason one feature is missing where others of the namespace are supported."""
        present = self.detection.values_of("present")
        if self.machine == PACKAGE_LIST or len(present) != 1:
            return super().unsupported_feature(feature, values)
        if feature.name == "present":  # P-150
            has = "has one" if present == ("true",) else "has none"
            return f"{self.requirement(feature, values)}; {self.machine} {has}"
        if feature.name == "generation" and present == ("false",):
            return f"needs a TPU {listed(values, 'or')}; {self.machine} has none"
        return super().unsupported_feature(feature, values)
