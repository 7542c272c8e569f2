"""Say whether this machine has a TPU (P-150 to P-153).

Reachable as a PEP 850 plugin: ``wheelfit_runtime.platforms.families.tpu.provider``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.endpoint import as_plugin_features
from wheelfit_runtime.platforms.families.tpu import files as tpu_files
from wheelfit_runtime.platforms.families.tpu import tables
from wheelfit_runtime.platforms.families.tpu.facts import TpuFiles
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, Status
from wheelfit_runtime.platforms.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.endpoint import PluginFeature

DATA_VERSION = tables.DATA_VERSION
NAMESPACE = "tpu"
_SOURCE = "built-in tpu provider"

_PRESENT = "present"
_GENERATION = "generation"
_ORDER = (_PRESENT, _GENERATION)

_FORCE = "TPU_VARIANT_PROVIDER_FORCE_PRESENT"
_YES = frozenset({"1", "true", "yes"})
_NO = frozenset({"0", "false", "no"})


def detect(surroundings: Surroundings) -> Detection:
    """Find out what is supported, overrides included; never raises for what it finds."""
    environ = surroundings.environ
    try:
        own = overrides.read(NAMESPACE, environ, accepts)
    except InvalidConfiguration as error:
        return overrides.disabled(NAMESPACE, _SOURCE, error)
    with_generation = surroundings.tpu_generation and not surroundings.reference
    forced = overrides.value_of(environ, _FORCE)
    if forced is None:
        found = supported(read(surroundings), with_generation=with_generation)
    else:
        found = _forced(forced)
    return overrides.apply(own, found, _ORDER)


def overrides_in_effect(surroundings: Surroundings) -> tuple[str, ...]:
    """Return the variables that replace something, as ``NAME=value``."""
    return overrides.in_effect(NAMESPACE, surroundings.environ, accepts, _forced_by)


def supported(files: TpuFiles, *, with_generation: bool = False) -> Detection:
    """Return whether there is a TPU, which is an answer on every machine (P-150).

    :param with_generation: tell the generation too, which no published plugin does (P-153).
    """
    found = _present(bool(files.chips), files.evidence)
    if not files.chips:
        return found
    warnings = []
    if not files.nodes:
        words = "a TPU is there, but no device node of it (/dev/accel*, /dev/vfio/*); "
        warnings.append(f"{words}a container must be given them")
    generations = {chip.generation for chip in files.chips}
    features = found.features
    if with_generation and len(generations) == 1 and "" not in generations:
        features += (FeatureConfig(_GENERATION, tuple(generations)),)
    elif with_generation:
        numbers = ", ".join(sorted({f"{chip.device:#06x}" for chip in files.chips}))
        warnings.append(f"the generation of the TPU cannot be told from its number ({numbers})")
    return replace(found, features=features, warnings=tuple(warnings))


def _present(is_there: bool, evidence: tuple[Evidence, ...]) -> Detection:  # noqa: FBT001
    value = "true" if is_there else "false"
    return Detection(
        NAMESPACE,
        (FeatureConfig(_PRESENT, (value,)),),
        status=Status.SUPPORTED,
        source=_SOURCE,
        evidence=evidence,
    )


# --- looking -------------------------------------------------------------------------


def read(surroundings: Surroundings) -> TpuFiles:
    """Look for TPUs on the bus; systems other than Linux have none (P-151)."""
    if surroundings.system != "Linux":
        return TpuFiles(evidence=(Evidence("system", surroundings.system),))
    files = tpu_files.parse(tpu_files.read(surroundings))
    if files.evidence:
        return files
    return TpuFiles(evidence=(Evidence("files", "no sign of a TPU"),))


# --- the published plugin's variable (P-152) -------------------------------------------


def _forced_by(environ: Mapping[str, str]) -> tuple[Evidence, ...]:
    text = overrides.value_of(environ, _FORCE)
    return () if text is None else (Evidence(_FORCE, text),)


def _forced(text: str) -> Detection:
    word = text.lower()
    found = _present(word in _YES, (Evidence(_FORCE, text),))
    if word in _YES | _NO:
        return found
    warning = f"{_FORCE}={text!r} is neither yes nor no, which means no"
    return replace(found, warnings=(warning,))


def accepts(feature: str, value: str) -> bool | None:
    """Say whether a value can be one of a feature; None when there is no such feature."""
    known: Mapping[str, tuple[str, ...]] = {
        _PRESENT: tables.PRESENT,
        _GENERATION: tables.GENERATIONS,
    }
    return value in known[feature] if feature in known else None


# --- PEP 850's plugin interface ----------------------------------------------------


def get_supported_configs() -> list[PluginFeature]:
    """Return what the running machine supports, most preferred first (P-26)."""
    return as_plugin_features(detect(Surroundings()).features)


def get_all_configs() -> list[PluginFeature]:
    """Return every valid feature and value, independent of the machine (P-28).

    The generation is left out: nobody can switch it on here (P-153).
    """
    return as_plugin_features((FeatureConfig(_PRESENT, tables.PRESENT),))
