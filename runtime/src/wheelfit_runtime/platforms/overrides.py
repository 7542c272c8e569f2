"""Read environment variables that replace detected values (P-73).

Our own variables follow one pattern, ``WHEELFIT_OVERRIDE_{NAMESPACE}_{FEATURE}``, and hold the
supported values in order, separated by commas. An empty variable is an unset one. Vendors' own
variables, and conda's, are read by the provider concerned. An empty one of conda's means that there
is no such device (CEP 46).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

PREFIX = "WHEELFIT_OVERRIDE_"
"""How our own variables begin."""
CONDA = "CONDA_OVERRIDE_"
"""How the variables begin that replace conda's virtual packages (CEP 30, CEP 46)."""
CONDA_CUDA = f"{CONDA}CUDA"
"""The CUDA version of NVIDIA's driver: of ``__cuda``."""
CONDA_CUDA_ARCH = f"{CONDA}CUDA_ARCH"
"""The lowest compute capability of the GPUs: of ``__cuda_arch``."""
CONDA_ARCHSPEC = f"{CONDA}ARCHSPEC"
"""The processor, by its name in archspec: of ``__archspec``."""
CONDA_GLIBC = f"{CONDA}GLIBC"
CONDA_OSX = f"{CONDA}OSX"
CONDA_LINUX = f"{CONDA}LINUX"
"""The version of the kernel: of ``__linux``."""
CONDA_WIN = f"{CONDA}WIN"
CONDA_SYSTEM = (CONDA_GLIBC, CONDA_OSX, CONDA_LINUX, CONDA_WIN)
"""Those that concern the system, and no hardware."""
_NAME = pattern(r"[a-z0-9_]+")
_VALUE = pattern(r"[a-z0-9_.]+")


class Override(NamedTuple):
    """One variable of ours that is in effect."""

    variable: str
    feature: str
    values: tuple[str, ...]
    """The values, most preferred first, distinct."""

    def __str__(self) -> str:
        return f"{self.variable}={','.join(self.values)}"


def value_of(environ: Mapping[str, str], variable: str) -> str | None:
    """Return the stripped value of a variable; None when unset or empty (P-73)."""
    return environ.get(variable, "").strip() or None


def stated_for_conda(environ: Mapping[str, str], variable: str) -> str | None:
    """Return the value of a conda variable, stripped; None when unset."""
    text = environ.get(variable)
    return None if text is None else text.strip()


def unreadable(variable: str, value: str, why: str) -> InvalidConfiguration:
    """Make the error for a variable that cannot be understood."""
    return InvalidConfiguration(
        f"{variable}={value!r} cannot be used: {why}",
        where=variable,
        hint=f"correct {variable}, or unset it",
    )


def processor_for_conda(
    environ: Mapping[str, str], known: Mapping[str, str], lowest: str
) -> tuple[str, Evidence] | None:
    """Return the processor that conda's variable names, and the variable; None when unset.

    :param lowest: the level or version of a processor of which nothing is known.
    :raises InvalidConfiguration: the variable names no processor of this kind.
    """
    text = stated_for_conda(environ, CONDA_ARCHSPEC)
    if text is None:
        return None
    level = known.get(text.replace("-", "_")) if text not in _UNKNOWN_PROCESSORS else lowest
    if level is None:
        why = f"the name of such a processor in archspec is wanted, as {list(known)[-1]}"
        raise unreadable(CONDA_ARCHSPEC, text, why)
    return level, Evidence(CONDA_ARCHSPEC, text)


_UNKNOWN_PROCESSORS = ("", "0")


def as_seen(variable: Evidence) -> Evidence:
    """Return a variable as a detection shows it: an empty one of conda's has a meaning."""
    return variable if variable.value else variable._replace(value="empty: there is none")


def read(
    namespace: str, environ: Mapping[str, str], accepts: Callable[[str, str], bool | None]
) -> tuple[Override, ...]:
    """Return our variables that concern a namespace, in the order of their names.

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
            fits = accepts(feature, value) if _NAME.fullmatch(feature) else None
            if fits is None:
                why = f"{namespace} has no feature of this name"
                raise unreadable(variable, text, why)
            if not fits or not _VALUE.fullmatch(value):
                raise unreadable(variable, text, f"{value!r} is not a value of {feature}")
        overrides.append(Override(variable, feature, tuple(dict.fromkeys(values))))
    return tuple(overrides)


def apply(
    overrides: Sequence[Override],
    detection: Detection,
    order: Sequence[str],
    multi_value: Collection[str] = (),
) -> Detection:
    """Return a detection in which overridden features hold exactly the given values.

    Features keep the provider's order. Values of single devices are dropped for an overridden
    feature, since the override is for all of them.

    :param order: names of all features of the provider, most preferred first.
    """
    if not overrides:
        return detection
    features = {feature.name: feature for feature in detection.features}
    for override in overrides:
        name = override.feature
        features[name] = FeatureConfig(name, override.values, name in multi_value)
    rank = {name: number for number, name in enumerate(order)}
    replaced = {override.feature for override in overrides}
    return detection._replace(
        features=tuple(sorted(features.values(), key=lambda feature: rank[feature.name])),
        status=Status.SUPPORTED,
        evidence=(
            *(Evidence(o.variable, ",".join(o.values)) for o in overrides),
            *detection.evidence,
        ),
        devices=tuple(device for device in detection.devices if device.feature not in replaced),
    )


def disabled(namespace: str, source: str, error: InvalidConfiguration) -> Detection:
    """Return the answer of a provider whose override cannot be read (P-73)."""
    return Detection(
        namespace,
        status=Status.DISABLED,
        source=source,
        evidence=(Evidence(error.where or "", error.message),),
        warnings=(f"{error.message}; the {namespace} provider is switched off",),
    )
