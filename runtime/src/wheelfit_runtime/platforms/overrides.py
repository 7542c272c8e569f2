"""Read environment variables that replace detected values (P-73).

The variables of wheelfit, ``WHEELFIT_OVERRIDE_{NAMESPACE}_{FEATURE}``, have the supported values in
order, separated by commas; an empty one counts as unset. Those of vendors and of conda are read by
the provider concerned. An empty one of conda means that there is no such device (CEP 46).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from wheelfit_runtime.platforms.system_view import SystemView

PREFIX = "WHEELFIT_OVERRIDE_"
"""The prefix of wheelfit's variables."""
CONDA_PREFIX = "CONDA_OVERRIDE_"
"""The prefix of variables that replace conda's virtual packages (CEP 30, CEP 46)."""
CONDA_CUDA = f"{CONDA_PREFIX}CUDA"
"""The CUDA version of NVIDIA's driver; overrides ``__cuda``."""
CONDA_CUDA_ARCH = f"{CONDA_PREFIX}CUDA_ARCH"
"""The lowest compute capability of the GPUs; overrides ``__cuda_arch``."""
CONDA_ARCHSPEC = f"{CONDA_PREFIX}ARCHSPEC"
"""The processor, by its name in archspec; overrides ``__archspec``."""
CONDA_GLIBC = f"{CONDA_PREFIX}GLIBC"
CONDA_OSX = f"{CONDA_PREFIX}OSX"
CONDA_LINUX = f"{CONDA_PREFIX}LINUX"
"""The version of the kernel; overrides ``__linux``."""
CONDA_WIN = f"{CONDA_PREFIX}WIN"
CONDA_SYSTEM = (CONDA_GLIBC, CONDA_OSX, CONDA_LINUX, CONDA_WIN)
"""The variables about the system, not about hardware."""
_UNKNOWN_PROCESSORS = ("", "0")
"""The values of `CONDA_ARCHSPEC` for a processor that archspec does not know."""
_NAME = pattern(r"[a-z0-9_]+")
_VALUE = pattern(r"[a-z0-9_.]+")


class Override(NamedTuple):
    """A variable of wheelfit that is in effect."""

    variable: str
    feature: str
    values: tuple[str, ...]
    """The values, most preferred first, distinct."""

    def __str__(self) -> str:
        return f"{self.variable}={','.join(self.values)}"


def value_of(environ: Mapping[str, str], variable: str) -> str | None:
    """Return the stripped value of a variable; None when unset or empty (P-73)."""
    return environ.get(variable, "").strip() or None


def conda_override(environ: Mapping[str, str], variable: str) -> str | None:
    """Return the value of a conda variable, stripped; None when unset."""
    text = environ.get(variable)
    return None if text is None else text.strip()


def invalid_override(variable: str, value: str, reason: str) -> InvalidConfiguration:
    """Return the error for an invalid value of a variable."""
    return InvalidConfiguration(
        f"{variable}={value!r} cannot be used: {reason}",
        where=variable,
        hint=f"correct {variable}, or unset it",
    )


def conda_processor(
    view: SystemView, architecture: str, levels: Mapping[str, str], lowest: str
) -> tuple[str, Evidence] | None:
    """Return the level or version that conda's variable names, and the variable.

    :return: None when it is unset, or the machine has processors of another architecture.
    :param levels: levels or versions by names of archspec, with ``_`` for ``-``.
    :param lowest: the level or version of an unknown processor.
    :raises InvalidConfiguration: the variable names no processor of this kind.
    """
    text = conda_override(view.environ, CONDA_ARCHSPEC)
    if text is None or view.architecture != architecture:
        return None
    level = levels.get(text.replace("-", "_")) if text not in _UNKNOWN_PROCESSORS else lowest
    if level is None:
        reason = f"it must be the name of such a processor in archspec, as {list(levels)[-1]}"
        raise invalid_override(CONDA_ARCHSPEC, text, reason)
    return level, Evidence(CONDA_ARCHSPEC, text)


def shown_override(evidence: Evidence) -> Evidence:
    """Return the evidence of a variable for messages, with an explanation if it is empty."""
    return evidence if evidence.value else evidence._replace(value="empty: there is none")


def read(
    namespace: str, environ: Mapping[str, str], accepts: Callable[[str, str], bool | None]
) -> tuple[Override, ...]:
    """Return wheelfit's variables for a namespace, in the order of their names.

    :param accepts: returns whether a value can be one of a feature; None when there is no such
        feature.
    :raises InvalidConfiguration: a variable names no feature or no possible value.
    """
    prefix = f"{PREFIX}{namespace.upper()}_"
    overrides = []
    for variable in sorted(environ):
        text = value_of(environ, variable)
        if not variable.startswith(prefix) or text is None:
            continue
        feature = variable.removeprefix(prefix).lower()
        values = [word.strip() for word in text.split(",")]
        for value in values:
            is_accepted = accepts(feature, value) if _NAME.fullmatch(feature) else None
            if is_accepted is None:
                reason = f"{namespace} has no feature of this name"
                raise invalid_override(variable, text, reason)
            if not is_accepted or not _VALUE.fullmatch(value):
                raise invalid_override(variable, text, f"{value!r} is not a value of {feature}")
        overrides.append(Override(variable, feature, tuple(dict.fromkeys(values))))
    return tuple(overrides)


def apply(
    overrides: Sequence[Override],
    detection: Detection,
    order: Sequence[str],
    multi_value: Collection[str] = (),
) -> Detection:
    """Return a detection in which overridden features have exactly the values of the overrides.

    Features keep the provider's order. An override applies to all devices, so the values of single
    devices are dropped.

    :param order: names of all features of the provider, most preferred first.
    """
    if not overrides:
        return detection
    features = {feature.name: feature for feature in detection.features}
    for override in overrides:
        name = override.feature
        features[name] = FeatureConfig(name, override.values, name in multi_value)
    rank = {name: number for number, name in enumerate(order)}
    overridden = {override.feature for override in overrides}
    return detection._replace(
        features=tuple(sorted(features.values(), key=lambda feature: rank[feature.name])),
        status=Status.SUPPORTED,
        evidence=(
            *(Evidence(override.variable, ",".join(override.values)) for override in overrides),
            *detection.evidence,
        ),
        devices=tuple(device for device in detection.devices if device.feature not in overridden),
    )


def disabled(namespace: str, source: str, error: InvalidConfiguration) -> Detection:
    """Return the detection of a provider with an invalid override (P-73)."""
    return Detection(
        namespace,
        status=Status.DISABLED,
        source=source,
        evidence=(Evidence(error.where or "", error.message),),
        warnings=(f"{error.message}; the {namespace} provider is switched off",),
    )
