"""Detect which Huawei Ascend NPUs, driver and CANN this machine has (P-140 to P-144).

Reachable as a PEP 850 plugin: ``wheelfit_runtime.platforms.providers.ascend.provider:PROVIDER``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Evidence, FeatureConfig, of_unlike_devices
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.ascend import probes, tables
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, AscendDriver, AscendFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.system_view import SystemView


NAMESPACE = "ascend"

_TYPE = "npu_type"
_DRIVER = "driver_version"
_CANN = "cann_version"
_ORDER = (_TYPE, _DRIVER, _CANN)

_FORCE = {feature: f"ASCEND_VARIANT_PROVIDER_FORCE_{feature.upper()}" for feature in _ORDER}

# Compiled where they are needed: most machines have nothing to match.
_TYPE_VALUE = r"[a-z0-9_.]{1,32}"
_VERSION_VALUE = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?(?:\.rc[0-9]{1,4})?"


def _find(surroundings: SystemView, own: Mapping[str, tuple[str, ...]]) -> Detection:
    forced = _read_forced(surroundings.environ)
    # Where all values are given, no detected one would count.
    is_known = {*forced.values, *own} == set(_ORDER)
    driver = forced.applied_to(AscendDriver() if is_known else read(surroundings))
    if _TYPE in own:  # then no warning about NPUs is of use
        driver = driver._replace(cards=(), problem="", broken=False)
    return supported(driver, reference=surroundings.reference)


def supported(driver: AscendDriver, *, reference: bool = False) -> Detection:
    """Return the types of NPU and the versions that count as installed.

    :param reference: answer exactly as the reference plugin does: only the first NPU,
        under one name (P-43).
    """
    types = [_values_of(card) for card in driver.cards]
    devices = of_unlike_devices(_TYPE, zip(driver.cards, types, strict=True))  # P-141
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
    """Return the type of an NPU, or None when the name of its chip can be no value (P-140).

    :param chip: as the tool prints it, in lower case and without ``ascend``.

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
    """Return a version as the reference writes it: without the part after patch and ``rc``."""
    match = re.match(_VERSION_VALUE, text.lower()) if text else None
    return (match[0],) if match else ()


def read(surroundings: SystemView) -> AscendDriver:
    """Read files, and run the tool for facts they lack (P-143)."""
    if surroundings.system != "Linux":
        return AscendDriver(evidence=(Evidence(surroundings.system, "has no driver for NPUs"),))
    files = probes.parse_files(probes.read_files(surroundings))
    driver = AscendDriver(
        cards=_cards(files), driver_version=files.driver_version, evidence=files.evidence
    )
    if files.devices and not files.nodes:
        words = (
            "there are NPUs and no /dev/davinci0 or the like: "
            "the driver is not loaded, or this container was not given them"
        )
        driver = driver._replace(problem=words)
    elif not (driver.cards and driver.driver_version):
        driver = _ask_tool(surroundings, files, driver)
    driver = _with_toolkit(driver, surroundings)
    if not driver.evidence:
        driver = driver._replace(evidence=(Evidence("files", "no sign of NPUs or CANN"),))
    return driver


def _cards(files: AscendFiles) -> tuple[AscendCard, ...]:
    """Return the NPUs, if the files show the type and usability of each."""
    chips = [tables.TYPE_OF_DEVICE.get(device) for device in files.devices]
    known = [chip for chip in chips if chip is not None]
    # A container sees the whole bus; which of the devices it was given, only the tool knows.
    is_clear = len(set(known)) == 1 or len(files.nodes) == len(chips)
    if len(known) < len(chips) or not is_clear:
        return ()
    return tuple(AscendCard(number, chip) for number, chip in enumerate(known[: len(files.nodes)]))


def _ask_tool(surroundings: SystemView, files: AscendFiles, driver: AscendDriver) -> AscendDriver:
    answer = probes.ask_npu_smi(surroundings)
    if answer is None:
        if driver.cards or not files.nodes:
            return driver
        words = "there are NPUs of a type that only npu-smi can tell, which is not on the PATH"
        return driver._replace(problem=words)
    # What child processes need is imported only here: most machines never come here.
    from wheelfit_runtime.platforms.probes import child_answers

    table = probes.parse_npu_smi(answer)
    told = ", ".join(map(str, table.cards)) or "no NPU"
    words = child_answers.failure(answer) or f"{told}; driver {table.driver_version or 'unknown'}"
    driver = driver._replace(
        cards=driver.cards or table.cards,
        driver_version=driver.driver_version or table.driver_version,
        evidence=(*driver.evidence, Evidence(probes.QUESTION, words)),
    )
    if driver.cards:
        return driver
    broken = child_answers.is_broken(answer)
    return driver._replace(problem=f"{probes.QUESTION}: {words}", broken=broken)


def _with_toolkit(driver: AscendDriver, surroundings: SystemView) -> AscendDriver:
    """Add the version of the installed CANN, from the first file that states one."""
    for path, text in probes.read_cann(surroundings):
        version = probes.parse_cann(text)
        seen = Evidence(path, version or "says no version")
        driver = driver._replace(evidence=(*driver.evidence, seen))
        if version is not None:
            return driver._replace(cann_version=version)
    return driver


class _Forced(NamedTuple):
    """The values that the variables replace."""

    values: Mapping[str, str]
    """By feature."""
    evidence: tuple[Evidence, ...]

    def applied_to(self, driver: AscendDriver) -> AscendDriver:
        """Return the machine as the user wants it to look."""
        if _TYPE in self.values:
            card = AscendCard(0, self.values[_TYPE])
            driver = driver._replace(cards=(card,), problem="", broken=False)
        return driver._replace(
            driver_version=self.values.get(_DRIVER, driver.driver_version),
            cann_version=self.values.get(_CANN, driver.cann_version),
            evidence=(*self.evidence, *driver.evidence),
        )


def _read_forced(environ: Mapping[str, str]) -> _Forced:
    """Read the variables of the reference (P-144)."""
    values = {}
    evidence = []
    for feature, variable in _FORCE.items():
        text = overrides.value_of(environ, variable)
        if text is None:
            continue
        values[feature] = text.lower()
        if not PROVIDER.accepts(feature, values[feature]):
            example = "a type as 910b" if feature == _TYPE else "a version as 8.2.rc1"
            raise overrides.unreadable(variable, text, f"{example} is wanted")
        evidence.append(Evidence(variable, text))
    return _Forced(values, tuple(evidence))


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {
        _TYPE: lambda value: re.fullmatch(_TYPE_VALUE, value),
        **dict.fromkeys((_DRIVER, _CANN), lambda value: re.fullmatch(_VERSION_VALUE, value)),
    },
    others=lambda surroundings: _read_forced(surroundings.environ).evidence,
)
