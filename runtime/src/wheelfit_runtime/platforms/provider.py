"""The common part of built-in providers: overrides, answers, and PEP 850's interface."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from wheelfit_runtime.platforms.features import DeviceValues, Evidence, FeatureConfig


@dataclass
class PluginFeature:
    """A feature in the form of PEP 850: with a list of values (P-27)."""

    name: str
    values: list[str]
    """Most preferred first."""
    multi_value: bool


def answer(
    namespace: str,
    features: Iterable[FeatureConfig] = (),
    *,
    broken: bool = False,
    evidence: tuple[Evidence, ...] = (),
    warnings: tuple[str, ...] = (),
    devices: tuple[DeviceValues, ...] = (),
) -> Detection:
    """Return the detection of a built-in provider; features without values are left out.

    :param broken: whether the detection failed, which counts if no feature has values.
    """
    supported = tuple(feature for feature in features if feature.values)
    unsupported = Status.FAILED if broken else Status.NOTHING
    return Detection(
        namespace,
        supported,
        status=Status.SUPPORTED if supported else unsupported,
        source=f"built-in {namespace} provider",
        evidence=evidence,
        warnings=warnings,
        devices=devices,
    )


class BuiltInProvider:
    """The provider of a namespace: its detection, with users' overrides applied (P-73).

    It is a plugin of PEP 850 as well (P-39), by the address `HardwareFamily.plugin_api`.

    :param data_version: when its tables were last compared with their sources.
    :param find: returns the detection; called with the overridden values by feature. It reads the
        variables of the vendor and of conda itself, before it detects anything.
    :param features: all features, most preferred first, each with a check of its values.
    :param multi_value: features of which a wheel may list several values.
    :param overrides: returns the variables of the vendor and of conda that are in effect.
    """

    def __init__(
        self,
        namespace: str,
        data_version: str,
        find: Callable[[SystemView, Mapping[str, tuple[str, ...]]], Detection],
        features: Mapping[str, Callable[[str], object]],
        *,
        multi_value: Collection[str] = (),
        overrides: Callable[[SystemView], Iterable[Evidence]] = lambda _: (),
    ) -> None:
        self.namespace = namespace
        self.data_version = data_version
        self._find = find
        self._features = features
        self._multi_value = multi_value
        self._foreign_overrides = overrides

    def accepts(self, feature: str, value: str) -> bool | None:
        """Return whether a value can be one of a feature; None: there is no such feature."""
        accepts = self._features.get(feature)
        return None if accepts is None else bool(accepts(value))

    def detect(self, view: SystemView) -> Detection:
        """Return the supported properties, with overrides applied; a fault is in the result."""
        try:
            own_overrides = overrides.read(self.namespace, view.environ, self.accepts)
            detection = self._find(
                view, {override.feature: override.values for override in own_overrides}
            )
        except InvalidConfiguration as error:
            return overrides.disabled(self.namespace, f"built-in {self.namespace} provider", error)
        return overrides.apply(own_overrides, detection, tuple(self._features), self._multi_value)

    def overrides_in_effect(self, view: SystemView) -> tuple[str, ...]:
        """Return the variables that replace something, as ``NAME=value``."""
        try:
            own_overrides = overrides.read(self.namespace, view.environ, self.accepts)
            foreign_overrides = tuple(self._foreign_overrides(view))
        except InvalidConfiguration:
            return ()  # it switches the provider off and is reported as a warning
        return (
            *(f"{variable.source}={variable.value}" for variable in foreign_overrides),
            *map(str, own_overrides),
        )

    def get_supported_configs(self) -> list[PluginFeature]:
        """Return the supported features of the running machine, most preferred first (P-26)."""
        features = self.detect(SystemView()).features
        return [
            PluginFeature(feature.name, list(feature.values), feature.multi_value)
            for feature in features
        ]

    def get_all_configs(self) -> list[PluginFeature]:
        """Return the known features and values, independent of the machine (P-28).

        A machine may support further values that are newer than the vocabulary.
        """
        vocabulary = import_module(f"{__package__}.providers.{self.namespace}.vocabulary")
        return [
            PluginFeature(name, [*values.published, *values.unpublished], values.multi_value)
            for name, values in vocabulary.VOCABULARY.features.items()
            if (values.published or values.unpublished) and not values.is_optional
        ]
