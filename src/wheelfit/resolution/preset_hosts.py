"""The host files of presets, and the presets that matter for a release."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.core.compatible_tags import platforms_of
from wheelfit.core.host_file import HostFile, HostInterpreter
from wheelfit_runtime import __version__
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.document import VariantDocument
    from wheelfit_runtime.platforms.presets import Preset


def host_of_preset(
    preset: Preset,
    *,
    interpreter: HostInterpreter | None = None,
    version: str | None = None,
    rocm_same_major: bool = False,
) -> tuple[HostFile, tuple[str, ...]]:
    """Return the host file of a preset, and notes on uncertain facts.

    :param interpreter: its Python; None leaves it open.
    :param version: the version of glibc, musl or macOS, such as ``2.28``; None for the usual one.
    :param rocm_same_major: whether older minor versions of its ROCm count as installed (P-123).
    """
    from wheelfit_runtime.platforms.features import Status

    detections = preset.detections(rocm_same_major=rocm_same_major)
    # A host file has no entry for a failed detection, so it becomes a note (P-17).
    failed = [detection for detection in detections if detection.status is Status.FAILED]
    file = HostFile.from_detections(
        detections,
        created_by=f"wheelfit {__version__}",
        origin=f"preset {preset.name}",
    )
    file = replace(file, interpreter=interpreter, platforms=platforms_of_preset(preset, version))
    warnings = (warning for detection in failed for warning in detection.warnings)
    return file, (*preset.notes, *warnings)


def platforms_of_preset(preset: Preset, version: str | None = None) -> tuple[str, ...]:
    """Return the platform tags of a preset, best first.

    :param version: the version of glibc, musl or macOS, such as ``2.28``; None for the usual one.
    """
    row = preset.row
    return platforms_of(row.architecture, row.library, version or row.version)


def presets_for(document: VariantDocument | None) -> Iterator[str]:
    """Yield the presets for which the labels of a release make a difference.

    They have the driver and toolkit versions that the labels require. Some combinations may not
    exist.

    :param document: the variant metadata; None yields only the platforms.
    """
    from wheelfit.core.property_support import namespaces_used
    from wheelfit_runtime.platforms.known_platforms import PLATFORMS
    from wheelfit_runtime.platforms.presets import preset_lines, processor_rows

    yield from PLATFORMS
    if document is None:
        return
    used = namespaces_used(document.variants.values())
    examples = [line.example for line in preset_lines()]
    for example in examples:
        processor = processor_rows().get(example.removeprefix("cpu-"))
        if processor is not None and processor.architecture in used:
            yield example
    for family in providers.accelerators():
        presets = family.presets
        if presets is None or family.namespace not in used:
            continue
        of_family = [example for example in examples if example.startswith(f"{presets.name}-")]
        versions = _versions(document, family.namespace, presets.version_features)
        for version in versions:
            for example in of_family:  # the same preset of another version
                yield _NAME_AND_VERSION.sub(f"{presets.name}-{version}", example, count=1)
        if not versions:
            yield from of_family


_NAME_AND_VERSION = re.compile(r"[a-z]+-\d+\.\d+")
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6})?")


def _versions(
    document: VariantDocument, namespace: str, features: Iterable[str]
) -> tuple[str, ...]:
    """Return the versions in properties of a document, ascending, as in names of presets."""
    versions = set()
    for properties in document.variants.values():
        for feature in features:
            for value in properties.values(namespace, feature):
                if _VERSION.fullmatch(value):
                    versions.add(value if "." in value else f"{value}.0")
    return tuple(sorted(versions, key=lambda version: tuple(map(int, version.split(".")))))
