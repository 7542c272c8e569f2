"""The answer of a plugin, as a value (P-26 to P-31, P-34).

The caller runs the plugin and passes its result as plain data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.properties import PropertySet, is_name, is_value
from wheelfit.core.strict_json import path_of, shown
from wheelfit_runtime.errors import Fault
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wheelfit.core.labels import Label

MOST_FEATURES = 64
"""The most features of an answer (P-34)."""
MOST_VALUES = 100_000
"""The most values of an answer, of all features together (P-34)."""
_MAX_NAMED = 6
"""Features that one warning names."""
_ALL_COMPATIBLE = "all_properties_compatible"
_OLDER_NAMES = ("is_aot_plugin", "is_build_plugin")


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """The answer of a plugin about its namespace."""

    features: tuple[FeatureConfig, ...] = ()
    """Most preferred first; empty: nothing (P-26)."""
    all_compatible: bool = False
    """Whether every valid value is supported on every machine (P-29)."""
    warnings: tuple[str, ...] = ()
    """The parts dropped or ignored, one sentence each."""
    failure: str | None = None
    """Why the answer cannot be used; None: it can (P-17)."""


def read_report(configs: object, flags: Mapping[str, object]) -> PluginAnswer:
    """Read the result of a plugin from its process.

    Only meaningful attributes are read: a ``namespace`` of the plugin is ignored, since the
    metadata of the wheel has it (P-31).

    :param configs: the result of its ``get_supported_configs()`` or ``get_all_configs()``: a list
        of mappings with ``name``, ``values`` and ``multi_value``, each optional (P-27).
        ``{"kind": "a bytes"}`` stands for a value that is not JSON.
    :param flags: its attributes that are flags, by name (P-29).
    """
    warnings: dict[str, None] = {}
    if not isinstance(configs, list | tuple):
        return PluginAnswer(failure=f"expected a list of features, found {_shown(configs)}")
    if len(configs) > MOST_FEATURES:  # P-34
        return PluginAnswer(failure=f"it names more features than the limit of {MOST_FEATURES}")
    features: dict[str, FeatureConfig] = {}
    without_flag: list[str] = []
    values_left = MOST_VALUES
    for config in configs:
        fields = config if isinstance(config, Mapping) else {}
        feature = _feature(fields, warnings, values_left)
        if isinstance(feature, str):
            return PluginAnswer(failure=feature)
        if feature is None:
            continue
        if feature.name in features:
            warnings[f"the feature {feature.name} is listed more than once"] = None
            continue
        features[feature.name] = feature
        values_left -= len(feature.values)
        if not isinstance(fields.get("multi_value"), bool):
            without_flag.append(feature.name)
    if without_flag:  # plugins for an older draft never set it
        names = without_flag
        if len(names) > _MAX_NAMED:
            names = [*names[:_MAX_NAMED], f"{len(names)} in all"]
        warnings[f"{', '.join(names)}: multi_value is not set, so one value is allowed"] = None
    return PluginAnswer(tuple(features.values()), _all_compatible(flags, warnings), tuple(warnings))


def vocabulary_faults(
    label: Label,
    properties: PropertySet,
    vocabulary: Mapping[str, Iterable[FeatureConfig]],
    *,
    queried: Collection[str] = (),
) -> tuple[Fault, ...]:
    """Return the properties of a wheel unknown to its plugins (P-28, P-30).

    :param vocabulary: the valid values, by namespace; others are not checked.
    :param queried: namespaces whose plugin was run for this wheel: values it does not list are not
        supported (B-22).
    """
    faults: list[Fault] = []
    known = {
        namespace: {config.name: config for config in configs}
        for namespace, configs in vocabulary.items()
    }
    for feature, values in properties.features():
        if feature.namespace not in known:
            continue
        path = path_of("variants", label, feature.namespace, feature.name)
        rule = "B-22" if feature.namespace in queried else "P-28"
        config = known[feature.namespace].get(feature.name)
        if config is None:
            faults.append(Fault(path, "the provider has no such feature", rule))
            continue
        faults += [
            Fault(path, f"the provider has no value {value}", rule)
            for value in values
            if value not in config.values
        ]
        if len(values) > 1 and not config.multi_value:
            problem = f"the feature takes one value only, found {', '.join(values)}"
            faults.append(Fault(path, problem, "P-30"))
    return tuple(faults)


def _feature(
    config: Mapping[str, object], warnings: dict[str, None], values_left: int
) -> FeatureConfig | str | None:
    """Read a feature (P-27, P-34).

    :return: None if it is dropped; a string is the reason the whole answer is unusable.
    """
    name, values = config.get("name"), config.get("values")
    if not isinstance(name, str) or not is_name(name):
        warnings[f"{_shown(name)} is not a valid feature name and is dropped"] = None
        return None
    if not isinstance(values, list | tuple):
        warnings[f"{name}: expected a list of values, found {_shown(values)}; it is dropped"] = None
        return None
    if len(values) > values_left:
        return f"it names more than {MOST_VALUES} values"
    valid: dict[str, None] = {}
    for value in values:
        if not isinstance(value, str) or not is_value(value):
            warnings[f"{name}: {_shown(value)} is not a valid value and is dropped"] = None
        elif value in valid:
            warnings[f"{name}: {value} is listed more than once"] = None
        else:
            valid[value] = None
    return FeatureConfig(name, tuple(valid), config.get("multi_value") is True)


def _all_compatible(flags: Mapping[str, object], warnings: dict[str, None]) -> bool:
    """Read the flag of P-29; an older name causes a warning."""
    for name in (_ALL_COMPATIBLE, *_OLDER_NAMES):
        flag = flags.get(name)
        if flag is None:
            continue
        if name != _ALL_COMPATIBLE:
            warnings[f"{name} is an older name of {_ALL_COMPATIBLE}"] = None
        if not isinstance(flag, bool):
            warnings[f"{name}: expected true or false, found {_shown(flag)}"] = None
            return False
        return flag
    return False


def _shown(value: object) -> str:
    """Return a value for a message, or the kind of a value that was not JSON."""
    if isinstance(value, Mapping) and isinstance(value.get("kind"), str):
        return shown(value["kind"])[1:-1]
    return shown(value)
