"""The machines of presets: the host file of each, and those that a release is for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.core.compatible_tags import platforms_of
from wheelfit.core.host_file import HostFile
from wheelfit_runtime import __version__
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.host_file import HostInterpreter
    from wheelfit_runtime.platforms.presets import Preset


def host_of_preset(
    preset: Preset,
    *,
    interpreter: HostInterpreter | None = None,
    version: str | None = None,
    rocm_same_major: bool = False,
) -> tuple[HostFile, tuple[str, ...]]:
    """Return the host file of a preset, and notes on uncertain facts.

    :param preset: the preset.
    :param interpreter: its Python; None: it is left open.
    :param version: the version of its glibc, musl or macOS, as ``2.28``; None: the usual one.
    :param rocm_same_major: whether older minors of its ROCm's major count (P-123).
    """
    from wheelfit_runtime.platforms.features import Status

    detections = preset.detections(rocm_same_major=rocm_same_major)
    # A file has no entry for failed detections, so they are reported here (P-17).
    failed = [detection for detection in detections if detection.status is Status.FAILED]
    file = HostFile.from_detections(
        detections,
        created_by=f"wheelfit {__version__}",
        origin=f"preset {preset.name}",
    )
    file = replace(file, interpreter=interpreter, platforms=platforms_of_preset(preset, version))
    return file, (
        *preset.notes,
        *(warning for detection in failed for warning in detection.warnings),
    )


def platforms_of_preset(preset: Preset, version: str | None = None) -> tuple[str, ...]:
    """Return the platform tags of a preset, best first.

    :param preset: the preset.
    :param version: the version of its glibc, musl or macOS, as ``2.28``; None: the usual one.
    """
    row = preset.row
    return platforms_of(row.architecture, row.library, version or row.version)


def presets_for(document: VariantDocument | None) -> Iterator[str]:
    """Yield the presets that differ in the requirements of a release's labels.

    Those whose names have a version have the versions that the labels name. Some may describe
    impossible machines.

    :param document: the metadata of the labels; None: no requirements, so only platforms differ.
    """
    from wheelfit.core.property_support import namespaces_used
    from wheelfit_runtime.platforms.known_platforms import PLATFORMS
    from wheelfit_runtime.platforms.presets import (
        preset_lines,
        processor_rows,
    )

    yield from PLATFORMS
    if document is None:
        return
    used = namespaces_used(document.variants.values())
    examples = [line.example for line in preset_lines()]
    for one in examples:
        processor = processor_rows().get(one.removeprefix("cpu-"))
        if processor is not None and processor.architecture in used:
            yield one
    for family in providers.accelerators():
        presets = family.presets
        if presets is None or family.namespace not in used:
            continue
        named = [one for one in examples if one.startswith(f"{presets.name}-")]
        versions = _versions(document, family.namespace, presets.version_features)
        for version in versions:
            for one in named:
                yield _VERSION.sub(f"{presets.name}-{version}", one, count=1)
        if not versions:
            yield from named


_VERSION = re.compile(r"[a-z]+-\d+\.\d+")
_WHOLE = re.compile(r"\d+(?:\.\d+)?")


def _versions(
    document: VariantDocument, namespace: str, features: Iterable[str]
) -> tuple[str, ...]:
    """Return the versions that the labels of a document name, ascending, as presets spell them."""
    values = {
        value
        for properties in document.variants.values()
        for feature in features
        for value in properties.values(namespace, feature)
        if _WHOLE.fullmatch(value)
    }
    spelled = {value if "." in value else f"{value}.0" for value in values}
    return tuple(sorted(spelled, key=lambda text: tuple(map(int, text.split(".")))))
