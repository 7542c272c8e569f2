"""The provider of Huawei's Ascend NPUs, their driver and CANN (P-140 to P-144)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, values_by_device
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.ascend import probes, tables
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, AscendDriver, AscendFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView


NAMESPACE = "ascend"

_TYPE = "npu_type"
_DRIVER = "driver_version"
_CANN = "cann_version"
_FEATURES = (_TYPE, _DRIVER, _CANN)

_OVERRIDE_VARIABLES = {
    feature: f"ASCEND_VARIANT_PROVIDER_FORCE_{feature.upper()}" for feature in _FEATURES
}

# Compiled when they are needed, since most machines have no NPU.
_TYPE_VALUE = r"[a-z0-9_.]{1,32}"
_VERSION_VALUE = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?(?:\.rc[0-9]{1,4})?"


def _find(view: SystemView, overridden_features: Mapping[str, tuple[str, ...]]) -> Detection:
    overridden = _read_overrides(view.environ)
    # If all values are overridden, detection has nothing to add.
    is_complete = {*overridden.values, *overridden_features} == set(_FEATURES)
    driver = overridden.apply_to(AscendDriver() if is_complete else read(view))
    if _TYPE in overridden_features:  # warnings about NPUs would have no effect
        driver = driver._replace(cards=(), problem="", broken=False)
    return supported(driver, reference=view.reference)


def supported(driver: AscendDriver, *, reference: bool = False) -> Detection:
    """Return the supported types of NPU, and the versions of the driver and CANN.

    :param reference: whether to answer exactly as the reference plugin: only the first NPU, under
        one name (P-43).
    """
    types = [_values_of(card) for card in driver.cards]
    devices = values_by_device(_TYPE, zip(driver.cards, types, strict=True))  # P-141
    if reference:
        names = tuple(value for values in types[:1] for value in values[:1])
    else:
        names = tuple(dict.fromkeys(value for values in types for value in values))
    configs = (
        FeatureConfig(_TYPE, names),
        FeatureConfig(_DRIVER, _version_values(driver.driver_version)),
        FeatureConfig(_CANN, _version_values(driver.cann_version)),
    )
    return answer(
        NAMESPACE,
        configs,
        broken=driver.broken,
        evidence=driver.evidence,
        warnings=(*driver.warnings, driver.problem) if driver.problem else driver.warnings,
        devices=() if reference else devices,
    )


def type_of(chip: str) -> str | None:
    """Return the type of an NPU; None if the name of its chip is not a valid value (P-140).

    :param chip: as ``npu-smi`` prints it, in lower case and without ``ascend``.

    >>> type_of("910b3"), type_of("310p3"), type_of("910"), type_of("310")
    ('910b', '310p', 'a3', '310')
    """
    for family in tables.TYPE_OF_FAMILY:
        if chip.startswith(family):
            return family
    name = tables.TYPE_OF_CHIP.get(chip, chip)
    return name if re.fullmatch(_TYPE_VALUE, name) else None


def _values_of(card: AscendCard) -> tuple[str, ...]:
    """Return the values for an NPU, its type first (P-141)."""
    name = type_of(card.chip)
    if name is None:
        return ()
    return (name, tables.ALIASES[name]) if name in tables.ALIASES else (name,)


def _version_values(text: str | None) -> tuple[str, ...]:
    """Return a version up to patch and ``rc``, as the reference plugin does."""
    match = re.match(_VERSION_VALUE, text.lower()) if text else None
    return (match[0],) if match else ()


def read(view: SystemView) -> AscendDriver:
    """Return the NPUs, driver and CANN; ``npu-smi`` is run for facts that no file has (P-143)."""
    if view.system != "Linux":
        return AscendDriver(evidence=(Evidence(view.system, "has no driver for NPUs"),))
    files = probes.parse_files(probes.read_files(view))
    driver = AscendDriver(
        cards=_cards(files), driver_version=files.driver_version, evidence=files.evidence
    )
    if files.devices and not files.nodes:
        problem = (
            "there are NPUs but no device file as /dev/davinci0: the driver is not loaded, or this "
            "container has no access to them"
        )
        driver = driver._replace(problem=problem)
    elif not (driver.cards and driver.driver_version):
        driver = _run_npu_smi(view, files, driver)
    driver = _with_toolkit(driver, view)
    if not driver.evidence:
        driver = driver._replace(evidence=(Evidence("files", "no sign of NPUs or CANN"),))
    return driver


def _cards(files: AscendFiles) -> tuple[AscendCard, ...]:
    """Return the NPUs; empty if the files do not show the type of each usable one."""
    types = [tables.TYPE_OF_DEVICE.get(device) for device in files.devices]
    known_types = [npu_type for npu_type in types if npu_type is not None]
    # A container sees all devices on the bus; which of them it may use, only npu-smi shows.
    are_usable_known = len(set(known_types)) == 1 or len(files.nodes) == len(types)
    if len(known_types) < len(types) or not are_usable_known:
        return ()
    usable = known_types[: len(files.nodes)]
    return tuple(AscendCard(number, npu_type) for number, npu_type in enumerate(usable))


def _run_npu_smi(view: SystemView, files: AscendFiles, driver: AscendDriver) -> AscendDriver:
    """Return the driver, completed with the output of ``npu-smi``."""
    output = probes.ask_npu_smi(view)
    if output is None:
        if driver.cards or not files.nodes:
            return driver
        return driver._replace(
            problem="the type of the NPUs is shown only by npu-smi, which is not on the PATH"
        )
    # Imported only for machines with NPUs.
    from wheelfit_runtime.platforms.probes import child_answers

    table = probes.parse_npu_smi(output)
    cards = ", ".join(map(str, table.cards)) or "no NPU"
    result = (
        child_answers.tool_failure(output) or f"{cards}; driver {table.driver_version or 'unknown'}"
    )
    driver = driver._replace(
        cards=driver.cards or table.cards,
        driver_version=driver.driver_version or table.driver_version,
        evidence=(*driver.evidence, Evidence(probes.QUESTION, result)),
    )
    if driver.cards:
        return driver
    broken = child_answers.is_broken(output)
    return driver._replace(problem=f"{probes.QUESTION}: {result}", broken=broken)


def _with_toolkit(driver: AscendDriver, view: SystemView) -> AscendDriver:
    """Return the driver with the version of CANN, from the first file that has a version."""
    for path, text in probes.read_cann(view):
        version = probes.parse_cann(text)
        evidence = Evidence(path, version or "has no version")
        driver = driver._replace(evidence=(*driver.evidence, evidence))
        if version is not None:
            return driver._replace(cann_version=version)
    return driver


class _Overrides(NamedTuple):
    """The values of environment variables that replace detected ones."""

    values: Mapping[str, str]
    """By feature."""
    evidence: tuple[Evidence, ...]

    def apply_to(self, driver: AscendDriver) -> AscendDriver:
        """Return a detected driver with the values replaced."""
        if _TYPE in self.values:
            card = AscendCard(0, self.values[_TYPE])
            driver = driver._replace(cards=(card,), problem="", broken=False)
        return driver._replace(
            driver_version=self.values.get(_DRIVER, driver.driver_version),
            cann_version=self.values.get(_CANN, driver.cann_version),
            evidence=(*self.evidence, *driver.evidence),
        )


def _read_overrides(environ: Mapping[str, str]) -> _Overrides:
    """Read the variables of the reference plugin (P-144)."""
    values = {}
    evidence = []
    for feature, variable in _OVERRIDE_VARIABLES.items():
        text = overrides.value_of(environ, variable)
        if text is None:
            continue
        values[feature] = text.lower()
        if not PROVIDER.accepts(feature, values[feature]):
            example = "a type as 910b" if feature == _TYPE else "a version as 8.2.rc1"
            raise overrides.invalid_override(variable, text, f"it must be {example}")
        evidence.append(Evidence(variable, text))
    return _Overrides(values, tuple(evidence))


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {
        _TYPE: lambda value: re.fullmatch(_TYPE_VALUE, value),
        **dict.fromkeys((_DRIVER, _CANN), lambda value: re.fullmatch(_VERSION_VALUE, value)),
    },
    overrides=lambda view: _read_overrides(view.environ).evidence,
)
