"""Detect TPUs (P-150 to P-153)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.tpu import probes, tables
from wheelfit_runtime.platforms.providers.tpu.probes import TpuFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView


NAMESPACE = "tpu"

_PRESENT = "present"
_GENERATION = "generation"

_FORCE = "TPU_VARIANT_PROVIDER_FORCE_PRESENT"
_YES = frozenset({"1", "true", "yes"})
_NO = frozenset({"0", "false", "no"})


def _find(view: SystemView, overridden: Mapping[str, tuple[str, ...]]) -> Detection:
    del overridden
    text = overrides.value_of(view.environ, _FORCE)
    if text is not None:
        return _overridden(text)
    with_generation = view.tpu_generation and not view.reference
    return supported(read(view), with_generation=with_generation)


def supported(files: TpuFiles, *, with_generation: bool = False) -> Detection:
    """Return whether there is a TPU; each machine supports one of the two values (P-150).

    :param with_generation: whether to report the generation, unlike published plugins (P-153).
    """
    detection = _present(bool(files.chips), files.evidence)
    if not files.chips:
        return detection
    warnings = []
    if not files.nodes:
        start = "there is a TPU without its device nodes (/dev/accel*, /dev/vfio/*); "
        warnings.append(f"{start}a container needs them")
    generations = {chip.generation for chip in files.chips}
    features = detection.features
    if with_generation and len(generations) == 1 and "" not in generations:
        features += (FeatureConfig(_GENERATION, tuple(generations)),)
    elif with_generation:
        numbers = ", ".join(sorted({f"{chip.device:#06x}" for chip in files.chips}))
        warnings.append(f"the number of the TPU does not show its generation ({numbers})")
    return detection._replace(features=features, warnings=tuple(warnings))


def _present(is_present: bool, evidence: tuple[Evidence, ...]) -> Detection:  # noqa: FBT001
    value = "true" if is_present else "false"
    return answer(NAMESPACE, (FeatureConfig(_PRESENT, (value,)),), evidence=evidence)


def read(view: SystemView) -> TpuFiles:
    """Return the TPUs on the bus; systems other than Linux have none (P-151)."""
    if view.system != "Linux":
        return TpuFiles(evidence=(Evidence("system", view.system),))
    files = probes.parse(probes.read(view))
    if files.evidence:
        return files
    return TpuFiles(evidence=(Evidence("files", "no sign of a TPU"),))


def _override_evidence(view: SystemView) -> tuple[Evidence, ...]:
    text = overrides.value_of(view.environ, _FORCE)
    return () if text is None else (Evidence(_FORCE, text),)


def _overridden(text: str) -> Detection:
    word = text.lower()
    detection = _present(word in _YES, (Evidence(_FORCE, text),))
    if word in _YES | _NO:
        return detection
    warning = f"{_FORCE}={text!r} is neither yes nor no, which means no"
    return detection._replace(warnings=(warning,))


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {_PRESENT: tables.PRESENT.__contains__, _GENERATION: tables.GENERATIONS.__contains__},
    overrides=_override_evidence,
)
