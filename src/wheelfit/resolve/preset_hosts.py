"""Machines that presets name: what is known of each, and which of them a release is for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit import __version__
from wheelfit.core.compatible_tags import platforms_of
from wheelfit.core.host_file import HostFile
from wheelfit.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.host_file import HostInterpreter
    from wheelfit.platforms.presets import Preset

__all__ = ["host_of_preset", "platforms_of_preset", "presets_for"]


def __dir__() -> list[str]:
    return __all__


def host_of_preset(
    preset: Preset,
    *,
    interpreter: HostInterpreter | None = None,
    version: str | None = None,
    rocm_same_major: bool = False,
) -> tuple[HostFile, tuple[str, ...]]:
    """Return what is known of the machine that a preset describes, and what is uncertain.

    :param preset: the preset.
    :param interpreter: its Python; None: it is left open.
    :param version: of its glibc, musl or macOS, as ``2.28``; None: the usual one.
    :param rocm_same_major: whether older minors of its ROCm's major count (P-123).
    """
    from wheelfit.platforms.features import Status  # noqa: PLC0415 - start-up

    detections = preset.detections(rocm_same_major=rocm_same_major)
    # A file has no entry for what could not be found out, so that must be told here (P-17).
    failed = [found for found in detections if found.status is Status.FAILED]
    file = HostFile.from_detections(
        detections,
        created_by=f"wheelfit {__version__}",
        origin=f"preset {preset.name}",
    )
    file = replace(file, interpreter=interpreter, platforms=platforms_of_preset(preset, version))
    return file, (*preset.notes, *(warning for found in failed for warning in found.warnings))


def platforms_of_preset(preset: Preset, version: str | None = None) -> tuple[str, ...]:
    """Return the platform tags of a preset, best first.

    :param preset: the preset.
    :param version: of its glibc, musl or macOS, as ``2.28``; None: the usual one.
    """
    row = preset.row
    return platforms_of(row.architecture, row.library, version or row.version)


def presets_for(document: VariantDocument | None) -> Iterator[str]:
    """Yield the presets that differ in what the labels of a release ask for.

    Those with CUDA or ROCm have the versions that the labels name. Some may be of machines that
    cannot be.

    :param document: what the labels ask for; None: nothing, and platforms alone differ.
    """
    from wheelfit.core.support import namespaces_used  # noqa: PLC0415 - start-up
    from wheelfit.platforms.presets import preset_lines  # noqa: PLC0415 - start-up
    from wheelfit.platforms.tables.presets import (  # noqa: PLC0415 - start-up
        FAMILIES,
        PLATFORMS,
        PROCESSORS,
    )

    yield from PLATFORMS
    if document is None:
        return
    used = namespaces_used(document.variants.values())
    examples = [line.example for line in preset_lines()]
    for one in examples:
        processor = PROCESSORS.get(one.removeprefix("cpu-"))
        if processor is not None and processor.architecture in used:
            yield one
    for family, row in FAMILIES.items():
        if row.namespace not in used:
            continue
        named = [one for one in examples if one.startswith(f"{family}-")]
        versions = _versions(document, row.namespace, _VERSIONED.get(family, ()))
        for version in versions:
            for one in named:
                yield _VERSION.sub(f"{family}-{version}", one, count=1)
        if not versions:
            yield from named


_VERSION = re.compile(r"[a-z]+-\d+\.\d+")
_VERSIONED = {
    "cuda": ("cuda_version_lower_bound", "cuda_version_upper_bound"),
    "rocm": ("rocm_version",),
}
"""Features whose values are versions that the names of presets have too."""
_WHOLE = re.compile(r"\d+(?:\.\d+)?")


def _versions(
    document: VariantDocument, namespace: str, features: Iterable[str]
) -> tuple[str, ...]:
    """Return the versions that the labels of a document name, ascending, as presets spell them."""
    found = {
        value
        for properties in document.variants.values()
        for feature in features
        for value in properties.values(namespace, feature)
        if _WHOLE.fullmatch(value)
    }
    spelled = {value if "." in value else f"{value}.0" for value in found}
    return tuple(sorted(spelled, key=lambda text: tuple(map(int, text.split(".")))))
